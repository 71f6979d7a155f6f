"""The GPU in the machine stamp: versions, decoding capabilities according to its driver, and load."""

from __future__ import annotations

import contextlib
import ctypes
import shutil
import statistics
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import av
import torch

from ..shared.machine import machine_stamp, package_versions

# cudaVideoCodec and cudaVideoChromaFormat of the Video Codec SDK's cuviddec.h.
_CODECS = {"mpeg2": 1, "mpeg4": 2, "h264": 4, "hevc": 8, "vp8": 9, "vp9": 10, "av1": 11}
_CHROMA = {"420": 1, "422": 2, "444": 3}


def stamp(device: torch.device) -> dict[str, str]:
    """Return `machine_stamp` with the versions and the GPU that affect these figures."""
    found = machine_stamp() | {
        "torch": f"{torch.__version__} (CUDA {torch.version.cuda or 'none'})",
        "PyAV": f"{av.__version__} (FFmpeg {getattr(av, 'ffmpeg_version_info', 'unknown')})",
    }
    found |= package_versions("mediatensor", "numpy", "pillow", "torchcodec", "scipy")
    if device.type != "cuda":
        return found | {"GPU": "none: the results are from the CPU"}
    facts: Any = torch.cuda.get_device_properties(device)
    return found | {
        "GPU": f"{facts.name}, {facts.total_memory / 2**30:.0f} GiB, compute capability {facts.major}.{facts.minor}",
        "driver": _ask_driver(device, "driver_version") or "unknown: no nvidia-smi",
        "GPU clocks": _ask_driver(device, "clocks.sm,clocks.mem,clocks.video") or "unknown",
        "NVDEC engines": str(engines)
        if (engines := driver_support("h264", "420", 8, device).num_engines)
        else "unknown",
    }


def _selector(device: torch.device) -> str:
    """Return the device's id for ``nvidia-smi -i``, independent of CUDA_VISIBLE_DEVICES."""
    uuid = getattr(torch.cuda.get_device_properties(device), "uuid", None)
    return f"GPU-{uuid}" if uuid else str(device.index or 0)


def _ask_driver(device: torch.device, fields: str) -> str | None:
    program = shutil.which("nvidia-smi")
    if program is None:
        return None
    command = [program, "-i", _selector(device), f"--query-gpu={fields}", "--format=csv,noheader"]
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
        return done.stdout.strip() or None
    return None


class _Capabilities(ctypes.Structure):
    """CUVIDDECODECAPS of cuviddec.h."""

    _fields_ = (
        ("codec", ctypes.c_int),
        ("chroma", ctypes.c_int),
        ("bit_depth_minus_8", ctypes.c_uint),
        ("reserved1", ctypes.c_uint * 3),
        ("is_supported", ctypes.c_ubyte),
        ("num_engines", ctypes.c_ubyte),
        ("output_formats", ctypes.c_ushort),
        ("max_width", ctypes.c_uint),
        ("max_height", ctypes.c_uint),
        ("max_macroblocks", ctypes.c_uint),
        ("min_width", ctypes.c_ushort),
        ("min_height", ctypes.c_ushort),
        ("histogram", ctypes.c_ubyte * 4),
        ("reserved3", ctypes.c_uint * 10),
    )


@dataclass(frozen=True)
class Support:
    """The driver's capabilities for a kind of stream.

    Attributes:
        is_supported: ``None`` if the driver cannot be asked.
        reason: Why it cannot.
        num_engines: Decoding engines of the GPU; 0 if that is not known.
        sizes: Smallest and largest (width, height).
    """

    is_supported: bool | None
    reason: str = ""
    num_engines: int = 0
    sizes: tuple[tuple[int, int], tuple[int, int]] = ((0, 0), (0, 0))

    def takes(self, size: tuple[int, int]) -> bool | None:
        """Whether it decodes frames of this size."""
        if not self.is_supported:
            return self.is_supported
        return all(low <= side <= high for low, side, high in zip(self.sizes[0], size, self.sizes[1], strict=True))


def driver_support(codec: str, chroma: str, bits: int, device: torch.device) -> Support:
    """Ask the driver directly, without FFmpeg and this library, whether NVDEC decodes a kind of stream.

    Args:
        codec: FFmpeg's name.
        chroma: ``"420"``, ``"422"`` or ``"444"``.
        bits: Bits per component.
        device: CUDA device.
    """
    if device.type != "cuda":
        return Support(None, "no CUDA device")
    try:
        library = ctypes.CDLL("nvcuvid.dll" if sys.platform == "win32" else "libnvcuvid.so.1")
    except OSError as error:
        return Support(None, f"the driver's video library cannot be loaded: {error}")
    if codec not in _CODECS:
        return Support(None, f"no number is known for {codec}")
    with torch.cuda.device(device):
        torch.zeros(1, device=device)  # makes a context current
        asked = _Capabilities(codec=_CODECS[codec], chroma=_CHROMA[chroma], bit_depth_minus_8=bits - 8)
        status = library.cuvidGetDecoderCaps(ctypes.byref(asked))
    if status:
        return Support(None, f"cuvidGetDecoderCaps answers {status}")
    smallest, largest = (asked.min_width, asked.min_height), (asked.max_width, asked.max_height)
    return Support(bool(asked.is_supported), "", asked.num_engines, (smallest, largest))


@dataclass
class EngineLoad:
    """Load of a GPU in percent, second by second; empty if it could not be measured.

    Attributes:
        sm: Load of its processors.
        dec: Mean load of its decoding engines.
        reason: Why there are no numbers.
    """

    sm: list[float] = field(default_factory=list)
    dec: list[float] = field(default_factory=list)
    reason: str = ""

    def busy(self, name: str) -> float | None:
        """The median over the seconds in which the decoding engines were busy."""
        values = [value for value, dec in zip(getattr(self, name), self.dec, strict=True) if dec > 0]
        return statistics.median(values) if values else None


def parse_load(text: str) -> EngineLoad:
    """Parse the output of ``nvidia-smi dmon``: a comment has the column names; ``-`` is a missing value.

    >>> parse_load("# gpu    sm   mem   enc   dec\\n# Idx     %     %     %     %\\n    0    12    3    0    97\\n").dec
    [97.0]
    """
    load, names = EngineLoad(), list[str]()
    for line in text.splitlines():
        values = line.lstrip("# ").split()
        if line.startswith("#"):
            names = values if "dec" in values else names
        elif len(values) == len(names) and "sm" in names:
            numbers = dict(zip(names, values, strict=True))
            with contextlib.suppress(ValueError):
                sm, dec = float(numbers["sm"]), float(numbers["dec"])
                load.sm.append(sm)
                load.dec.append(dec)
    return load


@contextlib.contextmanager
def sampled_load(device: torch.device, seconds: float) -> Iterator[EngineLoad]:
    """Record the GPU load with ``nvidia-smi dmon`` once a second during the block; the load is filled in afterwards.

    Args:
        device: Torch device.
        seconds: Minimum duration of the block. The program must end by itself, or its last output is lost.
    """
    load = EngineLoad()
    program = shutil.which("nvidia-smi") if device.type == "cuda" else None
    if program is None:
        load.reason = "no CUDA device" if device.type != "cuda" else "no nvidia-smi"
        yield load
        return
    process = subprocess.Popen(
        [program, "dmon", "-s", "u", "-d", "1", "-c", str(max(1, int(seconds))), "-i", _selector(device)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield load
    finally:
        try:
            text, _ = process.communicate(timeout=5)
        except subprocess.TimeoutExpired:
            process.kill()
            text, _ = process.communicate()
        seen = parse_load(text)
        load.sm, load.dec = seen.sm, seen.dec
        if not seen.dec:
            load.reason = "nvidia-smi dmon gave no numbers: " + " ".join(text.split()[:12])
