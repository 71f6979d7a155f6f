"""Functions that isolated processes call to inspect, read and render uploads.

Their arguments are paths and simple values. They return simple values, or the bytes of JSON, images and files. Each
process loads a model only once, and keeps the most recently opened document open.
"""

from __future__ import annotations

import base64
import functools
import io
import json
import math
import time
import zipfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from .._engine.common.messages import to_json
from .._engine.images.formats import NUM_SNIFFED_BYTES, look_like, sniff
from ..decoders import FrameIndex, VideoDecoder
from ..decoders._access import with_final_index
from ..decoders._media_info import collect
from ..errors import InvalidArgumentError, OpenError, OutOfRangeError, PageError
from ..frames import Frame
from ._settings import MAX_FRAMES

if TYPE_CHECKING:
    from ..ocr.io import Page, Pages, Table, Word
    from ..ocr.models.predictor import OCRPredictor

#: Options of the HTTP interface, by name.
Options = Mapping[str, Any]

_JPEG_QUALITY = 90
# Encode fast rather than small, because browsers usually are on the same machine or network.
_PNG_COMPRESSION = 1
_DIGITS = 6

# Files that `write_document` can write, and their formats in `Document.export_as`.
FORMATS = {
    "text.txt": "text",
    "text.md": "markdown",
    "tables.csv": "csv",
    "tables.xlsx": "xlsx",
    "searchable.pdf": "pdf",
}

# Number of readers that stay loaded: two for the default options of the service, one for other options.
_MAX_READERS = 3

_READER_OPTIONS = (
    "layout", "tables", "fields", "languages", "detect_language", "straighten", "rotated", "text_layer",
)  # fmt: skip

_NUM_HEAD_BYTES = 4096
# Animated images are read as pages, unless the client requests that they are read as videos.
_ANIMATED = ("gif", "webp", "avif")
TYPES_OF_BROWSERS = ("png", "jpeg", "gif", "webp", "avif", "bmp")
_PROGRESS_SECONDS = 0.25
# Tolerance for times that clients have rounded.
_ROUNDED_SECONDS = 0.01


def read_page(path: str, number: int, options: Options) -> dict[str, bytes]:
    """Read page ``number``, counted from 0, of an upload.

    Returns:
        The contents of files by name. ``page`` is the JSON that clients get, and ``export`` the JSON of `Page.export`.
        With the option ``straighten``, there is also ``picture``, a PNG of the straightened page, because the upload
        does not have this image.
    """
    pages, reader = open_pages(path, options), page_reader(options)
    source = pages.select([number]) if options.get("text_layer") else [pages[number]]
    read = reader(source).pages[0]
    if read.error is not None:
        raise PageError(read.error)
    read.page_idx = number
    answer = {
        "page": as_json(describe_page(read)),
        "export": as_json(read.export(reading_order=False)),
    }
    if options.get("straighten"):
        answer["picture"] = png_of(np.asarray(read.page))
    return answer


def describe_page(page: Page) -> dict[str, Any]:
    height, width = page.dimensions
    return {
        "page_idx": page.page_idx,
        "width": width,
        "height": height,
        "orientation": page.orientation.get("value"),
        "language": page.language.get("value"),
        "text": page.render(),
        "words": _words(page),
        "regions": [
            {
                "type": region.type,
                "level": region.level,
                "box": box_of(region.geometry),
                "order": order,
                "confidence": float(region.confidence),
            }
            for order, region in enumerate(page.layout)
        ],
        "tables": [
            {
                "box": box_of(table.geometry),
                "num_rows": table.num_rows,
                "num_columns": table.num_cols,
                "cells": [
                    {
                        "text": cell.value,
                        "row": cell.row_start,
                        "column": cell.col_start,
                        "row_span": cell.row_span,
                        "column_span": cell.col_span,
                        "is_header": cell.is_header,
                        "box": box_of(cell.geometry),
                        "confidence": float(cell.confidence),
                    }
                    for cell in table.cells
                ],
            }
            for table in page.tables
        ],
        "fields": [
            {
                "name": field.name,
                "key": field.key,
                "value": field.value,
                "confidence": float(field.confidence),
                "key_box": None if field.key_geometry is None else box_of(field.key_geometry),
                "value_box": box_of(field.geometry),
            }
            for field in page.fields
        ],
        "unread": [{"box": box_of(line.geometry)} for line in page.unread],
    }


def _words(page: Page) -> list[dict[str, Any]]:
    """Return all words in reading order, with the words of tables inserted.

    The words of a table come before the first block whose top is below the top of the table.
    """
    waiting = [table for table in page.tables if any(cell.words for cell in table.cells)]
    ordered: list[list[list[Word]]] = []
    for block in page.blocks:
        while waiting and box_of(waiting[0].geometry)[1] < box_of(block.geometry)[1]:
            ordered.append(_table_lines(waiting.pop(0)))
        ordered.append([line.words for line in block.lines])
    ordered += [_table_lines(table) for table in waiting]
    found, number = [], 0
    for block_number, lines in enumerate(ordered):
        for words in lines:
            found += [
                {
                    "text": word.value,
                    "confidence": float(word.confidence),
                    "box": box_of(word.geometry),
                    "polygon": polygon_of(word.geometry),
                    "line": number,
                    "block": block_number,
                }
                for word in words
            ]
            number += 1
    return found


def _table_lines(table: Table) -> list[list[Word]]:
    from ..ocr.io._elements.page_order import cell_lines

    return [words for cell in table.cells for words in cell_lines(cell.words)]


def open_pages(path: str, options: Options) -> Pages:
    """Open the pages of an upload. They stay open until another upload is opened."""
    return _open_path(path, float(options.get("dpi") or 144.0), options.get("password") or None)


@functools.lru_cache(maxsize=1)
def _open_path(path: str, dpi: float, password: str | None) -> Pages:
    from ..ocr.io.reader import open_document

    return open_document(Path(path), dpi=dpi, password=password)


def page_reader(options: Options) -> OCRPredictor:
    """Return an OCR predictor for these options. The most recently used predictors stay loaded."""
    # Options that are missing, false or empty mean the same, so that requests use the predictors of `warm_up`.
    given = {name: options.get(name) or None for name in _READER_OPTIONS}
    return _load_reader(tuple(given.items()))


@functools.lru_cache(maxsize=_MAX_READERS)
def _load_reader(key: tuple[tuple[str, Any], ...]) -> OCRPredictor:
    from ..ocr import ocr_predictor
    from ..ocr.models.zoo import vocab_of_languages

    options = dict(key)
    more: dict[str, Any] = {}
    if options["languages"]:
        _check_languages(options["languages"])
        more["vocab"] = vocab_of_languages(options["languages"], page_reader({}).reco_predictor.model.vocab)
    return ocr_predictor(
        pretrained=True,
        assume_straight_pages=not options["rotated"],
        straighten_pages=bool(options["straighten"]),
        detect_language=bool(options["detect_language"]),
        detect_layout=bool(options["layout"]),
        detect_tables=bool(options["tables"]),
        fields=options["fields"],
        text_layer=bool(options["text_layer"]),
        **more,
    )


def _check_languages(languages: Sequence[str]) -> None:
    from ..ocr.datasets import VOCABS

    if unknown := sorted(set(languages) - set(VOCABS)):
        raise InvalidArgumentError(f"languages={','.join(unknown)}: there are {', '.join(sorted(VOCABS))}.")


def write_document(
    path: str, folder: str, page_indices: Sequence[int], wanted: Sequence[str], options: Options
) -> dict[str, bytes]:
    """Convert a document, whose pages have been read, to other formats. Return the contents of files by name.

    ``folder`` contains the results of `read_page`: for each of ``page_indices``, NUMBER.export.json and, if the page
    was straightened, NUMBER.png. The files have the pages in this order. ``wanted`` lists the names of the files to
    make. Files with tables are left out if the document has no tables.
    """
    from ..ocr.io import Document
    from ..ocr.io import Page as PageElement
    from ..ocr.io._documents.pages import PageOfFile

    pages = open_pages(path, options)
    elements = []
    for number in page_indices:
        page = PageElement.from_dict(json.loads(Path(folder, f"{number:06d}.export.json").read_bytes()))
        picture = Path(folder, f"{number:06d}.png")
        if picture.exists():
            page.page = functools.partial(_picture, picture)
        else:
            page.page = PageOfFile(pages, page.page_idx, is_readable=page.error is None)
        elements.append(page)
    document = Document(elements)
    has_tables = any(page.tables for page in elements)
    written: dict[str, bytes] = {}
    for name in wanted:
        if name not in FORMATS or (name.startswith("tables.") and not has_tables):
            continue
        with suppress(ImportError):  # openpyxl is optional
            data = document.export_as(FORMATS[name])
            if name.startswith("text."):
                data += "\n"
            written[name] = data.encode(errors="replace") if isinstance(data, str) else data
    return written


def _picture(path: Path) -> NDArray[np.uint8]:
    with Image.open(path) as picture:
        return np.asarray(picture.convert("RGB"))


def page_picture(path: str, folder: str, number: int, options: Options, max_width: int | None) -> bytes:
    """Return a PNG of a page as OCR has seen it: a straightened page from ``folder``, or a page of the upload."""
    straightened = Path(folder) / f"{number:06d}.png"
    if options.get("straighten") and straightened.is_file():
        return png_of(_picture(straightened), max_width)
    return png_of(open_pages(path, options)[number], max_width)


def warm_up(num_threads: int, options: Sequence[Options]) -> bool:
    """Load the models for each of ``options`` before the first upload, and set torch's number of threads."""
    torch.set_num_threads(num_threads)
    for one in options:
        page_reader(one)
    return True


def as_json(value: Any) -> bytes:
    """Encode a value as JSON in UTF-8. Lone surrogates, which files can contain, become question marks."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode(errors="replace")


def finite(value: float | None) -> float | None:
    """Return a number as a float, or None if it is infinite or NaN, which JSON cannot represent."""
    return float(value) if value is not None and math.isfinite(value) else None


def box_of(geometry: Any) -> list[float]:
    """Return the smallest straight box around a relative geometry: [left, top, right, bottom], rounded to six digits.

    >>> box_of(((0.1, 0.2), (0.5, 0.25)))
    [0.1, 0.2, 0.5, 0.25]
    """
    from ..ocr.utils.geometry import box_around

    return [round(value, _DIGITS) for value in box_around(geometry).tolist()]


def polygon_of(geometry: Any) -> list[list[float]]:
    """Return the four corners of a relative geometry, clockwise from the corner at the start of the text.

    Coordinates are rounded to six digits.

    >>> polygon_of(((0.1, 0.2), (0.5, 0.25)))
    [[0.1, 0.2], [0.5, 0.2], [0.5, 0.25], [0.1, 0.25]]
    """
    from ..ocr.utils.geometry import to_quad

    return [[round(x, _DIGITS), round(y, _DIGITS)] for x, y in to_quad(geometry).tolist()]


def png_of(pixels: NDArray[np.uint8], max_width: int | None = None) -> bytes:
    """Encode an image, uint8 (H, W, 3), as PNG. An image wider than ``max_width`` pixels is shrunk."""
    return _encode(pixels, max_width, "PNG", compress_level=_PNG_COMPRESSION)


def jpeg_of(pixels: NDArray[np.uint8], max_width: int | None = None) -> bytes:
    return _encode(pixels, max_width, "JPEG", quality=_JPEG_QUALITY)


def _encode(pixels: NDArray[np.uint8], max_width: int | None, name: str, **options: Any) -> bytes:
    picture = Image.fromarray(pixels)
    if max_width is not None and picture.width > max_width:
        height = max(1, round(picture.height * max_width / picture.width))
        picture = picture.resize((max_width, height), reducing_gap=2.0)
    file = io.BytesIO()
    picture.save(file, name, **options)
    return file.getvalue()


def inspect(path: str, options: Options) -> dict[str, Any]:
    """Open an upload, and return its kind and properties.

    The option ``kind`` is the required kind: ``"pages"``, ``"video"``, or None for either. ``max_pages`` is the
    maximum number of pages to read. The options of `read_page` are accepted too. For a document, the result contains
    the indices of the pages to read, under ``pages``.
    """
    with open(path, "rb") as file:
        head = file.read(max(NUM_SNIFFED_BYTES, _NUM_HEAD_BYTES))
    if not head:
        raise OpenError("The upload is empty.")
    wanted_kind, is_document = options.get("kind"), _is_document(path, head)
    if wanted_kind == "pages" and not is_document:
        raise OpenError(f"This is neither an image nor a PDF file; it looks like {look_like(head)}.")
    if wanted_kind == "video" and is_document and sniff(head) not in _ANIMATED:
        raise OpenError("This is not a video, but an image or a PDF file.")
    if is_document and wanted_kind != "video":
        num_pages = len(open_pages(path, options))
        return {
            "kind": "pages",
            "media_type": _type_of_document(head),
            "num_pages": num_pages,
            "pages": _choose_pages(options.get("pages"), num_pages, options["max_pages"]),
        }
    with _open_video(path) as decoder:
        facts = decoder.metadata
        return {
            "kind": "video",
            "media_type": _type_of_video(head),
            "duration_seconds": finite(facts.duration_seconds),
            "fps": finite(facts.average_fps),
            "width": facts.width,
            "height": facts.height,
        }


def probe(path: str, options: Options) -> dict[str, bytes]:
    """Return the description of a media file. The option ``scan``, true by default, scans the packets of the video."""
    try:
        return {"result.json": as_json(_probe(path, scan=bool(options.get("scan", True))))}
    except OpenError:
        raise _unknown_file_error(path) from None


def _probe(path: str, *, scan: bool) -> dict[str, Any]:
    """Return the JSON object that ``mediatensor probe --json`` prints, without the file name."""
    contents: dict[str, Any] = to_json(collect(path, None, scan=scan))
    del contents["file"]
    return contents


def _open_video(path: str) -> VideoDecoder:
    try:
        return VideoDecoder(Path(path))
    except OpenError:
        raise _unknown_file_error(path) from None


def _unknown_file_error(path: str) -> OpenError:
    from ..ocr.io._documents.pdfium import is_pdf

    if is_pdf(path):
        return OpenError("This is not a video, but a PDF file.")
    with open(path, "rb") as file:
        head = file.read(NUM_SNIFFED_BYTES)
    return OpenError(
        f"This cannot be opened: it looks like {look_like(head)}, or is damaged. Images, PDF files, and videos such as "
        "MP4, MOV, MKV and WebM are read here."
    )


def _is_document(path: str, head: bytes) -> bool:
    from ..ocr.io._documents.images import is_tiff
    from ..ocr.io._documents.pdfium import is_pdf

    return bool(is_pdf(path) or is_tiff(head) or sniff(head))


def _type_of_document(head: bytes) -> str:
    name = sniff(head)
    if name in TYPES_OF_BROWSERS:
        return f"image/{name}"
    return "application/pdf" if b"%PDF-" in head[:1024] else "application/octet-stream"


def _type_of_video(head: bytes) -> str:
    if head[4:8] == b"ftyp":
        return "video/quicktime" if head[8:12] == b"qt  " else "video/mp4"
    if head[:4] == b"\x1a\x45\xdf\xa3":
        return "video/webm" if b"webm" in head[:64] else "video/x-matroska"
    return "video/ogg" if head[:4] == b"OggS" else "application/octet-stream"


def _choose_pages(ranges: str | None, num_pages: int, most: int) -> list[int]:
    """Convert page ranges such as ``"1-3,7,10-"``, which count from 1, to page indices, which count from 0.

    Raises:
        InvalidArgumentError: if a chosen page is not in the document, or the number of chosen pages is above ``most``.

    >>> _choose_pages("2-3,5-,3", 6, 100), _choose_pages(None, 2, 100)
    ([1, 2, 4, 5], [0, 1])
    """
    page_indices: list[int] = []
    for part in (ranges or "1-").split(","):
        first, dash, last = part.partition("-")
        start = int(first)
        stop = start if not dash else int(last) if last else num_pages
        if not 1 <= start <= stop <= num_pages:
            raise InvalidArgumentError(f"pages={part!r}: the document has pages 1 to {num_pages}.")
        page_indices += range(start - 1, stop)
    page_indices = list(dict.fromkeys(page_indices))
    if len(page_indices) > most:
        raise InvalidArgumentError(
            f"The document has {len(page_indices)} pages to read, and at most {most} are read at a time: choose some, "
            f"such as pages=1-{most}."
        )
    return page_indices


def read_video(path: str, progress_path: str, options: Options) -> dict[str, bytes]:
    """Read the text in a video; return result files by name. Meanwhile, write the finished fraction to a file."""
    from ..ocr.models.video_predictor.predictor import read_resumably

    predictor = _video_reader(tuple(options.get("languages") or ()), options.get("region"))
    with _open_video(path) as decoder:
        facts, total = decoder.metadata, max(len(decoder), 1)
        progress = _Progress(progress_path, total)
        reading = read_resumably(predictor, decoder, keep=lambda _: progress.step())
        reading = replace(reading, name=str(options.get("name") or "video"))
        result = {
            "name": reading.name,
            "width": reading.width,
            "height": reading.height,
            "begin_seconds": reading.begin_seconds,
            "end_seconds": reading.end_seconds,
            "duration_seconds": reading.end_seconds - reading.begin_seconds,
            "fps": finite(facts.average_fps),
            "num_frames": reading.num_frames,
            "tracks": [_describe_track(track) for track in reading.tracks],
            "captions": [
                {"begin_seconds": track.start_seconds, "end_seconds": track.end_seconds, "text": track.text}
                for track in reading.captions
            ],
            "problems": list(reading.problems),
            "probe": _probe(path, scan=False),
        }
    files = {
        "result.json": as_json(result),
        "captions.srt": reading.captions.render("srt").encode(errors="replace"),
        "captions.vtt": reading.captions.render("vtt").encode(errors="replace"),
        "reading.json": as_json(reading.export()),
    }
    if reading.slides:
        files["slides.pdf"] = reading.slides_document().export_as_pdf()
    return files


class _Progress:
    def __init__(self, path: str, total: int) -> None:
        self._path, self._total = path, total
        self._count, self._last_time = 0, 0.0

    def step(self) -> None:
        self._count += 1
        now = time.monotonic()
        if now - self._last_time >= _PROGRESS_SECONDS:
            self._last_time = now
            with open(self._path, "w", encoding="ascii") as file:
                file.write(f"{min(self._count / self._total, 1.0):.4f}")


@functools.lru_cache(maxsize=2)
def _video_reader(languages: tuple[str, ...], region: tuple[float, ...] | None) -> Any:
    from ..ocr import video_text_predictor

    _check_languages(languages)
    return video_text_predictor(pretrained=True, languages=languages or None, region=region)


def _describe_track(track: Any) -> dict[str, Any]:
    return {
        "kind": track.kind,
        "text": track.text,
        "first_frame": track.first_frame,
        "last_frame": track.last_frame,
        "begin_seconds": track.start_seconds,
        "end_seconds": track.end_seconds,
        "box": box_of(track.geometry),
        "confidence": float(track.confidence),
        "alternatives": [{"text": other.text, "share": other.share} for other in track.alternatives],
    }


def frame_picture(path: str, seconds: float | None, max_width: int | None) -> bytes:
    """Return the frame that is shown at ``seconds`` as a JPEG image. None means the first frame."""
    decoder = _open_cached(path)
    facts = decoder.metadata
    begin, end = facts.begin_stream_seconds or 0.0, facts.end_stream_seconds or 0.0
    if seconds is None:
        seconds = begin
    if not begin - _ROUNDED_SECONDS <= seconds <= end + _ROUNDED_SECONDS:
        raise OutOfRangeError(f"seconds={seconds:g}: the video is shown from {begin:g} to {end:g} seconds.")
    is_after = seconds >= end
    frame = decoder.get_frame_at(-1) if is_after else decoder.get_frame_played_at(max(seconds, begin))
    return jpeg_of(_pixels(frame), max_width)


def decode_frames(path: str, options: Options) -> dict[str, bytes]:
    """Return frames of a video as data URLs in ``result.json``, or as ``frames.zip``; see `FramesOptions`."""
    with _open_video(path) as decoder:
        indices = options["indices"] or (() if options["seconds"] else (0,))
        num_frames = len(indices) + len(options["seconds"])
        if num_frames > MAX_FRAMES:
            raise InvalidArgumentError(
                f"seconds and indices have {num_frames} frames, and at most {MAX_FRAMES} are decoded at a time."
            )

        def decode(_: FrameIndex) -> list[tuple[int | None, Frame]]:
            decoded: list[tuple[int | None, Frame]] = [(index, decoder.get_frame_at(index)) for index in indices]
            return decoded + [(None, decoder.get_frame_played_at(seconds)) for seconds in options["seconds"]]

        frame_index, decoded = with_final_index(decoder, decode)
        pts_seconds = frame_index.pts_seconds
        frames = []
        for index, frame in decoded:
            pixels = _pixels(frame)
            make = png_of if options["image"] == "png" else jpeg_of
            if index is None:  # of several frames with equal times, the last one is played
                index = int(torch.searchsorted(pts_seconds, frame.pts_seconds, right=True)) - 1
            elif index < 0:
                index += len(pts_seconds)
            frames.append((index, frame.pts_seconds, pixels.shape[:2], make(pixels, options["max_width"])))
    if options["answer"] == "zip":
        return {"frames.zip": _zip_frames(frames, options["image"])}
    media_type = "image/png" if options["image"] == "png" else "image/jpeg"
    described = [
        {
            "index": index,
            "pts_seconds": seconds,
            "width": width,
            "height": height,
            "data_url": f"data:{media_type};base64,{base64.b64encode(data).decode('ascii')}",
        }
        for index, seconds, (height, width), data in frames
    ]
    return {"result.json": as_json({"frames": described})}


@functools.lru_cache(maxsize=1)
def _open_cached(path: str) -> VideoDecoder:
    return _open_video(path)


def _pixels(frame: Frame) -> NDArray[np.uint8]:
    pixels: NDArray[np.uint8] = frame.data.permute(1, 2, 0).contiguous().numpy()
    return pixels


def _zip_frames(frames: Sequence[tuple[int, float, tuple[int, ...], bytes]], suffix: str) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for number, (index, seconds, _, data) in enumerate(frames):
            archive.writestr(f"{number:04d}_frame{index:06d}_{seconds:.3f}s.{suffix}", data)
    return file.getvalue()
