"""Files that a file refers to are neither read nor fetched, unless the user requests it."""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import av
import pytest

import hostile_references as hostile
from media_audio_surgery import id3_tag
from mediatensor._engine.pyav.encoding import write_test_pattern
from mediatensor.cli import main
from mediatensor.decoders import (
    AudioDecoder,
    SubtitleDecoder,
    VideoDecoder,
    WavDecoder,
    decode_image,
    get_container_metadata,
)
from mediatensor.errors import MediaTensorError, OpenError
from mediatensor.ocr.io import DocumentFile
from range_server import serve

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="needs inotify to observe opened files"),
    pytest.mark.timeout(60),  # following a reference may wait for an answer
]

READERS: tuple[Callable[[Any], object], ...] = (
    lambda source: VideoDecoder(source)[0],
    lambda source: AudioDecoder(source).get_all_samples(),
    lambda source: SubtitleDecoder(source)[:],
    get_container_metadata,
    decode_image,
    WavDecoder,
    lambda source: DocumentFile.from_images(source)[0],
    lambda source: DocumentFile.from_pdf(source)[0],
)


class Elsewhere(NamedTuple):
    """Files that must not be opened, by path and by URL."""

    movie: Path
    url: str
    opened: hostile.OpenedFiles
    asked: list[str]

    def was_visited(self) -> list[str]:
        visited = self.opened.names() + self.asked
        self.asked.clear()
        return visited


@pytest.fixture
def elsewhere(tmp_path: Path, clip: Path) -> Iterator[Elsewhere]:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    movie = folder / "secret.mp4"
    movie.write_bytes(clip.read_bytes())
    (folder / "secret.sub").write_bytes(b"\0\0\1\xba" * 100)
    opened = hostile.OpenedFiles(folder)
    with serve(folder) as server:
        yield Elsewhere(movie, f"{server.url}/secret.mp4", opened, server.paths)
    opened.close()


def read_every_way(file: Path) -> None:
    """Pass a file to every reader: by path and as text, as bytes, and as a file object."""
    for reader in READERS:
        for source in (file, str(file), file.read_bytes(), io.BytesIO(file.read_bytes())):
            with contextlib.suppress(MediaTensorError):
                reader(source)


def test_requested_files_are_read(elsewhere: Elsewhere, tmp_path: Path) -> None:
    # This also proves that the other tests can fail.
    playlist = tmp_path / "list.m3u8"
    playlist.write_bytes(hostile.playlists("elsewhere/secret.mp4")["list.m3u8"])
    assert len(VideoDecoder(f"file:{playlist}")) > 0
    assert elsewhere.was_visited()
    assert len(VideoDecoder(elsewhere.url)) > 0
    assert elsewhere.was_visited()


@pytest.mark.parametrize("name", sorted(hostile.playlists("")))
def test_playlists_open_no_references(elsewhere: Elsewhere, tmp_path: Path, name: str) -> None:
    targets = (str(elsewhere.movie), "elsewhere/secret.mp4", elsewhere.url, f"file:{elsewhere.movie}")
    for target in targets:
        (tmp_path / name).write_bytes(hostile.playlists(target)[name])
        read_every_way(tmp_path / name)
        assert not elsewhere.was_visited(), target


def test_name_patterns_open_no_other_file(elsewhere: Elsewhere, clip: Path) -> None:
    folder = elsewhere.movie.parent
    for name in ("frame001.jpg", "frame001.mp4"):
        (folder / name).write_bytes(clip.read_bytes())
    for pattern in (folder / "frame%03d.jpg", folder / "frame%03d.mp4"):
        with pytest.raises(MediaTensorError, match="does not exist"):
            VideoDecoder(pattern)
        elsewhere.was_visited()
        pattern.write_bytes(clip.read_bytes())
        elsewhere.was_visited()
        read_every_way(pattern)
        assert set(elsewhere.was_visited()) == {pattern.name}


def test_movie_with_external_data_is_refused(elsewhere: Elsewhere, tmp_path: Path, clip: Path) -> None:
    file = tmp_path / "alias.mov"
    file.write_bytes(hostile.movie_elsewhere(clip.read_bytes(), str(elsewhere.movie)))
    # FFmpeg would follow it with these options.
    with av.open(str(file), options={"enable_drefs": "1", "use_absolute_path": "1"}) as container:
        next(container.demux(video=0))
    assert elsewhere.was_visited()
    read_every_way(file)
    assert not elsewhere.was_visited()


def test_linked_cover_is_not_fetched(elsewhere: Elsewhere, tmp_path: Path) -> None:
    file = tmp_path / "linked.mp3"
    file.write_bytes(id3_tag(b"\0-->\0\3\0" + elsewhere.url.encode()) + (b"\xff\xfb\x90\xc4" + bytes(413)) * 20)
    read_every_way(file)
    assert not elsewhere.was_visited()


def test_pdf_links_are_not_followed(elsewhere: Elsewhere, tmp_path: Path) -> None:
    file = tmp_path / "linked.pdf"
    file.write_bytes(hostile.linked_pdf(str(elsewhere.movie), elsewhere.url))
    for source in (file, file.read_bytes()):
        pages = DocumentFile.from_pdf(source)
        assert pages[0].min() < 128  # the text is there
        assert [word.value for word in pages.text_layer(0)] == ["shown"]
    assert not elsewhere.was_visited()


@pytest.mark.parametrize(
    "name", ["notes.txt", "notes.nfo", "notes.asc", "notes.bin", "notes.idf", "notes.adf", "notes"]
)
def test_text_files_are_not_opened_as_videos(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Because of such names, FFmpeg draws the text on a screen."""
    path = tmp_path / name
    path.write_text("The first line of some notes.\n" * 100)
    sources: tuple[str | Path | bytes, ...] = (str(path), path, f"file:{path}", path.read_bytes())
    for source in sources:
        with pytest.raises(OpenError):
            VideoDecoder(source)
    assert main(["probe", str(path)]) == 2
    assert main(["ocr", str(path), "--format", "srt", "-o", str(tmp_path / "out")]) == 2
    assert capsys.readouterr().err.count(f"{path}") == 2


def test_videos_named_as_text_files_are_opened(tmp_path: Path) -> None:
    path = tmp_path / "video.txt"
    write_test_pattern(tmp_path / "video.mp4", width=64, height=48, fps=10, num_frames=20)
    (tmp_path / "video.mp4").rename(path)
    assert len(VideoDecoder(path)) == 20
