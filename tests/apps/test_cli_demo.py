"""``mediatensor demo``: the clip it generates, its output, and that its checks can fail."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import av
import pytest
from PIL import Image

from mediatensor._engine.pyav.encoding import write_test_pattern
from mediatensor.cli import _demo, main
from mediatensor.decoders import VideoDecoder
from mediatensor.errors import MissingDependencyError, WeightsNotFoundError
from mediatensor.frames import Frame
from mediatensor.ocr import models


def test_clip_is_h264_with_b_frames_and_the_gops_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "clip.mp4"
    write_test_pattern(path, width=64, height=48, fps=30, num_frames=50, gop_length=20)
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        frames = list(container.decode(stream))
        assert stream.codec_context.codec.canonical_name == "h264"
        assert stream.average_rate == 30
    assert [(frame.width, frame.height) for frame in frames] == [(64, 48)] * 50
    assert [index for index, frame in enumerate(frames) if frame.key_frame] == [0, 20, 40]
    assert sum(frame.pict_type == av.video.frame.PictureType.B for frame in frames) > 15
    pictures = {frame.to_ndarray(format="rgb24").tobytes() for frame in frames}
    assert len(pictures) == 50  # no two are equal, so that a neighbour never passes for the frame asked for


def test_clip_needs_an_encoder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(av, "codecs_available", {"h264", "mpeg4"})
    with pytest.raises(MissingDependencyError, match="libx264"):
        write_test_pattern(tmp_path / "clip.mp4")
    assert list(tmp_path.iterdir()) == []


def without_models(**_: Any) -> None:
    raise WeightsNotFoundError("No weights.")


def lines_of_checks(printed: str) -> list[str]:
    return printed.partition("\nchecked\n")[2].partition("\n\n")[0].splitlines()


def test_demo_without_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(models, "ocr_predictor", without_models)
    monkeypatch.setattr(_demo, "_NUM_WORKERS", 1)
    monkeypatch.setattr(_demo, "_NUM_FRAMES_COMPARED", 12)
    folder = tmp_path / "new" / "demo"
    assert main(["demo", "-o", str(folder)]) == 0
    text = capsys.readouterr().out
    assert "640x360, 30 fps" in text
    assert "(4, 8, 3, 360, 640)" in text
    assert re.search(r"^  decoder\.get_frame_played_at\(7\) +\(3, 360, 640\) at 7 s ", text, re.MULTILINE)
    assert "6 x (2, 8, 3, 144, 256)" in text  # from workers that were spawned: the dataset was pickled
    assert "no text was read: No weights." in text
    assert [line.split()[0] for line in lines_of_checks(text)] == ["ok"] * 3
    assert re.search(r"^  decoder\[::30\] +\(10, 3, 360, 640\) torch.uint8 +[\d.]+ m?s$", text, re.MULTILINE)
    assert sorted(path.name for path in folder.iterdir()) == ["clip.mp4", "sheet.png"]
    with Image.open(folder / "sheet.png") as sheet:
        assert sheet.width > 1000


@pytest.mark.usefixtures("demo_without_workers")
@pytest.mark.parametrize("name", ["clip", "single"])
def test_demo_of_a_file(name: str, clip: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = clip
    if name == "single":
        file = tmp_path / "single.mp4"
        write_test_pattern(file, width=32, height=32, num_frames=1)
    assert main(["demo", str(file), "-o", str(tmp_path / "demo")]) == 0
    text = capsys.readouterr().out
    assert "made" not in text
    assert "FAILED" not in text
    assert [path.name for path in (tmp_path / "demo").iterdir()] == ["sheet.png"]


@pytest.mark.usefixtures("demo_without_workers")
def test_failed_check_is_exit_code_1(
    clip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    honest = VideoDecoder.get_frame_at

    def next_frame(self: VideoDecoder, index: int) -> Frame:
        return honest(self, min(index + 1, len(self) - 1))

    monkeypatch.setattr(VideoDecoder, "get_frame_at", next_frame)
    assert main(["demo", str(clip), "-o", str(tmp_path)]) == 1
    assert [line.split()[0] for line in lines_of_checks(capsys.readouterr().out)] == ["FAILED", "ok", "ok"]


def test_demo_files_replaces_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "page.png").write_bytes(b"mine")
    assert main(["demo", "--files", str(tmp_path)]) == 2
    assert "page.png" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["page.png"]
    assert (tmp_path / "page.png").read_bytes() == b"mine"
