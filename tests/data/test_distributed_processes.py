"""`mediatensor.distributed` in other processes: imports, transfers, numbers of threads."""

from __future__ import annotations

import pickle
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import mediatensor
from forked import run_program
from mediatensor.decoders import VideoDecoder
from mediatensor.distributed import ClipDecoder
from mediatensor.frames import FrameBatch
from training_set import make_videos


@pytest.fixture(scope="module")
def videos(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return [str(path) for path in make_videos(tmp_path_factory.mktemp("videos"), 3)]


def test_a_pickled_decoder_gives_the_same_and_carries_no_open_file(videos: list[str]) -> None:
    decoder = ClipDecoder(num_frames_per_clip=4, seed=3)
    fresh = len(pickle.dumps(decoder))
    batch = {"path": videos, "row": list(range(len(videos)))}
    result = decoder(batch)
    copy = pickle.dumps(decoder)
    assert len(copy) == fresh
    assert all(map(np.array_equal, pickle.loads(copy)(batch)["frames"], result["frames"]))


def test_nothing_of_an_engine_is_imported_and_nothing_is_loaded_to_construct(videos: list[str]) -> None:
    program = (
        "import sys\n"
        "from mediatensor.distributed import AudioReader, ClipDecoder, TextReader\n"
        "readers = ClipDecoder(num_frames_per_clip=2), AudioReader(), TextReader()\n"
        f"assert readers[0]({{'path': [{videos[0]!r}]}})['error'][0] == ''\n"
        "names = 'ray', 'daft', 'pandas', 'pyarrow', 'scipy', 'mediatensor.ocr.models'\n"
        "print([name for name in names if name in sys.modules])\n"
    )
    done = run_program(program)
    assert done.stdout.strip() == "[]"


class Engine:
    """What of Ray is asked for the CPUs of a process."""

    def __init__(self, resources: dict[str, float] | None, *, is_initialized: bool = True) -> None:
        self._resources = resources
        self._is_initialized = is_initialized

    def is_initialized(self) -> bool:
        return self._is_initialized

    def get_runtime_context(self) -> Any:
        assert self._is_initialized
        return SimpleNamespace(get_assigned_resources=self._assigned)

    def _assigned(self) -> dict[str, float]:
        assert self._resources is not None, "This method is only available when the process is a worker."
        return self._resources


@pytest.mark.parametrize(
    ("engine", "environment", "expected"),
    [
        (Engine({"CPU": 3.0}), None, 3),
        (Engine({"CPU": 2.5, "GPU": 1.0}), None, 2),
        (Engine({"CPU": 0.25}), None, 1),
        (Engine({}), None, 1),
        (Engine({"CPU": 3.0}), "7", 7),
        (Engine(None), None, None),
        (Engine({"CPU": 3.0}, is_initialized=False), None, None),
        (None, None, None),
    ],
)
def test_threads_are_as_many_as_cpus_were_assigned(
    engine: Engine | None,
    environment: str | None,
    expected: int | None,
    videos: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "ray", engine)  # type: ignore[arg-type]
    if environment is None:
        monkeypatch.delenv("MEDIATENSOR_NUM_THREADS", raising=False)
    else:
        monkeypatch.setenv("MEDIATENSOR_NUM_THREADS", environment)
    mediatensor.set_num_threads(None)  # whatever another test has left
    before, torch_before = mediatensor.get_num_threads(), torch.get_num_threads()
    seen: list[tuple[int, int]] = []

    def sampler(decoder: VideoDecoder) -> FrameBatch:
        seen.append((mediatensor.get_num_threads(), torch.get_num_threads()))
        return decoder.get_frames_at([0])

    decoder = ClipDecoder(sampler)
    assert mediatensor.get_num_threads() == before, "constructing changes nothing"
    try:
        assert decoder({"path": videos[:1]})["error"][0] == ""
    finally:
        mediatensor.set_num_threads(None)
        torch.set_num_threads(torch_before)
    is_set = expected is not None and environment is None
    assert seen == [(expected or before, expected if is_set else torch_before)]
