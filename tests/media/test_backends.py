"""The registry of decode backends, the cache of idle decoders, and torchcodec's functions for both."""

from __future__ import annotations

import textwrap
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from device_backends import PlaneBackend, registered
from forked import run_program
from mediatensor.backends import (
    DecodeBackend,
    DecoderCache,
    PictureDecoder,
    StreamParameters,
    available_backends,
    get_backend,
    register_backend,
    scoped_registry,
)
from mediatensor.backends._cuda import _cache
from mediatensor.decoders import (
    CpuFallbackStatus,
    VideoDecoder,
    get_nvdec_cache_capacity,
    set_cuda_backend,
    set_nvdec_cache_capacity,
)
from mediatensor.errors import InvalidArgumentError
from places import in_child, needs_fork


class _Other(DecodeBackend):
    name = "other"
    device_types = ("fake",)

    def why_not(self, stream: StreamParameters, device: torch.device) -> str | None:
        return "nothing can be decoded"

    def open(self, stream: StreamParameters, device: torch.device) -> PictureDecoder:
        raise NotImplementedError


# The registry


def test_built_in_backends_are_available() -> None:
    assert {"cpu", "cuda"} <= set(available_backends())
    assert get_backend("cuda").name == "cuda"


def test_a_backend_is_the_default_of_its_devices(clip: Path, fake_device: torch.device) -> None:
    assert VideoDecoder(clip, device=fake_device).cpu_fallback.reason is None
    with registered(_Other()), pytest.warns(UserWarning, match="nothing can be decoded"):
        decoder = VideoDecoder(clip, device=fake_device)
    assert decoder.cpu_fallback.reason == "nothing can be decoded"
    assert str(decoder.cpu_fallback).startswith("[FAKE] ")
    assert decoder[0].device == fake_device


def test_other_objects_are_not_backends() -> None:
    with pytest.raises(InvalidArgumentError, match="instance of DecodeBackend"):
        register_backend(PlaneBackend)  # type: ignore[arg-type]
    for name in (5, "", None):
        nameless = _Other()
        nameless.name = name  # type: ignore[assignment,misc]
        with pytest.raises(InvalidArgumentError, match="with a name"):
            register_backend(nameless)
    with pytest.raises(InvalidArgumentError, match="'nothing'; available are cpu, cuda"):
        get_backend("nothing")


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, str], None]]:
    """Return a function that installs a package with an entry point, by name and source of the module."""

    def install(name: str, body: str) -> None:
        (tmp_path / f"package_{name}.py").write_text(textwrap.dedent(body))
        folder = tmp_path / f"package_{name}-1.0.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: package-{name}\nVersion: 1.0\n")
        (folder / "entry_points.txt").write_text(f"[mediatensor.backends]\n{name} = package_{name}:Backend\n")

    monkeypatch.syspath_prepend(str(tmp_path))
    with scoped_registry():
        yield install


def test_the_backend_of_an_installed_package(
    installed: Callable[[str, str], None], clip: Path, fake_device: torch.device
) -> None:
    installed(
        "brought",
        """
        from mediatensor.backends import get_backend

        class Backend(type(get_backend("cpu"))):
            name = "brought"
            device_types = ("fake",)

            def why_not(self, stream, device):
                return f"the plugin does not decode {stream.codec}"
        """,
    )
    assert "brought" in available_backends()
    with pytest.warns(UserWarning, match="the plugin does not decode h264"):
        decoder = VideoDecoder(clip, device=fake_device)
    assert decoder[0].device == fake_device


def test_a_package_that_cannot_be_loaded(
    installed: Callable[[str, str], None], clip: Path, fake_device: torch.device
) -> None:
    installed("broken", "raise OSError('a library is missing')")
    with pytest.raises(InvalidArgumentError, match=r"broken.*a library is missing"):
        VideoDecoder(clip, decode_backend="broken")
    with pytest.warns(UserWarning, match="a library is missing"):
        assert VideoDecoder(clip, device=fake_device)[0].device == fake_device
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        VideoDecoder(clip, device=fake_device)


def test_a_package_with_something_else(installed: Callable[[str, str], None], clip: Path) -> None:
    installed("odd", "Backend = dict")
    with pytest.raises(InvalidArgumentError, match="must make a DecodeBackend of the name 'odd'"):
        VideoDecoder(clip, decode_backend="odd")


def test_importing_the_library_needs_no_cuda() -> None:
    code = "import mediatensor.decoders, torch, sys; print(torch.cuda.is_initialized())"
    run = run_program(code)
    assert run.stdout.strip() == "False"


# The cache


def test_the_cache_returns_decoders_of_the_same_kind() -> None:
    cache: DecoderCache[str] = DecoderCache(capacity=2)
    cache.put(0, "h264", "first")
    cache.put(0, "hevc", "second")
    cache.put(1, "h264", "elsewhere")
    assert cache.take(0, "av1") is None
    assert cache.take(0, "h264") == "first"
    assert cache.take(0, "h264") is None
    assert cache.take(1, "h264") == "elsewhere"


def test_the_cache_is_bounded_for_each_device() -> None:
    cache: DecoderCache[int] = DecoderCache(capacity=2)
    for number in range(5):
        cache.put(0, "h264", number)
        cache.put(1, "h264", 10 + number)
    assert len(cache) == 4
    assert [cache.take(0, "h264") for _ in range(3)] == [4, 3, None]
    cache.capacity = 1
    assert [cache.take(1, "h264") for _ in range(2)] == [14, None]
    cache.capacity = 0
    cache.put(0, "h264", 1)
    assert len(cache) == 0


@needs_fork
def test_a_forked_child_begins_with_an_empty_cache(tmp_path: Path) -> None:
    _cache.put(0, "h264", 1)
    assert in_child(tmp_path, lambda: _cache.take(0, "h264")) is None
    assert _cache.take(0, "h264") == 1


# torchcodec's names


def test_the_capacity_can_be_set() -> None:
    before = get_nvdec_cache_capacity()
    assert before == 20
    set_nvdec_cache_capacity(np.int64(3))  # type: ignore[arg-type]
    try:
        assert get_nvdec_cache_capacity() == 3
    finally:
        set_nvdec_cache_capacity(before)


@pytest.mark.parametrize("name", ["nvdec", "NVDEC", "ffmpeg", "beta"])
def test_the_cuda_backend_can_be_chosen_as_in_torchcodec(name: str, clip: Path, clip_rgb: torch.Tensor) -> None:
    with set_cuda_backend(name):
        assert torch.equal(VideoDecoder(clip)[0], clip_rgb[0])


def test_the_status_states_the_reason() -> None:
    assert str(CpuFallbackStatus()) == "[CPU] Fallback status: Unknown"
    assert not CpuFallbackStatus(True, "cuda")
    assert str(CpuFallbackStatus(True, "cuda")) == "[CUDA] Fallback status: No fallback required"
    status = CpuFallbackStatus(True, "cuda", "Video not supported: 4:2:2")
    assert status
    assert str(status) == "[CUDA] Fallback status: Falling back due to: Video not supported: 4:2:2"
