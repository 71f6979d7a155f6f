"""A call that spans several GOPs is decoded by several codecs in parallel, with identical frames."""

from __future__ import annotations

import io
import random
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import media
import mediatensor
from exactness import Truth, assert_all_same
from mediatensor._engine.common import threads
from mediatensor._engine.common.threads import Division, divide_threads, run_in_parallel
from mediatensor._engine.pyav.demuxer import Demuxer
from mediatensor.decoders import VideoDecoder
from mediatensor.errors import OpenError, ReadError, SizeChangeError

HD = 1920 * 1080
SMALL = 96 * 64


# Division of the threads of a call


@pytest.mark.parametrize(
    ("pictures", "pixels", "threads", "expected"),
    [
        # One thread is one thread.
        ([100, 100], HD, (1, None, 1), (1, 1)),
        ([100], HD, (1, 1, 1), (1, 1)),
        # One run cannot be split. The codec uses threads if there is enough to do.
        ([200], HD, (2, None, 1), (1, 2)),
        ([200], HD, (8, None, 1), (1, 8)),
        ([200], HD, (4, 1, 1), (1, 4)),
        # Opening the codec again would cost more than there is to do.
        ([3], HD // 4, (2, 1, 1), (1, 1)),
        ([3], HD, (2, 2, 1), (1, 2)),
        ([200], SMALL, (4, 1, 1), (1, 1)),
        # Handing small pictures to the codec's threads takes longer than decoding them.
        ([200], 320 * 180, (4, None, 1), (1, 1)),
        ([200], 960 * 540, (4, None, 1), (1, 4)),
        # Several runs are each long, so each gets a codec.
        ([100, 100], HD, (2, None, 1), (2, 1)),
        ([100, 100, 100], HD, (3, None, 1), (3, 1)),
        ([60] * 10, HD, (4, None, 1), (4, 1)),
        # More threads than runs.
        ([100, 100], HD, (2, 2, 1), (2, 1)),
        # Opening workers pays only if there is enough to do; open workers cost nothing.
        ([2, 2], HD, (2, 1, 1), (1, 1)),
        ([2, 2], HD, (2, 1, 2), (2, 1)),
        ([30, 30], SMALL, (4, 1, 1), (1, 1)),
        # One run is most of the work: splitting would leave the other threads idle.
        ([200, 2], HD, (4, None, 1), (1, 4)),
        # Open workers and a codec with one thread are compared with opening a codec with several threads.
        ([50, 50, 50, 50], HD, (4, 1, 4), (4, 1)),
    ],
)
def test_division_of_threads(
    pictures: list[int], pixels: int, threads: tuple[int, int | None, int], expected: tuple[int, int]
) -> None:
    options = dict(zip(("num_threads", "num_codec_threads", "num_open_workers"), threads, strict=True))
    assert divide_threads(pictures, pixels, **options) == Division(*expected)


@given(
    pictures=st.lists(st.integers(1, 1000), min_size=1, max_size=20),
    pixels=st.integers(0, 1 << 28),
    options=st.fixed_dictionaries(
        {
            "num_threads": st.integers(1, 64),
            "num_codec_threads": st.none() | st.integers(1, 64),
            "num_open_workers": st.integers(1, 64),
            "codec_has_threads": st.booleans(),
        }
    ),
)
def test_a_division_stays_within_the_budget(pictures: list[int], pixels: int, options: dict[str, Any]) -> None:
    division = divide_threads(pictures, pixels, **options)
    assert options["codec_has_threads"] or division.num_codec_threads == 1
    assert 1 <= division.num_workers <= min(options["num_threads"], len(pictures))
    assert division.num_codec_threads >= 1
    assert division.num_workers * division.num_codec_threads <= options["num_threads"]


# Parts side by side


@given(num_workers=st.integers(1, 6), num_parts=st.integers(0, 40))
def test_each_part_runs_once_and_no_thread_remains(num_workers: int, num_parts: int) -> None:
    done: list[tuple[int, int]] = []
    before = threading.active_count()
    run_in_parallel(range(num_workers), range(num_parts), lambda worker, part: done.append((worker, part)))
    assert sorted(part for _, part in done) == list(range(num_parts))
    assert {worker for worker, _ in done} <= set(range(num_workers))
    assert threading.active_count() == before


def test_workers_run_at_the_same_time_and_the_first_in_the_calling_thread() -> None:
    meeting = threading.Barrier(3, timeout=20)
    thread_of: dict[int, int] = {}

    def work(worker: int, part: int) -> None:
        thread_of[worker] = threading.get_ident()
        meeting.wait()

    run_in_parallel(range(3), range(3), work)
    assert len(set(thread_of.values())) == 3
    assert thread_of[0] == threading.get_ident()


def test_parts_start_in_order() -> None:
    begun: list[int] = []
    run_in_parallel([0], range(10), lambda worker, part: begun.append(part))
    assert begun == list(range(10))


@pytest.mark.parametrize("late_ones", ["finish", "fail"])
@pytest.mark.parametrize("failing", [0, 1, 2])
def test_the_first_error_comes_after_all_workers_have_stopped(failing: int, late_ones: str) -> None:
    meeting = threading.Barrier(3, timeout=20)
    failed = threading.Event()
    begun: list[int] = []
    stopped: list[int] = []

    def work(worker: int, part: int) -> None:
        begun.append(part)
        if len(begun) > 3:
            return
        meeting.wait()
        if worker == failing:
            failed.set()
            raise ReadError("the first")
        failed.wait(20)
        time.sleep(0.05)
        stopped.append(worker)
        if late_ones == "fail":
            raise ReadError("a later one")

    before = threading.active_count()
    with pytest.raises(ReadError, match="the first"):
        run_in_parallel(range(3), range(30), work)
    assert sorted(stopped) == sorted({0, 1, 2} - {failing})
    assert sorted(begun) == [0, 1, 2], "nothing is begun after an error"
    assert threading.active_count() == before


def test_an_interrupt_is_passed_on() -> None:
    def work(worker: int, part: int) -> None:
        if part == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_in_parallel(range(2), range(8), work)


# Frames by several workers


@pytest.fixture(params=[2, 3])
def num_threads(request: pytest.FixtureRequest, own_limits: None) -> int:
    mediatensor.set_num_threads(request.param)
    return request.param


@pytest.fixture
def costly_splits(monkeypatch: pytest.MonkeyPatch, own_limits: None) -> list[int]:
    """Record the number of workers of each split call."""
    numbers: list[int] = []
    original = run_in_parallel

    def recording(workers: Sequence[Any], parts: Sequence[Any], work: Callable[[Any, Any], None]) -> None:
        numbers.append(len(workers))
        original(workers, parts, work)

    monkeypatch.setattr(threads, "run_in_parallel", recording)
    return numbers


@pytest.fixture
def splits(monkeypatch: pytest.MonkeyPatch, costly_splits: list[int]) -> list[int]:
    """Set the opening costs to zero, so that small clips are split as well."""
    monkeypatch.setattr(threads, "_OPENING", 0.0)
    monkeypatch.setattr(threads, "_LOCKED", 0.0)
    return costly_splits


def spread(truth: Truth) -> list[int]:
    """Return frames of the whole file, out of order, some twice."""
    source = random.Random(truth.path.name)
    chosen = source.sample(range(len(truth)), min(len(truth), 14))
    return [*chosen, *chosen[:3], 0, len(truth) - 1]


# Of GOPs of 12 pictures: two from each of three, so far from their ends that it does not pay to decode on.
THREE_GOPS = [27, 3, 19, 31, 7, 15, 3]


def some_negative(indices: list[int], length: int) -> list[int]:
    return [i - length if number % 3 == 0 else i for number, i in enumerate(indices)]


SOUND = [
    "h264_b_pyramid", "h264_open_gop", "h264_10bit", "h264_mbaff", "h264_field_pairs_ts", "h264_long_term",
    "hevc_open_gop_mkv", "hevc_temporal_layers", "vp8_hidden_frames", "vp9_hidden_frames", "vp9", "av1",
    "av1_hierarchical", "mpeg4_mp4", "mpeg4_packed_b_frames", "mpeg2_ts", "ffv1_gop", "raw_h264", "vfr_mp4",
    "edit_list_two_parts", "ts_concatenated", "png_palette", "theora",
]  # fmt: skip


@pytest.mark.parametrize("name", SOUND)
def test_frames_match_linear_decode(
    name: str, num_threads: int, truth_of: Callable[[str], Truth], splits: list[int]
) -> None:
    truth = truth_of(name)
    wanted = spread(truth)
    mediatensor.set_frame_cache_bytes(0)
    with truth.open(num_ffmpeg_threads=None) as decoder:
        for _ in range(2):
            batch = decoder.get_frames_at(some_negative(wanted, len(truth)))
            assert_all_same(truth, wanted, batch.data, batch.pts_seconds)
            everything = decoder.get_all_frames()
            assert_all_same(truth, range(len(truth)), everything.data, everything.pts_seconds)
            some = decoder[3::5]
            assert_all_same(truth, range(3, len(truth), 5), some)


@pytest.mark.parametrize("name", ["h264_b_pyramid", "hevc_open_gop_mkv", "mpeg4_mp4", "mpeg2_mkv", "theora"])
def test_a_call_over_several_gops_is_split(
    name: str, num_threads: int, truth_of: Callable[[str], Truth], splits: list[int]
) -> None:
    truth, wanted = truth_of(name), THREE_GOPS
    with truth.open(num_ffmpeg_threads=None) as decoder:
        batch = decoder.get_frames_at(some_negative(wanted, len(truth)))
        assert_all_same(truth, wanted, batch.data, batch.pts_seconds)
        assert splits == [num_threads]
        # Cached frames need no decoding, and the next request continues from the position of the decoder.
        again = decoder.get_frames_at(wanted[::-1])
        assert_all_same(truth, wanted[::-1], again.data, again.pts_seconds)
        assert splits == [num_threads]
        for index in (0, len(truth) // 2, len(truth) - 1):
            assert_all_same(truth, [index], decoder[index][None])


@pytest.mark.slow
def test_long_clip_is_split_by_default(tmp_path: Path, costly_splits: list[int]) -> None:
    spec = media.ClipSpec(
        "",
        options={"g": "10", "bf": "0", "sc_threshold": "0", "preset": "ultrafast"},
        size=(1920, 1080),
        num_frames=60,
        paint=lambda number, width, height: np.full((height, width, 3), number * 4, np.uint8),
    )
    media.write_clip(spec, tmp_path / "clip.mp4")
    mediatensor.set_num_threads(2)
    wanted = [57, 7, 17, 37, 27, 47]
    with VideoDecoder(tmp_path / "clip.mp4") as decoder:
        data = decoder.get_frames_at(wanted).data
    with VideoDecoder(tmp_path / "clip.mp4", num_ffmpeg_threads=1) as decoder:
        assert torch.equal(data, decoder.get_frames_at(wanted).data)
    assert costly_splits == [2]


@pytest.mark.parametrize("how", ["one thread", "a number of codec threads"])
def test_one_thread_gets_no_workers(how: str, clip: Path, splits: list[int]) -> None:
    mediatensor.set_num_threads(1 if how == "one thread" else 4)
    with VideoDecoder(clip, num_ffmpeg_threads=None if how == "one thread" else 3) as decoder:
        decoder.get_frames_at([1, 20, 35])
    assert splits == []


@pytest.mark.parametrize("name", sorted(media.DAMAGED_CLIPS)[::4])
def test_damage_met_by_a_worker_replaces_index(name: str, truth_of: Callable[[str], Truth], splits: list[int]) -> None:
    """A first call need not meet the damage; its result then equals the result with one thread."""
    truth = truth_of(name)
    wanted = [i for i in spread(truth) if i < len(truth) - 3]
    with truth.open() as decoder:
        expected = decoder.get_frames_at(wanted)
    mediatensor.set_num_threads(3)
    with truth.open(num_ffmpeg_threads=None) as decoder:
        batch = decoder.get_frames_at(wanted)
        assert torch.equal(batch.pts_seconds, expected.pts_seconds)
        same = [i for i in range(len(wanted)) if wanted[i] not in truth.undetermined]
        assert torch.equal(batch.data[same], expected.data[same])
        assert_all_same(truth, range(len(truth)), decoder[:])
        assert_all_same(truth, wanted, decoder.get_frames_at(wanted).data)


@pytest.mark.parametrize("on_error", ["skip", "nearest"])
@pytest.mark.parametrize("name", ["damaged_packet_mpeg4_mp4", "damaged_packet_mpeg2_ts", "lost_key_frame_mkv"])
def test_error_policy_matches_single_thread(name: str, on_error: str, folder: Path, splits: list[int]) -> None:
    path = media.make(name, folder)
    with VideoDecoder(path, on_error=on_error, num_ffmpeg_threads=1) as decoder:
        expected = decoder.get_all_frames()
    mediatensor.set_num_threads(3)
    with VideoDecoder(path, on_error=on_error) as decoder:
        for _ in range(2):
            batch = decoder.get_all_frames()
            assert torch.equal(batch.data, expected.data)
            assert torch.equal(batch.pts_seconds, expected.pts_seconds)
            assert batch.replaced == expected.replaced


@pytest.mark.parametrize(
    "wrap",
    [lambda path: path.read_bytes(), lambda path: io.BytesIO(path.read_bytes()), lambda path: path.open("rb")],
    ids=["bytes", "memory", "file object"],
)
def test_sources_other_than_paths_are_split(
    wrap: Callable[[Path], Any], num_threads: int, truth_of: Callable[[str], Truth], splits: list[int]
) -> None:
    truth, wanted = truth_of("h264_b_pyramid"), THREE_GOPS
    source = wrap(truth.path)
    with VideoDecoder(source, dimension_order="NHWC") as decoder:
        batch = decoder.get_frames_at(wanted)
        assert_all_same(truth, wanted, batch.data, batch.pts_seconds)
        assert_all_same(truth, range(len(truth)), decoder[:])
    assert splits[0] == num_threads
    if hasattr(source, "close"):
        source.close()


@pytest.mark.parametrize("num_openings", [1, 2])
def test_decoding_works_if_workers_cannot_open(
    num_openings: int, truth_of: Callable[[str], Truth], splits: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    truth, wanted = truth_of("h264_b_pyramid"), THREE_GOPS
    mediatensor.set_num_threads(3)
    with truth.open(num_ffmpeg_threads=None) as decoder:
        len(decoder)
        left = [num_openings - 1]
        original = Demuxer.open

        def failing(demuxer: Demuxer) -> None:
            if not left[0]:
                raise OpenError("too many open files")
            left[0] -= 1
            original(demuxer)

        monkeypatch.setattr(Demuxer, "open", failing)
        batch = decoder.get_frames_at(wanted)
        assert_all_same(truth, wanted, batch.data, batch.pts_seconds)
    assert splits == ([2] if num_openings == 2 else [])


def test_transforms_and_float_run_in_every_worker(truth_of: Callable[[str], Truth], splits: list[int]) -> None:
    path, options = truth_of("h264_b_pyramid").path, {"output_dtype": torch.float32}
    crop = mediatensor.transforms.CenterCrop((32, 40))
    resize = mediatensor.transforms.Resize((50, 60))
    with VideoDecoder(path, num_ffmpeg_threads=1, transforms=[resize, crop], **options) as decoder:
        expected = decoder.get_all_frames().data
    mediatensor.set_num_threads(3)
    with VideoDecoder(path, transforms=[resize, crop], **options) as decoder:
        assert torch.equal(decoder.get_frames_at(THREE_GOPS).data, expected[THREE_GOPS])
        assert torch.equal(decoder.get_all_frames().data, expected)
    assert splits == [3, 3]


@pytest.mark.parametrize("name", ["size_change_mkv", "size_change_ts", "size_change_vp9"])
@pytest.mark.parametrize("step", [1, 5])
def test_size_change_error_matches_single_thread(name: str, step: int, folder: Path, splits: list[int]) -> None:
    path = media.make(name, folder)
    messages = []
    for number in (1, 3):
        mediatensor.set_num_threads(number)
        with VideoDecoder(path) as decoder:
            for _ in range(2):
                with pytest.raises(SizeChangeError) as caught:
                    decoder[::step]
                messages.append(str(caught.value))
                decoder[-1]  # which is then kept
    assert len(set(messages)) == 1
