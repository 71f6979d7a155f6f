"""Fifty clients on two cores: ``python -m benchmarks.apps.serve [--quick] [--clients N] [-o FOLDER]``.

One, two and fifty clients at once ask a local ``mediatensor serve`` with two workers to read pages. Every answer is
compared with the bare predictor's. The report has the waiting times, the time of the bare predictor in one process and
in two, and the lower bound of the wait of fifty clients, if only reading took time. All traffic stays on 127.0.0.1. The
command stops by itself, and fails if an answer is lost or wrong.
"""

from __future__ import annotations

import argparse
import http.client
import importlib
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from mediatensor.cli._demo import draw_page

from ..shared.machine import machine_stamp, package_versions
from ..shared.options import add_output, make_parser
from ..shared.reports import fact_list, markdown_table, write_report
from ..shared.workers import running_service

_NUM_WORKERS = 2
_PAGE_HEIGHT = 240
_WARM_UP = 3
_MAX_RETRIES = 100

_BARE = """
import sys, time
import numpy as np, torch
from PIL import Image
from mediatensor.ocr import ocr_predictor
torch.set_num_threads(1)
predictor = ocr_predictor(pretrained=True)
page = np.asarray(Image.open(sys.argv[1]).convert("RGB"))
for _ in range(int(sys.argv[2])):
    predictor([page])
print("ready", flush=True)
sys.stdin.readline()
for _ in range(int(sys.argv[3])):
    begin = time.perf_counter()
    text = predictor([page]).pages[0].render()
    print(time.perf_counter() - begin, flush=True)
print(repr(text))
"""


@dataclass(frozen=True)
class Load:
    """The result of one load.

    Attributes:
        name: Name of the load.
        num_clients: Concurrent clients.
        seconds: Duration of each answer.
        total_seconds: Total duration.
        num_lost: Requests without a right answer.
        num_told_to_wait: Answers 429 and 503, after which the client retried.
    """

    name: str
    num_clients: int
    seconds: tuple[float, ...]
    total_seconds: float
    num_lost: int = 0
    num_told_to_wait: int = 0

    @property
    def pages_per_second(self) -> float:
        """Pages divided by the total time."""
        return len(self.seconds) / self.total_seconds

    def and_then(self, more: Load) -> Load:
        """Combine two runs, one after the other."""
        return replace(self, seconds=self.seconds + more.seconds, total_seconds=self.total_seconds + more.total_seconds)


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest value such that this share of the values is not above it.

    >>> percentile([3.0, 1.0, 2.0, 4.0], 0.5), percentile([3.0, 1.0, 2.0, 4.0], 0.95)
    (2.0, 4.0)
    """
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line, run, report; fails if an answer was lost."""
    options = _parse(arguments)
    stamp = {**machine_stamp(), **package_versions("mediatensor", "torch", "fastapi", "uvicorn")}
    deadline = time.monotonic() + options.max_seconds
    loads = []
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "page.png"
        image, _ = draw_page()
        image.crop((0, 0, image.width, _PAGE_HEIGHT)).save(page)
        # Half of it runs before the service and half after it, because the machine may have other work meanwhile.
        half = (options.pages + 1) // 2
        one, expected = _bare("predictor, 1 process", page, 1, half)
        two, _ = _bare("predictor, 2 processes", page, _NUM_WORKERS, half)
        with running_service(folder, "--jobs", str(_NUM_WORKERS), environment={"OMP_NUM_THREADS": "1"}) as (port, _):
            service = _Clients(port, page.read_bytes(), expected, deadline)
            service.ask(_NUM_WORKERS, _WARM_UP)
            for num_clients in (1, 2, options.clients):
                num_each = max(1, options.pages // num_clients) if num_clients < options.clients else options.each
                loads.append(service.ask(num_clients, num_each))
        loads = [
            one.and_then(_bare(one.name, page, 1, half)[0]),
            two.and_then(_bare(two.name, page, _NUM_WORKERS, half)[0]),
            *loads,
        ]
    text = to_markdown(stamp, loads)
    document = {"machine": stamp, "loads": [asdict(load) for load in loads]}
    write_report(options.output, "serve", document, text, partial(draw, loads))
    if any(load.num_lost for load in loads):
        sys.exit("Answers were lost.")


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = make_parser("benchmarks.apps.serve", __doc__)
    parser.add_argument("--quick", action="store_true", help="smoke test: four clients, a few pages")
    parser.add_argument("--clients", type=int, default=50, metavar="N", help="clients, up to 60 (default: 50)")
    parser.add_argument("--each", type=int, default=3, metavar="N", help="pages per client (default: 3)")
    parser.add_argument("--pages", type=int, default=20, metavar="N", help="pages of the other loads (default: 20)")
    parser.add_argument(
        "--max-seconds", type=float, default=900.0, metavar="S", help="give up the remaining requests (default: 900)"
    )
    add_output(parser)
    options = parser.parse_args(arguments)
    if options.quick:
        options.clients, options.each, options.pages = 4, 1, 2
    if not (3 <= options.clients <= 60 and 1 <= options.each <= 1000 and 1 <= options.pages <= 1000):
        parser.error("--clients is from 3 to 60, --each and --pages from 1 to 1000")
    return options


# The bare predictor


def _bare(name: str, page: Path, num_processes: int, num_pages: int) -> tuple[Load, str]:
    """Run the predictor in processes with one thread each, which start together."""
    command = [sys.executable, "-c", _BARE, str(page), str(_WARM_UP), str(max(1, num_pages // num_processes))]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    processes = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
        for _ in range(num_processes)
    ]
    seconds: list[float] = []
    totals, texts = [], []
    for process in processes:
        assert process.stdout is not None
        process.stdout.readline()
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    for process in processes:
        *times, text = process.communicate()[0].splitlines()
        seconds += map(float, times)
        totals.append(sum(map(float, times)))
        texts.append(text)
    return Load(name, num_processes, tuple(seconds), max(totals)), texts[0]


# The service


class _Clients:
    """Clients of a service, each in its own thread."""

    def __init__(self, port: int, page: bytes, expected: str, deadline: float) -> None:
        boundary = uuid.uuid4().hex
        head = f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="page.png"\r\n\r\n'
        self._body = head.encode() + page + f"\r\n--{boundary}--\r\n".encode()
        self._kind = f"multipart/form-data; boundary={boundary}"
        self._port, self._expected, self._deadline = port, expected, deadline

    def ask(self, num_clients: int, num_each: int) -> Load:
        """Let clients send pages, each one page after the other."""
        seconds: list[float] = []
        lost: list[str] = []
        waits: list[int] = []
        start = threading.Barrier(num_clients + 1)

        def work(number: int) -> None:
            start.wait()
            for _ in range(num_each):
                begin = time.monotonic()
                problem = self._ask_once(number, waits)
                if problem is None:
                    seconds.append(time.monotonic() - begin)
                else:
                    lost.append(problem)

        threads = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(num_clients)]
        for thread in threads:
            thread.start()
        start.wait()
        begin = time.monotonic()
        for thread in threads:
            thread.join()
        for problem in lost[:3]:
            print(f"lost: {problem}", file=sys.stderr)
        name = "service, 1 client" if num_clients == 1 else f"service, {num_clients} clients"
        return Load(name, num_clients, tuple(seconds), time.monotonic() - begin, len(lost), len(waits))

    def _ask_once(self, number: int, waits: list[int]) -> str | None:
        """Send a page and return the fault of the answer, if any."""
        for _ in range(_MAX_RETRIES):
            left = self._deadline - time.monotonic()
            if left <= 0:
                return "no time is left"
            connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=left)
            try:
                headers = {"Content-Type": self._kind, "X-Client": str(number)}
                connection.request("POST", "/ocr", self._body, headers)
                answer = connection.getresponse()
                body = answer.read()
                if answer.status in (429, 503):
                    waits.append(number)
                    time.sleep(float(answer.headers.get("Retry-After", 1)))
                    continue
                if answer.status != 200:
                    return f"{answer.status} {body[:200]!r}"
                found = repr(json.loads(body)["pages"][0]["text"])
                return None if found == self._expected else f"another text: {found[:200]}"
            except (OSError, http.client.HTTPException, ValueError) as error:
                return repr(error)
            finally:
                connection.close()
        return "always answered with a request to wait"


# The report


def to_markdown(stamp: dict[str, str], loads: Sequence[Load]) -> str:
    """Format the results as Markdown."""
    lines = []
    for load in loads:
        times = (
            (statistics.median(load.seconds), percentile(load.seconds, 0.95), max(load.seconds))
            if load.seconds
            else (math.nan,) * 3
        )
        counts = map(str, (len(load.seconds), load.num_lost, load.num_told_to_wait))
        lines.append([load.name, *counts, *(f"{value:.2f}" for value in (*times, load.pages_per_second))])
    head = ["load", "answers", "lost", "asked to wait", "median s", "p95 s", "slowest s", "pages per second"]
    both, full = loads[1], loads[-1]
    floor = full.num_clients / both.pages_per_second
    waiting = (
        f"With {full.num_clients} clients at work all the time, an answer takes {floor:.1f} s if two processes read as "
        "fast as the bare predictor in two processes and nothing else takes time: that is the queue. The median of the "
        f"service is {statistics.median(full.seconds) if full.seconds else math.nan:.1f} s."
    )
    load_before = stamp.get("load average at the start", "0").split()[0]
    if float(load_before) > 1:
        waiting += (
            f"\n\nOther programs used this machine meanwhile (load average {load_before}). Lost answers and the length "
            "of the queue are valid, but the speed of the service compared with the predictor is not."
        )
    about = "`python -m benchmarks.apps.serve` reads the same page, 800x240 with three lines, repeatedly."
    return "\n\n".join(["# A service under load", about, fact_list(stamp), markdown_table(head, lines), waiting]) + "\n"


def draw(loads: Sequence[Load], path: Path) -> None:
    """The chart: waiting times on the left, pages per second on the right."""
    figure = importlib.import_module("matplotlib.figure").Figure(figsize=(10, 3.4), layout="constrained")
    times, rates = figure.subplots(1, 2, width_ratios=(3, 2))
    names = [load.name for load in loads]
    places = np.arange(len(loads))
    colours = ["#8a94a6" if load.name.startswith("predictor") else "#1b7f5c" for load in loads]
    medians = [statistics.median(load.seconds) for load in loads]
    late = [percentile(load.seconds, 0.95) for load in loads]
    times.barh(places, late, color=colours, alpha=0.35)
    times.barh(places, medians, color=colours)
    for place, median, p95 in zip(places, medians, late, strict=True):
        times.annotate(f" {median:.2f} s, p95 {p95:.2f} s", (p95, place), va="center", fontsize=9)
    times.set(yticks=places, yticklabels=names, title="until a page is read: median, and p95 (light)")
    times.set_xlim(0, 1.45 * max(late))
    speeds = [load.pages_per_second for load in loads]
    rates.barh(places, speeds, color=colours)
    for place, speed in zip(places, speeds, strict=True):
        rates.annotate(f" {speed:.2f}", (speed, place), va="center", fontsize=9)
    rates.set(yticks=places, yticklabels=[], title="pages per second")
    rates.set_xlim(0, 1.2 * max(speeds))
    for axis in (times, rates):
        axis.invert_yaxis()
        axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    main()
