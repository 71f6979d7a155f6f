"""``mediatensor sheet``: its frames, their positions, and its labels."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

import media
from mediatensor.cli import main


def pixels(image: Image.Image) -> NDArray[np.uint8]:
    return np.asarray(image.convert("RGB"))


class Grid(NamedTuple):
    """Where tiles are: below a header, with a margin of 24 pixels around, 14 between them, and 26 for each caption."""

    columns: int
    rows: int
    tile_width: int
    tile_height: int

    def corners(self, image: Image.Image) -> list[tuple[int, int]]:
        step = self.tile_height + 26 + 14
        top = image.height - 24 - self.rows * step + 14
        places = [divmod(number, self.columns) for number in range(self.columns * self.rows)]
        return [(24 + column * (self.tile_width + 14), top + row * step) for row, column in places]


def read_bar_code(tile: NDArray[np.uint8]) -> int:
    """The number that the test clips carry in the top eighth of every picture, as ten bars."""
    row = tile[tile.shape[0] // 16].mean(axis=-1)
    middles = [row[int((bit + 0.5) * len(row) / 10)] for bit in range(10)]
    return sum((value > 128) << (9 - bit) for bit, value in enumerate(middles))


def drawn_numbers(path: Path, grid: Grid, count: int) -> list[int]:
    with Image.open(path) as image:
        drawn = pixels(image)
        corners = grid.corners(image)[:count]
    return [read_bar_code(drawn[t : t + grid.tile_height, x : x + grid.tile_width]) for x, t in corners]


@pytest.mark.parametrize(
    ("name", "arguments", "grid", "numbers"),
    [
        # 25 fps: frames 10 to 14
        ("sheet.png", "--start 0:00.40 --stop 0.6 --width 192 --columns 2", Grid(2, 3, 192, 128), range(10, 15)),
        ("sheet.jpg", "--start=-9 --stop 1:00:00 --frames 10 --columns 5", Grid(5, 2, 294, 196), range(2, 40, 4)),
        ("sheet.webp", "--frames 10 --columns 5", Grid(5, 2, 294, 196), range(2, 40, 4)),
    ],
)
def test_sheet_shows_the_frames_that_were_chosen(
    name: str, arguments: str, grid: Grid, numbers: Sequence[int], clip: Path, tmp_path: Path
) -> None:
    assert main(["sheet", str(clip), "-o", str(tmp_path / name), *arguments.split()]) == 0
    assert drawn_numbers(tmp_path / name, grid, len(numbers)) == list(numbers)


@pytest.mark.parametrize(
    ("name", "shape"), [("sample_aspect_ratio", 2.0), ("rotated_90", 64 / 96), ("tall", 64 / 96), ("mp4", 1.5)]
)
def test_tiles_have_the_shape_that_is_shown(name: str, shape: float, tmp_path: Path) -> None:
    output = tmp_path / "sheet.png"
    assert main(["sheet", str(media.make(name, tmp_path)), "-o", str(output), "--frames", "1", "--width", "300"]) == 0
    grid = Grid(1, 1, 300, round(300 / shape))
    with Image.open(output) as image:
        assert image.width == 24 + 300 + 24
        (left, top), *_ = grid.corners(image)
        drawn = pixels(image)
    # The picture fills its place and nothing around it.
    background = drawn[0, 0]
    assert not (drawn[top + 1, left : left + 300] == background).all(axis=-1).any()
    assert (drawn[top - 2, left : left + 300] == background).all()


@pytest.mark.parametrize("name", ["one_frame", "vfr_gif", "size_change_mkv", "h264_field_pairs_mkv", "truncated_ts"])
def test_odd_videos_get_a_sheet(name: str, tmp_path: Path) -> None:
    output = tmp_path / "sheet.png"
    assert main(["sheet", str(media.make(name, tmp_path)), "-o", str(output)]) == 0
    with Image.open(output) as image:
        assert len(image.convert("RGB").getcolors(image.width * image.height)) > 50


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-o", "sheet.gif"], "must end in one of .png"),
        (["-o", "sheet"], "must end in one of .png"),
        (["-o", "missing/sheet.png"], "there is no folder"),
        (["-o", "sheet.png", "--start", "1", "--stop", "0.5"], "must be before"),
        (["-o", "sheet.png", "--start", "100"], "There is nothing from"),
        (["-o", "sheet.png", "--stop", "-1"], "There is nothing before"),
        (["-o", "sheet.png", "--width", "90000"], "too large"),
        (["-o", "sheet.png", "--stream", "5"], "stream"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_what_cannot_be_drawn_leaves_nothing_behind(
    arguments: list[str],
    message: str,
    clip: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["sheet", str(clip), *arguments]) == 2
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_the_video_itself_is_not_replaced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    video = media.make("apng", tmp_path).rename(tmp_path / "animated.png")
    before = video.read_bytes()
    assert main(["sheet", str(video), "-o", str(tmp_path / "." / "animated.png")]) == 2
    assert "is a file that is read" in capsys.readouterr().err
    assert video.read_bytes() == before


def test_failed_write_keeps_the_old_sheet(clip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = tmp_path / "sheet.png"
    output.write_text("old")

    def fail(self: Image.Image, file: BinaryIO, kind: str) -> None:
        file.write(b"half a pict")
        raise OSError("No space left on device")

    monkeypatch.setattr(Image.Image, "save", fail)
    assert main(["sheet", str(clip), "-o", str(output)]) == 2
    assert output.read_text() == "old"
    assert list(tmp_path.iterdir()) == [output]


def test_several_files_get_a_sheet_each(
    clip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    other = tmp_path / "other" / clip.name
    other.parent.mkdir()
    other.write_bytes(clip.read_bytes())
    assert main(["sheet", str(clip), str(other), "--frames", "2"]) == 0
    names = sorted(path.name for path in (tmp_path / "sheets").iterdir())
    assert names == sorted([f"{clip.stem}.png", f"{clip.stem}.2.png"])
    first, second = (Image.open(tmp_path / "sheets" / name) for name in names)
    assert first.size == second.size
    capsys.readouterr()
    assert main(["sheet", str(clip), str(clip), "-o", "out", "--frames", "2"]) == 0  # one file, given twice
    assert [path.name for path in (tmp_path / "out").iterdir()] == [f"{clip.stem}.png"]
    assert capsys.readouterr().out.count("wrote ") == 1
    for second in (other, clip):
        assert main(["sheet", str(clip), str(second), "-o", "one.png"]) == 2
        assert "Several files need a folder" in capsys.readouterr().err


def test_a_sheet_on_standard_output(
    clip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert main(["sheet", str(clip), "-o", str(tmp_path / "sheet.png"), "--frames", "2"]) == 0
    capfdbinary.readouterr()
    assert main(["sheet", str(clip), "-o", "-", "--frames", "2"]) == 0
    assert capfdbinary.readouterr().out == (tmp_path / "sheet.png").read_bytes()


def test_fewer_frames_than_asked_for_are_told(clip: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sheet", str(clip), "-o", str(tmp_path / "sheet.png"), "--frames", "50"]) == 0
    assert "40 frames (not 50: more would repeat them)" in capsys.readouterr().out
    assert main(["sheet", str(clip), "-o", str(tmp_path / "other.png"), "--frames", "40"]) == 0
    assert "(not" not in capsys.readouterr().out
