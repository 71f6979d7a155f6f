"""Signals whose handlers raise at any moment: handlers are restored, nothing is raised twice, and work continues."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import torch

from mediatensor._engine.common import interrupts as _interrupts
from mediatensor.decoders import VideoDecoder
from mediatensor.encoders import VideoEncoder
from places import needs_fork, traced

pytestmark = needs_fork

#: Code that enters and leaves a block, where an exception may be the only trace of an interrupt.
_AROUND_BLOCKS = (str(_interrupts.__file__), str(contextlib.__file__))


class _TimeIsUpError(Exception):
    pass


def _time_is_up(signal_number: int, frame: FrameType | None) -> None:
    raise _TimeIsUpError


def _too_long(signal_number: int, frame: FrameType | None) -> None:
    raise TimeoutError("the user's own")


@pytest.fixture(autouse=True)
def handler() -> Iterator[None]:
    before = signal.signal(signal.SIGALRM, _time_is_up)
    yield
    signal.signal(signal.SIGALRM, before)


def _interrupt_at(number: int, work: Callable[[], object]) -> _TimeIsUpError | None:
    """Raise the alarm at the ``number``-th step around blocks, perhaps before the first line of a function."""
    left = number

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal left
        if frame.f_code.co_filename not in _AROUND_BLOCKS or frame.f_code.co_name == "__call__":
            return None
        left -= 1
        if left == 0:
            signal.raise_signal(signal.SIGALRM)
        return trace

    try:
        with traced(trace):
            work()
    except _TimeIsUpError as error:
        return error
    return None


# Python itself loses an interrupt that arrives while it handles the objects of an earlier one.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_handlers_are_restored_wherever_one_raises(clip: Path) -> None:
    decoder = VideoDecoder(io.BytesIO(clip.read_bytes()))
    own = signal.getsignal(signal.SIGINT)
    decoder.get_frame_at(7)
    number = 0
    while True:
        number += 1
        raised = _interrupt_at(number, lambda: decoder.get_frame_at(7))
        assert signal.getsignal(signal.SIGALRM) is _time_is_up, number
        assert signal.getsignal(signal.SIGINT) is own, number
        with _interrupts.interrupts_kept():
            assert signal.getsignal(signal.SIGALRM) is not _time_is_up, number
        decoder.get_frame_at(3)  # raises nothing, although the traceback of the other call is held
        if raised is None:
            break
    assert number > 30


def test_decoding_a_path_leaves_handlers_alone(clip: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """FFmpeg reads the file itself, and calls no Python code that could lose the exception of a signal."""
    with VideoDecoder(clip) as decoder:
        decoder[7]
        monkeypatch.setattr(_interrupts.interrupts_kept, "__enter__", lambda block: pytest.fail("changed"))
        decoder[3], decoder[8], decoder[2:9]


def test_process_forked_by_another_thread_has_users_handlers(clip: Path) -> None:
    answers: list[bytes] = []

    def fork() -> None:
        reading, writing = os.pipe()
        if (child := os.fork()) == 0:
            with contextlib.suppress(BaseException):
                os.write(writing, b"own" if signal.getsignal(signal.SIGALRM) is _time_is_up else b"other")
            os._exit(0)
        answers.append(os.read(reading, 9))
        os.waitpid(child, 0)
        os.close(reading)
        os.close(writing)

    with _interrupts.interrupts_kept():
        assert signal.getsignal(signal.SIGALRM) is not _time_is_up
        thread = threading.Thread(target=fork)
        thread.start()
        thread.join()
    assert answers == [b"own"]


def test_file_object_may_have_its_own_time_limits(clip: Path) -> None:
    class Slow:
        def __init__(self) -> None:
            self.file = clip.open("rb")
            self.num_retries = 0

        def read(self, size: int) -> bytes:
            try:
                signal.raise_signal(signal.SIGALRM)
            except _TimeIsUpError:
                self.num_retries += 1
            return self.file.read(size)

        def seek(self, offset: int, whence: int) -> int:
            return self.file.seek(offset, whence)

    slow = Slow()
    with slow.file, VideoDecoder(clip) as expected:
        assert torch.equal(VideoDecoder(slow)[7], expected[7])
    assert slow.num_retries > 0
    assert signal.getsignal(signal.SIGALRM) is _time_is_up


def test_users_timeout_is_not_an_encoding_error() -> None:
    class Slow:
        """A file whose callback, which FFmpeg calls, exceeds the time."""

        def write(self, data: bytes) -> int:
            signal.setitimer(signal.ITIMER_REAL, 0.001)
            time.sleep(1)
            return len(data)

    signal.signal(signal.SIGALRM, _too_long)
    frames = torch.zeros(4, 3, 32, 32, dtype=torch.uint8)
    with pytest.raises(TimeoutError, match="the user's own"):
        VideoEncoder(frames, frame_rate=25).to_file_like(Slow(), "matroska")
