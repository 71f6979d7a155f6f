"""Training transforms of images with their targets: docTR's names, arguments and semantics, without torchvision.

Each transform takes a `Sample` and returns a new sample, in which image, mask and target agree. As in docTR, random
numbers come from the global generators of Python, NumPy and PyTorch, which seeds and ``DataLoader`` workers control.
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
