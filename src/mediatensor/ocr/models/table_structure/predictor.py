"""Find the cells of tables: prepare images, run the network, and convert the cells it finds to image coordinates."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from .._networks.transfers import compile_network, mark_open_sizes
from .._networks.weights import check_network
from .._pages.preprocessing import Image, PreProcessor, as_images

__all__ = ["TablePredictor"]


class TablePredictor(nn.Module):
    """Finds the cells of tables in images. Each image shows one table, and may have any size.

    Args:
        pre_processor: Resizes images, and puts them in batches.
        model: The network that finds the cells.
    """

    def __init__(self, pre_processor: PreProcessor, model: nn.Module) -> None:
        super().__init__()
        self.pre_processor = pre_processor
        self.model: Any = check_network(model).eval()

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Compile the network in place. Takes the arguments of ``torch.compile``."""
        compile_network(self.model, *args, **kwargs)

    @torch.inference_mode()
    def forward(self, pages: Iterable[Image], **kwargs: Any) -> list[dict[str, Any]]:
        """Find the cells of the table in each image.

        Args:
            pages: Images of one table each: arrays (H, W, 3), tensors (3, H, W) or (H, W, 3), uint8 or floats in
                [0, 1]; a list, a batch or a `FrameBatch`.
            **kwargs: Arguments of the model's ``forward``.

        Returns:
            A dict for each image with ``num_rows``, ``num_cols`` and ``cells``, sorted by descending score. Each cell
            is a dict. Its ``geometry`` is relative to the image: [xmin, ymin, xmax, ymax], or four points if the
            model's ``assume_straight_pages`` is false. ``score`` is in [0, 1]. ``row_start``, ``row_end``,
            ``col_start`` and ``col_end`` are its first and last row and column, counted from 0.

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
