"""Transforms of images and their ground truth for training, with the names, arguments and behaviour of docTR.

Each transform takes a `Sample` (image, mask and target) and returns a new one. If it moves pixels, it moves the mask
and the boxes in the target with them. The transforms do not need torchvision. As in docTR, random numbers come from the
global generators of Python, NumPy and PyTorch, so seeding these makes the transforms reproducible, also in
``DataLoader`` workers.
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
