"""Transforms of pictures with their truth, for training: docTR's names, arguments and semantics, without torchvision.

Each takes a `Sample` and returns a new one, whose image, mask and target agree. Random
numbers come from the global generators of Python, NumPy and PyTorch, as in docTR, so that seeds and the workers of a
``DataLoader`` apply to them.
"""

from . import functional, modules
from .modules import (
    ChannelShuffle,
    ColorInversion,
    GaussianBlur,
    GaussianNoise,
    ImageTorchvisionTransform,
    ImageTransform,
    OneOf,
    RandomApply,
    RandomCrop,
    RandomHorizontalFlip,
    RandomResize,
    RandomRotate,
    RandomShadow,
    Resize,
    SampleCompose,
)

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
    "functional",
    "modules",
]
