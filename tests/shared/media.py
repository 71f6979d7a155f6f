"""Small clips of every kind, made with PyAV when a test asks for them.

>>> CLIPS["h264_open_gop"].special
'leading pictures at key frames'
"""

from __future__ import annotations

import os
from pathlib import Path

from media_breaks import BREAK_CLIPS
from media_codecs import CODEC_CLIPS
from media_containers import CONTAINER_CLIPS
from media_damaged import DAMAGED_CLIPS, LEFT_TO_MEMORY
from media_screen import SCREEN_CLIPS
from media_writing import ClipSpec, write_clip
from sharing import take_or_write

__all__ = [
    "BREAK_CLIPS",
    "CLIPS",
    "DAMAGED_CLIPS",
    "LEFT_TO_MEMORY",
    "VIDEO_CLIPS",
    "ClipSpec",
    "make",
    "write",
    "write_spec",
]

CLIPS: dict[str, ClipSpec] = {**CODEC_CLIPS, **CONTAINER_CLIPS, **BREAK_CLIPS, **SCREEN_CLIPS, **DAMAGED_CLIPS}

# Sound ones with frames of one size.
VIDEO_CLIPS = [name for name, spec in CLIPS.items() if spec.expect == "frames" and name not in DAMAGED_CLIPS]


def make(name: str, folder: Path) -> Path:
    """The file of clip ``name`` in ``folder``, copied or written if it is not there yet; see `sharing`."""
    spec = CLIPS[name]
    return take_or_write(folder / f"{name}.{spec.extension or spec.container}", lambda path: write(name, path))


def write(name: str, path: Path) -> None:
    """Encode clip ``name`` into a new file."""
    write_spec(CLIPS[name], path)


def write_spec(spec: ClipSpec, path: Path) -> None:
    """Encode any clip into a new file."""
    os.environ.setdefault("SVT_LOG", "0")  # the AV1 encoder prints otherwise
    (spec.build or write_clip)(spec, path)
