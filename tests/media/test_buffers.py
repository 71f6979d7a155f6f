"""Memory for batches is reused after its last array is freed, and never before."""

from __future__ import annotations

import copy
import gc
import mmap
import os
import pickle
import random
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from forked import run_program
from mediatensor._engine.common import buffers
from mediatensor.decoders import VideoDecoder

pytestmark = pytest.mark.usefixtures("fast_collection")

MB = 1 << 20


@pytest.fixture(autouse=True)
def _nothing_idle() -> Iterator[None]:
    gc.collect()
    buffers.free_idle_blocks()
    yield
    buffers.free_idle_blocks()


def place(array: np.ndarray) -> tuple[int, int]:
    """Return the addresses [first, last) of a contiguous array."""
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
def test_empty_returns_requested_shape_and_type(shape: tuple[int, ...], dtype: str) -> None:
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
def test_live_arrays_never_share_memory(steps: list[tuple[str, int]]) -> None:
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


def test_concurrent_threads_keep_their_data() -> None:
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


def test_memory_returns_with_last_array() -> None:
    array = buffers.empty((2 * MB,), "uint8")
    before = place(array)
    other = buffers.empty((2 * MB,), "uint8")
    assert place(other) != before
    del array
    assert place(buffers.empty((2 * MB,), "uint8")) == before
    # A slightly smaller array and another type fit; a far smaller one would waste the block.
    assert place(buffers.empty((460_000,), "float32"))[0] == before[0]
    assert place(buffers.empty((MB + 4096,), "uint8"))[0] != before[0]


tensor_of = torch.from_numpy


def in_a_cycle(value: object) -> list[object]:
    cycle = [value]
    cycle.append(cycle)
    return cycle


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
    "dlpack capsule": lambda array: torch.utils.dlpack.to_dlpack(tensor_of(array)),
    "storage": lambda array: tensor_of(array).untyped_storage(),
    "storage of a slice": lambda array: tensor_of(array)[1:].untyped_storage(),
    "tensor of a storage": lambda array: torch.empty(0, dtype=torch.uint8).set_(tensor_of(array).untyped_storage()),
    "tensor in a cycle": lambda array: in_a_cycle(tensor_of(array)),
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


def test_copies_outlive_the_memory() -> None:
    """Pickles, shared memory and clones have their own bytes."""
    tensor = tensor_of(buffers.empty((2 * MB,), "uint8")).fill_(7)
    copies = [pickle.loads(pickle.dumps(tensor)), copy.deepcopy(tensor), tensor.clone()]
    shared = tensor_of(buffers.empty((2 * MB,), "uint8")).fill_(7).share_memory_()
    first = tensor.data_ptr()
    del tensor
    again = tensor_of(buffers.empty((2 * MB,), "uint8")).fill_(1)
    other = tensor_of(buffers.empty((2 * MB,), "uint8")).fill_(2)
    assert first in (again.data_ptr(), other.data_ptr())
    assert shared.is_shared()
    assert all((one == 7).all() for one in [*copies, shared])


def test_small_arrays_are_not_pooled() -> None:
    array = buffers.empty((MB // 2 - 1,), "uint8")
    del array
    assert not buffers.idle_blocks()


def idle_bytes(pool: Any = buffers) -> int:
    return sum(block.size for block in pool.idle_blocks())


def test_idle_memory_is_bounded_by_what_was_in_use_at_once() -> None:
    pool = buffers.Pool()
    arrays = [pool.empty((40 * MB,), "uint8") for _ in range(6)]
    assert idle_bytes(pool) == 0
    del arrays
    assert idle_bytes(pool) == 240 * MB
    # Other sizes replace unused ones: together they are not larger than before.
    arrays = [pool.empty((60 * MB,), "uint8") for _ in range(3)]
    assert idle_bytes(pool) <= (240 + 128 - 180) * MB
    del arrays
    assert idle_bytes(pool) <= (240 + 128) * MB
    one_after_the_other = buffers.Pool()
    for size in range(100, 1000, 130):
        one_after_the_other.empty((size * MB,), "uint8")
        assert idle_bytes(one_after_the_other) <= (size + 128) * MB


def test_idle_memory_has_an_upper_limit() -> None:
    pool = buffers.Pool()
    arrays = [pool.empty((300 * MB,), "uint8") for _ in range(6)]
    huge = pool.empty((1100 * MB,), "uint8")
    del arrays
    assert 800 * MB < idle_bytes(pool) <= 1024 * MB
    del huge
    assert idle_bytes(pool) <= 1024 * MB


def test_small_batches_free_memory_of_large_one() -> None:
    pool = buffers.Pool()
    pool.empty((400 * MB,), "uint8")
    for _ in range(5):
        pool.empty((50 * MB,), "uint8")
    assert idle_bytes(pool) >= 400 * MB  # the next one may be large again
    for _ in range(20):
        pool.empty((50 * MB,), "uint8")
    assert idle_bytes(pool) <= 128 * MB


def test_unused_memory_is_freed_after_a_minute() -> None:
    now = 0.0
    pool = buffers.Pool(lambda: now)
    pool.empty((400 * MB,), "uint8")
    now = 50
    pool.empty((MB,), "uint8")
    assert idle_bytes(pool) == 401 * MB
    now = 70
    pool.empty((5,), "uint8")  # any call
    assert idle_bytes(pool) == MB
    now = 200
    pool.empty((5,), "uint8")
    assert idle_bytes(pool) == 0


@pytest.mark.skipif(sys.platform != "linux", reason="zeroes pages as Linux does")
def test_kernel_may_free_idle_memory_beyond_the_limit() -> None:
    pool = buffers.Pool()
    pool.always_idle_bytes = 8 * MB
    pool.free_lazily = mmap.MADV_DONTNEED  # frees at once; the content of freed pages is 0
    arrays = [pool.empty((4 * MB,), "uint8") for _ in range(3)]
    while arrays:
        arrays.pop().fill(1)
    assert [block.max() for block in pool.idle_blocks()] == [1, 1, 0]


def test_memory_in_steady_use_stays() -> None:
    now = 0.0
    pool = buffers.Pool(lambda: now)
    places = set()
    for _ in range(10):
        now += 40
        places.add(place(pool.empty((200 * MB,), "uint8")))
    assert len(places) == 1


def test_idle_memory_is_freed_before_memory_error() -> None:
    buffers.empty((2 * MB,), "uint8")
    assert idle_bytes() == 2 * MB
    with pytest.raises(MemoryError):
        buffers.empty((1 << 50,), "uint8")
    assert idle_bytes() == 0


def test_bound_holds_with_concurrent_threads() -> None:
    pool = buffers.Pool()
    start = threading.Barrier(8, timeout=20)

    def work(_: int) -> None:
        arrays = [pool.empty(((5 + number) * MB,), "uint8") for number in range(6)]
        start.wait()
        while arrays:
            arrays.pop()

    with ThreadPoolExecutor(8) as executor:
        list(executor.map(work, range(8)))
    assert idle_bytes(pool) <= (8 * 45 + 128) * MB
    for _ in range(40):
        pool.empty((MB,), "uint8")
    assert idle_bytes(pool) <= 128 * MB


def test_drops_during_garbage_collection_lose_nothing() -> None:
    """Blocks in cycles return in the middle of any step of the pool."""
    pool = buffers.Pool()
    before = gc.get_threshold()
    gc.set_threshold(3, 2, 2)
    try:

        def work(seed: int) -> bool:
            mine: list[np.ndarray] = []
            for number in range(60):
                array = pool.empty(((1 + (seed + number) % 3) * MB,), "uint8")
                array[:: MB // 2] = seed
                cycle: list[Any] = [pool.empty((MB,), "uint8")]
                cycle.append(cycle)
                mine = [*mine[-3:], array]
                if not all((one[:: MB // 2] == seed).all() for one in mine):
                    return False
            return True

        with ThreadPoolExecutor(6) as executor:
            assert all(executor.map(work, range(6)))
    finally:
        gc.set_threshold(*before)
    gc.collect()
    assert not overlap(pool.idle_blocks())


def test_reused_memory_keeps_data_of_new_owner() -> None:
    """A block returns to the pool only once, although an earlier array owned it before."""
    for _ in range(5):
        array = buffers.empty((2 * MB,), "uint8")
        gone = weakref.ref(array)
        del array
        assert gone() is None
        assert len(buffers.idle_blocks()) == 1


def test_live_batches_keep_their_pixels(clip: Path, clip_rgb: torch.Tensor) -> None:
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
import time
import numpy as np
from mediatensor._engine.common import buffers

size = 200 << 20  # above always_idle_bytes, so that pages may be freed while the block is idle
idle, mine = buffers.empty((size,), "uint8"), buffers.empty((size,), "uint8")
mine[:] = 7
del idle
child = os.fork()
array = buffers.empty((size,), "uint8")
array[:] = 1 if child == 0 else 2
other = buffers.empty((size,), "uint8")
other[:] = 3
del other
time.sleep(0.1)
other = buffers.empty((size,), "uint8")
right = (mine == 7).all() and (array == (1 if child == 0 else 2)).all()
if child == 0:
    mine[:] = 9  # the child's copy
    os._exit(0 if right else 1)
assert right
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert (mine == 7).all() and (array == 2).all()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_forked_processes_have_their_own_memory() -> None:
    run = run_program(_FORK)
    assert run.returncode == 0, run.stderr


_FAULTS = """
import resource, sys
import numpy as np
from mediatensor._engine.common import buffers

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()

size = 300 << 20
for number in range(4):
    before = faults()
    batch = buffers.empty((size,), "uint8")
    batch[:] = number
    print(faults() - before)
    del batch
small = [buffers.empty((10 << 20,), "uint8") for _ in range(3)]
for number in range(40):
    small[number % 3] = buffers.empty((10 << 20,), "uint8")
    small[number % 3][:] = number
print(resident() < size)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="counts page faults of Linux")
def test_second_batch_touches_no_new_page() -> None:
    run = subprocess.run([sys.executable, "-c", _FAULTS], capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    *faults, is_small_again = run.stdout.split()
    first, *others = map(int, faults)
    # 300 MB are 150 huge pages or 76,800 small ones; numpy's buffers for the copy are a few.
    assert first >= 100
    assert max(others) < 40
    assert is_small_again == "True"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="counts page faults of Linux")
def test_second_decoder_call_touches_few_new_pages(clip: Path) -> None:
    program = """
import resource, sys
from mediatensor.decoders import VideoDecoder

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

with VideoDecoder(sys.argv[1]) as decoder:
    wanted = list(range(len(decoder))) * (256_000_000 // decoder[0].numel() // len(decoder))
    decoder[0:4]
    for _ in range(2):
        before = faults()
        decoder.get_frames_at(wanted)
        print(faults() - before)
"""
    run = subprocess.run([sys.executable, "-c", program, str(clip)], capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    first, second = map(int, run.stdout.split())
    assert second < 2000  # a batch of 256 MB has 62,500 small pages
    assert second < first or first < 2000


# Batches that exist when the interpreter ends: in a module, in a cycle, and next to a thread.
_END = """
import sys, threading, time, torch
from mediatensor._engine.common import buffers

batch = buffers.empty((2 << 20,), "uint8")
sys.batch = [buffers.empty((2 << 20,), "uint8")]
sys.batch.append(sys.batch)
threading.Thread(target=time.sleep, args=(9,), daemon=True).start()
sys.tensor = torch.from_numpy(buffers.empty((2 << 20,), "uint8"))
"""


def test_end_of_program_is_silent() -> None:
    run = run_program(_END)
    assert (run.returncode, run.stderr) == (0, "")
