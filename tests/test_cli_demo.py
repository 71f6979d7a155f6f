"""``mediatensor demo``: the clip it makes, what it prints, and that its checks can fail."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import av
import pytest
import torch
from PIL import Image

from mediatensor._pyav.encoding import write_test_pattern
from mediatensor.cli import _demo, main
from mediatensor.cli._demo import ClipDataset, check_line, row
from mediatensor.cli._verify import Comparison
from mediatensor.decoders import VideoDecoder
from mediatensor.errors import MissingDependencyError


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


def test_demo_without_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(_demo, "read_texts", lambda file, folder: [(True, "text")])
    folder = tmp_path / "new" / "demo"
    assert main(["demo", "-o", str(folder)]) == 0
    text = capsys.readouterr().out
    assert "640x360, 30 fps" in text
    assert "(4, 8, 3, 360, 640)" in text
    assert "6 x (2, 8, 3, 144, 256)" in text
    checks = text.partition("\nchecked\n")[2].partition("\n\n")[0].splitlines()
    assert [line.split()[0] for line in checks] == ["ok"] * 4
    assert sorted(path.name for path in folder.iterdir()) == ["clip.mp4", "sheet.png"]
    with Image.open(folder / "sheet.png") as sheet:
        assert sheet.width > 1000


@pytest.fixture
def _no_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_demo, "_check_loader", lambda file: (True, "clips from workers"))


@pytest.mark.usefixtures("_no_workers")
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


@pytest.mark.usefixtures("_no_workers")
def test_failed_check_is_exit_code_1(
    clip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def one_frame_more(*arguments: Any, **options: Any) -> Comparison:
        return replace(honest(*arguments, **options), num_frames=41)

    honest = _demo.compare
    monkeypatch.setattr(_demo, "compare", one_frame_more)
    assert main(["demo", str(clip), "-o", str(tmp_path)]) == 1
    assert "  FAILED " in capsys.readouterr().out


def test_dataset_survives_the_way_into_a_worker(clip: Path, clip_rgb: torch.Tensor) -> None:
    dataset = ClipDataset(VideoDecoder(clip), starts=[3, 20], num_frames=4)
    for copy in (dataset, pickle.loads(pickle.dumps(dataset))):
        number, frames, pts_seconds = copy[1]
        assert (len(copy), number) == (2, 1)
        assert torch.equal(frames, clip_rgb[20:24])
        torch.testing.assert_close(pts_seconds, torch.arange(20, 24, dtype=torch.float64) / 25)


def test_lines() -> None:
    assert row("decoder[0]", "(3, 4, 5)", 0.0021) == f"  {'decoder[0]':<42} {'(3, 4, 5)':<38}   2.1 ms"
    assert check_line(True, "frames").split() == ["ok", "frames"]
    assert check_line(False, "frames").split() == ["FAILED", "frames"]
