"""Find the regions of pages: preprocessing, the network, and boxes relative to each page."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from .._networks.transfers import compile_network, mark_open_sizes, uncompiled_module
from .._networks.weights import check_network
from .._pages.preprocessing import Image, PreProcessor, as_images

__all__ = ["LayoutPredictor"]


class LayoutPredictor(nn.Module):
    """Finds the regions of pages of any size.

    Args:
        pre_processor: Prepares the batches.
        model: The network.
    """

    def __init__(self, pre_processor: PreProcessor, model: nn.Module) -> None:
        super().__init__()
        self.pre_processor = pre_processor
        self.model: Any = check_network(model).eval()

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Compile the network in place; arguments as for ``torch.compile``."""
        compile_network(self.model, *args, **kwargs)

    @torch.inference_mode()
    def forward(self, pages: Iterable[Image], **kwargs: Any) -> list[dict[str, Any]]:
        """Find regions.

        Args:
            pages: Arrays (H, W, 3), tensors (3, H, W) or (H, W, 3), uint8 or floats in [0, 1]; a list, a batch, a
                `FrameBatch` or a document.
            **kwargs: Arguments of the model's ``forward``.

        Returns:
            For each page ``class_names``, a list of K names; ``scores``, a list of K numbers in [0, 1]; and ``boxes``,
            relative, float32: (K, 4) as xmin, ymin, xmax, ymax, or corners (K, 4, 2) if pages are not assumed straight.

        Raises:
            InvalidArgumentError: An item is not a page.
        """
        names = uncompiled_module(self.model).class_names
        parameter = next(self.model.parameters())
        regions = []
        for batch in self.pre_processor.batches(as_images(pages), parameter.device, parameter.dtype):
            data, masks = (mark_open_sizes(self.model, part, 0) for part in (batch.data, batch.padding_masks()))
            preds = self.model(data, masks, return_preds=True, **kwargs)["preds"]
            for placement, (labels, boxes, scores) in zip(batch.placements, preds, strict=True):
                found = {"class_names": [names[label] for label in labels], "boxes": placement.restore(boxes)}
                regions.append({**found, "scores": scores})
        return regions
