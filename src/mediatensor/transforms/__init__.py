"""Transform frames during decoding, which makes crops and resizes cheap, or afterwards as tensors.

`Resize`, `Letterbox`, `CenterCrop`, `RandomCrop` and `RandomResizedCrop` have two uses. If they are passed to
``VideoDecoder(source, transforms=[...])``, they run while frames are converted to RGB. If they are called, they
transform tensors, frames and nested samples. `Pad`, `RandomHorizontalFlip`, `Normalize` and `ToFloat` can only be
called. Random transforms draw their random numbers once for each clip.

>>> import torch
>>> from mediatensor.transforms import RandomHorizontalFlip, RandomResizedCrop, ToFloat
>>> augment = torch.nn.Sequential(RandomResizedCrop((112, 112)), RandomHorizontalFlip(), ToFloat())
>>> clips = torch.zeros(4, 16, 3, 120, 160, dtype=torch.uint8)  # four clips of 16 frames: four draws
>>> augment({"video": clips, "label": 7})["video"].shape
torch.Size([4, 16, 3, 112, 112])

The deterministic transforms are also available as functions in `mediatensor.transforms.functional`.

`LogMelSpectrogram` converts audio to spectrograms, the input of the speech recognition model Whisper.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._engine import lazy_names

if TYPE_CHECKING:
    from .._engine.common.pictures import CropStep, PadStep, ResizeStep
    from . import functional
    from ._decoder_transforms import (
        CenterCrop,
        DecoderTransform,
        Normalize,
        Pad,
        RandomCrop,
        RandomHorizontalFlip,
        RandomResizedCrop,
        Resize,
        ToFloat,
    )
    from ._letterbox import Letterbox, LetterboxPlacement
    from ._log_mel import LogMelSpectrogram
    from ._transform import Transform

__all__ = [
    "CenterCrop",
    "CropStep",
    "DecoderTransform",
    "Letterbox",
    "LetterboxPlacement",
    "LogMelSpectrogram",
    "Normalize",
    "Pad",
    "PadStep",
    "RandomCrop",
    "RandomHorizontalFlip",
    "RandomResizedCrop",
    "Resize",
    "ResizeStep",
    "ToFloat",
    "Transform",
    "functional",
]

# Imported on first use, because steps of the decoder do not need torch.
__getattr__ = lazy_names(
    __name__,
    {
        "functional": ".",
        "LogMelSpectrogram": "._log_mel",
        **dict.fromkeys(("Letterbox", "LetterboxPlacement"), "._letterbox"),
        **dict.fromkeys(("CropStep", "PadStep", "ResizeStep"), ".._engine.common.pictures"),
        **dict.fromkeys(
            (
                *("CenterCrop", "DecoderTransform", "Normalize", "Pad", "RandomCrop", "RandomHorizontalFlip"),
                *("RandomResizedCrop", "Resize", "ToFloat"),
            ),
            "._decoder_transforms",
        ),
        "Transform": "._transform",
    },
)


def __dir__() -> list[str]:
    return __all__
