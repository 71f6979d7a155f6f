"""Tags, dispositions and chapters of headers."""

from __future__ import annotations

import json
import shutil
import subprocess
from fractions import Fraction
from pathlib import Path

import av
import pytest

import media
import media_subtitles
from mediatensor.decoders import (
    AudioStreamHeaderMetadata,
    Chapter,
    Demuxer,
    SubtitleStreamHeaderMetadata,
    VideoDecoder,
    VideoStreamHeaderMetadata,
    get_container_metadata,
)
from mediatensor.errors import OpenError


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return media_subtitles.write_mkv_with_everything(tmp_path_factory.mktemp("metadata") / "everything.mkv")


def test_tags_and_chapters_of_the_file(everything: Path) -> None:
    metadata = get_container_metadata(everything)
    assert metadata.tags["title"] == "Lesson"
    assert metadata.chapters == (
        Chapter(0.0, 1.0, "Opening", {"title": "Opening"}),
        Chapter(1.0, 2.0, "Grüße", {"title": "Grüße"}),
    )
    assert metadata.best_subtitle_stream_index == 2


def test_each_kind_of_stream_has_its_type_and_its_tags(everything: Path) -> None:
    video, sound, german, french = get_container_metadata(everything).streams
    assert type(video) is VideoStreamHeaderMetadata
    assert type(sound) is AudioStreamHeaderMetadata
    assert sound.tags["language"] == "eng"
    assert type(german) is type(french) is SubtitleStreamHeaderMetadata
    assert (german.language, german.is_text, german.codec) == ("deu", True, "subrip")
    assert (french.tags["title"], french.disposition) == ("Commentaire", ("forced",))


def test_the_decoder_of_a_stream_has_its_tags(everything: Path) -> None:
    with VideoDecoder(everything) as decoder:
        assert decoder.metadata.tags == get_container_metadata(everything).streams[0].tags


@pytest.mark.parametrize(
    ("name", "width", "height", "rotation"),
    [
        ("rotated_90", 64, 96, 90),
        ("rotated_90_mkv", 64, 96, 90),
        ("rotated_88", 64, 96, 88.000149),  # according to torchcodec
        ("rotated_180", 96, 64, -180),
        ("rotated_270_flipped", 64, 96, -90),
        ("flipped_vertically", 96, 64, None),
        ("h264_b_pyramid", 96, 64, None),
    ],
)
def test_size_and_rotation_in_headers_need_no_decoding(
    name: str, width: int, height: int, rotation: float | None, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = media.make(name, folder)
    with VideoDecoder(path) as decoder:
        decoded = decoder.metadata
    monkeypatch.setattr("mediatensor._engine.pyav.reading.PacketDecoder.decode", None)
    (header,) = get_container_metadata(path).streams
    with Demuxer(path) as demuxer:
        for metadata in (decoded, header, demuxer.streams[0].metadata):
            assert isinstance(metadata, VideoStreamHeaderMetadata)
            assert (metadata.width, metadata.height) == (width, height)
            assert metadata.rotation == (None if rotation is None else pytest.approx(rotation))


@pytest.mark.parametrize(
    "start", [b"\0\0\0\x1cftypjp2 ", b"\0\0\0\7ftypisom", b"\x1a\x45\xdf\xa3\xa3\x42\x82\x84weba", None]
)
@pytest.mark.parametrize("name", ["mp4", "mkv", "live_webm", "mp4_fragmented"])
def test_format_is_the_one_that_ffmpeg_detects(name: str, start: bytes | None, folder: Path, tmp_path: Path) -> None:
    path = media.make(name, folder)
    if start is not None:  # not the first bytes of a file of this format
        data = path.read_bytes()
        path = tmp_path / "other_start"
        path.write_bytes(start + data[len(start) :])
    try:
        with av.open(str(path)) as container:
            detected = container.format.name
    except av.FFmpegError:
        with pytest.raises(OpenError):
            get_container_metadata(path)
    else:
        assert get_container_metadata(path).format_name == detected


def test_codec_without_display_matrix_in_mp4_has_stored_size(folder: Path) -> None:
    (header,) = get_container_metadata(media.make("vp8", folder)).streams
    assert isinstance(header, VideoStreamHeaderMetadata)
    assert (header.width, header.height, header.rotation) == (96, 64, None)


def test_new_fields_are_printed_last() -> None:
    metadata = SubtitleStreamHeaderMetadata(1.0, 0.0, None, "subrip", 0, "subtitle", language="eng")
    assert repr(metadata).splitlines()[-4:] == ["  tags: {}", "  disposition: ()", "  language: eng", "  is_text: None"]


def test_results_are_independent_copies(everything: Path) -> None:
    with VideoDecoder(everything) as decoder:
        decoder.metadata.tags["title"] = "changed"
        decoder.metadata.tags.clear()
    assert get_container_metadata(everything).tags["title"] == "Lesson"


def test_tags_that_are_not_unicode(everything: Path, tmp_path: Path) -> None:
    path = tmp_path / "latin.mkv"
    path.write_bytes(everything.read_bytes().replace(b"Lesson", b"L\xe9\xfeson").replace(b"Opening", b"Op\xffning"))
    metadata = get_container_metadata(path)
    assert metadata.tags["title"] == "L\ufffd\ufffdson"
    assert metadata.chapters[0].title == "Op\ufffdning"


def test_limits(tmp_path: Path) -> None:
    path = tmp_path / "many.mka"
    with av.open(str(path), "w") as output:
        output.metadata.update({f"NAME{number}": "x" * 65_537 for number in range(257)})
        stream = output.add_stream("pcm_s16le", rate=8000)
        output.set_chapters(
            [{"id": number + 1, "start": number, "end": number + 1, "time_base": Fraction(1, 1000), "metadata": {}}
             for number in range(10_001)]
        )  # fmt: skip
        frame = av.AudioFrame(format="s16", layout="mono", samples=800)
        frame.sample_rate = 8000
        output.mux(stream.encode(frame))
    metadata = get_container_metadata(path)
    assert len(metadata.tags) == 256
    assert {len(text) for name, text in metadata.tags.items() if name.startswith("NAME")} == {65_536}
    assert len(metadata.chapters) == 10_000


@pytest.mark.parametrize("container", ["mp4", "mkv", "m4a", "ogg", "flac", "mp3"])
def test_tags_and_chapters_that_ffmpeg_wrote(container: str, ffmpeg_program: str, tmp_path: Path) -> None:
    texts = tmp_path / "texts.txt"
    texts.write_text(
        ";FFMETADATA1\ntitle=Grüße\nartist=Ada\n"
        "[CHAPTER]\nTIMEBASE=1/1000\nSTART=0\nEND=1500\ntitle=Opening\n"
        "[CHAPTER]\nTIMEBASE=1/1000\nSTART=1500\nEND=3000\ntitle=Part two\n",
        encoding="utf-8",
    )
    path = tmp_path / f"sound.{container}"
    subprocess.run(
        [ffmpeg_program, "-v", "error", "-f", "lavfi", "-i", "sine=duration=3", "-i", str(texts), "-map_metadata", "1",
         "-map_chapters", "1", str(path)],
        check=True, timeout=120,
    )  # fmt: skip
    metadata = get_container_metadata(path)
    tags = {name.lower(): value for name, value in metadata.tags.items()}
    if container == "ogg":  # Vorbis has the tags in the stream
        tags = {name.lower(): value for name, value in metadata.streams[0].tags.items()}
    assert (tags["title"], tags["artist"]) == ("Grüße", "Ada")
    if container in ("flac", "ogg"):  # the program writes no chapters there
        assert metadata.chapters == ()
    else:
        found = [(chapter.start_seconds, chapter.end_seconds, chapter.title) for chapter in metadata.chapters]
        assert [title for _, _, title in found] == ["Opening", "Part two"]
        assert [start for start, _, _ in found] == pytest.approx([0.0, 1.5])
        assert [end for _, end, _ in found] == pytest.approx([1.5, 3.0], abs=0.1)


@pytest.mark.parametrize(
    "name", ["rails__rotated_hdr_video.mov", "androidx-media__opus-5.1.mka", "metadata-extractor-images__100_0306.AVI"]
)
def test_real_tags_are_those_of_ffprobe(name: str, media_data: object) -> None:
    program = shutil.which("ffprobe")
    if program is None:
        pytest.skip("needs the ffprobe program (on Debian: apt-get install ffmpeg)")
    path = media_data(name)  # type: ignore[operator]
    told = subprocess.run(
        [program, "-v", "quiet", "-show_format", "-of", "json", str(path)], capture_output=True, check=True, timeout=60
    ).stdout  # fmt: skip
    assert get_container_metadata(path).tags == json.loads(told)["format"]["tags"]
