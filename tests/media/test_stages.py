"""`stages` and `collect_stages`: the stage that a second belongs to, and the cost without a collector."""

from __future__ import annotations

import cProfile
import os
import threading
import time
from pathlib import Path

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

from mediatensor import set_frame_cache_bytes
from mediatensor._engine.common import stages
from mediatensor._engine.common.stages import STAGES, collect_stages, trace_range
from mediatensor.decoders import AudioDecoder, VideoDecoder, decode_image
from mediatensor.encoders import AudioEncoder, PngEncoder


class Clock:
    """A clock that moves only when it is set."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    fake = Clock()
    monkeypatch.setattr(time, "perf_counter", fake)
    return fake


def test_an_inner_stage_interrupts_the_outer_one(clock: Clock) -> None:
    with collect_stages() as seconds:
        clock.advance(100)  # at no stage
        with stages.DECODE:
            clock.advance(1)
            with stages.CONVERT:
                clock.advance(2)
            clock.advance(4)
            with stages.DECODE:
                clock.advance(8)
            clock.advance(16)
        clock.advance(100)
    assert seconds == {"decode": 29, "convert": 2}


def fail_after_a_second(clock: Clock) -> None:
    clock.advance(1)
    raise ValueError("broken")


def test_a_stage_ends_with_an_exception(clock: Clock) -> None:
    with collect_stages() as seconds:
        with pytest.raises(ValueError, match="broken"), stages.OPEN, stages.INDEX:
            fail_after_a_second(clock)
        clock.advance(10)
    assert seconds == {"open": 0, "index": 1}


def test_outer_collector_gets_same_seconds_once(clock: Clock) -> None:
    with collect_stages() as outer, stages.TRANSFORM:
        clock.advance(1)
        with collect_stages() as inner:
            clock.advance(2)  # still at the outer stage
            with stages.DECODE:
                clock.advance(4)
        clock.advance(8)
        with stages.DECODE:
            clock.advance(16)
    assert inner == {"transform": 2, "decode": 4}
    assert outer == {"transform": 11, "decode": 20}


def test_failed_collector_leaves_nothing(clock: Clock) -> None:
    with pytest.raises(ValueError, match="broken"), collect_stages() as seconds, stages.OPEN:
        fail_after_a_second(clock)
    assert seconds == {"open": 1}
    with stages.OPEN:  # collection has ended
        clock.advance(1)
    assert seconds == {"open": 1}


def test_other_threads_have_their_own_stages(clock: Clock) -> None:
    found: dict[str, float] = {}

    def work() -> None:
        with stages.CONVERT:  # this thread does not collect
            clock.advance(1)
        with collect_stages() as seconds, stages.COPY:
            clock.advance(2)
        found.update(seconds)

    with collect_stages() as here, stages.DECODE:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert found == {"copy": 2}
    assert here == {"decode": 3}  # the calling thread was waiting


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_forked_child_does_not_continue_stages_of_parent() -> None:
    with collect_stages(), stages.COPY:
        child = os.fork()
        if child == 0:
            with collect_stages() as seconds, stages.DECODE:
                pass
            os._exit(0 if set(seconds) == {"decode"} else 1)
        _, status = os.waitpid(child, 0)
    assert status == 0


def test_stage_without_collector_reads_no_clock() -> None:
    with stages.DECODE:  # finds the profiler of torch, once
        pass
    profiler = cProfile.Profile()
    profiler.enable()
    with stages.DECODE:
        pass
    profiler.disable()
    called = {row.code.co_name for row in profiler.getstats() if not isinstance(row.code, str)}
    assert called == {"__enter__", "__exit__"}
    assert sum(row.callcount for row in profiler.getstats()) <= 3  # these two, and the profiler's own end


def test_reading_a_video_is_accounted_for(clip: Path, own_limits: None) -> None:
    set_frame_cache_bytes(0)
    begin = time.perf_counter()
    with collect_stages() as seconds, VideoDecoder(clip) as decoder:
        for _ in range(20):
            decoder.get_frames_at([35, 11])  # each the last of twelve that are decoded
    total = time.perf_counter() - begin
    assert set(seconds) == {"open", "index", "seek", "decode", "convert"}
    assert all(spent > 0 for spent in seconds.values())
    assert 0.5 * total < sum(seconds.values()) <= total
    assert seconds["decode"] == max(seconds.values())


def test_reading_approximately_needs_no_index(clip: Path) -> None:
    with collect_stages() as seconds, VideoDecoder(clip, seek_mode="approximate") as decoder:
        decoder.get_frames_at([20])
    assert set(seconds) == {"open", "seek", "decode", "convert"}


def test_reading_sound_is_accounted_for(tmp_path: Path) -> None:
    path = tmp_path / "sound.flac"
    AudioEncoder(torch.rand(1, 80_000) - 0.5, sample_rate=16_000).to_file(path)
    with collect_stages() as seconds, AudioDecoder(path) as decoder:
        decoder.get_samples_played_in_range(3.0, 4.0)
    assert set(seconds) == {"open", "seek", "decode"}
    with collect_stages() as seconds, AudioDecoder(path, sample_rate=8000) as decoder:
        decoder.get_samples_played_in_range(3.0, 4.0)
    assert set(seconds) == {"open", "seek", "decode", "convert"}


def test_reading_an_image_is_accounted_for(tmp_path: Path) -> None:
    path = tmp_path / "image.png"
    PngEncoder(torch.zeros(3, 16, 16, dtype=torch.uint8)).to_file(path)
    with collect_stages() as seconds:
        decode_image(path)
    assert set(seconds) == {"open", "decode"}


def own_ranges(profiler: profile) -> set[str]:
    own = "mediatensor::"
    return {event.key.removeprefix(own) for event in profiler.key_averages() if event.key.startswith(own)}


def test_stages_are_ranges_in_a_trace(clip: Path) -> None:
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        with VideoDecoder(clip) as decoder:
            decoder.get_frames_at([3, 20])
        with pytest.raises(ValueError, match="broken"), stages.COPY:
            raise ValueError("broken")
        with trace_range("wait"):
            pass
    assert own_ranges(profiler) == {"open", "index", "seek", "decode", "convert", "copy", "wait"}


def test_a_profiler_may_start_and_stop_within_a_stage() -> None:
    profiler = profile(activities=[ProfilerActivity.CPU])
    with stages.OPEN:
        profiler.start()
        with stages.INDEX:
            pass
        stages.DECODE.__enter__()
        profiler.stop()
        with stages.COPY:
            pass
        stages.DECODE.__exit__()
    assert own_ranges(profiler) == {"index", "decode"}


def test_stages_have_listed_names() -> None:
    assert STAGES == ("open", "index", "seek", "decode", "convert", "transform", "collate", "copy")
