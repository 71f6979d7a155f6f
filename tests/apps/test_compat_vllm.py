"""`mediatensor.compat.vllm` by vLLM's published protocol: vLLM itself is not installed here.

`registry_of_vllm` follows the classes ``VideoLoader``, ``VideoLoaderRegistry`` and ``VideoMediaIO`` of its sources:
their calls, arguments, and use of the results.
"""

from __future__ import annotations

import importlib
import math
import random
import sys
import tomllib
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import av
import numpy as np
import pytest

import media
from decord_calls import CLIP, LATE, UNEVEN
from mediatensor.compat import vllm
from mediatensor.decoders import VideoDecoder
from mediatensor.errors import InvalidArgumentError, OpenError

DATA = Path(CLIP).read_bytes()
KEYS = ["total_num_frames", "fps", "duration", "video_backend", "frames_indices", "do_sample_frames"]
HERE: dict[str, Any] = {"timeout_seconds": None}


@pytest.fixture
def registry_of_vllm(monkeypatch: pytest.MonkeyPatch) -> Any:
    class Loader:
        @classmethod
        def compute_frames_index_to_sample(cls, source: Any, target: Any, **kwargs: Any) -> list[int]:
            raise NotImplementedError

        @classmethod
        def load_bytes(cls, data: bytes, **kwargs: Any) -> Any:
            raise NotImplementedError

    class Registry:
        def __init__(self) -> None:
            self.name2class: dict[str, type] = {}
            self.processors: dict[str, str] = {}

        def register(self, name: str, *, video_processor: Any = None, requires_gpu: bool = False) -> Any:
            def wrap(kind: type) -> type:
                self.name2class[name] = kind
                names = (video_processor,) if isinstance(video_processor, str) else video_processor or ()
                self.processors |= dict.fromkeys(names, name)
                return kind

            return wrap

        def load(self, name: str) -> Any:
            return self.name2class[name]()

    module = ModuleType("vllm.multimodal.video")
    registry = Registry()
    vars(module).update(VideoLoader=Loader, VIDEO_LOADER_REGISTRY=registry)

    @registry.register("of_a_model")
    class OfAModel(Loader):
        @classmethod
        def compute_frames_index_to_sample(cls, source: Any, target: Any, **kwargs: Any) -> list[int]:
            step = max(1, round(source.original_fps / target.fps))
            return list(range(0, source.total_frames_num, step))[: kwargs.get("max_frames", 768)]

        @classmethod
        def load_bytes(cls, data: bytes, num_frames: int = -1, fps: int = 2, **kwargs: Any) -> Any:
            raise AssertionError("vLLM decodes")

    for name in ("vllm", "vllm.multimodal"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, "vllm.multimodal.video", module)
    return registry


def decoded(path: str) -> Any:
    with av.open(path) as container:
        return np.stack([frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)])


@pytest.mark.usefixtures("forked_processes")
def test_a_loader_as_vllm_calls_it(registry_of_vllm: Any) -> None:
    vllm.register()
    vllm.register()  # vLLM can load a plugin twice
    loader = registry_of_vllm.load("mediatensor")
    assert isinstance(loader, sys.modules["vllm.multimodal.video"].VideoLoader)
    truth = decoded(CLIP)
    # The media-io-kwargs of a server are added.
    frames, metadata = loader.load_bytes(DATA, num_frames=8, fps=5, timeout_seconds=20)
    assert metadata["frames_indices"] == [0, 5, 11, 17, 23, 29]
    assert list(metadata) == KEYS
    assert (metadata["total_num_frames"], metadata["fps"], metadata["do_sample_frames"]) == (30, 25.0, False)
    assert (metadata["duration"], metadata["video_backend"]) == (1.2, "mediatensor")
    assert (type(frames), frames.dtype) == (np.ndarray, np.uint8)
    assert np.array_equal(frames, truth[metadata["frames_indices"]])
    frames, metadata = loader.load_bytes(DATA, num_frames=-1, **HERE)
    assert np.array_equal(frames, truth)
    assert metadata["do_sample_frames"]
    uneven, metadata = loader.load_bytes(Path(UNEVEN).read_bytes(), num_frames=4, **HERE)
    assert metadata["total_num_frames"] == 30  # counted, because the header of a Matroska file does not state it
    assert np.array_equal(uneven, decoded(UNEVEN)[[0, 9, 19, 29]])


def test_frames_that_another_loader_chooses(registry_of_vllm: Any) -> None:
    vllm.register("mine", sampling="of_a_model", video_processor=["ModelVideoProcessor"], timeout_seconds=None)
    assert registry_of_vllm.processors == {"ModelVideoProcessor": "mine"}
    loader = registry_of_vllm.load("mine")
    frames, metadata = loader.load_bytes(DATA, num_frames=32)
    assert metadata["frames_indices"] == [0, 12, 24]  # 2 frames per second, the default of that loader
    assert np.array_equal(frames, decoded(CLIP)[[0, 12, 24]])
    assert loader.load_bytes(DATA, fps=5, max_frames=3)[1]["frames_indices"] == [0, 5, 10]
    with pytest.raises(InvalidArgumentError, match="mine, of_a_model"):
        vllm.register(sampling="nothing")
    with pytest.raises(InvalidArgumentError, match="video_processor"):
        vllm.register(video_processor=5)  # type: ignore[arg-type]


def test_how_many_frames(registry_of_vllm: Any) -> None:
    for total, duration, num_frames, fps in ((300, 10.0, 8, -1), (300, 10.0, -1, 0.5), (300, 10.0, 4, 1), (5, 1, 9, 9)):
        found = vllm.VideoLoader.compute_frames_index_to_sample(
            vllm.VideoSource(total, total / duration, duration), vllm.VideoTarget(num_frames, fps, 300)
        )
        most = [total, *([num_frames] if num_frames > 0 else []), *([int(duration * fps)] if fps > 0 else [])]
        count = max(1, min(most))
        assert found == [i * (total - 1) // (count - 1) for i in range(count)]
    assert len(vllm.VideoLoader.load_bytes(DATA, fps=math.inf, **HERE)[0]) == 30


def test_vllm_finds_the_plugin() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    module, _, name = project["entry-points"]["vllm.general_plugins"]["mediatensor"].partition(":")
    assert getattr(importlib.import_module(module), name) is vllm.register
    if "vllm" not in sys.modules:
        with pytest.raises(ImportError, match="pip install vllm"):
            vllm.register()


def test_hostile_bytes_are_value_errors() -> None:
    rng = random.Random(3)
    header = DATA.rfind(b"moov")
    hostile = [b"", b"\x00", b"no video", DATA[:500], DATA[-500:], DATA[: len(DATA) // 2], rng.randbytes(20_000)]
    for _ in range(12):
        changed = bytearray(DATA)
        for _ in range(8):
            changed[rng.randrange(header, len(changed))] = rng.randrange(256)
        hostile.append(bytes(changed))
    refused = 0
    for data in hostile:
        try:
            frames, metadata = vllm.VideoLoader.load_bytes(data, 4, frame_recovery=True, timeout_seconds=20)
        except ValueError as error:
            refused += isinstance(error, OpenError) or "stream" in str(error)
        else:
            assert len(frames) == len(metadata["frames_indices"])
            assert frames.ndim == 4
    assert refused >= 6


def test_a_call_that_takes_too_long_is_a_value_error() -> None:
    # A busy machine may look at the clock only when the result is there: then a single call succeeds.
    problems = []
    for _ in range(10):
        try:
            vllm.VideoLoader.load_bytes(DATA, 4, timeout_seconds=0.001)
        except OpenError as error:
            problems.append(str(error))
    assert problems
    assert all("within" in problem for problem in problems)


@pytest.mark.usefixtures("forked_processes")
def test_calls_side_by_side() -> None:
    truths = {path: decoded(path) for path in (CLIP, LATE, UNEVEN)}
    calls = [(path, count) for count in range(2, 8) for path in truths]
    with ThreadPoolExecutor(4) as pool:
        found = pool.map(
            lambda call: vllm.VideoLoader.load_bytes(Path(call[0]).read_bytes(), call[1], timeout_seconds=20), calls
        )
        for (path, count), (frames, metadata) in zip(calls, found, strict=True):
            assert len(frames) == count
            assert np.array_equal(frames, truths[path][metadata["frames_indices"]])


def test_frames_that_cannot_be_decoded(tmp_path: Path) -> None:
    data = media.make("damaged_packet_mpeg2_ts", tmp_path).read_bytes()
    with pytest.warns(UserWarning, match="1 of 40 frames"):
        frames, metadata = vllm.VideoLoader.load_bytes(data, **HERE)
    assert len(frames) == len(metadata["frames_indices"]) == 39
    assert not metadata["do_sample_frames"]
    assert len(vllm.VideoLoader.load_bytes(data, frame_recovery=True, **HERE)[0]) == 40


@pytest.mark.parametrize("frame_recovery", [False, True])
@pytest.mark.parametrize("num_frames", [-1, 8])
def test_metadata_counts_the_frames_that_decoding_finds(num_frames: int, frame_recovery: bool, tmp_path: Path) -> None:
    data = media.make("damage_after_key_ffv1_gop", tmp_path).read_bytes()
    every_frame = VideoDecoder(data, dimension_order="NHWC", on_error="skip").get_all_frames().data.numpy()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        frames, metadata = vllm.VideoLoader.load_bytes(data, num_frames, frame_recovery=frame_recovery, **HERE)
    assert metadata["total_num_frames"] == len(every_frame) == 39, "the packets are 40"
    assert metadata["frames_indices"][-1] == 38
    assert np.array_equal(frames, every_frame[metadata["frames_indices"]])
    assert metadata["do_sample_frames"] == (num_frames == -1)


@pytest.mark.parametrize(
    "arguments",
    [
        {"data": "path.mp4"},
        {"num_frames": 2.5},
        {"fps": "2"},
        {"fps": float("nan")},
        {"timeout_seconds": 0},
        {"timeout_seconds": "soon"},
    ],
)
def test_arguments_that_are_not_accepted(arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError):
        vllm.VideoLoader.load_bytes(**{"data": DATA, **HERE, **arguments})
