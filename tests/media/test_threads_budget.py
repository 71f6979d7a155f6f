"""Codec threads and workers of all decoders together never exceed the budget, counted as threads of the system."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import pytest
import torch
from torch.utils.data import DataLoader, Dataset

import media
from mediatensor.decoders import VideoDecoder

Count: TypeAlias = Callable[[str, int, list[Path]], tuple[int, int]]

pytestmark = pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="counts threads through /proc")

# A program that runs a scenario for each input line, in a fork, because imports take longer than most scenarios. It
# prints the largest number of threads beyond the program's own, and the number left after everything was closed, or
# null on failure. One of its threads samples all the time, and the scenario samples between calls. A count must occur
# three times in a row, because a joined thread takes a moment to disappear.
_PROGRAM = """
import json, os, signal, sys, threading, time, traceback
from concurrent.futures import ThreadPoolExecutor

import torch
torch.set_num_threads(1)
from mediatensor._engine.common import handle_pool, threads
from mediatensor.decoders import VideoDecoder

# One thread is faster for clips this small; the test gives them as many as for large frames.
threads._CODEC_THREAD_START = threads._CODEC_THREAD_HANDOVER = 0.0

THREE_GOPS = [27, 3, 19, 31, 7, 15, 3]


def num_threads():
    numbers = []
    for _ in range(3):
        numbers.append(len(os.listdir("/proc/self/task")))
        time.sleep(0.0005)
    return min(numbers)


class Sampler:
    def __init__(self):
        self.most, self.stop = 0, threading.Event()
        self.thread = threading.Thread(target=self.run)

    def look(self):
        self.most = max(self.most, num_threads())

    def run(self):
        while not self.stop.is_set():
            self.look()


def use(decoder, look):
    decoder.get_frames_at(THREE_GOPS); look()
    decoder[:]; look()
    for i in range(len(decoder) - 1, -1, -4):
        decoder[i]
    look()
    decoder.get_frames_at([1, 38, 20]); look()


def one_after_the_other(paths, callers, look):
    for path in paths * 2:
        with VideoDecoder(path) as decoder:
            use(decoder, look)


def interleaved(paths, callers, look):
    decoders = [VideoDecoder(path) for path in paths * 2]
    for _ in range(3):
        for decoder in decoders:
            use(decoder, look)
    return decoders


def idle_ones_give_way(paths, callers, look):
    handle_pool._REST_SECONDS = 0.2
    decoders = [VideoDecoder(path) for path in paths]
    for _ in range(2):
        for decoder in decoders:
            use(decoder, look)
            time.sleep(0.25)  # longer than an idle decoder keeps its threads
            look()
    return decoders


def from_several_threads(paths, callers, look):
    decoders = [VideoDecoder(path) for path in paths]
    list(callers.map(lambda number: use(decoders[number % len(decoders)], look), range(28)))
    return decoders


def approximate(paths, callers, look):
    decoders = [VideoDecoder(path, seek_mode="approximate") for path in paths]
    for decoder in decoders:
        decoder.get_frames_at([30, 3]); look()
    return decoders


def failing(paths, callers, look):
    kept = []
    for path in paths * 3:
        decoder = VideoDecoder(path)
        use(decoder, look)
        try:
            decoder._video.pixel_writer = None
            decoder[5]
        except TypeError as error:
            kept.append(error)  # and with it the frames of all functions on the way
        look()
    kept.clear()


def measure(scenario, paths):
    callers, meeting = ThreadPoolExecutor(4), threading.Barrier(4)
    list(callers.map(lambda _: meeting.wait(), range(4)))
    sampler = Sampler()
    sampler.thread.start()
    before = num_threads()
    decoders = globals()[scenario](paths, callers, sampler.look) or []
    for decoder in decoders:
        decoder.close()
    deadline = time.monotonic() + 5
    while num_threads() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    left = num_threads() - before
    sampler.stop.set()
    return [sampler.most - before, left]


for line in sys.stdin:
    scenario, budget, paths = json.loads(line)
    child = os.fork()
    if not child:
        signal.alarm(200)
        os.environ["MEDIATENSOR_NUM_THREADS"] = str(budget)
        try:
            print(json.dumps(measure(scenario, paths)), flush=True)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        print("null", flush=True)
"""


@pytest.fixture(scope="module")
def program() -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", _PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    ) as process:
        yield process
        process.kill()


@pytest.fixture
def count(program: subprocess.Popen[str]) -> Count:
    """Return (most threads of decoders at a time, threads left at the end) for a scenario, a budget and files."""

    def run(scenario: str, budget: int, paths: list[Path]) -> tuple[int, int]:
        program.stdin.write(json.dumps([scenario, budget, [str(path) for path in paths]]) + "\n")
        most_and_left = json.loads(program.stdout.readline())
        assert most_and_left is not None, "the scenario failed; its output says why"
        most, left = most_and_left
        return most, left

    return run


CLIPS = ["h264_b_pyramid", "hevc_closed_gop", "vp9_hidden_frames", "av1", "mpeg4_mp4", "h264_10bit", "h264_mbaff"]


@pytest.mark.parametrize("budget", [1, 2, 3, 4])
@pytest.mark.parametrize("scenario", ["one_after_the_other", "interleaved", "from_several_threads", "approximate"])
def test_decoders_together_stay_within_budget(scenario: str, budget: int, folder: Path, count: Count) -> None:
    paths = [media.make(name, folder) for name in CLIPS]
    most, left = count(scenario, budget, paths)
    assert most <= (0 if budget == 1 else budget)
    assert left == 0


@pytest.mark.parametrize("budget", [2, 4])
def test_threads_of_budget_are_used(budget: int, folder: Path, count: Count) -> None:
    """Without this, the other tests would pass for a library without threads."""
    most, _ = count("one_after_the_other", budget, [media.make("h264_b_pyramid", folder)])
    assert most >= budget - 1


@pytest.mark.parametrize("scenario", ["idle_ones_give_way", "failing"])
def test_transferred_threads_are_counted_once(scenario: str, folder: Path, count: Count) -> None:
    paths = [media.make(name, folder) for name in ("h264_b_pyramid", "av1")]
    most, left = count(scenario, 3, paths)
    assert most <= 3
    assert left == 0


class ThreadsOfTheWorker(Dataset[torch.Tensor]):
    """A dataset that counts the threads that decoding adds to a worker."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __len__(self) -> int:
        return 2

    def __getitem__(self, i: int) -> torch.Tensor:
        before = len(os.listdir("/proc/self/task"))
        with VideoDecoder(self.path) as decoder:
            decoder.get_frames_at([27, 3, 19, 31, 7, 15])
            decoder.get_all_frames()
            return torch.tensor([len(os.listdir("/proc/self/task")) - before])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["h264_b_pyramid", "h264_10bit", "av1"])
def test_dataloader_worker_starts_no_threads(name: str, folder: Path) -> None:
    loader = DataLoader(ThreadsOfTheWorker(media.make(name, folder)), num_workers=2, timeout=120)
    assert torch.cat(list(loader)).tolist() == [[0], [0]]
