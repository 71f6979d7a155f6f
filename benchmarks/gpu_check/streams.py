"""Are frames right on side streams, while other streams are busy, and do loaders copy ahead?"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor

from mediatensor.datasets import ToDevice

from .bench import HYBRID, NVDEC, Bench, compare
from .life import plain_clip
from .records import Check, Figure, Found, Step

# About a fifth of a second on a GPU of 2 GHz.
_BUSY_CYCLES = 400_000_000


def stream_steps(bench: Bench) -> list[Step]:
    """Return the steps about the order of work on the device."""
    steps = [Step(f"side stream, {way}", partial(_check_side_stream, bench, way)) for way in (HYBRID, NVDEC)]
    return [
        *steps,
        Step("two side streams", partial(_check_two_streams, bench)),
        Step("many frames held", partial(_check_held, bench)),
        Step("ToDevice", partial(_check_prefetch, bench)),
    ]


def _linear(bench: Bench, way: str) -> Tensor:
    with bench.open(plain_clip(bench), way) as decoder:
        frames = decoder.get_all_frames().data
    bench.synchronize()
    return frames


def _keep_busy(stream: Any) -> None:
    with torch.cuda.stream(stream):
        torch.cuda._sleep(_BUSY_CYCLES)  # type: ignore[no-untyped-call]


def _check_side_stream(bench: Bench, way: str) -> Iterator[Found]:
    """Decode on one stream while another is busy, and use the frames on the first one without waiting."""
    bench.require_cuda()
    expected = _linear(bench, way)
    default = torch.cuda.default_stream(bench.device)
    side = torch.cuda.Stream(bench.device)  # type: ignore[no-untyped-call]
    for busy, working, what in ((default, side, "default"), (side, default, "side")):
        wrong = 0
        begin = time.perf_counter()
        with bench.open(plain_clip(bench), way) as decoder:
            for start in range(0, len(expected), 8):
                _keep_busy(busy)
                with torch.cuda.stream(working):
                    batch = decoder.get_frames_in_range(start, min(start + 8, len(expected))).data
                    wrong += int((batch != expected[start : start + 8]).any())
        bench.synchronize()
        name = f"{way}: decoding on the {'side' if what == 'default' else 'default'} stream, {what} stream busy"
        figure = f"{wrong} wrong batches"
        yield Figure("Streams", {"what": name, "seconds": time.perf_counter() - begin, "wrong batches": wrong})
        yield Check.of(name, wrong == 0, figure, "frames were read too early, or their memory was used again")


def _check_two_streams(bench: Bench) -> Iterator[Found]:
    """Alternate decoders on two streams: memory of a frame may only be reused after its stream has read it."""
    bench.require_cuda()
    expected = _linear(bench, NVDEC)
    streams: list[Any] = [torch.cuda.Stream(bench.device) for _ in range(2)]  # type: ignore[no-untyped-call]
    decoders = [bench.open(plain_clip(bench), NVDEC) for _ in streams]
    batches: list[list[Tensor]] = [[], []]
    for start in range(0, len(expected), 4):
        for stream, decoder, kept in zip(streams, decoders, batches, strict=True):
            _keep_busy(stream) if start % 8 == 0 else None
            with torch.cuda.stream(stream):
                kept.append(decoder.get_frames_in_range(start, min(start + 4, len(expected))).data)
    bench.synchronize()
    for decoder in decoders:
        decoder.close()
    differences = [compare(torch.cat(kept), expected) for kept in batches]
    is_right = all(difference.largest == 0 for difference in differences)
    yield Check.of("two side streams in turn", is_right, "; ".join(map(str, differences)), "other frames")


def _check_held(bench: Bench) -> Iterator[Found]:
    """Keep more single frames than NVDEC has surfaces."""
    way = NVDEC if bench.has_cuda else HYBRID
    expected = _linear(bench, way)
    with bench.open(plain_clip(bench), way) as decoder:
        held = [decoder.get_frame_at(i % len(expected)).data for i in range(max(100, 2 * len(expected)))]
    wanted = [expected[i % len(expected)] for i in range(len(held))]
    difference = compare(held, wanted)
    yield Check.of(f"{len(held)} frames held, {way}", difference.largest == 0, str(difference), "frames changed")


def _check_prefetch(bench: Bench) -> Iterator[Found]:
    """Check that the copy of a batch overlaps with the computation on the previous one."""
    bench.require_cuda()
    batches = [torch.full((48, 1024, 1024), number, dtype=torch.uint8).pin_memory() for number in range(10)]
    weights = torch.randn(4096, 4096, device=bench.device)

    def work(batch: Tensor) -> Tensor:
        result = weights
        for _ in range(6):
            result = result @ weights * 1e-2
        return result.sum() * 0 + batch.float().mean()

    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    work(batches[0].to(bench.device))
    with torch.profiler.profile(activities=activities) as profile:
        results = [work(batch) for batch in ToDevice(batches, bench.device)]
        bench.synchronize()
    values = [float(result) for result in results]
    yield Check.of("ToDevice: batches", values == [float(n) for n in range(10)], f"{len(values)} batches", "wrong ones")
    spans = [
        (event.name, event.time_range.start, event.time_range.end)
        for event in profile.events() or ()
        if str(event.device_type).endswith("CUDA")
    ]
    share = share_overlapped(spans)
    figure = f"{100 * share:.0f} % of the copying time overlaps with kernels"
    yield Check.of("ToDevice: copies overlap with the computation", share > 0.3, figure, "they do not")


def share_overlapped(spans: list[tuple[str, float, float]]) -> float:
    """Return the share of the copying time to the device that overlaps with kernels; 0 without copies.

    Args:
        spans: (name, begin, end) of everything that ran on the device.

    Example:
        >>> share_overlapped([("Memcpy HtoD (Pinned -> Device)", 0, 10), ("gemm", 5, 20)])
        0.5
    """
    copies = [(begin, end) for name, begin, end in spans if "HtoD" in name]
    kernels = sorted((begin, end) for name, begin, end in spans if "Memcpy" not in name and "Memset" not in name)
    merged: list[list[float]] = []
    for begin, end in kernels:
        if merged and begin <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], end)
        else:
            merged.append([begin, end])
    both = sum(max(0, min(end, last) - max(begin, first)) for begin, end in copies for first, last in merged)
    total = sum(end - begin for begin, end in copies)
    return both / total if total else 0.0
