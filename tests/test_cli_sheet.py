"""``mediatensor sheet``: which frames are chosen, where they are drawn, and what is written."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image

import media
from mediatensor.cli import main
from mediatensor.cli._drawing import Grid, Tile, check_size, choose_grid, display_size, draw_sheet, flow, tile_size
from mediatensor.cli._sheet import choose_frames
from mediatensor.errors import InvalidArgumentError

KEY_FRAME_COLOUR = (255, 184, 46)


def slow_choice(pts: list[float], start: float, stop: float, count: int) -> list[int]:
    """The rule of `choose_frames`, frame by frame: shown is the last frame that has started, or the first of all."""
    shown_in_range = [
        i for i, time in enumerate(pts) if time < stop and (i + 1 == len(pts) or pts[i + 1] > start or time >= start)
    ]
    if len(shown_in_range) <= count:
        return shown_in_range
    chosen = []
    for k in range(count):
        middle = start + (k + 0.5) * (stop - start) / count
        chosen.append(max([i for i, time in enumerate(pts) if time <= middle], default=0))
    return sorted(set(chosen))


@given(
    st.lists(st.integers(min_value=0, max_value=400), min_size=1, max_size=60),
    st.integers(min_value=1, max_value=20),
    st.data(),
)
def test_choice_follows_the_rule(ticks: list[int], count: int, data: st.DataObject) -> None:
    # Eighths of a second are exact, so that both sides see the same times.
    pts = [tick / 8 for tick in sorted(ticks)]
    start = data.draw(st.integers(min_value=-8, max_value=max(ticks))) / 8
    stop = start + data.draw(st.integers(min_value=1, max_value=480)) / 8
    assert choose_frames(pts, start, stop, count) == slow_choice(pts, start, stop, count)


def test_choice_spreads_over_a_constant_rate() -> None:
    pts = [i / 25 for i in range(250)]
    assert choose_frames(pts, 0.0, 10.0, 5) == [25, 75, 125, 175, 225]


def test_long_still_is_drawn_once() -> None:
    assert choose_frames([0.0, 1.0, 9.0, 9.5], 0.0, 10.0, 3) == [1]


@pytest.mark.parametrize(
    ("size", "ratio", "rotation", "expected"),
    [
        ((640, 360), None, None, (640, 360)),
        ((720, 576), Fraction(16, 11), None, (1047, 576)),
        ((576, 720), Fraction(16, 11), -90.0, (576, 1047)),
        ((720, 576), Fraction(16, 11), 180.0, (1047, 576)),
        ((1, 100), Fraction(1, 10), None, (1, 100)),
    ],
)
def test_display_size(
    size: tuple[int, int], ratio: Fraction | None, rotation: float | None, expected: tuple[int, int]
) -> None:
    assert display_size(*size, ratio, rotation) == expected


@given(
    st.integers(min_value=1, max_value=200),
    st.tuples(st.integers(1, 4000), st.integers(1, 4000)),
    st.none() | st.integers(min_value=1, max_value=12),
)
def test_grid_has_a_place_for_every_tile(num_tiles: int, picture: tuple[int, int], num_columns: int | None) -> None:
    grid = choose_grid(num_tiles, tile_size(picture, 120), num_columns)
    assert grid.columns * (grid.rows - 1) < num_tiles <= grid.columns * grid.rows
    if num_columns is not None:
        assert grid.columns == min(num_columns, num_tiles)
    corners = [grid.position(number) for number in range(num_tiles)]
    assert len(set(corners)) == num_tiles
    assert max(left for left, _ in corners) + grid.tile_width <= grid.width
    assert max(top for _, top in corners) + grid.tile_height <= grid.height


@given(st.lists(st.floats(min_value=1, max_value=100), max_size=12), st.floats(min_value=1, max_value=300))
def test_flow_keeps_order_and_limit(widths: list[float], limit: float) -> None:
    places = flow(widths, limit)
    assert places == sorted(places)
    assert len(places) == len(set(places)) == len(widths)
    assert all(x == 0 or x + width <= limit for (_, x), width in zip(places, widths, strict=True))


def test_sheet_that_is_too_large_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match=r"too large .*--width"):
        check_size(Grid(1, 1, 16_400, 100), side_limit=16_383)
    with pytest.raises(InvalidArgumentError, match=r"too large .*--frames"):
        check_size(Grid(20, 20, 1920, 1080), side_limit=1 << 16)
    check_size(Grid(4, 4, 320, 180), side_limit=16_383)


def solid(colour: tuple[int, int, int]) -> Image.Image:
    return Image.new("RGB", (120, 80), colour)


def pixels(image: Image.Image) -> NDArray[np.uint8]:
    return np.asarray(image.convert("RGB"))


def tile_corners(image: Image.Image, grid: Grid) -> list[tuple[int, int]]:
    """Where the tiles are in the sheet: below a header of unknown height, with equal margins around."""
    top = image.height - 24 - grid.height
    return [(24 + left, top + above) for left, above in map(grid.position, range(grid.columns * grid.rows))]


def test_tiles_are_drawn_in_reading_order_with_labels() -> None:
    colours = [(200, 10 * number, 90) for number in range(5)]
    tiles = [Tile(solid(colour), number, number / 2, number == 3) for number, colour in enumerate(colours)]
    grid = choose_grid(5, (120, 80), 3)
    image = draw_sheet(tiles, grid, "clip.mp4", ["64x64", "25 fps"], "1 key frame")
    drawn = pixels(image)
    corners = tile_corners(image, grid)
    for (left, top), colour in zip(corners, colours, strict=False):
        assert (drawn[top : top + 80, left : left + 120] == colour).all()
    captions = [drawn[top + 80 : top + 106, left : left + 120] for left, top in corners]
    background = drawn[0, 0]
    has_label = [bool((caption != background).any()) for caption in captions]
    assert has_label == [True] * 5 + [False]
    has_mark = [bool((caption == KEY_FRAME_COLOUR).all(axis=-1).any()) for caption in captions]
    assert has_mark == [False, False, False, True, False, False]
    header = drawn[: corners[0][1]]
    assert (header == KEY_FRAME_COLOUR).all(axis=-1).any()  # it explains the mark


def test_labels_of_other_times_are_other_pictures() -> None:
    grid = choose_grid(1, (120, 80), 1)
    one, other, same = (
        pixels(draw_sheet([Tile(solid((0, 0, 0)), 7, time, False)], grid, "a", [], "")) for time in (1.0, 1.001, 1.0)
    )
    assert (one == same).all()
    assert not (one == other).all()


def test_frame_that_does_not_decode_leaves_a_marked_place() -> None:
    grid = choose_grid(1, (320, 180), 1)
    image = draw_sheet([Tile(None, 0, 0.0, False)], grid, "a", [], "")
    (left, top), *_ = tile_corners(image, grid)
    place = pixels(image)[top : top + 180, left : left + 320]
    assert (place[0, 0] != pixels(image)[0, 0]).any()
    assert len(np.unique(place.reshape(-1, 3), axis=0)) > 1  # it says so


@pytest.mark.parametrize("title", ["", "a", "long " * 200, "k\u016f\u0148 \u65e5\u672c\u8a9e \U0001f3ac.mp4", "a\nb"])
def test_any_title_is_drawn_inside_the_sheet(title: str) -> None:
    grid = choose_grid(1, (40, 30), 1)
    drawn = pixels(draw_sheet([Tile(solid((9, 9, 9)), 0, 0.0, True)], grid, title, ["a fact"] * 9, "1 key frame"))
    assert (drawn[:, -8:] == drawn[0, 0]).all()


def read_bar_code(tile: NDArray[np.uint8]) -> int:
    """The number that the test clips carry in the top eighth of every picture, as ten bars."""
    row = tile[tile.shape[0] // 16].mean(axis=-1)
    middles = [row[int((bit + 0.5) * len(row) / 10)] for bit in range(10)]
    return sum((value > 128) << (9 - bit) for bit, value in enumerate(middles))


def drawn_numbers(path: Path, grid: Grid, count: int) -> list[int]:
    with Image.open(path) as image:
        drawn = pixels(image)
        corners = tile_corners(image, grid)[:count]
    return [read_bar_code(drawn[t : t + grid.tile_height, x : x + grid.tile_width]) for x, t in corners]


@pytest.mark.parametrize("suffix", [".png", ".jpg", ".webp"])
def test_sheet_shows_the_frames_that_were_chosen(suffix: str, clip: Path, tmp_path: Path) -> None:
    output = tmp_path / f"sheet{suffix}"
    assert main(["sheet", str(clip), "-o", str(output), "--frames", "10", "--columns", "5"]) == 0
    assert drawn_numbers(output, choose_grid(10, tile_size((96, 64), None), 5), 10) == list(range(2, 40, 4))


def test_sheet_of_a_range_of_times(clip: Path, tmp_path: Path) -> None:
    output = tmp_path / "sheet.png"
    arguments = ["--start", "0:00.40", "--stop", "0.6", "--width", "192", "--columns", "2"]
    assert main(["sheet", str(clip), "-o", str(output), *arguments]) == 0  # 25 fps: frames 10 to 14
    assert drawn_numbers(output, choose_grid(5, (192, 128), 2), 5) == [10, 11, 12, 13, 14]


@pytest.mark.parametrize(
    ("name", "shape"), [("sample_aspect_ratio", 2.0), ("rotated_90", 64 / 96), ("tall", 64 / 96), ("mp4", 1.5)]
)
def test_tiles_have_the_shape_that_is_shown(name: str, shape: float, tmp_path: Path) -> None:
    output = tmp_path / "sheet.png"
    assert main(["sheet", str(media.make(name, tmp_path)), "-o", str(output), "--frames", "1", "--width", "300"]) == 0
    grid = choose_grid(1, (300, round(300 / shape)), 1)
    with Image.open(output) as image:
        assert image.width == grid.width
        (left, top), *_ = tile_corners(image, grid)
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
        assert len(np.unique(pixels(image).reshape(-1, 3), axis=0)) > 50


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-o", "sheet.gif"], "must end in one of .png"),
        (["-o", "sheet"], "must end in one of .png"),
        (["-o", "missing/sheet.png"], "folder of the sheet does not exist"),
        (["-o", "sheet.png", "--start", "1", "--stop", "0.5"], "must be before"),
        (["-o", "sheet.png", "--start", "100"], "Nothing is shown"),
        (["-o", "sheet.png", "--stop", "-1"], "Nothing is shown"),
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
    assert "would replace the video itself" in capsys.readouterr().err
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
    assert main(["sheet", str(clip), str(other), "-o", "one.png"]) == 2
    assert "2 files need a folder" in capsys.readouterr().err


def test_a_sheet_on_standard_output(
    clip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert main(["sheet", str(clip), "-o", str(tmp_path / "sheet.png"), "--frames", "2"]) == 0
    capfdbinary.readouterr()
    assert main(["sheet", str(clip), "-o", "-", "--frames", "2"]) == 0
    assert capfdbinary.readouterr().out == (tmp_path / "sheet.png").read_bytes()


def test_fewer_frames_than_asked_for_are_told(clip: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sheet", str(clip), "-o", str(tmp_path / "sheet.png"), "--frames", "50"]) == 0
    assert "40 frames (not 50: the others would be the same ones again)" in capsys.readouterr().out
    assert main(["sheet", str(clip), "-o", str(tmp_path / "sheet.png"), "--frames", "40"]) == 0
    assert "(not" not in capsys.readouterr().out
