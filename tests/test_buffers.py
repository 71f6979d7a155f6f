"""Memory for batches: used again when nobody has it any more, and never before."""

from __future__ import annotations

import gc
import os
import random
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mediatensor._common import buffers
from mediatensor.decoders import VideoDecoder

MB = 1 << 20


@pytest.fixture(autouse=True)
def _nothing_idle() -> Iterator[None]:
    gc.collect()
    buffers.free_idle_blocks()
    yield
    buffers.free_idle_blocks()


def place(array: np.ndarray) -> tuple[int, int]:
    """Where the bytes of a contiguous array lie: [first, last)."""
    start = array.__array_interface__["data"][0]
    return start, start + array.nbytes


def overlap(arrays: list[np.ndarray]) -> bool:
    spans = sorted(place(array) for array in arrays if array.nbytes)
    return any(one[1] > other[0] for one, other in pairwise(spans))


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "float32", "float64", "int64", "bool", "complex128"])
@pytest.mark.parametrize(
    "shape",
    [(), (0,), (5,), (0, 1080, 1920, 3), (3, 0), (1, 1, 1), (7, 101, 67, 3), (2, 540, 480, 3), (1048577,), (1 << 17,)],
)
def test_shape_and_type_are_as_asked_for(shape: tuple[int, ...], dtype: str) -> None:
    for _ in range(2):  # new, and used again
        array = buffers.empty(shape, dtype)
        assert array.shape == shape
        assert array.dtype == dtype
        assert array.flags.c_contiguous
        assert array.flags.writeable
        assert array.flags.aligned
        array[...] = 1
        assert (array == 1).all()
        del array


@given(st.lists(st.tuples(st.sampled_from(["take", "drop", "view"]), st.integers(0, 1 << 30)), max_size=40))
def test_arrays_that_are_alive_never_share_memory(steps: list[tuple[str, int]]) -> None:
    buffers.free_idle_blocks()
    alive: list[tuple[np.ndarray, int]] = []
    for number, (step, chance) in enumerate(steps):
        if step == "take":
            array = buffers.empty((MB + chance % (MB // 2),), "uint8")
            array[::4096] = number % 256
            alive.append((array, number % 256))
        elif alive and step == "drop":
            alive.pop(chance % len(alive))
        elif alive:
            array, mark = alive.pop(chance % len(alive))
            alive.append((array[: len(array) // 2 // 4096 * 4096], mark))
        assert not overlap([array for array, _ in alive])
    assert all((array[::4096] == mark).all() for array, mark in alive)


def test_threads_that_take_and_drop_at_the_same_time_keep_what_they_wrote() -> None:
    def work(seed: int) -> bool:
        source = random.Random(seed)
        mine: list[np.ndarray] = []
        right = True
        for number in range(150):
            array = buffers.empty((source.choice([MB, MB + 4096, 3 * MB // 2]),), "uint8")
            array[::65536] = (seed * 31 + number) % 256
            array[0], array[-1] = seed, number % 256
            mine.append(array)
            right = right and all(one[0] == seed for one in mine)
            if len(mine) > 5:
                mine.pop(source.randrange(len(mine)))
        return right and len({one[-1] for one in mine}) == len(mine)

    with ThreadPoolExecutor(8) as executor:
        assert all(executor.map(work, range(8)))
    gc.collect()
    assert not overlap(buffers.idle_blocks())


def test_memory_comes_back_when_the_array_is_gone() -> None:
    array = buffers.empty((2 * MB,), "uint8")
    before = place(array)
    other = buffers.empty((2 * MB,), "uint8")
    assert place(other) != before
    del array
    assert place(buffers.empty((2 * MB,), "uint8")) == before
    # A little less fits, too, and another type; far less would waste it.
    assert place(buffers.empty((460_000,), "float32"))[0] == before[0]
    assert place(buffers.empty((MB + 4096,), "uint8"))[0] != before[0]


def tensor_of(array: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(array)


VIEWS = {
    "itself": lambda array: array,
    "slice": lambda array: array[1:],
    "slice of a slice": lambda array: array[1:][:, ::2][..., 0],
    "one number": lambda array: array[1, 2, 3, 2:],
    "reshaped": lambda array: array.reshape(-1)[5:9],
    "other type": lambda array: array.view(np.int8),
    "transposed": lambda array: array.T,
    "memoryview": memoryview,
    "tensor": tensor_of,
    "tensor of a slice": lambda array: tensor_of(array[1:]),
    "tensor, permuted": lambda array: tensor_of(array).permute(0, 3, 1, 2),
    "slice of a tensor": lambda array: tensor_of(array)[1].permute(2, 0, 1)[0],
    "array of a tensor": lambda array: tensor_of(array)[1].numpy()[::2],
    "dlpack": lambda array: torch.from_dlpack(array)[1],
    "storage": lambda array: tensor_of(array).untyped_storage(),
}


@pytest.mark.parametrize("view_of", VIEWS.values(), ids=VIEWS.keys())
def test_a_view_keeps_the_memory(view_of: object) -> None:
    shape = (2, 500, 400, 3)
    array = buffers.empty(shape, "uint8")
    first = place(array)[0]
    view = view_of(array)
    del array
    gc.collect()
    assert place(buffers.empty(shape, "uint8"))[0] != first
    buffers.free_idle_blocks()
    del view
    gc.collect()
    assert place(buffers.empty(shape, "uint8"))[0] == first


def test_small_arrays_are_ordinary() -> None:
    array = buffers.empty((MB - 1,), "uint8")
    del array
    assert not buffers.idle_blocks()


def test_idle_memory_is_bounded() -> None:
    arrays = [buffers.empty((40 * MB,), "uint8") for _ in range(6)]
    huge = buffers.empty((200 * MB,), "uint8")
    assert not buffers.idle_blocks()
    del arrays, huge
    assert 40 * MB <= sum(block.size for block in buffers.idle_blocks()) <= 128 * MB


def test_the_bound_holds_when_threads_drop_at_the_same_time() -> None:
    start = threading.Barrier(8, timeout=20)

    def work(_: int) -> None:
        arrays = [buffers.empty(((5 + number) * MB,), "uint8") for number in range(6)]
        start.wait()
        while arrays:
            arrays.pop()

    with ThreadPoolExecutor(8) as executor:
        list(executor.map(work, range(8)))
    last = buffers.empty((MB,), "uint8")
    del last
    assert sum(block.size for block in buffers.idle_blocks()) <= 128 * MB


def test_memory_that_is_used_again_is_not_kept_from_its_new_owner() -> None:
    """A block that came back is forgotten by its old array: dropping the new one gives it back once, not twice."""
    for _ in range(5):
        array = buffers.empty((2 * MB,), "uint8")
        gone = weakref.ref(array)
        del array
        assert gone() is None
        assert len(buffers.idle_blocks()) == 1


def test_batches_that_are_alive_keep_their_pixels(clip: Path, clip_rgb: torch.Tensor) -> None:
    with VideoDecoder(clip) as decoder:
        wanted = list(range(40)) * 4  # 2.9 MB
        first = decoder.get_frames_at(wanted).data
        kept = decoder.get_frames_at(wanted[::-1]).data[5]
        for _ in range(3):
            decoder.get_frames_at(wanted[7:])
        assert torch.equal(first, clip_rgb[wanted])
        assert torch.equal(kept, clip_rgb[wanted[::-1][5]])


_FORK = """
import os
import numpy as np
from mediatensor._common import buffers

size = 2 << 20
idle, mine = buffers.empty((size,), "uint8"), buffers.empty((size,), "uint8")
mine[:] = 7
del idle
child = os.fork()
array = buffers.empty((size,), "uint8")
array[:] = 1 if child == 0 else 2
other = buffers.empty((size,), "uint8")
other[:] = 3
right = (mine == 7).all() and (array == (1 if child == 0 else 2)).all()
if child == 0:
    os._exit(0 if right else 1)
assert right
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert (mine == 7).all() and (array == 2).all()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_after_a_fork_each_process_has_its_own() -> None:
    run = subprocess.run([sys.executable, "-c", _FORK], capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr


# Batches that are there when the interpreter ends, in a module, in a cycle and beside a thread.
_END = """
import sys, threading, time, torch
from mediatensor._common import buffers

batch = buffers.empty((2 << 20,), "uint8")
sys.batch = [buffers.empty((2 << 20,), "uint8")]
sys.batch.append(sys.batch)
threading.Thread(target=time.sleep, args=(9,), daemon=True).start()
sys.tensor = torch.from_numpy(buffers.empty((2 << 20,), "uint8"))
"""


def test_the_end_of_the_program_is_silent() -> None:
    run = subprocess.run([sys.executable, "-c", _END], capture_output=True, text=True, timeout=120)
    assert (run.returncode, run.stderr) == (0, "")
