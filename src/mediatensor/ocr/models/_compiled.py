"""Models that ``torch.compile`` has wrapped."""

from __future__ import annotations

from typing import Any

__all__ = ["plain"]


def plain(model: Any) -> Any:
    """The module inside one that ``torch.compile`` made; any other as it is.

    What is not called on its way through the network, such as names of classes, is looked up and set on this one.
    """
    return getattr(model, "_orig_mod", model)
