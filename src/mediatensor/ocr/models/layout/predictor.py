"""Find the regions of pages: prepare the pages, run the network, and return boxes relative to each page."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from .._networks.preprocessing import Image, PreProcessor, as_images
from .._networks.transfers import mark_open_sizes, uncompiled_module
from .._networks.weights import NetworkPredictor

__all__ = ["LayoutPredictor"]


class LayoutPredictor(NetworkPredictor):
    """Finds the regions of pages of any size, such as titles, tables and pictures.

    Args:
        pre_processor: Resizes and normalises pages, and puts them into batches for the network.
        model: The network, such as `LWDETR`. It is set to evaluation mode.
    """

    def __init__(self, pre_processor: PreProcessor, model: nn.Module) -> None:
        super().__init__(model)
        self.pre_processor = pre_processor

    @torch.inference_mode()
    def forward(self, pages: Iterable[Image], **kwargs: Any) -> list[dict[str, Any]]:
        """Find the regions of pages.

        Args:
            pages: A list of pages, a batch of pages, a `FrameBatch` or a document (`Pages`). A page is an array
                (H, W, 3), or a tensor (3, H, W) or (H, W, 3), with uint8 values or floats in [0, 1].
            **kwargs: Further arguments of the model's ``forward``.

        Returns:
            A list with a dictionary for each page, which describes its K regions. ``class_names`` is a list of K names,
            and ``scores`` a list of K numbers in [0, 1]. ``boxes`` is a float32 array, relative to the page. If the
            model's ``assume_straight_pages`` is true, it is (K, 4): xmin, ymin, xmax, ymax. Otherwise it is (K, 4, 2),
            the corners (x, y) of the regions.

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
