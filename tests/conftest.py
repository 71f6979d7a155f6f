"""Shared fixtures of the tests: the folder of real media files, their reference frames, and the ``ffmpeg`` program."""

from __future__ import annotations

import ctypes
import functools
import gc
import gzip
import importlib
import json
import linecache
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import av
import pytest
import torch
from _pytest.doctest import DoctestModule
from hypothesis import settings

import media
import media_audio
import mediatensor
import memory_return
import sampling
from exactness import Truth, find_truth
from fake_device import fake_device as fake_device
from forked_isolation import forked_processes as forked_processes
from mediatensor._engine.pyav.reading import PacketDecoder, VideoReader
from oracles import linear_decode_rgb
from processes import find_program
from real_files import TEST_DATA
from remembered_features import features_remembered_in_module as features_remembered_in_module
from remembered_features import features_remembered_in_test as features_remembered_in_test
from sharing import STORE_VARIABLE

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8

# In these files, single tests need 400 to 600 MB, for large networks or large maps.
_NEED_MUCH_MEMORY = ("test_ocr_recognition_models.py", "test_ocr_precision.py", "test_ocr_leftovers.py")

# These write fixtures, and need the libraries whose results they record.
collect_ignore_glob = ["shared/record_*.py"]
# The folder of the library's sources has another module of this name. The planted faults are a program without tests.
collect_ignore = ["conftest.py", "faults"]


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    pluginmanager.register(sampling)
    pluginmanager.register(memory_return)
    parser.addoption("--seeds", type=int, default=1, help="run only the tests that train, with this many seeds each")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "training_seed" in metafunc.fixturenames and metafunc.config.option.seeds > 1:
        metafunc.parametrize("training_seed", range(metafunc.config.option.seeds))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    # Networks need much memory for a short time, so their tests run first: processes grow with the tests they have run.
    items.sort(key=_place_in_order)
    if config.option.seeds > 1:
        items[:] = [item for item in items if "training_seed" in getattr(item, "fixturenames", ())]


def _place_in_order(item: pytest.Item) -> int:
    if item.path.name in _NEED_MUCH_MEMORY:
        return 0
    if {"text", "ocr"} & set(item.path.parts):
        return 1
    # The pages of the documentation run networks, too, but need less memory.
    return 2 if item.path.name in ("test_docs_snippets.py", "test_examples.py") else 3


@pytest.fixture
def training_seed() -> int:
    """The seed of a test that trains: 0, and more with ``--seeds``. No test may depend on a lucky one."""
    return 0


def pytest_configure(config: pytest.Config) -> None:
    # Test processes run side by side: torch's own threads would only get in each other's way.
    torch.set_num_threads(1)
    # And for the processes that tests start. A server uses all cores: on a busy machine, its idle threads would spin.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    # By default, oneDNN keeps the code for the last 1024 shapes of networks' inputs, and tests have many shapes.
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")
    # Nor may a busy machine fail a property.
    settings.register_profile("suite", deadline=None)
    settings.load_profile("suite")
    # By default, glibc raises this limit with use, and then keeps large blocks that were freed.
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, 8 << 20)
        # This would then stay at 128 kB: results of networks would be returned, and faulted in again.
        mallopt(_M_TRIM_THRESHOLD, 64 << 20)
        # By default, each thread has its own area of memory, and other threads cannot reuse the blocks that it freed.
        mallopt(_M_ARENA_MAX, 1)
    if STORE_VARIABLE not in os.environ:
        # The processes of pytest-xdist start later, and see it.
        os.environ[STORE_VARIABLE] = tempfile.mkdtemp(prefix="mediatensor-test-clips-")
        config.add_cleanup(lambda: shutil.rmtree(os.environ.pop(STORE_VARIABLE), ignore_errors=True))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Collect the tests without collecting garbage: modules and tests stay, and are a lot to search."""
    gc.disable()
    try:
        _import_test_modules(session.config)
        return (yield)
    finally:
        gc.enable()


def _import_test_modules(config: pytest.Config) -> None:
    """Import the test modules, in each process of pytest-xdist from another place on.

    A new checkout has no compiled modules. If all processes imported them in the same order, all would compile the same
    modules, and rewrite the same assertions, at the same time.
    """
    worker: dict[str, Any] | None = getattr(config, "workerinput", None)
    if worker is None:
        return
    paths = sorted({path for argument in config.args for path in Path(argument).rglob("test_*.py")})
    paths = [path for path in paths if not (path.parent / "__init__.py").exists()]
    first = len(paths) * int(worker["workerid"].removeprefix("gw")) // worker["workercount"]
    for path in paths[first:] + paths[:first]:
        if (folder := str(path.parent.absolute())) not in sys.path:
            sys.path.insert(0, folder)  # as pytest does
        # Collecting the module reports its error, or the reason for which it is skipped.
        with suppress(Exception, pytest.skip.Exception):
            importlib.import_module(path.stem)


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Search the modules that tests share for doctests, but not the test modules, which have none."""
    collectors = yield
    if not file_path.name.startswith("test_"):
        return collectors
    return [collector for collector in collectors if not isinstance(collector, DoctestModule)]


def pytest_collection_finish() -> None:
    linecache.clearcache()  # the search for doctests has read all sources: 17 MB
    # Thousands of tests are many objects, and they stay: tests that collect garbage need not go through them each time.
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module")
def fast_collection() -> None:
    """Exempt all objects of other modules from garbage collection, for tests that collect often."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def media_data() -> Callable[[str], Path]:
    """The path of a real media file by name: ``media_data("decord__video_90.mov")``."""
    folder = TEST_DATA / "media"
    if not folder.is_dir():
        pytest.skip(f"needs real media files in {folder} (set MEDIATENSOR_TEST_DATA to the folder above)")

    def locate(name: str) -> Path:
        path = folder / name
        # The folder is there, so a missing file is a wrong name: skipping would hide that.
        assert path.is_file(), f"no file {name} in {folder}"
        return path

    return locate


@pytest.fixture(scope="session")
def reference_frames(media_data: Callable[[str], Path]) -> dict[str, dict[str, Any]]:
    """A plain decode, by file and stream: ``reference_frames["x.mp4"]["0"]["frames"]`` is [[pts, crc], ...]."""
    with gzip.open(media_data("reference_frames.json.gz"), "rt", encoding="utf-8") as file:
        reference: dict[str, dict[str, Any]] = json.load(file)
    return reference


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for the clips of a test module."""
    return tmp_path_factory.mktemp("clips")


@pytest.fixture(scope="session")
def sound_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return media_audio.sound_folder(tmp_path_factory)


@pytest.fixture
def num_packets_read(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """How many packets of video were read since it was last asked, one by one or in a loop."""
    one, many, count = VideoReader.read_packet, VideoReader.packets, [0]

    def read_packet(self: VideoReader) -> Any:
        count[0] += 1
        return one(self)

    def packets(self: VideoReader) -> Iterator[Any]:
        for packet in many(self):
            count[0] += 1
            yield packet

    monkeypatch.setattr(VideoReader, "read_packet", read_packet)
    monkeypatch.setattr(VideoReader, "packets", packets)

    def take() -> int:
        taken, count[0] = count[0], 0
        return taken

    return take


@pytest.fixture(scope="session")
def ffmpeg_program() -> str:
    """The path of the ``ffmpeg`` program, a decoder that shares no code with the library."""
    return find_program("ffmpeg", "ffmpeg")


@pytest.fixture(scope="module")
def truth_of(folder: Path) -> Callable[[str], Truth]:
    """The frames of a clip by a plain decode, by the clip's name."""
    return functools.cache(lambda name: find_truth(media.make(name, folder)))


@pytest.fixture(scope="session")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small H.264 clip with B pictures that are references, and several GOPs."""
    return media.make("h264_b_pyramid", tmp_path_factory.mktemp("clip"))


@pytest.fixture(scope="session")
def clip_rgb(clip: Path) -> torch.Tensor:
    """Its frames by a plain decode, uint8 (N, 3, H, W)."""
    _, rgb = linear_decode_rgb(clip)
    return torch.from_numpy(rgb).permute(0, 3, 1, 2)


@pytest.fixture
def count(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], int]:
    """Run a call, and return how many frames of video came out of codecs."""
    decoded = []
    original = PacketDecoder.decode

    def decode_and_count(self: PacketDecoder, packet: object) -> Sequence[object]:
        frames = original(self, packet)
        decoded.extend(None for frame in frames if isinstance(frame, av.VideoFrame))
        return frames

    monkeypatch.setattr(PacketDecoder, "decode", decode_and_count)

    def run(call: Callable[[], object]) -> int:
        decoded.clear()
        call()
        return len(decoded)

    return run


@pytest.fixture
def own_limits(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let a test set the number of threads and the bytes of kept frames, which are the defaults before and after it."""
    for variable in ("MEDIATENSOR_NUM_THREADS", "MEDIATENSOR_FRAME_CACHE_BYTES"):
        monkeypatch.delenv(variable, raising=False)
    yield
    monkeypatch.undo()
    mediatensor.set_num_threads(None)
    mediatensor.set_frame_cache_bytes(None)


@pytest.fixture
def plots() -> Iterator[Any]:
    """matplotlib without a screen."""
    matplotlib = pytest.importorskip("matplotlib", reason="needs matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    yield pyplot
    pyplot.close("all")


@pytest.fixture
def demo_without_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the demo read its batches without workers, whose start takes seconds."""
    loader = torch.utils.data.DataLoader

    def without_workers(dataset: Any, batch_size: int, **options: Any) -> Any:
        return loader(dataset, batch_size, shuffle=options["shuffle"])

    monkeypatch.setattr(torch.utils.data, "DataLoader", without_workers)


@pytest.fixture(autouse=True)
def ordinary_scheduling() -> Iterator[None]:
    """Take back the real-time priority that SVT-AV1 gives, as root, to a thread that writes a clip with PyAV."""
    yield
    if hasattr(os, "sched_getscheduler") and os.sched_getscheduler(0) != os.SCHED_OTHER:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
