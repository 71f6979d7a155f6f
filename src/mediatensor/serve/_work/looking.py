"""What an upload is: pages or a video, and what is in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..._engine.common.plain_values import to_json
from ..._engine.images.formats import NUM_SNIFFED_BYTES, look_like, sniff
from ...decoders import VideoDecoder
from ...decoders._media_info import collect
from ...errors import InvalidArgumentError, OpenError
from .pages import open_pages
from .plain import Options, as_json, finite

__all__ = ["inspect", "open_video", "probe", "probed"]

_NUM_HEAD_BYTES = 4096
# Pictures that move are pages, unless a video is asked for.
_MOVING = ("gif", "webp", "avif")
_SHOWN_BY_BROWSERS = ("png", "jpeg", "gif", "webp", "avif", "bmp")


def inspect(path: str, options: Options) -> dict[str, Any]:
    """Open an upload, and say what it is.

    Args:
        path: The upload.
        options: ``kind``, ``"pages"`` or ``"video"``, or ``None`` for either; ``max_pages``; those of `read_page`.

    Returns:
        ``kind`` and ``media_type``; of pages ``num_pages``, and ``pages``, the indices of those that are wanted; of a
        video ``duration_seconds``, ``fps``, ``width`` and ``height``.

    Raises:
        MediaTensorError: if it cannot be opened, or is not of the kind that is wanted.
    """
    with open(path, "rb") as file:
        head = file.read(max(NUM_SNIFFED_BYTES, _NUM_HEAD_BYTES))
    if not head:
        raise OpenError("The upload is empty.")
    wanted, is_document = options.get("kind"), _is_document(path, head)
    if wanted == "pages" and not is_document:
        raise OpenError(f"This is no image and no PDF file; it looks like {look_like(head)}.")
    if wanted == "video" and is_document and sniff(head) not in _MOVING:
        raise OpenError("This is no video, but an image or a PDF file.")
    if is_document and wanted != "video":
        num_pages = len(open_pages(path, options))
        return {
            "kind": "pages",
            "media_type": _type_of_document(head),
            "num_pages": num_pages,
            "pages": _chosen(options.get("pages"), num_pages, options["max_pages"]),
        }
    with open_video(path) as decoder:
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
    """Read what is in a media file.

    Args:
        path: The upload.
        options: ``scan``, whether the packets of the video are read, too.

    Returns:
        ``result.json``.

    Raises:
        MediaTensorError: if it cannot be opened.
    """
    try:
        return {"result.json": as_json(probed(path, scan=bool(options.get("scan", True))))}
    except OpenError:
        raise _not_media(path) from None


def probed(path: str, *, scan: bool) -> dict[str, Any]:
    """What ``mediatensor probe --json`` says of a file, without its name."""
    told: dict[str, Any] = to_json(collect(path, None, scan=scan))
    del told["file"]
    return told


def open_video(path: str) -> VideoDecoder:
    """The decoder of an upload.

    Raises:
        OpenError: if it is no media, in words for those who uploaded it.
        MediaTensorError: if it has no video.
    """
    try:
        return VideoDecoder(Path(path))
    except OpenError:
        raise _not_media(path) from None


def _not_media(path: str) -> OpenError:
    """The error of an upload that nothing can open."""
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
    if name in _SHOWN_BY_BROWSERS:
        return f"image/{name}"
    return "application/pdf" if b"%PDF-" in head[:1024] else "application/octet-stream"


def _type_of_video(head: bytes) -> str:
    if head[4:8] == b"ftyp":
        return "video/quicktime" if head[8:12] == b"qt  " else "video/mp4"
    if head[:4] == b"\x1a\x45\xdf\xa3":
        return "video/webm" if b"webm" in head[:64] else "video/x-matroska"
    return "video/ogg" if head[:4] == b"OggS" else "application/octet-stream"


def _chosen(ranges: str | None, num_pages: int, most: int) -> list[int]:
    """Indices of pages from ranges such as ``"1-3,7,10-"``, which count from 1.

    >>> _chosen("2-3,5-,3", 6, 100), _chosen(None, 2, 100)
    ([1, 2, 4, 5], [0, 1])
    """
    chosen: list[int] = []
    for part in (ranges or "1-").split(","):
        first, dash, last = part.partition("-")
        start = int(first)
        stop = start if not dash else int(last) if last else num_pages
        if not 1 <= start <= stop <= num_pages:
            raise InvalidArgumentError(f"pages={part!r}: the document has pages 1 to {num_pages}.")
        chosen += range(start - 1, stop)
    chosen = list(dict.fromkeys(chosen))
    if len(chosen) > most:
        raise InvalidArgumentError(
            f"The document has {len(chosen)} pages to read, and at most {most} are read at a time: choose some, such "
            f"as pages=1-{most}."
        )
    return chosen
