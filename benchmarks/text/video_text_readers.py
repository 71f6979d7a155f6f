"""Readers of text in video: this library, a common baseline, and peers. Importing this module imports none of them.

As a program, ``python -m benchmarks.text.video_text_readers READER FILE``, it reads a clip and prints one JSON line.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Protocol

from ..shared.machine import package_versions
from ..shared.processes import cpu_seconds, peak_rss_mib
from ..shared.workers import serve
from .video_text_scores import Event, TextInTime, parse_srt

OURS, BASELINE = "mediatensor", "ocr_predictor, 4 a second"

_SAMPLES_PER_SECOND = 4


@dataclass(frozen=True)
class Reading:
    """A reader's result for a clip.

    Attributes:
        captions: The captions; all text, for readers that do not classify it.
        tracks: Text of all kinds, from readers that classify it.
        slides: Start and end of each, in seconds.
    """

    captions: list[Event]
    tracks: list[TextInTime] = field(default_factory=list)
    slides: list[tuple[float, float]] = field(default_factory=list)


class Reader(Protocol):
    """A loaded reader, made with its number of threads."""

    def read(self, path: Path) -> Reading:
        """Read a clip."""

    def versions(self) -> dict[str, str]:
        """Return the versions of the reader's packages."""


def merge_equal(texts: Iterable[tuple[float, str]], step: float) -> list[Event]:
    """Build captions from texts read every ``step`` seconds: merge equal neighbours.

    >>> merge_equal([(0.0, ""), (0.25, "Hi"), (0.5, "Hi"), (0.75, "you")], 0.25)
    [Event(start=0.25, end=0.75, text='Hi'), Event(start=0.75, end=1.0, text='you')]
    """
    events = list[Event]()
    previous = ""
    for at, text in texts:
        if text and text == previous:
            events[-1] = events[-1]._replace(end=at + step)
        elif text:
            events.append(Event(at, at + step, text))
        previous = text
    return events


def to_reading(found: Any) -> Reading:
    """Convert the result of `video_text_predictor`."""
    captions = [Event(track.start_seconds, track.end_seconds, track.text) for track in found.captions]
    tracks = []
    for track in found.tracks:
        (left, top), (right, bottom) = track.geometry
        box = (left, top, right, bottom)
        tracks.append(TextInTime(track.start_seconds, track.end_seconds, track.text, track.kind, box))
    slides = [(slide.start_seconds, slide.end_seconds) for slide in found.slides]
    return Reading(captions, tracks, slides)


def _use_threads(num_threads: int) -> None:
    """Let networks and codecs use ``num_threads``."""
    import torch

    import mediatensor

    torch.set_num_threads(num_threads)
    mediatensor.set_num_threads(num_threads)


class Ours:
    """``video_text_predictor`` at its defaults."""

    def __init__(self, num_threads: int) -> None:
        _use_threads(num_threads)
        self._predictor = importlib.import_module("mediatensor.ocr").video_text_predictor(pretrained=True)

    def read(self, path: Path) -> Reading:
        return to_reading(self._predictor(path))

    def versions(self) -> dict[str, str]:
        return package_versions("torch", "av")


class Baseline:
    """A common baseline: four frames a second through ``ocr_predictor``, with equal neighbours merged."""

    def __init__(self, num_threads: int) -> None:
        _use_threads(num_threads)
        from mediatensor.ocr import ocr_predictor

        self._predictor = ocr_predictor(pretrained=True)

    def read(self, path: Path) -> Reading:
        from mediatensor.decoders import VideoDecoder

        decoder = VideoDecoder(path)
        begin, end = decoder.metadata.begin_stream_seconds, decoder.metadata.end_stream_seconds
        assert begin is not None
        assert end is not None

        def texts() -> Iterator[tuple[float, str]]:
            at = begin
            while at < end:
                yield at, self._predictor([decoder.get_frame_played_at(at).data]).render().strip()
                at += 1 / _SAMPLES_PER_SECOND

        return Reading(merge_equal(texts(), 1 / _SAMPLES_PER_SECOND))

    def versions(self) -> dict[str, str]:
        return package_versions("torch", "av")


class RapidOcr:
    """RapidOCR, which has PP-OCR's models in its package, on the same four frames a second."""

    def __init__(self, num_threads: int) -> None:
        self._cv2 = importlib.import_module("cv2")
        self._cv2.setNumThreads(num_threads)
        self._engine = importlib.import_module("rapidocr").RapidOCR(
            params={
                "Global.log_level": "error",
                "EngineConfig.onnxruntime.intra_op_num_threads": num_threads,
                "EngineConfig.onnxruntime.inter_op_num_threads": 1,
            }
        )

    def read(self, path: Path) -> Reading:
        return Reading(merge_equal(self._texts(path), 1 / _SAMPLES_PER_SECOND))

    def _texts(self, path: Path) -> Iterator[tuple[float, str]]:
        capture, wanted = self._cv2.VideoCapture(str(path)), 0
        while capture.grab():
            if capture.get(self._cv2.CAP_PROP_POS_MSEC) / 1000 < wanted / _SAMPLES_PER_SECOND - 1e-6:
                continue
            result = self._engine(capture.retrieve()[1])
            yield wanted / _SAMPLES_PER_SECOND, "\n".join(result.txts or ())
            wanted += 1

    def versions(self) -> dict[str, str]:
        return package_versions("rapidocr", "onnxruntime", "opencv-python-headless", "opencv-python")


class Videocr:
    """videocr: Tesseract on the lower half of every frame. Its languages are those in ``~/tessdata``.

    Version 0.1.6 works with Tesseract 4; it cannot parse what Tesseract 5 writes.
    """

    def __init__(self, num_threads: int) -> None:
        self._library = importlib.import_module("videocr")
        languages = sorted(path.stem for path in (Path.home() / "tessdata").glob("*.traineddata"))
        if not languages:
            raise FileNotFoundError("videocr needs language data of Tesseract in ~/tessdata")
        self._languages = "+".join(language for language in languages if language != "osd")

    def read(self, path: Path) -> Reading:
        return Reading(parse_srt(self._library.get_subtitles(str(path), lang=self._languages)))

    def versions(self) -> dict[str, str]:
        return package_versions("videocr", "pytesseract", "opencv-python")


#: Readers by their name on the command line.
READERS: dict[str, Callable[[int], Reader]] = {
    OURS: Ours,
    BASELINE: Baseline,
    "rapidocr, 4 a second": RapidOcr,
    "videocr": Videocr,
}


def read_clip(reader: str, file: str, threads: int) -> dict[str, Any]:
    """Read a clip and measure the time."""
    made = READERS[reader](threads)
    wall, cpu = time.perf_counter(), cpu_seconds()
    reading = made.read(Path(file))
    wall, cpu = time.perf_counter() - wall, cpu_seconds() - cpu
    return asdict(reading) | {"wall": wall, "cpu": cpu, "rss_mib": peak_rss_mib(), "versions": made.versions()}


if __name__ == "__main__":
    serve(SimpleNamespace(read_clip=read_clip))
