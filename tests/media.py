"""Small clips of every kind, made with PyAV when a test asks for them.

>>> CLIPS["h264_open_gop"].special
'leading pictures at key frames'
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from media_codecs import CODEC_CLIPS
from media_containers import CONTAINER_CLIPS
from media_damaged import DAMAGED_CLIPS, LEFT_TO_MEMORY
from media_writing import ClipSpec, write_clip

__all__ = ["CLIPS", "DAMAGED_CLIPS", "LEFT_TO_MEMORY", "VIDEO_CLIPS", "ClipSpec", "make"]

CLIPS: dict[str, ClipSpec] = {**CODEC_CLIPS, **CONTAINER_CLIPS, **DAMAGED_CLIPS}

# Sound ones with frames of one size.
VIDEO_CLIPS = [name for name, spec in CLIPS.items() if spec.expect == "frames" and name not in DAMAGED_CLIPS]


def make(name: str, folder: Path) -> Path:
    """The file of clip ``name`` in ``folder``, written if it is not there yet.

    Safe for several processes with one folder: a file appears when it is complete.

    Args:
        name: A key of `CLIPS`.
        folder: An existing directory.
    """
    os.environ.setdefault("SVT_LOG", "0")  # the AV1 encoder prints otherwise
    spec = CLIPS[name]
    extension = spec.extension or spec.container
    path = folder / f"{name}.{extension}"
    if not path.exists():
        with tempfile.TemporaryDirectory(dir=folder) as unfinished:
            draft = Path(unfinished) / path.name
            (spec.build or write_clip)(spec, draft)
            draft.replace(path)
    return path
