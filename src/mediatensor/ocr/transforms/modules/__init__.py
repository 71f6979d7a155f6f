"""The transform classes: changes of colour and light, changes of position and size, and combinations of transforms."""

from ._images import (
    ChannelShuffle,
    ColorInversion,
    GaussianBlur,
    GaussianNoise,
    ImageTorchvisionTransform,
    ImageTransform,
    OneOf,
    RandomApply,
    RandomShadow,
    SampleCompose,
)
from ._places import RandomCrop, RandomHorizontalFlip, RandomResize, RandomRotate, Resize

__all__ = [
    "ChannelShuffle",
    "ColorInversion",
    "GaussianBlur",
    "GaussianNoise",
    "ImageTorchvisionTransform",
    "ImageTransform",
    "OneOf",
    "RandomApply",
    "RandomCrop",
    "RandomHorizontalFlip",
    "RandomResize",
    "RandomRotate",
    "RandomShadow",
    "Resize",
    "SampleCompose",
]
