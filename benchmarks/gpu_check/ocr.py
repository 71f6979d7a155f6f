"""OCR on the device: same words as on the CPU in every precision, few waits, no recompilation; and speed."""

from __future__ import annotations

import statistics
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mediatensor.errors import MissingDependencyError, WeightsNotFoundError
from mediatensor.frames import FrameBatch

from .bench import Bench
from .pages import draw_page, share_of_words, words_of
from .records import NOT_RUN, Check, Figure, Found, NotRun, Step

OCR_TABLE = "Pages read a second"
SYNC_TABLE = "Waits for the device while pages are read"
_TYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
#: Share of words that must be the same: all, except for rounding in lower precision.
_MIN_SHARE = {"fp32": 1.0, "bf16": 0.99, "fp16": 0.99}
_BUDGET_SECONDS = 12.0


def ocr_check_steps(bench: Bench) -> list[Step]:
    """Return the steps that check words and the use of the device."""
    steps = [Step(f"words, {name}", partial(_check_words, bench, name)) for name in _TYPES]
    return [
        *steps,
        Step("frames stay on the device", partial(_check_waits, bench)),
        Step("torch.compile", partial(_check_compiling, bench)),
    ]


def ocr_figure_steps(bench: Bench) -> list[Step]:
    """Return a step for each precision and batch size, and one for the CPU."""
    steps = [
        Step(f"{name}, {size} at a time", partial(_measure, bench, name, size))
        for name in ("fp32", "bf16")
        for size in bench.effort.batch_sizes
    ]
    return [Step("CPU", partial(_measure_cpu, bench)), *steps]


def _page_size(bench: Bench) -> tuple[int, int]:
    return (320, 160) if bench.effort.num_pages == 1 else (960, 1280)


def _pages(bench: Bench, count: int) -> list[NDArray[np.uint8]]:
    """Return this many pages; some are equal."""
    different = bench.once("pages", lambda: [draw_page(n, _page_size(bench)) for n in range(bench.effort.num_pages)])
    return [different[number % len(different)] for number in range(count)]


def _on_device(bench: Bench, count: int) -> FrameBatch:
    """Return pages like decoded frames: a batch on the device, with times."""
    data = torch.from_numpy(np.stack(_pages(bench, count))).permute(0, 3, 1, 2).to(bench.device)
    times = torch.arange(count, dtype=torch.float64)
    return FrameBatch(data, times, torch.ones_like(times))


def predictor_on(device: torch.device | str, name: str = "fp32", batch_size: int = 2) -> Any:
    """Return the default predictor.

    Raises:
        NotRun: if there are no weights on this machine, or a package is missing.
    """
    from mediatensor.ocr.models import ocr_predictor

    try:
        predictor = ocr_predictor(pretrained=True, det_bs=batch_size)
    except (WeightsNotFoundError, MissingDependencyError) as error:
        raise NotRun(str(error)) from None
    return predictor.to(device=device, dtype=_TYPES[name])


def _expected(bench: Bench) -> list[str]:
    def read() -> list[str]:
        return words_of(predictor_on("cpu")(_pages(bench, bench.effort.num_pages)))

    words: list[str] = bench.once("words", read)
    return words


def _check_words(bench: Bench, name: str) -> Iterator[Found]:
    """Compare the words of the generated pages with the CPU in fp32."""
    if name == "fp32":
        bench.require_cuda()
    expected = _expected(bench)
    found = words_of(predictor_on(bench.device, name)(_on_device(bench, bench.effort.num_pages)))
    share = share_of_words(found, expected)
    figure = f"{100 * share:.2f} % of {len(expected)} words"
    label = f"words on {bench.device.type} in {name} match the CPU in fp32"
    yield Check.of(label, bool(expected) and share >= _MIN_SHARE[name], figure, f"under {100 * _MIN_SHARE[name]:g} %")


def _check_waits(bench: Bench) -> Iterator[Found]:
    """Count how often the host waits for the device: by torch's warnings, by place, and by the profiler."""
    bench.require_cuda()
    count = bench.effort.num_pages
    predictor = predictor_on(bench.device, batch_size=count)
    pages = _on_device(bench, count)
    predictor(pages)
    calls = _counted_calls(predictor)
    torch.cuda.set_sync_debug_mode("warn")
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            predictor(pages)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    places = Counter(
        (_stage_of(one.filename), f"{Path(one.filename).name}:{one.lineno}")
        for one in caught
        if "called a synchronizing" in str(one.message)
    )
    batches = dict(calls)
    for (stage, place), times in sorted(places.items()):
        row = {"stage": stage, "place": place, "waits": times, "calls of the network": batches.get(stage)}
        yield Figure(SYNC_TABLE, {**row, "pages": count})
    for stage in ("detection", "recognition"):
        waits = sum(times for (its_stage, _), times in places.items() if its_stage == stage)
        figure = f"{waits} waits for {batches[stage]} calls of the network and {count} pages"
        name = f"one wait a call: {stage}"
        if waits:
            yield Check.of(name, waits <= batches[stage], figure, "more waits than calls")
        else:  # there are no words without a wait
            yield Check(name, NOT_RUN, figure, "torch does not warn of the way in which it waits: see the profile")
    yield from _profiled(bench, predictor, pages, sum(batches.values()))


def _stage_of(filename: str) -> str:
    parts = Path(filename).parts
    return next((name for name in ("detection", "recognition") if name in parts), "between")


def _counted_calls(predictor: Any) -> Counter[str]:
    """Count the calls of each network from now on."""
    calls: Counter[str] = Counter()

    def count(network: Any, method: str, stage: str) -> None:
        call = getattr(network, method)

        def counted(*arguments: Any, **options: Any) -> Any:
            calls[stage] += 1
            return call(*arguments, **options)

        setattr(network, method, counted)

    count(predictor.det_predictor.model, "forward", "detection")
    count(predictor.reco_predictor.model, "features", "recognition")
    return calls


def _profiled(bench: Bench, predictor: Any, pages: FrameBatch, num_calls: int) -> Iterator[Found]:
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    bench.synchronize()
    with torch.profiler.profile(activities=activities) as profile:
        predictor(pages)
    names = Counter(event.name for event in profile.events() or ())
    waiting = ("cudaStreamSynchronize", "cudaEventSynchronize")
    waits = sum(names[name] for name in waiting)
    figure = f"{waits} waits for {num_calls} calls of networks and {len(pages)} pages"
    if waits:
        yield Check.of("one wait a call, by the profiler", waits <= num_calls, figure, "more waits than calls")
    else:
        yield Check("one wait a call, by the profiler", NOT_RUN, figure, "the profiler saw nothing of CUDA")
    for name in (*waiting, "cudaDeviceSynchronize"):
        yield Figure("Profile of reading pages", {"event": name, "times": names[name], "pages": len(pages)})
    for name in sorted(name for name in names if name.startswith(("Memcpy DtoH", "Memcpy HtoD"))):
        yield Figure("Profile of reading pages", {"event": name, "times": names[name], "pages": len(pages)})


def _check_compiling(bench: Bench) -> Iterator[Found]:
    """Check that pages of new sizes cause almost no recompilation, and give the same words."""
    bench.require_cuda()
    try:
        torch.compile(lambda x: x + 1)(torch.zeros(2, device=bench.device))
    except Exception as error:
        raise NotRun(f"torch.compile does not work here: {type(error).__name__}: {error}".splitlines()[0]) from None
    from torch._dynamo.utils import counters

    plain, compiled = predictor_on(bench.device), predictor_on(bench.device)
    compiled.compile()

    def read(sizes: list[tuple[int, int]]) -> tuple[int, float]:
        before = counters["stats"]["unique_graphs"]
        shares = []
        for number, size in enumerate(sizes):
            pages: list[Tensor] = [torch.from_numpy(draw_page(number, size)).permute(2, 0, 1).to(bench.device)]
            shares.append(share_of_words(words_of(compiled(pages)), words_of(plain(pages))))
        return counters["stats"]["unique_graphs"] - before, min(shares)

    first, _ = read([(960, 1280), (800, 640), (640, 900)])
    second, share = read([(700 + 60 * k, 1000 - 50 * k) for k in range(8)])
    figure = f"{first} graphs for the first 3 pages, {second} more for 8 of other sizes"
    yield Check.of("torch.compile: no compiling for each page", second <= 1, figure, "it compiles again")
    yield Check.of("torch.compile: the same words", share >= 0.99, f"{100 * share:.2f} % on the worst page", "changed")


def _measure_cpu(bench: Bench) -> Iterator[Found]:
    yield _speed(bench, predictor_on("cpu"), _pages(bench, 1), "cpu", "fp32", 1)


def _measure(bench: Bench, name: str, batch_size: int) -> Iterator[Found]:
    row = {"device": bench.device.type, "precision": name, "pages at a time": batch_size}
    nothing = {"pages/s": None, "first quartile": None, "third quartile": None, "same words %": None, "runs": 0}
    try:
        bench.require_cuda()
        predictor = predictor_on(bench.device, name, batch_size)
    except NotRun as reason:
        yield Figure(OCR_TABLE, {**row, **nothing, "note": f"{NOT_RUN}: {reason}"})
        return
    yield _speed(bench, predictor, _on_device(bench, batch_size), bench.device.type, name, batch_size)


def _speed(bench: Bench, predictor: Any, pages: Any, device: str, name: str, batch_size: int) -> Figure:
    words = words_of(predictor(pages))  # also the warm-up
    reference = words if device == "cpu" else _words_one_by_one(bench, batch_size)
    walls: list[float] = []
    while len(walls) < bench.effort.repeats and sum(walls) < _BUDGET_SECONDS:
        bench.synchronize()
        begin = time.perf_counter()
        predictor(pages)
        bench.synchronize()
        walls.append(time.perf_counter() - begin)
    rates = sorted(len(pages) / seconds for seconds in walls)
    low, high = rates[len(rates) // 4], rates[(3 * len(rates)) // 4 if len(rates) > 1 else 0]
    return Figure(
        OCR_TABLE,
        {
            "device": device, "precision": name, "pages at a time": batch_size, "pages/s": statistics.median(rates),
            "first quartile": low, "third quartile": high,
            "same words %": round(100 * share_of_words(words, reference), 2), "runs": len(walls), "note": "",
        },
    )  # fmt: skip


def _words_one_by_one(bench: Bench, count: int) -> list[str]:
    """Return the words of the device in fp32, a page at a time; the checks compare these with the CPU."""

    def read() -> list[list[str]]:
        predictor = predictor_on(bench.device)
        return [words_of(predictor([page])) for page in _pages(bench, bench.effort.num_pages)]

    each: list[list[str]] = bench.once("words of each page", read)
    return [word for number in range(count) for word in each[number % len(each)]]
