"""Do frames of the device match the CPU? Every codec, colour and structure, in any order, resized and rotated."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import partial
from typing import Any

import torch

from mediatensor.frames import FrameBatch
from mediatensor.transforms import CenterCrop, Letterbox, Resize

from .bench import CPU, HYBRID, MAX_LEVELS, NVDEC, Bench, Difference, compare
from .clips import CLIPS, GpuClip, make_clip
from .machine import driver_support
from .records import NOT_RUN, Check, Figure, Found, Step, contained

#: Result of `who_decoded` without a fallback.
NVDEC_DECODED = "NVDEC"


def pixel_steps(bench: Bench) -> list[Step]:
    """Return a step for each clip, and some more with transforms."""
    steps = [Step(clip.name, partial(_check_clip, bench, clip)) for clip in CLIPS]
    transformed = [clip for clip in CLIPS if clip.name in ("h264", "rotated", "hevc 10 bit")]
    return [
        *steps,
        *(Step(f"{clip.name}, transformed", partial(_check_transforms, bench, clip)) for clip in transformed),
    ]


def who_decoded(decoder: Any, way: str = NVDEC) -> str:
    """Describe the decoder that was used, and the reason if NVDEC was requested but not used."""
    status = decoder.cpu_fallback
    if way != NVDEC:
        return f"the CPU, as asked for; {status.reason}" if status else "the CPU, as asked for"
    if not status.status_known:
        return "it does not say who decoded"
    return f"decoded on the CPU: {status.reason}" if status else NVDEC_DECODED


def _check_clip(bench: Bench, clip: GpuClip) -> Iterator[Found]:
    effort = bench.effort
    path = make_clip(clip, bench.folder, effort.size, effort.num_frames)
    with bench.open(path, CPU) as decoder:
        expected = decoder.get_all_frames()
        key_frames = decoder.frame_index.key_frame_indices.tolist()
    for way in (HYBRID, NVDEC):
        found = _check_way(bench, clip, path, way, expected, key_frames)
        yield from contained(f"{clip.name}, {way}: frames", found)
        if clip.bits > 8:
            yield from contained(f"{clip.name}, {way}: float32", _check_float(bench, clip, path, way))


def _check_way(
    bench: Bench, clip: GpuClip, path: Any, way: str, expected: FrameBatch, key_frames: list[int]
) -> Iterator[Found]:
    with bench.open(path, way) as decoder:
        found = decoder.get_all_frames()
        by = who_decoded(decoder, way)
    if way == NVDEC:
        yield _check_backend(bench, clip, by)
    difference = compare(found.data, expected.data)
    same_times = torch.equal(found.pts_seconds, expected.pts_seconds) and torch.equal(
        found.duration_seconds, expected.duration_seconds
    )
    here = found.data.device.type == bench.device.type
    row = {"clip": clip.name, "way": way, "frames": len(found), "largest": difference.largest, "mean": difference.mean}
    yield Figure("Frames against the CPU path, in levels of 256", {**row, "decoded by": by})
    yield _judged(f"{clip.name}, {way}: frames", way, by, difference)
    place = f"{len(found)} of {len(expected)} frames, on {found.data.device}"
    yield Check.of(f"{clip.name}, {way}: times and device", same_times and here, place, "they differ from the CPU path")
    yield _check_random_access(bench, clip, path, way, found, key_frames)


def _check_backend(bench: Bench, clip: GpuClip, by: str) -> Check:
    """Check that NVDEC decoded the stream if it can according to the driver."""
    name = f"{clip.name}: who decoded"
    support = driver_support(clip.codec, "420", clip.bits, bench.device)
    width, height = bench.effort.size
    size = (width + clip.add[0], height + clip.add[1])
    can = support.takes(size)
    if can is None:
        return Check(name, NOT_RUN, by, f"the driver's decoding capabilities are unknown: {support.reason}")
    says = f"according to the driver, NVDEC {'decodes it' if can else 'does not decode it'}"
    is_odd = size[0] % 2 or size[1] % 2  # PyAV does not pass all chroma samples of it: both results are right
    return Check.of(name, bool(is_odd) or can == (by == NVDEC_DECODED), f"{by}; {says}", "one contradicts the other")


def _check_random_access(
    bench: Bench, clip: GpuClip, path: Any, way: str, linear: FrameBatch, key_frames: list[int]
) -> Check:
    """Check single frames, backwards and at random, from a decoder that has not read the earlier ones."""
    count = len(linear)
    order = [*random.Random(0).choices(range(count), k=count // 2), *key_frames, count - 1, 0]
    with bench.open(path, way) as decoder:
        batch = decoder.get_frames_at(order)
        ones = [decoder.get_frame_at(i).data for i in order[::-3]]
    wanted = linear.data[torch.tensor(order)]
    same = torch.equal(batch.data, wanted) and torch.equal(batch.pts_seconds, linear.pts_seconds[order])
    same_ones = all(torch.equal(one, linear.data[i]) for one, i in zip(ones, order[::-3], strict=True))
    difference = compare(batch.data, wanted)
    return Check.of(
        f"{clip.name}, {way}: random access", same and same_ones, f"{len(order)} frames, {difference}",
        "not the frames of a linear decode",
    )  # fmt: skip


def _judged(name: str, way: str, by: str, difference: Difference) -> Check:
    """Check the difference; frames that NVDEC was asked for and did not decode are not judged."""
    if way == NVDEC and by != NVDEC_DECODED:
        return Check(name, NOT_RUN, str(difference), by)
    return Check.of(name, difference.largest <= MAX_LEVELS, str(difference), f"over {MAX_LEVELS:g} levels of 256")


def _check_float(bench: Bench, clip: GpuClip, path: Any, way: str) -> Iterator[Found]:
    """Check streams of more than 8 bits as float32, within 2 of 256 levels."""
    with bench.open(path, CPU, output_dtype=torch.float32) as decoder:
        expected = decoder.get_all_frames().data
    with bench.open(path, way, output_dtype="auto") as decoder:
        found = decoder.get_all_frames().data
        by = who_decoded(decoder, way)
    yield _judged(f"{clip.name}, {way}: float32", way, by, compare(found, expected))


def _check_transforms(bench: Bench, clip: GpuClip) -> Iterator[Found]:
    """Check resizing, cropping, and both."""
    width, height = bench.effort.size
    smaller, larger = (height // 2 + 3, width // 2 + 5), (height * 3 // 2, width * 3 // 2)
    crop = CenterCrop((height // 2, width // 2 + 1))
    wanted: dict[str, list[object]] = {
        "smaller": [Resize(smaller)],
        "larger": [Resize(larger)],
        "cropped": [crop],
        "resized, then cropped": [Resize(larger), crop],
        "padded, then cropped": [Letterbox(larger[::-1], fill=(255, 0, 100)), CenterCrop((width, height))],
    }
    path = make_clip(clip, bench.folder, bench.effort.size, bench.effort.num_frames)
    for what, transforms in wanted.items():
        with bench.open(path, CPU, transforms=transforms) as decoder:
            expected = decoder[:8]
        for way in (HYBRID, NVDEC):
            name = f"{clip.name}, {what}, {way}"
            yield from contained(name, _check_transformed(bench, name, path, way, transforms, expected))


def _check_transformed(
    bench: Bench, name: str, path: Any, way: str, transforms: list[object], expected: torch.Tensor
) -> Iterator[Found]:
    with bench.open(path, way, transforms=transforms) as decoder:
        found = decoder[:8]
        by = who_decoded(decoder, way)
    yield _judged(name, way, by, compare(found, expected))
