"""Small clips of sound of every kind, made with PyAV when a test asks for them.

>>> SOUND_CLIPS["mp3_reservoir_22k"].special
'long bit reservoir'
"""

from __future__ import annotations

from pathlib import Path

import pytest

from media_audio_codecs import AAC_CLIPS, LOSSLESS_CLIPS, MPEG_CLIPS, OTHER_CLIPS, PCM_CLIPS, XIPH_CLIPS
from media_audio_containers import CONTAINER_CLIPS, DAMAGED_CLIPS, STREAM_CLIPS
from media_audio_writing import SoundSpec, encoded_samples, write_sound
from sharing import take_or_write

__all__ = [
    "ALL_CLIPS",
    "DAMAGED_CLIPS",
    "SOUND_CLIPS",
    "SoundSpec",
    "encoded_samples",
    "make",
    "sound_folder",
]

# One stream of sound each, and nothing wrong with it.
SOUND_CLIPS: dict[str, SoundSpec] = {
    **PCM_CLIPS, **LOSSLESS_CLIPS, **MPEG_CLIPS, **AAC_CLIPS, **XIPH_CLIPS, **OTHER_CLIPS, **CONTAINER_CLIPS
}  # fmt: skip
ALL_CLIPS: dict[str, SoundSpec] = {**SOUND_CLIPS, **DAMAGED_CLIPS, **STREAM_CLIPS}


def make(name: str, folder: Path) -> Path:
    """The file of clip ``name`` in ``folder``, copied or written if it is not there yet; see `sharing`."""
    return make_as(ALL_CLIPS[name], name, folder)


def make_as(spec: SoundSpec, name: str, folder: Path) -> Path:
    """As `make`, for a clip that is in no table; no other may have its name."""
    return take_or_write(
        folder / f"{name}.{spec.extension or spec.container}", lambda path: (spec.build or write_sound)(spec, path)
    )


def sound_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The one folder for clips of sound of this process, so that test modules share them."""
    folder = tmp_path_factory.getbasetemp() / "sound"
    folder.mkdir(exist_ok=True)
    return folder
