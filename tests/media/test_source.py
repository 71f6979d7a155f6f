"""Every kind of source gives the same frames; unreadable sources are named."""

from __future__ import annotations

import io
import pickle
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import media
import media_audio
from file_sources import SOURCES, BareFile
from mediatensor.decoders import AudioDecoder, VideoDecoder, WavDecoder, decode_image
from mediatensor.encoders import AudioEncoder, VideoEncoder
from mediatensor.errors import MissingDependencyError, OpenError, ReadError, SourceNotFoundError, SourceTypeError

needs_unix_names = pytest.mark.skipif(sys.platform == "win32", reason="names cannot have such characters here")


@pytest.mark.parametrize("make", SOURCES.values(), ids=SOURCES.keys())
def test_every_source_gives_same_frames(make: Callable[[Path], Any], clip: Path, clip_rgb: torch.Tensor) -> None:
    source = make(clip)
    decoder = VideoDecoder(source)
    assert len(decoder) == len(clip_rgb)
    for i in (len(clip_rgb) - 1, 0, len(clip_rgb) // 2):
        assert torch.equal(decoder[i], clip_rgb[i])
    decoder.close()
    if hasattr(source, "close"):
        assert not source.closed, "the file is the user's to close"
        source.close()


def test_fsspec_urls_are_read(clip: Path, clip_rgb: torch.Tensor) -> None:
    fsspec = pytest.importorskip("fsspec")
    with fsspec.open("memory://clip.mp4", "wb") as file:
        file.write(clip.read_bytes())
    decoder = pickle.loads(pickle.dumps(VideoDecoder("memory://clip.mp4")))
    assert torch.equal(decoder[7], clip_rgb[7])
    with pytest.raises(SourceNotFoundError):
        VideoDecoder("memory://missing.mp4")


def test_missing_fsspec_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(MissingDependencyError, match=r"mediatensor\[fsspec\]"):
        VideoDecoder("memory://clip.mp4")


def test_names_like_urls_or_patterns_are_paths(
    clip: Path, clip_rgb: torch.Tensor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("concat:a.mp4", "http:b.mp4", "frame%03d.mp4", "-i.mp4", "spa ce\u00fc.mp4", "a|b.mp4"):
        Path(name).write_bytes(clip.read_bytes())
        assert torch.equal(VideoDecoder(name)[3], clip_rgb[3]), name


PICTURE_NAMES = ["lit%03d.png", "%d.png", "100%.png", "a*b.png", "who?.png", "a[1]b.png", "a{1,2}.png", "50%d/a.png"]
PICTURE_NAMES += ["-i.png", "a:b.png", "pipe:1.png", "concat:x.png", "new\nline.png", "a|b.png", " a .png"]


@needs_unix_names
@pytest.mark.parametrize("name", PICTURE_NAMES)
def test_image_with_any_name_is_one_file(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    image = torch.arange(16 * 24 * 3, dtype=torch.int32).reshape(16, 24, 3).remainder(251).to(torch.uint8)
    path = Path(name)
    path.parent.mkdir(exist_ok=True)
    Image.fromarray(image.numpy()).save(path)
    for number in range(3):  # files that a pattern would match
        Image.new("RGB", (24, 16)).save(path.parent / f"lit{number:03d}.png")
        Image.new("RGB", (24, 16)).save(path.parent / f"{number}.png")
    expected = image.permute(2, 0, 1)
    for source in (name, path, tmp_path / name):
        with VideoDecoder(source) as decoder:
            assert torch.equal(decoder[0], expected)
            assert len(decoder) == 1
    assert torch.equal(decode_image(name), expected)


@needs_unix_names
@pytest.mark.parametrize("stem", ["lit%03d", "a*b", "a?b", "a[1]b", "a:b", "pipe:1", "concat:x", "-i", "new\nline"])
def test_written_file_has_given_name(stem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    frames = torch.zeros(3, 3, 32, 32, dtype=torch.uint8)
    VideoEncoder(frames, frame_rate=25).to_file(f"{stem}.mkv")
    AudioEncoder(torch.zeros(1, 4000), sample_rate=8000).to_file(f"{stem}.wav")
    assert sorted(file.name for file in tmp_path.iterdir()) == [f"{stem}.mkv", f"{stem}.wav"]
    assert len(VideoDecoder(f"{stem}.mkv")) == 3
    assert AudioDecoder(f"{stem}.wav").get_all_samples().data.shape == (1, 4000)


def test_memory_is_kept_alive(clip: Path, clip_rgb: torch.Tensor) -> None:
    tensor = torch.frombuffer(bytearray(clip.read_bytes()), dtype=torch.uint8)
    decoder = VideoDecoder(tensor)
    del tensor
    assert torch.equal(decoder[11], clip_rgb[11])


def test_two_decoders_share_file_object(clip: Path, clip_rgb: torch.Tensor) -> None:
    file = BareFile(io.BytesIO(clip.read_bytes()))
    one, other = VideoDecoder(file), VideoDecoder(io.BytesIO(clip.read_bytes()))
    for i in (0, 20, 5):
        assert torch.equal(one[i], clip_rgb[i])
        assert torch.equal(other[i], clip_rgb[i])


def test_the_position_of_an_open_file_does_not_matter(clip: Path, clip_rgb: torch.Tensor) -> None:
    with clip.open("rb") as file:
        decoder = VideoDecoder(file)
        for i in (3, 25, 8):
            file.seek(i * 100)
            assert torch.equal(decoder[i], clip_rgb[i])


class NumPyPositions(BareFile):
    def seek(self, offset: int, whence: int) -> Any:
        return np.int64(super().seek(offset, whence))


def test_positions_can_be_numbers_of_numpy(clip: Path, clip_rgb: torch.Tensor) -> None:
    decoder = VideoDecoder(NumPyPositions(io.BytesIO(clip.read_bytes())))
    assert torch.equal(decoder[11], clip_rgb[11])


class OverLong(BareFile):
    def read(self, size: int) -> bytes:
        return super().read(size).ljust(size + 1, b"x")


class TwoByteItems(BareFile):
    def read(self, size: int) -> Any:
        return memoryview(super().read(size).ljust(2 * size, b"x")).cast("H")


class NotBytes(BareFile):
    def read(self, size: int) -> Any:
        return "text"


class Unreadable:
    def seek(self, offset: int, whence: int) -> int:
        return 0


class Unseekable:
    def read(self, size: int) -> bytes:
        return b""


class Failing(BareFile):
    def read(self, size: int) -> bytes:
        raise OSError("disk on fire")


class FailsLater(io.BytesIO):
    """A file of which one method raises from a given call on."""

    def __init__(self, data: bytes, method: str, error: BaseException, num_calls: int) -> None:
        super().__init__(data)
        self._method, self._error, self._num_calls = method, error, num_calls

    def _called(self, method: str) -> None:
        if method == self._method:
            self._num_calls -= 1
            if self._num_calls < 0:
                raise self._error

    def read(self, size: int | None = -1) -> bytes:
        self._called("read")
        return super().read(size)

    def seek(self, offset: int, whence: int = 0) -> Any:
        self._called("seek")
        position = super().seek(offset, whence)
        return None if self._method == "tell" else position

    def tell(self) -> int:
        self._called("tell")
        return super().tell()


def last_frame(source: Any) -> None:
    with VideoDecoder(source) as decoder:
        decoder[-1]


def last_samples(source: Any, kind: type[AudioDecoder | WavDecoder] = AudioDecoder) -> None:
    with kind(source) as decoder:
        decoder.get_samples_played_in_range(1.5)


class UnspeakableError(Exception):
    def __str__(self) -> str:
        raise ValueError("no words")


@pytest.mark.parametrize("method", ["read", "seek", "tell"])
@pytest.mark.parametrize(
    "error",
    [
        StopIteration, StopAsyncIteration, EOFError, ValueError, OSError, UnspeakableError, KeyboardInterrupt,
        SystemExit, GeneratorExit,
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    ("name", "use"),
    [("h264_b_pyramid", last_frame), ("flac", last_samples), ("pcm_s16_wav", partial(last_samples, kind=WavDecoder))],
)
def test_errors_of_file_object_are_read_errors(
    name: str, use: Callable[[Any], None], error: type[BaseException], method: str, tmp_path: Path
) -> None:
    data = (media_audio if name in media_audio.SOUND_CLIPS else media).make(name, tmp_path).read_bytes()
    num_raised = 0
    for num_calls in (0, 1, 4, 15):
        raised = error("of mine")
        file = FailsLater(data, method, raised, num_calls)
        reported = None
        try:
            use(file)
        except BaseException as caught:
            reported = caught
        if reported is None:
            assert file._num_calls >= 0, "it was overlooked"
            continue
        num_raised += 1
        if not issubclass(error, Exception):
            assert reported is raised
            continue
        assert isinstance(reported, ReadError)
        assert raised in (cause := reported.__cause__, getattr(cause, "__cause__", None))
        assert ("of mine" if error is not UnspeakableError else "UnspeakableError") in str(reported)
    assert num_raised > 0 or method == "tell"


def closed_file(path: Path) -> Any:
    file = path.open("rb")
    file.close()
    return file


def test_tensor_with_any_stride_is_a_source(clip: Path) -> None:
    stored = np.fromfile(clip, np.uint8)
    every_other = torch.zeros(2 * len(stored), dtype=torch.uint8)[::2]
    every_other.copy_(torch.from_numpy(stored))
    assert not every_other.is_contiguous()
    assert torch.equal(VideoDecoder(every_other)[:3], VideoDecoder(clip)[:3])


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda path: "no/such/file.mp4", SourceNotFoundError, "Could not open input file: no/such/file.mp4"),
        (lambda path: Path("no/such/file.mp4"), SourceNotFoundError, "does not exist"),
        (lambda path: str(path.parent), OpenError, "directory"),
        (lambda path: b"", OpenError, "must not be empty"),
        (lambda path: torch.empty(0, dtype=torch.uint8), OpenError, "must not be empty"),
        (lambda path: b"this is not a video" * 100, OpenError, "Could not open"),
        (lambda path: b"#EXTM3U\na.ts\n", OpenError, "Playlists that name other files"),
        (lambda path: b"ffconcat version 1.0\nfile a.mp4\n", OpenError, "Playlists that name other files"),
        (lambda path: path.read_bytes()[:2000], OpenError, r"a complete file of media that FFmpeg can read\.$"),
        (lambda path: "nul\0byte.mp4", OpenError, "Could not open"),
        (lambda path: path.open(errors="replace"), SourceTypeError, "'rb'"),
        (lambda path: io.StringIO("x"), SourceTypeError, "'rb'"),
        (lambda path: io.RawIOBase(), ReadError, "Seeking to 0 .*failed"),
        (lambda path: 5, SourceTypeError, "Unknown source type.*int"),
        (lambda path: None, SourceTypeError, "Unknown source type"),
        (lambda path: Unreadable(), SourceTypeError, "read method"),
        (lambda path: Unseekable(), SourceTypeError, "seek method"),
        (lambda path: torch.zeros(10, dtype=torch.float32), SourceTypeError, "uint8"),
        (lambda path: torch.zeros(10, 2, dtype=torch.uint8), SourceTypeError, "1-dimensional"),
        (closed_file, ReadError, "closed"),
        (lambda path: OverLong(io.BytesIO(path.read_bytes())), ReadError, "more than asked"),
        (lambda path: TwoByteItems(io.BytesIO(path.read_bytes())), ReadError, "more than asked"),
        (lambda path: NotBytes(io.BytesIO(path.read_bytes())), SourceTypeError, "must return bytes.*binary mode"),
        (lambda path: Failing(io.BytesIO(path.read_bytes())), OSError, "disk on fire"),
    ],
)
def test_unreadable_source_is_named(
    make: Callable[[Path], Any], error: type[Exception], message: str, clip: Path
) -> None:
    with pytest.raises(error, match=message):
        VideoDecoder(make(clip))


@pytest.mark.parametrize(
    ("error", "bases"),
    [
        (SourceNotFoundError, (FileNotFoundError, RuntimeError, ValueError)),
        (OpenError, (RuntimeError, ValueError)),
        (SourceTypeError, (TypeError, RuntimeError)),
        (ReadError, (OSError, RuntimeError)),
    ],
)
def test_errors_are_also_builtin_errors(error: type[Exception], bases: tuple[type[Exception], ...]) -> None:
    assert all(issubclass(error, base) for base in bases)


def test_file_closed_while_needed_raises(tmp_path: Path) -> None:
    file = media.make("raw_avi", tmp_path).open("rb")  # too large to be read ahead
    decoder = VideoDecoder(file)
    assert len(decoder)
    file.close()
    with pytest.raises(ReadError, match="closed"):
        decoder.get_frames_at(list(range(len(decoder))))


def test_playlist_opens_by_url(clip: Path, clip_rgb: torch.Tensor, tmp_path: Path) -> None:
    (tmp_path / "clip.mp4").write_bytes(clip.read_bytes())
    (tmp_path / "list.ffconcat").write_text("ffconcat version 1.0\nfile clip.mp4\n")
    assert torch.equal(VideoDecoder(f"file:{tmp_path / 'list.ffconcat'}")[2], clip_rgb[2])
