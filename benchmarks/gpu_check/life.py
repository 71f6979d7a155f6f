"""Further checks of the device: refusals and failures, processes and threads, and release of memory."""

from __future__ import annotations

import gc
import multiprocessing
import os
import select
import statistics
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mediatensor.decoders import VideoDecoder, get_nvdec_cache_capacity, set_nvdec_cache_capacity
from mediatensor.errors import DeviceError
from mediatensor.frames import FrameBatch

from .bench import CPU, EFFORTS, HYBRID, MAX_LEVELS, NVDEC, Bench, compare
from .clips import CLIPS, REFUSED, GpuClip, make_clip, open_damaged
from .machine import driver_support
from .pixels import who_decoded
from .records import NOT_RUN, PASS, Check, Figure, Found, Step, contained

_MIB = 2**20
# Allowance for kernels that are loaded late, and for other programs.
_MAX_LEAK_MIB = 64
_PATIENCE_SECONDS = 120


def life_steps(bench: Bench) -> list[Step]:
    """Return all steps that are not only about pixels."""
    steps = [Step(f"refused: {clip.name}", partial(_check_refused, bench, clip)) for clip in REFUSED]
    return [
        *steps,
        Step("default device", partial(_check_default_device, bench)),
        Step("damaged", partial(_check_damaged, bench)),
        Step("threads", partial(_check_threads, bench)),
        Step("spawned worker", partial(_check_spawned, bench)),
        Step("forked child", partial(_check_forked, bench)),
        Step("decoder cache", partial(_check_cache, bench)),
        Step("memory returns", partial(_check_memory, bench)),
    ]


def plain_clip(bench: Bench) -> Path:
    """Return the file of the H.264 clip of the checks."""
    clip = next(clip for clip in CLIPS if clip.name == "h264")
    return make_clip(clip, bench.folder, bench.effort.size, bench.effort.num_frames)


def _check_refused(bench: Bench, clip: GpuClip) -> Iterator[Found]:
    """Check a stream that NVDEC refuses: DeviceError if NVDEC is required, else the right frames and the reason."""
    path = make_clip(clip, bench.folder, bench.effort.size, bench.effort.num_frames)
    with bench.open(path, CPU) as decoder:
        expected = decoder.get_all_frames().data
    with bench.open(path, HYBRID) as decoder:
        difference = compare(decoder.get_all_frames().data, expected)
    yield Check.of(f"{clip.name}, hybrid: frames", difference.largest <= MAX_LEVELS, str(difference), "too far")
    names = [f"{clip.name}: strict_device raises", f"{clip.name}: falls back, with a reason, to the right frames"]
    if not bench.has_cuda:
        yield from (Check(name, NOT_RUN, reason="no CUDA device") for name in names)
        return
    try:
        with bench.open(path, NVDEC, strict_device=True) as decoder:
            decoder.get_all_frames()
        formats = clip.pix_fmt + clip.then
        chroma = next((known for known in ("422", "444") if known in formats), "420")
        support = driver_support(clip.codec, chroma, clip.bits, bench.device)
        if chroma == "420" and support.takes(clip.size or bench.effort.size):
            yield Check(names[0], NOT_RUN, "frames came", "this GPU decodes it")
        else:
            yield Check.of(names[0], False, "frames came", "no DeviceError")
    except DeviceError as error:
        yield Check(names[0], PASS, str(error))
    with bench.open(path, NVDEC) as decoder:
        difference = compare(decoder.get_all_frames().data, expected)
        by, fell_back = who_decoded(decoder), bool(decoder.cpu_fallback)
    if not fell_back and difference.largest <= MAX_LEVELS:
        yield Check(names[1], NOT_RUN, f"{by}; {difference}", "NVDEC decoded it")
    else:
        is_right = fell_back and difference.largest <= MAX_LEVELS
        yield Check.of(names[1], is_right, f"{by}; {difference}", "wrong frames, or not a word")


def _check_default_device(bench: Bench) -> Iterator[Found]:
    """Check that torch's default device is used if none is given."""
    bench.require_cuda()
    before = torch.get_default_device()
    try:
        torch.set_default_device(bench.device)
        with VideoDecoder(str(plain_clip(bench))) as decoder:
            frame = decoder.get_frame_at(3)
            times = decoder.get_frames_at([0, 1]).pts_seconds
    finally:
        torch.set_default_device(before)
    is_right = frame.data.device.type == "cuda" and times.device.type == "cpu" and times.dtype == torch.float64
    yield Check.of("device=None follows torch's default", is_right, f"frames on {frame.data.device}", "elsewhere")


def _check_damaged(bench: Bench) -> Iterator[Found]:
    """Check a file with noise in the middle: unaffected frames are right, and nothing hangs or is missing."""
    data = open_damaged(plain_clip(bench))
    with VideoDecoder(data, device="cpu") as decoder:
        expected = decoder.get_all_frames()
    with bench.open(plain_clip(bench), CPU) as decoder:
        whole = decoder.get_all_frames().data
    for way in (HYBRID, NVDEC):
        name = f"damaged file, {way}: frames"
        yield from contained(name, _check_damaged_way(bench, name, way, data, expected, whole))


def _check_damaged_way(
    bench: Bench, name: str, way: str, data: bytes, expected: FrameBatch, whole: Tensor
) -> Iterator[Found]:
    spared = [i for i in range(min(len(whole), len(expected))) if torch.equal(whole[i], expected.data[i])]
    with VideoDecoder(data, **bench.options(way)) as decoder:
        found = decoder.get_all_frames()
        by = who_decoded(decoder, way)
    same_times = torch.equal(found.pts_seconds, expected.pts_seconds)
    all_of_them = compare(found.data, expected.data)
    good = compare([found.data[i] for i in spared if i < len(found)], [whole[i] for i in spared])
    figure = f"{len(found)} of {len(expected)}; {len(spared)} undamaged ones {good}; all {all_of_them}; {by}"
    # The content of damaged frames is up to the decoder.
    is_right = same_times and good.largest <= MAX_LEVELS
    yield Check.of(name, is_right, figure, "frames are missing or wrong")


def _check_threads(bench: Bench) -> Iterator[Found]:
    """Check several threads with one decoder, and with a decoder each."""
    for way in (HYBRID, NVDEC):
        name = f"4 threads, {way}"
        yield from contained(name, _check_threads_way(bench, name, way))


def _check_threads_way(bench: Bench, name: str, way: str) -> Iterator[Found]:
    path = plain_clip(bench)
    with bench.open(path, way) as shared:
        expected = shared.get_all_frames().data
        count = len(expected)

        def read(number: int) -> bool:
            order = [(7 * number + 3 * k) % count for k in range(count // 2)]
            with bench.open(path, way) as own:
                batches = [shared.get_frames_at(order).data, own.get_frames_at(order).data]
            return all(torch.equal(batch, expected[torch.tensor(order)]) for batch in batches)

        with ThreadPoolExecutor(4) as pool:
            right = list(pool.map(read, range(8)))
    yield Check.of(name, all(right), f"{sum(right)} of {len(right)} right", "other frames")


def _answer(path: str, way: str, options: dict[str, Any], answers: Any) -> None:
    """Decode in a spawned worker."""
    Bench(torch.device("cpu"), EFFORTS["tiny"], Path())  # registers its backend in this process
    with VideoDecoder(path, **options) as decoder:
        data = decoder[:4]
        answers.put((str(data.device), data.cpu().numpy().tobytes(), who_decoded(decoder, way)))


def _check_spawned(bench: Bench) -> Iterator[Found]:
    """Decode in a spawned process, as DataLoader workers with CUDA do."""
    path, way = str(plain_clip(bench)), NVDEC if bench.has_cuda else HYBRID
    with bench.open(path, way) as decoder:
        expected = decoder[:4].cpu().numpy().tobytes()
    spawning = multiprocessing.get_context("spawn")
    answers = spawning.Queue()
    process = spawning.Process(target=_answer, args=(path, way, bench.options(way), answers), daemon=True)
    process.start()
    try:
        device, pixels, by = answers.get(timeout=_PATIENCE_SECONDS)
    finally:
        process.join(10)
        process.kill()
    yield Check.of(f"spawned worker, {way}", pixels == expected, f"frames on {device}, {by}", "other frames")


def _check_forked(bench: Bench) -> Iterator[Found]:
    """Check that a forked child, which cannot use CUDA, raises an error and does not hang or crash."""
    bench.require_cuda()
    path = str(plain_clip(bench))
    torch.zeros(1, device=bench.device)
    with bench.open(path, NVDEC) as before:
        before.get_frame_at(0)
        for what, decode in {
            "a new decoder": lambda: VideoDecoder(path, device=bench.device).get_frame_at(0),
            "the parent's decoder": lambda: before.get_frame_at(1),
        }.items():
            said = _in_forked_child(decode)
            yield Check.of(f"forked child, {what}: DeviceError", said.startswith("DeviceError"), said, "another end")


def _in_forked_child(decode: Any) -> str:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            decode()
            said = "frames came"
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        os.write(writing, said.encode()[:4000])
        os._exit(0)
    os.close(writing)
    ready, _, _ = select.select([reading], [], [], _PATIENCE_SECONDS)
    said = os.read(reading, 4000).decode() if ready else "it hangs"
    if not ready:
        os.kill(child, 9)
    _, status = os.waitpid(child, 0)
    os.close(reading)
    return said or f"it died ({status})"


def _check_cache(bench: Bench) -> Iterator[Found]:
    """Check that an idle decoder of the same kind is reused, and that the limit of cached decoders holds."""
    bench.require_cuda()
    path, capacity = plain_clip(bench), get_nvdec_cache_capacity()

    def milliseconds() -> float:
        begin = time.perf_counter()
        with bench.open(path, NVDEC, strict_device=True) as decoder:
            decoder.get_frame_at(0)
            bench.synchronize()
        return (time.perf_counter() - begin) * 1e3

    try:
        milliseconds()
        times = {}
        for kept in (0, 4):
            set_nvdec_cache_capacity(kept)
            milliseconds()
            times[kept] = statistics.median(milliseconds() for _ in range(7))
            row = {"idle decoders kept": kept, "open and get the first frame, ms": times[kept]}
            yield Figure("Cache of NVDEC decoders", row)
        figure = f"{times[4]:.1f} ms against {times[0]:.1f} ms"
        yield Check.of("decoder cache: opening again is cheaper", times[4] < times[0], figure, "it is not")
        yield from _check_bound(bench)
    finally:
        set_nvdec_cache_capacity(capacity)


def _check_bound(bench: Bench) -> Iterator[Found]:
    """Check memory after decoders of many sizes, of which two may stay."""
    set_nvdec_cache_capacity(2)
    used = []
    for number in range(8):
        clip = GpuClip(f"size {number}", size=(bench.effort.size[0] + 32 * number, bench.effort.size[1]))
        with bench.open(make_clip(clip, bench.folder, bench.effort.size, 4), NVDEC, strict_device=True) as decoder:
            decoder.get_frame_at(0)
        used.append(_used_mib(bench))
    growth = used[-1] - used[3]
    figure = f"{growth:.0f} MiB more after 8 sizes than after 4"
    yield Check.of("decoder cache: bounded", growth <= _MAX_LEAK_MIB, figure, f"over {_MAX_LEAK_MIB} MiB")


def _used_mib(bench: Bench) -> float:
    """Return the used GPU memory after releasing all unreferenced memory."""
    gc.collect()
    bench.synchronize()
    torch.cuda.empty_cache()
    free, total = torch.cuda.mem_get_info(bench.device)
    return (total - free) / _MIB


def _check_memory(bench: Bench) -> Iterator[Found]:
    """Check that closed decoders and dropped frames release their memory, and that frames do not hold surfaces."""
    bench.require_cuda()
    path, capacity = plain_clip(bench), get_nvdec_cache_capacity()
    set_nvdec_cache_capacity(0)
    used = []
    try:
        for _ in range(6):
            decoders = [bench.open(path, NVDEC, strict_device=True) for _ in range(4)]
            held = [decoder.get_all_frames() for decoder in decoders]
            for decoder in decoders:
                decoder.close()
            del decoder, decoders, held
            used.append(_used_mib(bench))
    finally:
        set_nvdec_cache_capacity(capacity)
    growth = used[-1] - used[1]
    figure = f"{growth:+.0f} MiB over {len(used) - 2} rounds of 4 decoders ({used[-1]:.0f} MiB in use)"
    yield Check.of("memory of the GPU returns", growth <= _MAX_LEAK_MIB, figure, f"over {_MAX_LEAK_MIB} MiB")
