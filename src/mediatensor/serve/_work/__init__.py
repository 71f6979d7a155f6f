"""Functions that an isolated process calls to inspect, read and render an upload.

All functions take paths and plain values, and return numbers, or the bytes of JSON, images and files. A process loads
models once, and keeps the last opened document open.
"""

from __future__ import annotations

from .media import decode_frames, frame_picture, inspect, probe, read_video
from .pages import page_picture, read_page, warm_up, write_document

__all__ = [
    "decode_frames",
    "frame_picture",
    "inspect",
    "page_picture",
    "probe",
    "read_page",
    "read_video",
    "warm_up",
    "write_document",
]
