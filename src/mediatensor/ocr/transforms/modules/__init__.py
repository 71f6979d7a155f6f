"""Transforms of colours and positions, and compositions of transforms."""

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
