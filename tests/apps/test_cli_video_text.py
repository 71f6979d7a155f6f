"""``mediatensor ocr`` and ``mediatensor find`` on videos: their files and output."""

from __future__ import annotations

import hashlib
import io
import itertools
import json
import pickle
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.text.video_text_clips import ClipPlan, draw_clip
from benchmarks.text.video_text_scores import parse_srt, score_clip
from PIL import Image

import mediatensor.ocr
from mediatensor._engine.pyav.encoding import write_test_pattern
from mediatensor.cli import main
from mediatensor.decoders import VideoDecoder
from mediatensor.decoders._access import VideoAccess
from mediatensor.errors import DecodeError, WeightsNotFoundError
from mediatensor.ocr.io import Block, DocumentFile, Line, Page, Word
from mediatensor.ocr.models.video_predictor import predictor as video_predictor
from mediatensor.ocr.video import Alternative, Slide, TextTrack, VideoReading
from places import full_stream, needs_full_device

_BOTTOM, _CORNER = ((0.3, 0.85), (0.7, 0.95)), ((0.85, 0.05), (0.95, 0.1))


def _reading(name: str, *, slides: bool = False, problems: tuple[str, ...] = ()) -> VideoReading:
    tracks = (
        TextTrack("Error 503:\ntry again", "caption", 0.5, 1.5, 5, 14, _BOTTOM, 0.9),
        TextTrack(
            "All is well", "caption", 1.5, 2.0, 15, 19, _BOTTOM, 0.9, alternatives=(Alternative("AII is well", 0.2),)
        ),
        TextTrack("CHANNEL", "overlay", 0.0, 2.0, 0, 19, _CORNER, 0.9),
    )
    pages = ()
    if slides:
        words = [Word("Agenda", 0.9, ((0.1, 0.2), (0.3, 0.3)), 0.9, {"value": 0, "confidence": None})]
        page = Page(np.full((48, 64, 3), 255, np.uint8), [Block([Line(words)])], 0, (48, 64))
        pages = (Slide(1, 0, 19, 0.0, 2.0, page),)
    return VideoReading(name, 48, 64, 20, 0.0, 2.0, tracks, pages, problems)


class _FakePredictor:
    """Reads the same in every video; keeps count, and the options."""

    def __init__(self) -> None:
        self.num_read = 0
        self.options: dict[str, Any] = {}
        self.make: Callable[[str], VideoReading] = _reading

    def to(self, device: object) -> _FakePredictor:
        return self

    def __call__(self, video: VideoDecoder) -> VideoReading:
        assert len(video) == 20
        self.num_read += 1
        return self.make(f"video {self.num_read}")

    def stream(self, video: VideoDecoder) -> _FakeStream:
        return _FakeStream(self(video))


class _FakeStream(Iterator[TextTrack]):
    def __init__(self, reading: VideoReading) -> None:
        self.problems = reading.problems
        self._tracks = iter(reading.tracks)

    def __next__(self) -> TextTrack:
        return next(self._tracks)

    def close(self) -> None:
        self.problems = ()


@pytest.fixture
def predictor(monkeypatch: pytest.MonkeyPatch) -> _FakePredictor:
    made = _FakePredictor()

    def make(**options: Any) -> _FakePredictor:
        made.options = options
        return made

    monkeypatch.setattr(mediatensor.ocr, "video_text_predictor", make)
    monkeypatch.setattr(video_predictor, "read_resumably", lambda _, video, *__: made(video))
    return made


@pytest.fixture
def clip(tmp_path: Path, predictor: _FakePredictor) -> Path:
    """A video, for the predictor."""
    return write_clip(tmp_path / "talk.mp4")


def write_clip(path: Path) -> Path:
    write_test_pattern(path, width=64, height=48, fps=10, num_frames=20)
    return path


def test_a_video_becomes_subtitles_with_its_captions_alone(
    tmp_path: Path, clip: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["ocr", str(clip), "-o", str(tmp_path / "out")]) == 0
    assert (tmp_path / "out" / "talk.srt").read_text() == _reading("talk.mp4").captions.render("srt")
    assert "CHANNEL" not in (tmp_path / "out" / "talk.srt").read_text()
    assert capsys.readouterr().out == f"wrote {tmp_path / 'out' / 'talk.srt'}: 2 captions\n"


def test_every_format_of_a_video_is_written_from_one_reading(
    tmp_path: Path, clip: Path, predictor: _FakePredictor, capsys: pytest.CaptureFixture[str]
) -> None:
    predictor.make = lambda name: _reading(name, slides=True)
    assert main(["ocr", str(clip), "-o", str(tmp_path), "--format", "srt,vtt,ass,json,csv,md,pdf"]) == 0
    assert predictor.num_read == 1
    assert (tmp_path / "talk.vtt").read_text().startswith("WEBVTT")
    assert "[Events]" in (tmp_path / "talk.ass").read_text()
    assert VideoReading.from_dict(json.loads((tmp_path / "talk.json").read_text())).name == "talk.mp4"
    assert len((tmp_path / "talk.csv").read_text().splitlines()) >= 4
    assert "Agenda" in (tmp_path / "talk.md").read_text()
    assert (tmp_path / "talk.ocr.pdf").read_bytes().startswith(b"%PDF")
    assert "3 texts, 1 slide" in capsys.readouterr().out


def test_slides_are_written_with_pictures_that_the_video_still_has(
    tmp_path: Path, clip: Path, predictor: _FakePredictor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the predictor does it: the picture of a slide is decoded when it is needed."""

    def read(_: object, video: VideoDecoder, *__: object) -> VideoReading:
        reading = _reading("talk", slides=True)
        reading.slides[0].page.page = lambda: video.get_frame_at(7).data.permute(1, 2, 0).numpy()
        return reading

    monkeypatch.setattr(video_predictor, "read_resumably", read)
    assert main(["ocr", str(clip), "-o", str(tmp_path), "--format", "pdf,srt"]) == 0
    (page,) = DocumentFile.from_pdf(tmp_path / "talk.ocr.pdf", dpi=144)
    frames = VideoDecoder(clip, dimension_order="NHWC")[:].numpy()
    assert page.shape == frames.shape[1:]
    assert np.abs(frames.astype(int) - page).mean(axis=(1, 2, 3)).argmin() == 7  # it is stored as JPEG


@pytest.mark.parametrize("error", [DecodeError("Frame 7 is damaged."), ValueError("a bug")])
def test_a_format_of_a_video_that_fails_loses_none_of_the_others(
    tmp_path: Path, clip: Path, predictor: _FakePredictor, capsys: pytest.CaptureFixture[str], error: Exception
) -> None:
    def fail() -> Any:
        raise error

    def make(name: str) -> VideoReading:
        reading = _reading(name, slides=True)
        reading.slides[0].page.page = fail
        return reading

    predictor.make = make
    arguments = ["ocr", str(clip), "-o", str(tmp_path), "--format", "pdf,srt,md"]
    assert main(arguments) == 2
    assert "Agenda" in (tmp_path / "talk.md").read_text()
    assert (tmp_path / "talk.srt").exists()
    assert not (tmp_path / "talk.ocr.pdf").exists()
    told = capsys.readouterr().err
    assert "talk.mp4: pdf was not written: " in told
    assert str(error) in told
    predictor.make = lambda name: _reading(name, slides=True)
    assert main(arguments) == 0
    assert (tmp_path / "talk.ocr.pdf").read_bytes().startswith(b"%PDF")


def test_kinds_choose_what_is_written(tmp_path: Path, clip: Path, predictor: _FakePredictor) -> None:
    predictor.make = lambda name: _reading(name, slides=True)
    assert main(["ocr", str(clip), "-o", str(tmp_path), "--kinds", "overlay", "--format", "srt,json"]) == 0
    assert "CHANNEL" in (tmp_path / "talk.srt").read_text()
    reading = VideoReading.from_dict(json.loads((tmp_path / "talk.json").read_text()))
    assert [track.kind for track in reading.tracks] == ["overlay"]
    assert reading.slides == ()


def test_the_region_and_the_languages_are_the_predictors(tmp_path: Path, clip: Path, predictor: _FakePredictor) -> None:
    assert main(["ocr", str(clip), "-o", str(tmp_path), "--region", "0,0.7,1,1", "--languages", "german,dutch"]) == 0
    languages = ("german", "dutch")
    assert predictor.options == {"pretrained": True, "region": (0.0, 0.7, 1.0, 1.0), "languages": languages}


def test_a_video_that_is_complete_is_not_read_again_unless_options_change(
    tmp_path: Path, clip: Path, predictor: _FakePredictor, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["ocr", str(clip), "-o", str(tmp_path / "out")]
    assert main(arguments) == main(arguments) == 0
    assert predictor.num_read == 1
    assert "kept" in capsys.readouterr().out
    assert main([*arguments, "--region", "0,0.5,1,1"]) == main([*arguments, "--overwrite"]) == 0
    assert predictor.num_read == 3
    (tmp_path / "out" / "talk.srt").write_text("corrected by hand")
    assert main([*arguments, "--kinds", "scene"]) == 2
    assert "--overwrite" in capsys.readouterr().err
    assert (tmp_path / "out" / "talk.srt").read_text() == "corrected by hand"


@needs_full_device
def test_an_output_is_recorded_even_if_the_message_about_it_cannot_be_printed(
    tmp_path: Path,
    clip: Path,
    predictor: _FakePredictor,
    capsys: pytest.CaptureFixture[str],
) -> None:
    arguments = ["ocr", str(clip), "-o", str(tmp_path)]
    with full_stream("stdout"):
        assert main(arguments) == 2
    assert "Could not write to standard output" in capsys.readouterr().err
    assert main(arguments) == 0
    assert capsys.readouterr().out.startswith(f"kept {tmp_path / 'talk.srt'}: it is complete (")
    assert predictor.num_read == 1


def test_without_slides_the_other_formats_are_written(
    tmp_path: Path, clip: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["ocr", str(clip), "-o", str(tmp_path), "--format", "pdf,srt"]) == 2
    assert (tmp_path / "talk.srt").exists()
    assert not (tmp_path / "talk.ocr.pdf").exists()
    assert "slides" in capsys.readouterr().err


def test_standard_output_gets_the_subtitles_and_nothing_else(
    clip: Path, predictor: _FakePredictor, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    predictor.make = lambda name: _reading(name, problems=("12 frames could not be decoded.",))
    assert main(["ocr", str(clip), "-o", "-", "--format", "vtt"]) == 0
    captured = capsys.readouterr()
    assert captured.out == _reading("talk.mp4").captions.render("vtt")
    assert "talk.mp4: warning: 12 frames" in captured.err
    standard_input = io.TextIOWrapper(io.BytesIO(clip.read_bytes()))
    monkeypatch.setattr("sys.stdin", standard_input)
    assert main(["ocr", "-", "-o", "-", "--format", "srt"]) == 0
    assert capsys.readouterr().out == _reading("x").captions.render("srt")


def test_formats_are_those_of_what_is_read(
    tmp_path: Path, clip: Path, predictor: _FakePredictor, capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments, told in (
        ([str(clip), "--format", "hocr"], "talk.mp4: the text of a video is written as srt, vtt, ass, json"),
        ([str(clip), "--format", "txt"], "--every SECONDS"),
        (["scan.png", str(clip), "--format", "txt"], "--every SECONDS"),
        ([str(clip), "--kinds", "title"], "caption, overlay, scene, slide"),
        ([str(clip), "--region", "0.5,0,0.2,1"], "0,0.7,1,1"),
    ):
        assert main(["ocr", *arguments, "-o", str(tmp_path / "out")]) == 2
        assert told in capsys.readouterr().err
    assert not predictor.num_read


@pytest.mark.parametrize("name", ["page.png", "page.jpg", "page.tif", "big.tif", "page.pdf", "page.mystery", "page"])
def test_formats_of_videos_are_refused_for_documents_before_reading(
    tmp_path: Path, predictor: _FakePredictor, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """Whatever their names are; an animation may be read as a video."""
    path = tmp_path / name
    image = Image.new("RGB", (64, 48), "white")
    image.save(path, {".jpg": "JPEG", ".tif": "TIFF", ".pdf": "PDF"}.get(path.suffix, "PNG"))
    if name == "big.tif":
        path.write_bytes(b"II+\0" + path.read_bytes()[4:])  # the mark of BigTIFF
    for formats in ("srt", "txt,srt"):
        assert main(["ocr", str(path), "-o", str(tmp_path / "out"), "--format", formats]) == 2
        told = capsys.readouterr().err
        assert f"{name}: a document is written as txt, " in told
        assert "not as srt" in told
    assert not (tmp_path / "out").exists()
    frames = [Image.new("L", (64, 48), 12 * level) for level in range(20)]
    frames[0].save(tmp_path / "moving.gif", save_all=True, append_images=frames[1:], duration=100)
    assert main(["ocr", str(tmp_path / "moving.gif"), "-o", str(tmp_path), "--format", "srt"]) == 0
    assert predictor.num_read == 1


def test_videos_that_cannot_be_read_leave_the_others_and_missing_weights_end_the_run(
    tmp_path: Path, clip: Path, predictor: _FakePredictor, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    other = write_clip(tmp_path / "other.mp4")

    def fail(name: str) -> VideoReading:
        if name == "video 1":
            raise DecodeError("Nothing could be decoded.")
        return _reading(name)

    predictor.make = fail
    assert main(["ocr", str(clip), str(other), "-o", str(tmp_path / "out")]) == 2
    assert [path.name for path in (tmp_path / "out").glob("*.srt")] == ["other.srt"]
    assert "talk.mp4: Nothing could be decoded." in capsys.readouterr().err

    def no_weights(**_: Any) -> Any:
        raise WeightsNotFoundError("There are no weights.")

    monkeypatch.setattr(mediatensor.ocr, "video_text_predictor", no_weights)
    assert main(["ocr", str(clip), str(other), "-o", str(tmp_path / "none")]) == 2
    assert capsys.readouterr().err.count("There are no weights.") == 1


# Interruption


@contextmanager
def interrupted_at(frame: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Five seconds go by whenever the time is asked for, and there is Ctrl-C at a frame."""
    seconds, pictures = itertools.count(0.0, 5.0), VideoAccess.pictures

    def stopping(self: VideoAccess, begin: int) -> Iterator[Any]:
        for picture in pictures(self, begin):
            if picture.frame == frame:
                raise KeyboardInterrupt
            yield picture

    with monkeypatch.context() as patched:
        patched.setattr(time, "monotonic", lambda: next(seconds))
        patched.setattr(VideoAccess, "pictures", stopping)
        yield


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The frames from which videos are read."""
    begun: list[int] = []
    pictures = VideoAccess.pictures
    monkeypatch.setattr(VideoAccess, "pictures", lambda self, begin: begun.append(begin) or pictures(self, begin))
    return begun


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clip with a few captions."""
    plan = ClipPlan("drawn", size=(480, 270), ground="gradient", fps=15, seconds=4, decoys=("logo",), seed=3)
    return draw_clip(plan, tmp_path_factory.mktemp("drawn"))


@pytest.mark.parametrize("frame", [25, pytest.param(51, marks=pytest.mark.slow)])
def test_an_interrupted_run_goes_on_where_it_was(
    tmp_path: Path, drawn: Path, begun: list[int], monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str], frame: int,
) -> None:  # fmt: skip
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    assert main(["ocr", str(drawn), "-o", str(whole), "--format", "json,srt"]) == 0
    arguments = ["ocr", str(drawn), "-o", str(parts), "--format", "json,srt"]
    with interrupted_at(frame, monkeypatch):
        assert main(arguments) == 130
    assert "run the same command again to resume" in capsys.readouterr().err
    assert not list(parts.glob("*.srt"))
    begun.clear()
    assert main(arguments) == 0
    assert 0 < begun[0] < frame
    for name in ("drawn.json", "drawn.srt"):
        assert (parts / name).read_bytes() == (whole / name).read_bytes()
    assert sorted(path.name for path in parts.iterdir()) == [".mediatensor-ocr.jsonl", "drawn.json", "drawn.srt"]


def test_what_was_kept_of_another_reading_is_not_used(
    tmp_path: Path, drawn: Path, begun: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ["ocr", str(drawn), "-o", str(tmp_path)]
    state = tmp_path / ".drawn.pages" / "video.state"
    with interrupted_at(30, monkeypatch):
        assert main(arguments) == 130
    kept = state.read_bytes()
    key, _, data = kept.partition(b"\n")

    class _Evil:
        def __reduce__(self) -> Any:
            return Path.touch, (tmp_path / "touched",)

    def sealed(state: bytes) -> bytes:
        return key + b"\n" + hashlib.blake2b(state, digest_size=16).digest() + state

    middle = len(data) // 2
    flipped = data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]
    assert sealed(data[16:]) == kept
    for damaged in (key + b"\n" + data[:middle], b"", key + b"\n" + flipped, sealed(pickle.dumps(_Evil()))):
        state.parent.mkdir(exist_ok=True)
        state.write_bytes(damaged)
        begun.clear()
        with interrupted_at(5, monkeypatch):
            assert main(arguments) == 130
        assert begun[0] == 0
    assert not (tmp_path / "touched").exists()
    state.write_bytes(kept)
    begun.clear()
    with interrupted_at(5, monkeypatch):
        assert main([*arguments, "--region", "0,0.5,1,1"]) == 130
    assert begun[0] == 0


def test_a_folder_that_is_a_file_is_refused_before_reading(
    tmp_path: Path, clip: Path, predictor: _FakePredictor, capsys: pytest.CaptureFixture[str]
) -> None:
    for folder in (clip, clip / "below"):
        assert main(["ocr", str(clip), "-o", str(folder)]) == 2
        assert "is a file, not a folder" in capsys.readouterr().err
    assert not predictor.num_read


# find


def test_find_prints_file_time_and_place(tmp_path: Path, clip: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["find", "error  503: TRY", str(clip)]) == 0
    assert capsys.readouterr().out == f"{clip}  0:00.500  bottom  caption  Error 503: / try again\n"
    assert main(["find", "ERROR50 3", str(clip)]) == 0  # whole words, with other spaces
    assert "Error 503:" in capsys.readouterr().out
    assert main(["find", "channel", str(clip)]) == 0
    assert capsys.readouterr().out == f"{clip}  0:00.000  top right  overlay  CHANNEL\n"


def test_each_printed_line_stays_one_line_if_the_name_has_line_breaks(
    tmp_path: Path, clip: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = clip.rename(tmp_path / "two\nlines\u2028.mp4")
    name = rf"{tmp_path}/two\nlines\u2028.mp4"
    assert main(["find", "channel", str(file)]) == 0
    assert capsys.readouterr().out == f"{name}  0:00.000  top right  overlay  CHANNEL\n"
    assert main(["scenes", str(file)]) == 0
    assert capsys.readouterr().out == f"{name}: 0:00.000 to 0:02.000, frames 0 to 19\n"
    assert main(["probe", "--no-scan", str(file), str(file)]) == 0
    probed = capsys.readouterr().out.splitlines()
    assert probed.count(name) == 2
    assert main(["scenes", "--json", str(file)]) == 0
    assert json.loads(capsys.readouterr().out)["file"] == str(file)


def test_find_prints_as_it_reads_and_then_what_it_could_not_read(
    clip: Path, predictor: _FakePredictor, capsys: pytest.CaptureFixture[str]
) -> None:
    printed = []

    class Slow(_FakeStream):
        def __next__(self) -> TextTrack:
            printed.append(capsys.readouterr().out.count("\n"))
            return super().__next__()

    predictor.stream = lambda video: Slow(_reading("x", problems=("Frame 7 could not be decoded.",)))  # type: ignore[method-assign]
    assert main(["find", "a", str(clip)]) == 0
    assert printed == [0, 1, 1, 1]
    assert capsys.readouterr().err == f"{clip}: warning: Frame 7 could not be decoded.\n"


def test_find_also_looks_in_other_readings(clip: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["find", "aii", str(clip)]) == 0
    assert capsys.readouterr().out.endswith("All is well (or: AII is well)\n")


def test_what_find_does_not_find_is_exit_code_1(clip: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (
        ["error 504"], ["error.*503"], ["--case", "error 503"], ["--kinds", "scene", "error"],
        ["--region", "0,0,1,0.5", "error"], ["--regex", "error 6.."],
    ):  # fmt: skip
        assert main(["find", *arguments, str(clip)]) == 1
    assert capsys.readouterr().out == ""
    for arguments in (["--regex", "error 5.."], ["--region", "0,0.5,1,1", "error"], ["--case", "Error"]):
        assert main(["find", *arguments, str(clip)]) == 0


def test_find_searches_stored_readings(
    tmp_path: Path, clip: Path, predictor: _FakePredictor, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["ocr", str(clip), "-o", str(tmp_path), "--format", "json"]) == 0
    capsys.readouterr()
    stored = str(tmp_path / "talk.json")
    assert main(["find", "error", stored, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert predictor.num_read == 1
    assert (found["file"], found["kind"], found["start_seconds"], found["last_frame"]) == (stored, "caption", 0.5, 14)
    assert found["geometry"] == [list(corner) for corner in _BOTTOM]


def test_find_draws_the_frames(
    tmp_path: Path, clip: Path, predictor: _FakePredictor, capsys: pytest.CaptureFixture[str]
) -> None:
    plain, found = tmp_path / "plain.png", tmp_path / "found.png"
    assert main(["find", "well", str(clip), "--sheet", str(found)]) == 0
    assert "1 frame," in capsys.readouterr().out
    predictor.make = lambda name: VideoReading(name, 48, 64, 20, 0.0, 2.0, (
        TextTrack("Well", "scene", 1.5, 2.0, 15, 19, ((0.0, 0.0), (0.1, 0.1)), 0.9),
    ))  # fmt: skip
    assert main(["find", "well", str(clip), "--sheet", str(plain)]) == 0
    one, other = (np.asarray(Image.open(path).convert("RGB")).astype(int) for path in (found, plain))
    assert one.shape == other.shape
    assert (np.abs(one - other).sum(2) > 60).any()  # the same frame, framed in another place
    assert main(["find", "well", str(clip), "--sheet", str(tmp_path / "x.txt")]) == 2
    assert main(["find", "well", str(tmp_path / "talk.json"), "--sheet", str(found)]) == 2
    two = write_clip(tmp_path / "two.mp4")
    assert main(["find", "well", str(clip), str(two), "--sheet", str(tmp_path / "sheets")]) == 0
    assert sorted(path.name for path in (tmp_path / "sheets").iterdir()) == ["talk.png", "two.png"]


def test_wrong_usage_of_find(clip: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["", str(clip)], ["(", str(clip), "--regex"], ["error"], ["error", "no such file.mp4"]):
        assert main(["find", *arguments]) == 2
        captured = capsys.readouterr()
        assert captured.out == ""
        assert captured.err.count("\n") == 1


@pytest.mark.parametrize("stored", [b"", b"\xff\xfe", b"[" * 200_000, b"[]", b"{", b"{}", b'{"schema": 1}'])
def test_a_file_that_is_no_stored_reading_is_said_to_be_none(
    stored: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "talk.json"
    path.write_bytes(stored)
    assert main(["find", "hello", str(path)]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"mediatensor: error: {path}")
    assert ("not the text of a video" in error) == stored.endswith((b"]", b"}"))
    assert error.count("\n") == 1


def test_captions_with_the_models(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = ClipPlan("talk", faces=("DejaVuSans-Bold",), size=(480, 270), ground="gradient", fps=15, seconds=4, seed=2)
    clip = draw_clip(plan, tmp_path)
    truth = json.loads((tmp_path / "talk.json").read_text(encoding="utf-8"))
    assert main(["ocr", str(clip), "-o", str(tmp_path / "out"), "--region", "0,0.4,1,1", "--format", "srt,json"]) == 0
    score = score_clip(truth, parse_srt((tmp_path / "out" / "talk.srt").read_text(encoding="utf-8")))
    assert score.exact == score.captions > 0
    assert score.phantoms == 0
    words = truth["events"][0]["text"].split()[:2]
    capsys.readouterr()
    assert main(["find", " ".join(words), str(tmp_path / "out" / "talk.json")]) == 0
    assert "  bottom  caption  " in capsys.readouterr().out
