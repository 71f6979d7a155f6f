"""Read the text of image crops that each contain a word or a line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ....errors import InvalidArgumentError
from ...utils._page_images import resized
from .._lines.cutting import LineBatch, padded_width
from .._lines.reading import MAX_LINE_WIDTH, readings_of, see_batch
from .._networks.preprocessing import Image, PreProcessor, as_images, to_float
from .._networks.registry import refuse_unknown_options
from .._networks.transfers import mark_open_sizes, uncompiled_module, upload_images
from .._networks.weights import NetworkPredictor
from .ppocr import CtcLineRecognizer
from .utils import remap_preds, split_crops

__all__ = ["RecognitionPredictor"]


class RecognitionPredictor(NetworkPredictor):
    """Recognises the text of image crops of any size, each of which contains a word or a line.

    Args:
        pre_processor: Resizes and normalises crops, and puts them into batches. Only for a model that recognises words;
            None for a model that recognises lines.
        model: The network, such as `PARSeq` or `PPOCRRecognizer`. It is set to evaluation mode.
        split_wide_crops: Whether to cut crops more than 8 times as wide as high into overlapping parts. Only for a
            model that recognises words.
        batch_size: Maximum number of crops in a batch. Only for a model that recognises lines.

    Example:
        >>> from mediatensor.ocr import DocumentFile
        >>> from mediatensor.ocr.models import recognition_predictor
        >>> page = DocumentFile.from_images("page.png")[0]
        >>> recognition_predictor(pretrained=True)([page[40:90, 50:480]])[0][0]
        'Delivery note 2048'
    """

    critical_ar = 8
    """Crops whose ratio of width to height is greater than this are split."""
    target_ar = 6
    """Ratio of width to height of the parts."""
    overlap_ratio = 0.5
    """Overlap of the parts, as a share of their width."""

    def __init__(
        self,
        pre_processor: PreProcessor | None,
        model: nn.Module,
        split_wide_crops: bool = True,
        batch_size: int = 128,
    ) -> None:
        super().__init__(model)
        self.pre_processor = pre_processor
        self.split_wide_crops = split_wide_crops
        self.batch_size = batch_size
        if pre_processor is None and not self.reads_lines:
            raise InvalidArgumentError(
                f"pre_processor is None: {type(uncompiled_module(model)).__name__} recognises words and needs a "
                "PreProcessor, as recognition_predictor creates it."
            )

    @property
    def reads_lines(self) -> bool:
        """Whether the model recognises whole lines with spaces; otherwise it recognises single words."""
        return isinstance(uncompiled_module(self.model), CtcLineRecognizer)

    @torch.inference_mode()
    def forward(self, crops: Iterable[Image], **kwargs: Any) -> list[tuple[str, float]]:
        """Recognise the text of crops.

        Args:
            crops: A list or a batch of crops. A crop is an array (H, W, 3), or a tensor (3, H, W) or (H, W, 3), with
                uint8 values or floats in [0, 1].
            **kwargs: Further arguments of the model's ``forward``. They have no effect on models that recognise lines.

        Returns:
            A list with a pair for each crop: its text and a confidence in [0, 1].

        Raises:
            InvalidArgumentError: An item is not an image, or the model does not take an argument.
        """
        return self.read(as_images(crops), **kwargs)

    def read(self, images: Sequence[Tensor], **kwargs: Any) -> list[tuple[str, float]]:
        """Recognise the text of crops that are known to be valid images; `forward` checks them first.

        ``images`` are tensors (3, H, W), uint8 or floats in [0, 1]. Options and the result are as in `forward`.
        """
        refuse_unknown_options(self.model, kwargs, ("return_preds",))
        return self._read_lines(images) if self.reads_lines else self._read_words(images, kwargs)

    def _read_words(self, images: Sequence[Tensor], kwargs: dict[str, Any]) -> list[tuple[str, float]]:
        if not images:
            return []
        assert self.pre_processor is not None  # see the constructor
        parts, pieces = list(images), None
        if self.split_wide_crops:
            parts, pieces = split_crops(images, self.critical_ar, self.target_ar, self.overlap_ratio)
        parameter = next(self.model.parameters())
        read: list[tuple[str, float]] = []
        for batch in self.pre_processor.batches(parts, parameter.device, parameter.dtype):
            read += self.model(mark_open_sizes(self.model, batch.data, 0), return_preds=True, **kwargs)["preds"]
        return read if pieces is None else remap_preds(read, pieces, self.overlap_ratio)

    def _read_lines(self, images: Sequence[Tensor]) -> list[tuple[str, float]]:
        height = self.model.cfg["input_shape"][1]
        groups: dict[int, list[int]] = {}
        widths = [min(max(round(height * image.shape[2] / image.shape[1]), 8), MAX_LINE_WIDTH) for image in images]
        for index, width in enumerate(widths):
            groups.setdefault(padded_width(width), []).append(index)
        crops = upload_images(images, next(self.model.parameters()).device)
        seen = []
        for padded, members in sorted(groups.items()):
            for start in range(0, len(members), self.batch_size):
                chosen = members[start : start + self.batch_size]
                rows = [to_float(resized(crops[index], (height, widths[index]))) for index in chosen]
                data = torch.stack([F.pad(row, (0, padded - row.shape[2]), value=torch.nan) for row in rows])
                seen.append(see_batch(self.model, LineBatch(data, chosen, [widths[index] for index in chosen])))
        readings = readings_of(self.model, seen, len(images))
        return [(reading.text, reading.confidence) for reading in readings]
