"""What an isolated process does with an upload: look at it, read pages or a video, and draw pictures of it.

All functions take paths and plain values, and return plain values: numbers, and the bytes of JSON, pictures and files.
Models are loaded once in a process, and the document that was opened last stays open.
"""

from __future__ import annotations

from .looking import inspect, probe
from .pages import page_picture, read_page, warm_up, write_document
from .videos import decode_frames, frame_picture, read_video

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
