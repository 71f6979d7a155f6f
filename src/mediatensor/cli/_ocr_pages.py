"""Opening what is read: images, PDF files, and frames of a video."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from ..decoders import VideoDecoder
from ..errors import OpenError, SourceNotFoundError
from ._extract_frames import grid_times

__all__ = ["OpenPages", "PageImages", "open_pages"]

# A PDF file may begin with something else.
_NUM_SNIFFED_BYTES = 1024


class PageImages(Protocol):
    """Pages that are read when they are asked for."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> NDArray[np.uint8]:
        """(H, W, 3) RGB."""


@dataclass(frozen=True)
class OpenPages:
    """A document that is open.

    Attributes:
        images: Its pages.
        times: Seconds by page index, where the pages are frames of a video.
        dpi: Pixels to an inch of paper.
    """

    images: PageImages
    times: Mapping[int, float] = field(default_factory=dict)
    dpi: float = 144.0


class _Frames:
    """Frames of a video as pages."""

    def __init__(self, decoder: VideoDecoder, indices: Sequence[int]) -> None:
        self._decoder = decoder
        self._indices = indices

    def __len__(self) -> int:
        return len(self._indices)

    def __getitem__(self, index: int, /) -> NDArray[np.uint8]:
        pixels: NDArray[np.uint8] = self._decoder.get_frame_at(self._indices[index]).data.numpy()
        return pixels


@contextmanager
def open_pages(
    file: str,
    dpi: float,
    password: str | None = None,
    every_seconds: float | None = None,
    timeout_seconds: float | None = None,
) -> Iterator[OpenPages]:
    """Open a document.

    Args:
        file: A path or a URL.
        dpi: Pixels per inch of the pages of a PDF file.
        password: Of a PDF file.
        every_seconds: ``file`` is a video, and the frames shown so often, from its begin on, are the pages.
        timeout_seconds: Most seconds for a page of a PDF file; by default that of datasets.

    Raises:
        MediaTensorError: if it cannot be opened.
    """
    if every_seconds is not None:
        with VideoDecoder(file, dimension_order="NHWC") as decoder:
            index = decoder.frame_index
            times = grid_times(index.begin_seconds, index.end_seconds, every_seconds, None)
            indices = list(dict.fromkeys(index.frames_played_at(times).tolist()))
            seconds = index.pts_seconds[indices].tolist()
            yield OpenPages(_Frames(decoder, indices), dict(enumerate(seconds)))
        return
    from ..ocr.io import DocumentFile

    options: dict[str, Any] = {} if password is None else {"password": password}
    if _is_pdf(file):
        from ..ocr.io._pdf_process import DEFAULT_TIMEOUT_SECONDS

        options["timeout_seconds"] = timeout_seconds or DEFAULT_TIMEOUT_SECONDS
        yield OpenPages(DocumentFile.from_pdf(file, dpi=dpi, **options), dpi=dpi)
        return
    try:
        images = DocumentFile.from_images(file)
    except SourceNotFoundError:
        raise
    except OpenError as error:
        raise OpenError(f"{error} PDF files are read, too, and frames of a video with --every SECONDS.") from error
    yield OpenPages(images)


def _is_pdf(file: str) -> bool:
    if "://" in file:
        return urlsplit(file).path.lower().endswith(".pdf")
    if not os.path.isfile(file):
        return False  # whoever opens it says why not
    with open(file, "rb") as stream:
        return b"%PDF" in stream.read(_NUM_SNIFFED_BYTES)
