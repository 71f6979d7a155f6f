"""Which rows make which batch, and how a batch reaches its device.

`order` shuffles rows and divides them into batches and among ranks. `resuming` counts what a stream has given.
`collate` makes a batch of samples, `loader` ties these together for torch's ``DataLoader``, and `to_device` copies one
batch while the one before it is used. Nothing in this room reads a file.
"""

from __future__ import annotations

from .collate import pad, ragged, stack
from .loader import DataLoader
from .order import RowBatches, Shuffle, epoch_order, shuffle_quality
from .to_device import CopyAhead, CopyNow, ToDevice

__all__ = [
    "CopyAhead",
    "CopyNow",
    "DataLoader",
    "RowBatches",
    "Shuffle",
    "ToDevice",
    "epoch_order",
    "pad",
    "ragged",
    "shuffle_quality",
    "stack",
]
