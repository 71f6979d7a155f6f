"""``mediatensor doctor``: test this installation, and list the features of each extra."""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

from .. import __version__
from . import _text
from ._console import emit_json, emit_lines

#: The features that each extra of pyproject.toml adds. Extras for contributors are not listed.
EXTRAS = {
    "fsspec": "s3://, gs://, hf:// and other sources",
    "heic": "images in HEIC",
    "html": "web pages as documents",
    "lance": "media in Lance datasets",
    "language": "the language of a text",
    "onnx": "recognisers of further scripts, from ONNX files",
    "ocr": "reading text, PDF files; the weights",
    "parquet": "Parquet tables and manifests, LeRobot data sets",
    "plot": "show() and other plots",
    "progress": "progress bars of the command",
    "ray": "clips, sound and text by clusters",
    "serve": "the page and the HTTP interface of mediatensor serve",
    "svhn": "the labels of the data set SVHN",
    "tables": "tables as data frames and workbooks",
}

# For each codec: the names of FFmpeg's decoders and encoders.
_VIDEO = {
    "H.264": ("h264", "libx264"),
    "HEVC": ("hevc", "libx265"),
    "AV1": ("libdav1d", "libsvtav1"),
    "VP9": ("vp9", "libvpx-vp9"),
    "VP8": ("vp8", "libvpx"),
    "MPEG-2": ("mpeg2video", "mpeg2video"),
    "MPEG-4": ("mpeg4", "mpeg4"),
    "ProRes": ("prores", "prores_ks"),
    "FFV1": ("ffv1", "ffv1"),
    "MJPEG": ("mjpeg", "mjpeg"),
    "VC-1": ("vc1", ""),
}
_SOUND = {
    "AAC": ("aac", "aac"),
    "MP3": ("mp3float", "libmp3lame"),
    "Opus": ("opus", "libopus"),
    "Vorbis": ("vorbis", "libvorbis"),
    "FLAC": ("flac", "flac"),
    "ALAC": ("alac", "alac"),
    "AC-3": ("ac3", "ac3"),
}

# DataLoader workers return batches in shared memory, which containers limit to 64 MiB by default.
_SMALL_SHARED_MEMORY = 512 << 20
_SMALL_TEMPORARY_SPACE = 1 << 30
_FEW_OPEN_FILES = 512
_TIMEOUT_SECONDS = 180


@dataclass
class _Step:
    """A context manager that runs one test, and prints a line before and after it.

    If the block raises, the test has failed. ``is_right`` is whether the test passed; ``None`` if it cannot be run on
    this machine.
    """

    name: str
    is_right: bool | None = True
    detail: str = ""

    def __enter__(self) -> _Step:
        _print_line(begin=self.name)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> bool:
        if error is not None:
            self.is_right, self.detail = False, f"{type(error).__name__}: {_text.one_line(str(error))}"
        _print_line(**asdict(self))
        return isinstance(error, Exception)


@dataclass
class _Machine:
    version: str = __version__
    python: str = platform.python_version()
    system: str = f"{platform.system()} {platform.machine()}"
    facts: dict[str, Any] = field(default_factory=dict)
    steps: list[_Step] = field(default_factory=list)
    extras: dict[str, dict[str, Any]] = field(default_factory=dict)
    advice: list[str] = field(default_factory=list)


def run(args: argparse.Namespace) -> int:
    machine = _Machine(extras=_extras())
    _run_tests(machine)
    machine.advice = list(_advice(machine))
    if args.json:
        emit_json(asdict(machine))
    else:
        emit_lines(_as_text(machine))
    return 1 if any(step.is_right is False for step in machine.steps) else 0


def _extras() -> dict[str, dict[str, Any]]:
    """Return whether each extra is installed, and the versions of its packages (``None`` if missing)."""
    try:
        requirements = metadata.requires("mediatensor") or []
    except metadata.PackageNotFoundError:  # imported from a source folder without installation
        requirements = []
    extras = {}
    for name in EXTRAS:
        marked = [given for given in requirements if re.search(rf"""extra\s*==\s*['"]{name}['"]""", given)]
        names = [match[0] for given in marked if (match := re.match(r"[A-Za-z0-9._-]+", given))]
        packages = {package: _version_of(package) for package in names}
        extras[name] = {"installed": bool(packages) and None not in packages.values(), "packages": packages}
    return extras


def _version_of(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _run_tests(machine: _Machine) -> None:
    """Run the tests in another process, so that a crash does not end this one."""
    command = [sys.executable, "-c", "from mediatensor.cli._doctor import prove; prove()"]
    with tempfile.TemporaryDirectory(prefix="mediatensor-doctor-") as folder:
        output = Path(folder, "output")
        with output.open("wb") as stream:
            try:
                code: int | None = subprocess.run(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=stream,
                    stderr=subprocess.DEVNULL,
                    cwd=folder,
                    timeout=_TIMEOUT_SECONDS,
                    env={**os.environ, "PYTHONPATH": os.pathsep.join(entry or os.getcwd() for entry in sys.path)},
                ).returncode
            except subprocess.TimeoutExpired:
                code = None
        last = "start Python"
        for line in output.read_text("utf-8", "replace").splitlines():
            with suppress(ValueError):
                report = json.loads(line)
                if "begin" in report:
                    last = report["begin"]
                elif "facts" in report:
                    machine.facts |= report["facts"]
                else:
                    machine.steps.append(_Step(**report))
                    last = ""
    if code is None:
        machine.steps.append(_Step(last, False, f"did not end within {_TIMEOUT_SECONDS} seconds"))
    elif last or code:
        ended = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        machine.steps.append(_Step(last or "end", False, f"the process ended with {ended}"))


def prove() -> None:
    """Run all tests, and print a line of JSON before and after each. `_run_tests` calls this in a separate process."""
    sys.stdout.reconfigure(encoding="utf-8")  # type: ignore[union-attr]
    versions: dict[str, str | None] = {}
    for package, module in (("numpy", "numpy"), ("pillow", "PIL.Image"), ("torch", "torch"), ("av", "av")):
        with _Step(f"import {package}") as step:
            __import__(module)
            versions[package] = step.detail = _version_of(package) or "without a version"
    _print_line(facts={"versions": versions})
    with _Step("FFmpeg") as step:
        codecs = _codecs()
        _print_line(facts=codecs)
        step.detail = codecs["ffmpeg"]
    with _Step("GPU") as step:
        step.detail = _gpu()
        _print_line(facts={"gpu": step.detail})
    with _Step("video") as step:
        step.detail = _write_and_read()
    with _Step("workers") as step:
        step.detail = _load_in_workers()
    with _Step("text") as step:
        _read_a_word(step)


def _print_line(**line: Any) -> None:
    print(json.dumps(line), flush=True)


def _codecs() -> dict[str, Any]:
    from .._engine.pyav.opening import build_versions, has_codec

    version, libraries = build_versions()
    facts: dict[str, Any] = {"ffmpeg": version, "ffmpeg_libraries": libraries}
    for kind, codecs in (("video", _VIDEO), ("sound", _SOUND)):
        facts[f"{kind}_decoders"] = [name for name, (codec, _) in codecs.items() if has_codec(codec, "r")]
        facts[f"{kind}_encoders"] = [name for name, (_, codec) in codecs.items() if has_codec(codec, "w")]
    return facts


def _gpu() -> str:
    import torch

    if torch.version.cuda is None:
        return "none: this build of torch has no CUDA"
    if not torch.cuda.is_available():
        return f"none: torch has CUDA {torch.version.cuda} and finds no GPU or no driver"
    names = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
    return f"{', '.join(names)} (CUDA {torch.version.cuda})"


def _write_and_read() -> str:
    from .._engine.pyav.encoding import write_test_pattern
    from ._verify import compare

    file = Path("clip.mp4")
    write_test_pattern(file, width=160, height=120, num_frames=24, gop_length=12)
    comparison = compare(str(file), None, num_singles=None, seed=0)
    if comparison.mismatches:
        raise AssertionError(
            f"{len(comparison.mismatches)} of {comparison.num_frames} frames differ from a linear decode"
        )
    return f"{comparison.num_frames} frames written, and read out of order, exact to the bit"


def _load_in_workers() -> str:
    from ..datasets import DataLoader, VideoClips

    clips = VideoClips(["clip.mp4"] * 4, num_frames_per_clip=2)
    (batch,) = DataLoader(clips, batch_size=4, num_workers=2)
    return f"a batch of {len(batch)} clips from two processes"


def _read_a_word(step: _Step) -> None:
    from PIL import Image, ImageDraw, ImageFont

    from ..errors import MissingDependencyError, WeightsNotFoundError

    try:
        from ..ocr.models import ocr_predictor

        predictor = ocr_predictor(pretrained=True)
    except (MissingDependencyError, WeightsNotFoundError) as error:
        step.is_right, step.detail = None, _text.one_line(str(error))
        return
    page = Image.new("RGB", (400, 100), "white")
    ImageDraw.Draw(page).text((40, 30), "Delivery note 2048", font=ImageFont.load_default(32), fill="black")
    read = predictor([page]).render().strip()
    if read != "Delivery note 2048":
        raise AssertionError(f"'Delivery note 2048' was read as {read!r}")
    step.detail = "a rendered line was read correctly, with weights of this machine"


def _advice(machine: _Machine) -> Iterator[str]:
    facts = machine.facts
    with suppress(OSError):
        shared = shutil.disk_usage("/dev/shm")
        facts["shared_memory_bytes"] = shared.total
        if shared.total < _SMALL_SHARED_MEMORY:
            yield (
                f"/dev/shm has {_text.byte_size(shared.total)}: workers of a DataLoader return batches in it. Give "
                "a container more (docker run --shm-size=2g)."
            )
    folder = tempfile.gettempdir()
    facts["temporary_folder"], facts["temporary_bytes_free"] = folder, shutil.disk_usage(folder).free
    if facts["temporary_bytes_free"] < _SMALL_TEMPORARY_SPACE:
        free = _text.byte_size(facts["temporary_bytes_free"])
        yield f"{folder} has {free} left for temporary files: set TMPDIR to a folder with more."
    with suppress(ImportError, OSError):
        import resource

        facts["open_files_limit"] = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        if 0 <= facts["open_files_limit"] < _FEW_OPEN_FILES:
            yield f"A process may open {facts['open_files_limit']} files here: raise that with `ulimit -n 4096`."
    facts["cores"], usable = os.cpu_count(), getattr(os, "sched_getaffinity", None)
    facts["usable_cores"] = len(usable(0)) if usable is not None else facts["cores"]
    quota = _cores_of_container()
    facts["container_cores"] = quota
    if quota is not None and quota < facts["usable_cores"]:
        yield (
            f"This container may use {quota:g} of {facts['usable_cores']} cores, which Python does not see: set "
            f"MEDIATENSOR_NUM_THREADS={max(1, round(quota))} and choose num_workers by it."
        )
    if any(step.name == "GPU" and step.detail.startswith("none: torch has") for step in machine.steps):
        yield "torch is built for GPUs, and this machine has none: the build for CPUs is gigabytes smaller."


def _cores_of_container() -> float | None:
    """Return the number of cores that Linux control groups allow this process to use; ``None`` if there is no limit."""
    with suppress(OSError, ValueError):
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        return int(quota) / int(period)
    return None


def _as_text(machine: _Machine) -> list[str]:
    facts = machine.facts
    versions = facts.get("versions", {})
    about = {
        "Python": f"{machine.python}, {machine.system}",
        "torch": versions.get("torch") or "missing",
        "FFmpeg": f"{facts.get('ffmpeg', 'missing')}, in PyAV {versions.get('av') or 'missing'}",
        "GPU": facts.get("gpu", "not asked"),
        "cores": f"{facts['usable_cores']} of {facts['cores']}",
    }
    for kind in ("video", "sound"):
        about[f"{kind} in"] = ", ".join(facts.get(f"{kind}_decoders", [])) or "nothing"
        about[f"{kind} out"] = ", ".join(facts.get(f"{kind}_encoders", [])) or "nothing"
    lines = [f"mediatensor {machine.version}", *(f"  {name:<10} {value}" for name, value in about.items()), "", "Tried"]
    marks = {True: "ok", False: "FAILED", None: "no"}
    lines += [f"  {marks[step.is_right]:<6} {step.name:<14} {step.detail}" for step in machine.steps]
    lines += ["", "Extras"]
    for name, extra in machine.extras.items():
        missing = [package for package, version in extra["packages"].items() if version is None]
        lacks = f" (lacks {', '.join(missing)})" if missing else ""
        state = "" if extra["installed"] else f'   pip install "mediatensor[{name}]"{lacks}'
        lines.append(f"  {'yes' if extra['installed'] else 'no':<6} {name:<14} {EXTRAS[name]}{state}")
    lines += ["", "Look at", *(f"  {line}" for line in machine.advice)] if machine.advice else []
    return lines
