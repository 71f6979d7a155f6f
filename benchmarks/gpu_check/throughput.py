"""Decoding figures: the load of the engines, and the break-even point of decoding on the GPU."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import av
import torch
from av.codec.hwaccel import HWAccel

from ..media.clips import Encoded, make_clips
from .bench import CPU, HYBRID, NVDEC, WAYS, Bench, compare
from .machine import EngineLoad, sampled_load
from .records import NOT_RUN, Check, Figure, Found, NotRun, Step, Target, in_a_line
from .scenarios import clip_names, published_clips

THROUGHPUT_TABLE = "Every frame in order, several decoders in threads"
CROSSOVER_TABLE = "Open and get the first frames: hybrid against NVDEC"
_FLOOR = "NVDEC alone"
_FRAMES_AT_A_TIME = 32
#: Share of the engines' maximum rate that full decoding must reach.
_SHARE = 0.9

# Decodes a file until its end or until the event is set, and returns the number of frames.
_Decode = Callable[[threading.Event], int]


def throughput_steps(bench: Bench) -> list[Step]:
    """Return a step for each clip."""
    return [Step(f"full decoding: {name}", partial(_measure_clip, bench, name)) for name in clip_names(bench)]


def crossover_steps(bench: Bench) -> list[Step]:
    """Return a step for each frame size."""
    return [Step(f"crossover: {w}x{h}", partial(_measure_crossover, bench, (w, h))) for w, h in bench.effort.sizes]


def _measure_clip(bench: Bench, name: str) -> Iterator[Found]:
    path = published_clips(bench)[name]
    rates: dict[tuple[str, int], float] = {}
    loads: dict[tuple[str, int], EngineLoad] = {}
    for way in (*WAYS, _FLOOR):
        decode = partial(_nvdec_alone, bench, path) if way == _FLOOR else partial(_decode_all, bench, path, way)
        off_by: float | None = None
        for num_decoders in bench.effort.num_decoders:
            row = {"clip": name, "way": way, "decoders": num_decoders}
            try:
                if num_decoders == bench.effort.num_decoders[0]:
                    _in_threads(decode, 1, bench.effort.seconds / 4)  # a warm-up
                    off_by = None if way == _FLOOR else _off_by(bench, path, way)
                with sampled_load(bench.device, bench.effort.seconds) as load:
                    num_frames, seconds = _in_threads(decode, num_decoders, bench.effort.seconds)
            except Exception as error:  # the others are measured all the same
                reason = str(error) if isinstance(error, NotRun) else in_a_line(error)
                cells = {"frames/s": None, "off by up to": None, **_load_cells(EngineLoad())}
                yield Figure(THROUGHPUT_TABLE, {**row, **cells, "note": f"{NOT_RUN}: {reason}"})
                if not isinstance(error, NotRun) and way != _FLOOR:
                    yield Check.of(f"full decoding of {name}: {way} x {num_decoders}", False, "", reason)
                continue
            rates[way, num_decoders], loads[way, num_decoders] = num_frames / seconds, load
            cells = {"frames/s": num_frames / seconds, "off by up to": off_by, **_load_cells(load)}
            yield Figure(THROUGHPUT_TABLE, {**row, **cells, "note": load.reason})
    yield _target(name, rates, loads)
    yield _check_engines(bench, name, loads)


def _check_engines(bench: Bench, name: str, loads: dict[tuple[str, int], EngineLoad]) -> Check:
    """Check independently of this library that NVDEC decodes."""
    question = f"the engines are busy while NVDEC decodes: {name}"
    bench.require_cuda()
    seen = [load for (way, _), load in loads.items() if way == NVDEC]
    if not any(load.dec for load in seen):
        return Check(question, NOT_RUN, reason=seen[0].reason if seen else "NVDEC did not run")
    busy = max(max(load.dec, default=0) for load in seen)
    return Check.of(question, busy > 0, f"up to {busy:.0f} %", "they are idle")


def _off_by(bench: Bench, path: Path, way: str) -> float:
    """Return the largest difference of three frames of a file from the CPU path, in levels of 256."""
    with bench.open(path, way) as decoder, bench.open(path, CPU) as reference:
        some = sorted({0, len(decoder) // 2, len(decoder) - 1})
        return compare(decoder.get_frames_at(some).data, reference.get_frames_at(some).data).largest


def _load_cells(load: EngineLoad) -> dict[str, float | None]:
    return {"decoding engines busy %": load.busy("dec"), "processors busy %": load.busy("sm")}


def _decode_all(bench: Bench, path: Path, way: str, stop: threading.Event) -> int:
    options = {"strict_device": True} if way == NVDEC else {}
    count = 0
    with bench.open(path, way, **options) as decoder:
        for start in range(0, len(decoder), _FRAMES_AT_A_TIME):
            if stop.is_set():
                break
            count += len(decoder.get_frames_in_range(start, min(start + _FRAMES_AT_A_TIME, len(decoder))))
    return count


def _nvdec_alone(bench: Bench, path: Path, stop: threading.Event) -> int:
    """Send all packets through FFmpeg's NVDEC decoder and nothing else: the engines' limit with this demuxer."""
    bench.require_cuda()
    count = 0
    with torch.cuda.device(bench.device), av.open(str(path)) as container:
        torch.zeros(1, device=bench.device)  # makes a context current in this thread
        stream = container.streams.video[0]
        options: dict[str, object] = {"primary_ctx": "0", "current_ctx": "1"}
        accelerated = HWAccel(
            "cuda", str(bench.device.index or 0), allow_software_fallback=False, options=options, is_hw_owned=True
        )
        context: Any = av.CodecContext.create(stream.codec_context.codec.canonical_name, "r", hwaccel=accelerated)
        context.extradata = stream.codec_context.extradata
        context.thread_count = 1
        for packet in container.demux(stream):
            if stop.is_set():
                break
            frames = context.decode(packet if packet.size else None)
            if any(frame.format.name != "cuda" for frame in frames):
                raise NotRun("FFmpeg decodes this stream in software")
            count += len(frames)
    return count


def _in_threads(decode: _Decode, num_threads: int, seconds: float) -> tuple[int, float]:
    """Decode the file repeatedly in each thread; return the frames and seconds."""
    stop = threading.Event()

    def repeat(_: int) -> int:
        count = 0
        while not stop.is_set():
            count += decode(stop)
        return count

    begin = time.perf_counter()
    with ThreadPoolExecutor(num_threads) as pool:
        running = [pool.submit(repeat, number) for number in range(num_threads)]
        stop.wait(seconds)
        stop.set()
        total = sum(one.result() for one in running)
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return total, time.perf_counter() - begin


def _target(
    name: str, rates: dict[tuple[str, int], float], loads: dict[tuple[str, int], EngineLoad]
) -> Target:  # fmt: skip
    aim = f"full decoding within {round(100 * (1 - _SHARE))} % of the engines' own throughput: {name}"
    ours = {count: rate for (way, count), rate in rates.items() if way == NVDEC}
    floors = {count: rate for (way, count), rate in rates.items() if way == _FLOOR}
    if not ours or not floors:
        return Target(aim, None, "NVDEC did not run")
    best, floor = max(ours, key=ours.__getitem__), max(floors.values())
    busy = loads[NVDEC, best].busy("dec")
    share = ours[best] / floor
    words = f"{ours[best]:.0f} frames/s with {best} decoders, {100 * share:.0f} % of {floor:.0f} with bare NVDEC"
    words += "" if busy is None else f"; engines busy {busy:.0f} %"
    return Target(aim, share >= _SHARE or (busy or 0) >= 100 * _SHARE, words)


def _measure_crossover(bench: Bench, size: tuple[int, int]) -> Iterator[Found]:
    counts = bench.effort.counts
    rate = Fraction(30)
    clip = Encoded(
        f"{size[0]}x{size[1]}", ("testsrc2=s={w}x{h}:r={r},noise=alls=6:allf=t",), size, rate,
        max(counts) / 30, options=(("preset", "veryfast"), ("g", "30")),
    )  # fmt: skip
    (path,) = make_clips([clip], bench.folder).values()
    off_by: dict[str, float] = {}
    for count in counts:
        row: dict[str, Any] = {"size": clip.name, "frames": count}
        for way in WAYS:
            try:
                row[f"{way} ms"] = _open_and_get(bench, path, way, count) * 1e3
                if way != CPU and way not in off_by:
                    off_by[way] = _off_by(bench, path, way)
            except NotRun:
                row[f"{way} ms"] = None
            except Exception as error:  # the others are measured all the same
                row[f"{way} ms"] = None
                yield Check.of(f"{clip.name}, {count} frames, {way}", False, "", in_a_line(error))
        both = row[f"{HYBRID} ms"], row[f"{NVDEC} ms"]
        row |= {f"{way} off by up to": off_by.get(way) for way in (HYBRID, NVDEC)}
        row["faster"] = NOT_RUN if None in both else (NVDEC if both[1] < both[0] else HYBRID)
        yield Figure(CROSSOVER_TABLE, row)


def _open_and_get(bench: Bench, path: Path, way: str, count: int) -> float:
    walls = []
    for _ in range(bench.effort.repeats + 2):
        begin = time.perf_counter()
        with bench.open(path, way) as decoder:
            frames = decoder.get_frames_in_range(0, count).data
            bench.synchronize()
        walls.append(time.perf_counter() - begin)
        del frames
    return statistics.median(walls[2:])


def crossover_rule(rows: list[dict[str, Any]]) -> list[str]:
    """Summarise the table in a sentence for each size; return none if NVDEC did not run.

    Example:
        >>> row = {"size": "640x360", "frames": 16, "faster": "nvdec"}
        >>> crossover_rule([{**row, "frames": 4, "faster": "hybrid"}, row])
        ['640x360: NVDEC from 16 frames on']
    """
    sentences = []
    for size in dict.fromkeys(row["size"] for row in rows):
        ordered = sorted((row for row in rows if row["size"] == size), key=lambda row: int(row["frames"]))
        if any(row["faster"] == NOT_RUN for row in ordered):
            continue
        wins = [row["faster"] == NVDEC for row in ordered]
        first = next((i for i in range(len(wins)) if all(wins[i:])), None)
        if first is None:
            sentences.append(f"{size}: hybrid up to {ordered[-1]['frames']} frames at least")
        else:
            sentences.append(f"{size}: NVDEC from {ordered[first]['frames']} frames on")
    return sentences
