"""Find the cells of tables: prepare images, run the network, and convert the cells it finds to image coordinates."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from .._networks.preprocessing import Image, PreProcessor, as_images
from .._networks.transfers import mark_open_sizes
from .._networks.weights import NetworkPredictor

__all__ = ["TablePredictor"]


class TablePredictor(NetworkPredictor):
    """Finds the cells of tables in images. Each image shows one table, and may have any size.

    Args:
        pre_processor: Resizes and normalises images, and puts them into batches for the network.
        model: The network that finds the cells, such as `TableCenterNet`. It is set to evaluation mode.
    """

    def __init__(self, pre_processor: PreProcessor, model: nn.Module) -> None:
        super().__init__(model)
        self.pre_processor = pre_processor

    @torch.inference_mode()
    def forward(self, pages: Iterable[Image], **kwargs: Any) -> list[dict[str, Any]]:
        """Find the cells of the table in each image.

        Args:
            pages: A list of images, a batch of images or a `FrameBatch`. Each image shows one table. It is an array
                (H, W, 3), or a tensor (3, H, W) or (H, W, 3), with uint8 values or floats in [0, 1].
            **kwargs: Further arguments of the model's ``forward``.

        Returns:
            A list with a dictionary for each image. ``num_rows`` and ``num_cols`` are the numbers of rows and columns.
            ``cells`` is a list of dictionaries, sorted by descending ``score``, which is in [0, 1]. The ``geometry`` of
            a cell is relative to the image: [xmin, ymin, xmax, ymax], or four corners [x, y] if the model's
            ``assume_straight_pages`` is false. ``row_start`` and ``row_end`` are the first and last row of a cell,
            ``col_start`` and ``col_end`` its first and last column, all counted from 0.

        Raises:
            InvalidArgumentError: An item is not an image.
        """
        parameter = next(self.model.parameters())
        tables = []
        for batch in self.pre_processor.batches(as_images(pages), parameter.device, parameter.dtype):
            preds = self.model(mark_open_sizes(self.model, batch.data, 0), return_preds=True, **kwargs)["preds"]
            for placement, pred in zip(batch.placements, preds, strict=True):
                places = placement.restore(pred["polygons"]).tolist()
                rows = zip(places, pred["scores"].tolist(), pred["logical"].tolist(), strict=True)
                cells = [
                    {
                        "geometry": geometry,
                        "score": score,
                        "row_start": first_row,
                        "row_end": last_row,
                        "col_start": first_column,
                        "col_end": last_column,
                    }
                    for geometry, score, (first_column, last_column, first_row, last_row) in rows
                ]
                last_columns, last_rows = pred["logical"][:, 1], pred["logical"][:, 3]
                numbers = (int(last_rows.max(initial=-1)) + 1, int(last_columns.max(initial=-1)) + 1)
                tables.append({"cells": cells, "num_rows": numbers[0], "num_cols": numbers[1]})
        return tables
