"""The work of an isolated process on an upload: inspect it, read pages or a video, and render images of it.

All functions take paths and plain values, and return plain values: numbers, and the bytes of JSON, images and files.
Models are loaded once in a process, and the last opened document stays open.
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
