"""Inspect uploads, read the text in videos, and return frames of videos as images."""

from __future__ import annotations

import base64
import functools
import io
import time
import zipfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ..._engine.common.messages import to_json
from ..._engine.images.formats import NUM_SNIFFED_BYTES, look_like, sniff
from ...decoders import VideoDecoder
from ...decoders._media_info import collect
from ...errors import InvalidArgumentError, OpenError, OutOfRangeError
from ...frames import Frame
from .pages import Options, as_json, box_of, finite, jpeg_of, open_pages, png_of

_NUM_HEAD_BYTES = 4096
# Animated images are read as pages, unless the client requests that they are read as videos.
_ANIMATED = ("gif", "webp", "avif")
_TYPES_OF_BROWSERS = ("png", "jpeg", "gif", "webp", "avif", "bmp")
_PROGRESS_SECONDS = 0.25
# Tolerance for times that clients have rounded.
_ROUNDED_SECONDS = 0.01


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
    with open(path, "rb") as file:
        head = file.read(NUM_SNIFFED_BYTES)
    return OpenError(
        f"This cannot be opened: it looks like {look_like(head)}, or is damaged. Images, PDF files, and videos such as "
        "MP4, MOV, MKV and WebM are read here."
    )


def _is_document(path: str, head: bytes) -> bool:
    from ...ocr.io._documents.images import is_tiff
    from ...ocr.io._documents.pdfium import is_pdf

    return bool(is_pdf(path) or is_tiff(head) or sniff(head))


def _type_of_document(head: bytes) -> str:
    name = sniff(head)
    if name in _TYPES_OF_BROWSERS:
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
    predictor = _video_reader(tuple(options.get("languages") or ()), options.get("region"))
    with _open_video(path) as decoder:
        facts, total = decoder.metadata, max(len(decoder), 1)
        progress = _Progress(progress_path, total)
        reading = predictor._read_on(decoder, None, lambda _: progress.step())
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
    from ...ocr import video_text_predictor

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
        decoded = [decoder.get_frame_at(index) for index in options["indices"]]
        decoded += [decoder.get_frame_played_at(seconds) for seconds in options["seconds"]]
        if not decoded:
            decoded = [decoder.get_frame_at(0)]
        pts_seconds = decoder.frame_index.pts_seconds
        frames = []
        for frame in decoded:
            pixels = _pixels(frame)
            make = png_of if options["image"] == "png" else jpeg_of
            index = int(torch.searchsorted(pts_seconds, frame.pts_seconds))
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
