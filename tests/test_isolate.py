"""`mediatensor.isolate`: what goes wrong in another process stays there."""

from __future__ import annotations

import gc
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch

import isolated_work as work
from mediatensor.decoders import VideoDecoder
from mediatensor.errors import ClosedError, InvalidArgumentError, IsolatedWorkerError, OpenError, SourceNotFoundError
from mediatensor.isolate import IsolatedWorker
from mediatensor.isolate._confinement import MEMORY_EXIT_STATUS, can_deny_network

MAX_MEMORY_BYTES = 256 << 20
WAIT_SECONDS = 60


@pytest.fixture(scope="module")
def worker() -> Iterator[IsolatedWorker]:
    types = (work.Colour, work.Found, work.Point)
    with IsolatedWorker(timeout_seconds=60, max_memory_bytes=MAX_MEMORY_BYTES, result_types=types) as worker:
        yield worker


def open_handles() -> int:
    gc.collect()
    return len(os.listdir("/dev/fd"))


def wait_until_gone(pid: int) -> None:
    end = time.monotonic() + WAIT_SECONDS
    while is_running(pid):
        assert time.monotonic() < end, f"process {pid} still runs"
        time.sleep(0.01)


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def wait_for_pid(file: Path) -> int:
    end = time.monotonic() + WAIT_SECONDS
    while not (file.exists() and file.read_text()):
        assert time.monotonic() < end, "the isolated process did not begin"
        time.sleep(0.01)
    return int(file.read_text())


# What comes back


def test_frames_are_those_of_this_process(worker: IsolatedWorker, clip: Path) -> None:
    expected = VideoDecoder(clip).get_frames_in_range(0, 5)
    frames = worker.run(work.first_frames, clip, num_frames=5)
    assert type(frames) is type(expected)
    assert frames.data.stride() == expected.data.stride()
    assert torch.equal(frames.data, expected.data)
    assert torch.equal(frames.pts_seconds, expected.pts_seconds)
    frames.data.zero_()  # the memory is the caller's
    assert torch.equal(worker.run(work.first_frames, clip.read_bytes(), 5).data, expected.data)


def test_own_types_come_back_where_they_are_named(worker: IsolatedWorker, clip: Path) -> None:
    found = worker.run(work.Found, "a", torch.arange(4))
    assert (found.name, found.tensor.tolist(), found.total) == ("a", [0, 1, 2, 3], 6)
    assert worker.run(work.give, [work.Point(1, 2), work.Colour.RED]) == [work.Point(1, 2), work.Colour.RED]
    with pytest.raises(InvalidArgumentError, match=r"VideoDecoder, which cannot come back"):
        worker.run(work.open_video, clip)


def test_large_results_need_no_handles(worker: IsolatedWorker) -> None:
    worker.run(work.give, 0)
    before = open_handles()
    kept = [worker.run(torch.full, (1 << 17,), number) for number in range(100)]
    assert open_handles() == before
    assert [int(tensor[-1]) for tensor in kept] == list(range(100))


def test_what_is_printed_does_not_come_to_standard_output(
    worker: IsolatedWorker, capfd: pytest.CaptureFixture[str]
) -> None:
    assert worker.run(work.say_much) == "returned"
    assert capfd.readouterr().out == ""


# What is raised


def test_exceptions_of_the_library_and_of_python_come_as_themselves(worker: IsolatedWorker, tmp_path: Path) -> None:
    file = tmp_path / "garbage.mp4"
    file.write_bytes(bytes(range(256)) * 64)
    before = worker.run(work.process_id)
    with pytest.raises(OpenError, match=r"garbage\.mp4") as caught:
        worker.run(work.first_frames, file, 1)
    assert type(caught.value) is OpenError
    assert "in first_frames" in caught.value.__notes__[0]
    with pytest.raises(SourceNotFoundError):
        worker.run(work.first_frames, tmp_path / "nothing.mp4", 1)
    with pytest.raises(FileNotFoundError) as missing:
        worker.run(os.stat, "/no/such/file")
    assert missing.value.filename == "/no/such/file"
    with pytest.raises(IsolatedWorkerError, match=r"OwnError: no more") as own:
        worker.run(work.raise_own_error)
    assert own.value.reason == "exception"
    assert pickle.loads(pickle.dumps(own.value)).reason == "exception"
    assert worker.run(work.process_id) == before  # none of them cost the process


def test_bad_arguments(worker: IsolatedWorker) -> None:
    with pytest.raises(InvalidArgumentError, match="picklable"):
        worker.run(lambda: None)
    for name, value in {"timeout_seconds": 0, "max_memory_bytes": 1, "num_processes": 0, "max_calls": 0}.items():
        with pytest.raises(InvalidArgumentError, match=name):
            IsolatedWorker(**{name: value})  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="result_types"):
        IsolatedWorker(result_types=(VideoDecoder,))


def test_a_crash_costs_one_call(worker: IsolatedWorker) -> None:
    before = worker.run(work.process_id)
    num_handles = open_handles()
    with pytest.raises(IsolatedWorkerError, match="SIGSEGV") as caught:
        worker.run(work.crash)
    assert caught.value.reason == "crash"
    assert "in crash" in caught.value.__notes__[0]
    wait_until_gone(before)
    assert worker.run(work.process_id) != before
    del caught
    assert open_handles() == num_handles


def test_too_much_memory(worker: IsolatedWorker) -> None:
    # The limit counts what a call adds, whatever torch had before.
    assert worker.run(work.take_memory, MAX_MEMORY_BYTES // 2) == MAX_MEMORY_BYTES // 2
    with pytest.raises(IsolatedWorkerError, match="max_memory_bytes = 268435456") as caught:
        worker.run(work.take_memory, MAX_MEMORY_BYTES * 2)
    assert caught.value.reason == "memory"


def test_memory_where_the_system_does_not_limit_it() -> None:
    program = (
        "import time; from mediatensor.isolate import _confinement; _confinement._data_bytes = lambda: None\n"
        "with _confinement.limited_memory(64 << 20): kept = bytearray(16 << 20)\n"
        "with _confinement.limited_memory(64 << 20): kept = b'x' * (256 << 20); time.sleep(1000)"
    )
    # By way of a small process: a program's greatest memory begins with that of the process which started it.
    starter = f"import subprocess, sys; sys.exit(subprocess.run([sys.executable, '-c', {program!r}]).returncode)"
    ended = subprocess.run([sys.executable, "-c", starter], timeout=WAIT_SECONDS, check=False)
    assert ended.returncode == MEMORY_EXIT_STATUS


def test_a_hang_ends_with_all_that_it_started(tmp_path: Path) -> None:
    with IsolatedWorker(timeout_seconds=1) as worker:
        with pytest.raises(IsolatedWorkerError, match="within 1 seconds") as caught:
            worker.run(work.hang_holding_the_interpreter, tmp_path / "pid")
        assert caught.value.reason == "timeout"
        assert "hang_holding_the_interpreter" in caught.value.__notes__[0]
        wait_until_gone(wait_for_pid(tmp_path / "pid"))


# Who is no longer what it was


class _Bomb:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, ("bomb",)


def test_a_process_that_was_taken_over_cannot_send_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    bomb = pickle.dumps(_Bomb())
    # The network, because it is allowed; another process, because one makes one call.
    with IsolatedWorker(allow_network=True, max_calls=1) as worker, socket.create_server(("127.0.0.1", 0)) as server:
        worker.run(work.connect, server.getsockname()[1])
        with pytest.raises(IsolatedWorkerError) as caught:
            worker.run(work.send_to_parent, b"V" + len(bomb).to_bytes(8) + bytes(8) + b"\0" + bomb)
        assert caught.value.reason == "result"
    assert not (tmp_path / "bomb").exists()


@pytest.mark.skipif(not can_deny_network(), reason="needs Linux on x86-64 or AArch64")
def test_no_network(worker: IsolatedWorker) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, pytest.raises(PermissionError):
        worker.run(work.connect, server.getsockname()[1])


# Threads, forks, ends


def test_many_calls_from_threads_and_the_end() -> None:
    num_handles, num_threads = open_handles(), threading.active_count()
    with IsolatedWorker(num_processes=2) as worker, ThreadPoolExecutor(4) as pool:
        pids = set(pool.map(lambda _: worker.run(work.process_id, 0.2), range(8)))
        assert len(pids) == 2
        assert list(pool.map(lambda number: worker.run(work.give, number), range(300))) == list(range(300))
        waiting = [pool.submit(worker.run, work.process_id, 1000) for _ in range(3)]
        while not all(future.running() for future in waiting):
            time.sleep(0.01)
        worker.close()
        for future in waiting:
            with pytest.raises(ClosedError):
                future.result(WAIT_SECONDS)
    with pytest.raises(ClosedError):
        worker.run(work.give, 0)
    for pid in pids:
        assert not is_running(pid)
    assert (open_handles(), threading.active_count()) == (num_handles, num_threads)


def test_in_processes_of_a_data_loader(worker: IsolatedWorker, clip: Path, clip_rgb: torch.Tensor) -> None:
    before = worker.run(work.process_id)
    loader = torch.utils.data.DataLoader(
        work.DatasetOfFrames(worker, str(clip)), num_workers=1, multiprocessing_context="fork"
    )
    assert torch.equal(torch.cat(list(loader)), clip_rgb[:2])
    assert worker.run(work.process_id) == before


def test_ctrl_c_ends_the_call(worker: IsolatedWorker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt() -> None:
        wait_for_pid(tmp_path / "pid")
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            worker.run(work.sleep_after_writing, tmp_path / "pid")
    finally:
        thread.join()
        signal.signal(signal.SIGINT, before)
    wait_until_gone(wait_for_pid(tmp_path / "pid"))


def test_a_program_that_is_killed_leaves_no_process(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    program = subprocess.Popen([sys.executable, work.__file__, str(file)])
    try:
        pid = wait_for_pid(file)
        assert is_running(pid)
    finally:
        program.kill()
        program.wait(WAIT_SECONDS)
    wait_until_gone(pid)
