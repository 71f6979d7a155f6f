"""`mediatensor.isolate`: failures in an isolated process do not affect this one."""

from __future__ import annotations

import gc
import os
import pickle
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

import isolated_work as work
from forked import run_program
from mediatensor.decoders import VideoDecoder
from mediatensor.errors import InvalidArgumentError, IsolatedWorkerError, OpenError, SourceNotFoundError
from mediatensor.isolate import MEMORY_EXIT_STATUS, IsolatedWorker, can_deny_network
from pdf_files import document, text_page
from processes import WAIT_SECONDS, is_running, wait_for_pid, wait_until_gone

MAX_MEMORY_BYTES = 256 << 20


@pytest.fixture(scope="module")
def worker() -> Iterator[IsolatedWorker]:
    with IsolatedWorker(timeout_seconds=60, max_memory_bytes=MAX_MEMORY_BYTES) as worker:
        yield worker


def open_handles() -> int:
    gc.collect()
    return len(os.listdir("/dev/fd"))


# Results


def test_frames_equal_the_frames_of_this_process(worker: IsolatedWorker, clip: Path) -> None:
    expected = VideoDecoder(clip).get_frames_in_range(0, 5)
    frames = worker.run(work.first_frames, clip, num_frames=5)
    assert type(frames) is type(expected)
    assert frames.data.stride() == expected.data.stride()
    assert torch.equal(frames.data, expected.data)
    assert torch.equal(frames.pts_seconds, expected.pts_seconds)
    frames.data.zero_()  # the memory is the caller's
    assert torch.equal(worker.run(work.first_frames, clip.read_bytes(), 5).data, expected.data)


def test_the_longest_time_limit_is_accepted() -> None:
    with IsolatedWorker(timeout_seconds=threading.TIMEOUT_MAX) as worker:
        assert [worker.run(work.give, number) for number in (1, 2)] == [1, 2]


def test_other_types_cannot_be_returned(worker: IsolatedWorker, clip: Path) -> None:
    for value in (work.Point(1, 2), {1, 2}, {(1, 2): 3}, clip):
        with pytest.raises(
            InvalidArgumentError, match=r"which cannot be sent from an isolated process. It can return numbers"
        ):
            worker.run(work.give, value)
    with pytest.raises(InvalidArgumentError, match=r"VideoDecoder, which cannot be sent"):
        worker.run(work.open_video, clip)


def test_large_results_need_no_handles(worker: IsolatedWorker) -> None:
    worker.run(work.give, 0)
    before = open_handles()
    kept = [worker.run(torch.full, (1 << 17,), number) for number in range(100)]
    assert open_handles() == before
    assert [int(tensor[-1]) for tensor in kept] == list(range(100))


def test_printed_text_does_not_reach_standard_output(worker: IsolatedWorker, capfd: pytest.CaptureFixture[str]) -> None:
    assert worker.run(work.say_much) == "returned"
    assert capfd.readouterr().out == ""


def test_in_processes_of_a_data_loader(worker: IsolatedWorker, clip: Path, clip_rgb: torch.Tensor) -> None:
    before = worker.run(work.process_id)
    loader = torch.utils.data.DataLoader(
        work.DatasetOfFrames(worker, str(clip)), num_workers=1, multiprocessing_context="fork"
    )
    assert torch.equal(torch.cat(list(loader)), clip_rgb[:2])
    assert worker.run(work.process_id) == before


# Confinement


@pytest.mark.skipif(not can_deny_network(), reason="needs Linux on x86-64 or AArch64")
def test_no_network_and_no_other_session(worker: IsolatedWorker) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, pytest.raises(PermissionError):
        worker.run(work.connect, server.getsockname()[1])
    for start in (work.start_in_a_session, work.start_in_a_group):
        with pytest.raises(PermissionError):
            worker.run(start)


# Errors


def test_exceptions_of_the_library_and_of_python_keep_their_types(worker: IsolatedWorker, tmp_path: Path) -> None:
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
    with pytest.raises(FileNotFoundError) as missing:
        worker.run(os.stat, Path("/no/such/path"))
    assert missing.value.filename == "/no/such/path"
    with pytest.raises(IsolatedWorkerError, match=r"OwnError: no more") as own:
        worker.run(work.raise_own_error)
    assert own.value.reason == "exception"
    assert pickle.loads(pickle.dumps(own.value)).reason == "exception"
    with pytest.raises(IsolatedWorkerError, match=r"NoTextError: a NoTextError that has no text"):
        worker.run(work.raise_one_without_text)
    with pytest.raises(ValueError, match=r"^\[0, 0, 0"):
        worker.run(work.raise_one_with_much, 1 << 20)
    assert worker.run(work.process_id) == before  # none of them ended the process


def test_bad_arguments(worker: IsolatedWorker) -> None:
    with pytest.raises(InvalidArgumentError, match="picklable"):
        worker.run(lambda: None)
    with pytest.raises(InvalidArgumentError, match=r"function must be callable \(got 5\)"):
        worker.run(5)  # type: ignore[arg-type]


def test_numbers_of_other_libraries_are_numbers() -> None:
    worker = IsolatedWorker(timeout_seconds=np.float32(1.5), max_memory_bytes=np.int64(1 << 30))  # type: ignore[arg-type]
    assert repr(worker) == "IsolatedWorker(timeout_seconds=1.5, max_memory_bytes=1073741824, num_processes=1)"


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


def test_the_answer_of_a_fork_is_discarded(worker: IsolatedWorker) -> None:
    assert worker.run(work.fork_and_answer, 1) == ("parent", 1)
    assert worker.run(work.fork_and_answer, 2) == ("parent", 2)
    assert worker.run(abs, -3) == 3


def test_worker_and_pdf_process_start_where_standard_streams_are_closed(tmp_path: Path) -> None:
    """Daemons and cron start programs like this. The next files that they open get the numbers of standard streams."""
    pdf, answer = tmp_path / "page.pdf", tmp_path / "answer"
    pdf.write_bytes(document([text_page((72, 700, "Hello"))]))
    program = (
        "import os, sys\n"
        "for number, name in enumerate(('stdin', 'stdout', 'stderr')):\n"
        "    os.close(number)\n"
        "    setattr(sys, name, None)\n"
        "    setattr(sys, f'__{name}__', None)\n"
        "from mediatensor.isolate import IsolatedWorker\nfrom mediatensor.ocr.io import DocumentFile\n"
        "pages = DocumentFile.from_pdf(sys.argv[1], timeout_seconds=60)\n"
        "with IsolatedWorker() as worker, open(sys.argv[2], 'w') as file:\n"
        "    file.write(f'{pages[0].shape} {worker.run(abs, -3)}')\n"
    )
    assert run_program(program, pdf, answer).returncode == 0
    assert answer.read_text() == "(1584, 1224, 3) 3"


def test_too_much_memory(worker: IsolatedWorker) -> None:
    # The limit counts the memory that a call adds to torch's.
    assert worker.run(work.take_memory, MAX_MEMORY_BYTES // 2) == MAX_MEMORY_BYTES // 2
    with pytest.raises(IsolatedWorkerError, match="max_memory_bytes = 268435456") as caught:
        worker.run(work.take_memory, MAX_MEMORY_BYTES * 2)
    assert caught.value.reason == "memory"


@pytest.mark.slow
def test_memory_where_the_system_does_not_limit_it() -> None:
    program = (
        "import time; from mediatensor.isolate import limited_memory\n"
        "with limited_memory(256 << 20, by_system=False): kept = bytearray(16 << 20)\n"
        "with limited_memory(256 << 20, by_system=False): kept = b'x' * (1 << 30); time.sleep(1000)"
    )
    # Started by a small process, because the peak memory of a program includes the memory of its parent.
    starter = f"import subprocess, sys; sys.exit(subprocess.run([sys.executable, '-c', {program!r}]).returncode)"
    ended = subprocess.run([sys.executable, "-c", starter], timeout=WAIT_SECONDS, check=False)
    assert ended.returncode == MEMORY_EXIT_STATUS


@pytest.mark.usefixtures("forked_processes")
def test_a_hang_ends_with_all_that_it_started(tmp_path: Path) -> None:
    with (
        IsolatedWorker(timeout_seconds=1, allow_network=True) as worker,
        socket.create_server(("127.0.0.1", 0)) as server,
    ):
        worker.run(work.connect, server.getsockname()[1])
        with pytest.raises(IsolatedWorkerError, match="within 1 seconds") as caught:
            worker.run(work.hang_holding_the_interpreter, tmp_path / "pid")
        assert caught.value.reason == "timeout"
        assert "hang_holding_the_interpreter" in caught.value.__notes__[0]
        wait_until_gone(wait_for_pid(tmp_path / "pid"))


@pytest.mark.usefixtures("forked_processes")
def test_a_crash_while_the_trace_is_written_is_a_timeout() -> None:
    # At the time limit, Python reads the frames of running threads, so it sometimes crashes.
    with (
        IsolatedWorker(timeout_seconds=0.2) as worker,
        pytest.raises(IsolatedWorkerError, match=r"within 0\.2 seconds") as caught,
    ):
        worker.run(work.sleep_with_damaged_names)
    assert caught.value.reason == "timeout"


# The end of the program


def test_a_program_that_is_killed_leaves_no_process(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    program = subprocess.Popen([sys.executable, work.__file__, str(file)])
    try:
        pid = wait_for_pid(file, program)
        assert is_running(pid)
    finally:
        program.kill()
        program.wait(WAIT_SECONDS)
    wait_until_gone(pid)
