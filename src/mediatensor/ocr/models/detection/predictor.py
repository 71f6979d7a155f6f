"""Detect text on pages: prepare the pages, run the network, and return boxes relative to each page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from .._networks.preprocessing import FlexiblePreProcessor, Image, PageBatch, PreProcessor, as_images, part_of_page
from .._networks.registry import refuse_unknown_options
from .._networks.transfers import download, mark_open_sizes, uncompiled_module, upload_images
from .._networks.weights import NetworkPredictor
from ._leftovers import (
    Window,
    add_found_boxes,
    cut_long_lines,
    extend_to_colons,
    ink_left_over,
    join_tiles,
    letters_of,
    remove_screens,
    windows_around,
)
from .core import Detector
from .ppocr import PPOCRDetector

__all__ = ["DetectionPredictor", "Located"]

MOST_LOOKS = 3
"""Limit on the number of detection passes on leftover letters; each pass must find new lines."""


@dataclass(frozen=True)
class Located:
    """The boxes of text that were found on one page.

    Attributes:
        boxes: Dictionary of class names and boxes relative to the page, in [0, 1]. Axis-aligned boxes are (N, 5): xmin,
            ymin, xmax, ymax, score. Rotated boxes are (N, 5, 2): four corners (x, y), then (0, score).
        map: The probabilities of text, an array (h, w, classes) of the size of the network's input; ``None`` if they
            were not requested.
    """

    boxes: dict[str, npt.NDArray[np.floating]]
    map: npt.NDArray[np.floating] | None


class DetectionPredictor(NetworkPredictor):
    """Finds the words or lines of text on pages of any size.

    Args:
        pre_processor: Scales and normalises pages, and puts them into batches for the network.
        model: The network, such as `DBNet` or `PPOCRDetector`. It is set to evaluation mode.
    """

    def __init__(self, pre_processor: PreProcessor | FlexiblePreProcessor, model: nn.Module) -> None:
        super().__init__(model)
        self.pre_processor = pre_processor

    @property
    def finds_lines(self) -> bool:
        """Whether the network finds whole lines; otherwise it finds words."""
        return getattr(uncompiled_module(self.model), "text_unit", "word") == "line"

    @torch.inference_mode()
    def forward(self, pages: Iterable[Image], return_maps: bool = False, **kwargs: Any) -> Any:
        """Find the text on pages.

        Args:
            pages: A list of pages, a batch of pages, a `FrameBatch` or a document (`Pages`). A page is an array
                (H, W, 3), or a tensor (3, H, W) or (H, W, 3), with uint8 values or floats in [0, 1].
            return_maps: Also return the probability maps that the network computes.
            **kwargs: Further arguments of the model's ``forward``.

        Returns:
            A list with a dictionary for each page, which maps class names to boxes relative to the page, in [0, 1]. If
            the model's ``assume_straight_pages`` is true, boxes are arrays (N, 5): xmin, ymin, xmax, ymax, score.
            Otherwise they are arrays (N, 5, 2): four corners (x, y), then (0, score). If ``return_maps`` is true, a
            pair of this list and a list with an array of probabilities for each page, (h, w, classes).

        Raises:
            InvalidArgumentError: An item is not a page, or the model does not take an argument.
        """
        located = list(self.locate(as_images(pages), return_maps=return_maps, **kwargs))
        boxes = [page.boxes for page in located]
        return (boxes, [page.map for page in located]) if return_maps else boxes

    def locate(
        self, images: Sequence[Tensor], *, rotated: bool = False, return_maps: bool = False, **kwargs: Any
    ) -> Iterator[Located]:
        """Find the text on pages, and yield the result for one page at a time.

        Args:
            images: The pages, tensors (3, H, W), uint8 or floats in [0, 1].
            rotated: Return rotated boxes even if the model's ``assume_straight_pages`` is true. This has no effect on
                models that find words.
            return_maps: Also return the probability maps, in the attribute ``map`` of each result.
            **kwargs: Further arguments of the model's ``forward``.

        Returns:
            An iterator over a `Located` for each page, in the order of ``images``.
        """
        refuse_unknown_options(self.model, kwargs, ("return_preds", "return_model_output", "maps_only"))
        parameter = next(self.model.parameters())
        rotated = rotated and self.finds_lines
        tiles: dict[int, list[tuple[int, int]]] = {}
        if rotated and not return_maps and isinstance(self.pre_processor, FlexiblePreProcessor):
            cuts = (self.pre_processor.tiles_for(image.shape[1], image.shape[2]) for image in images)
            tiles = {index: own for index, own in enumerate(cuts) if own}
        at_once = [index for index in range(len(images)) if index not in tiles]
        whole = [images[index] for index in at_once]
        batches = self.pre_processor.batches(whole, parameter.device, parameter.dtype)
        located = (page for batch in batches for page in self._locate_batch(whole, batch, rotated, return_maps, kwargs))
        found: dict[int, Located] = {}
        for index, image in enumerate(images):
            while index not in found and index not in tiles:
                place, own = next(located)
                found[at_once[place]] = own
            yield found.pop(index) if index in found else self._locate_in_tiles(image, tiles[index], kwargs)

    def _locate_in_tiles(self, page: Tensor, tiles: Sequence[tuple[int, int]], kwargs: dict[str, Any]) -> Located:
        """Find the lines on a long strip tile by tile, because scaling down the whole strip makes letters too small."""
        axis = 0 if page.shape[2] > page.shape[1] else 1
        views = [page[:, :, low:high] if axis == 0 else page[:, low:high] for low, high in tiles]
        parts: dict[str, list[npt.NDArray[np.float64]]] = {}
        # Process one tile at a time, because all tiles of a very long page may not fit into memory.
        for view, (start, _) in zip(views, tiles, strict=True):
            located = next(self.locate([view], rotated=True, **kwargs))
            scale = _corner_factors(view.shape[2], view.shape[1])
            shift = np.array([[start, 0] if axis == 0 else [0, start]] * 4 + [[0, 0]])
            for name, boxes in located.boxes.items():
                parts.setdefault(name, []).append(np.asarray(boxes * scale + shift, dtype=np.float64))
        whole = _corner_factors(page.shape[2], page.shape[1])
        shades = page.float().mean(0)
        (gray,) = download((shades if page.dtype == torch.uint8 else shades * 255).to(torch.uint8))
        lines = {name: cut_long_lines(gray, join_tiles(own, tiles, axis), axis) for name, own in parts.items()}
        return Located({name: boxes / whole for name, boxes in lines.items()}, None)

    def _prepare(self, data: Tensor) -> Tensor:
        """Convert pages to the network's colour order and memory format, and mark sizes that differ between batches."""
        if self.model.cfg.get("color_order") == "BGR":
            data = data.flip(1)
        open_sizes = (0, 2, 3) if isinstance(self.pre_processor, FlexiblePreProcessor) else (0,)
        return mark_open_sizes(self.model, data.contiguous(memory_format=torch.channels_last), *open_sizes)

    def _locate_batch(
        self,
        images: Sequence[Tensor],
        batch: PageBatch,
        rotated: bool,
        return_maps: bool,
        kwargs: dict[str, Any],
    ) -> Iterator[tuple[int, Located]]:
        data = batch.data
        # The package's own networks return only the map, so that nothing else is downloaded.
        arguments = {"maps_only": True}
        if not isinstance(uncompiled_module(self.model), Detector):
            arguments = {"return_preds": not rotated, "return_model_output": return_maps or rotated}
        # Grey pages are downloaded with their maps, to search them for ink outside all boxes.
        is_default = isinstance(uncompiled_module(self.model), PPOCRDetector)
        looks_again = rotated and is_default and isinstance(self.pre_processor, FlexiblePreProcessor)
        grays = ((data.float().mean(1) * 127.5 + 127.5).clamp(0, 255).to(torch.uint8),) if looks_again else ()
        out = self.model(self._prepare(data), **arguments, **kwargs)
        maps: npt.NDArray[np.floating] | None = None
        if "out_map" in out:
            # A single download for each batch, for which the host waits. Boxes are computed on the host.
            downloaded, *shades = download(out["out_map"].float(), *grays)
            maps = downloaded.transpose(0, 2, 3, 1)
        for position, (index, placement) in enumerate(zip(batch.indices, batch.placements, strict=True)):
            if rotated and maps is not None:
                boxes = {
                    name: self.model.postprocessor.boxes(maps[position][:, :, layer], straight=False)
                    for layer, name in enumerate(self.model.class_names)
                }
                if looks_again:
                    boxes = self._look_again(images[index], shades[0][position], boxes)
            else:
                found = out["preds"][position] if maps is None or "preds" in out else self._boxes(maps[position])
                boxes = {name: placement.restore(own) for name, own in found.items()}
            yield index, Located(boxes, maps[position] if return_maps and maps is not None else None)

    def _look_again(
        self, page: Tensor, gray: npt.NDArray[np.uint8], boxes: dict[str, npt.NDArray[np.floating]]
    ) -> dict[str, npt.NDArray[np.floating]]:
        """Search a page again around letters outside all ``boxes``, and extend boxes that have a colon next to them.

        ``gray`` is the page at the size of the network's input. Return the updated boxes, relative to the page.
        """
        name, first = next(iter(boxes.items()))
        scale = _corner_factors(gray.shape[1], gray.shape[0])
        in_pixels = remove_screens(first * scale)
        changed, seen = in_pixels[:, :4], set[Window]()
        for look in range(MOST_LOOKS):
            ink = ink_left_over(gray, in_pixels[:, :4])
            letters = letters_of(ink)
            windows = windows_around(letters, in_pixels[:, :4], gray)
            # Later passes only search near lines that the last pass found, and never search a window twice.
            windows = [w for w in windows if w not in seen and (look == 0 or _overlaps(w, changed))]
            if not windows:
                break
            seen.update(windows)
            parts = self._map_windows(page, gray.shape, windows)
            found = [
                self.model.postprocessor.boxes(part, straight=False)
                * _corner_factors(w.right - w.left, w.bottom - w.top)
                + np.array([[w.left, w.top]] * 4 + [[0, 0]])
                for w, part in zip(windows, parts, strict=True)
            ]
            before = {box.tobytes() for box in in_pixels}
            in_pixels = add_found_boxes(in_pixels, np.concatenate(found), letters)
            changed = np.array([box[:4] for box in in_pixels if box.tobytes() not in before])
            if not len(changed):
                break
        return {name: extend_to_colons(in_pixels, ink) / scale}

    def _map_windows(
        self, page: Tensor, shape: tuple[int, ...], windows: Sequence[Window]
    ) -> list[npt.NDArray[np.floating]]:
        """Run the network on windows of a page, and return the probability map (h, w) of each window.

        The host waits for the device only once. ``shape`` is the height and width of the network's input for the whole
        page.
        """
        assert isinstance(self.pre_processor, FlexiblePreProcessor)
        parameter = next(self.model.parameters())
        (page,) = upload_images([page], parameter.device)
        maps = []
        for window in windows:
            box = (window.left, window.top, window.right, window.bottom)
            levels = (window.dark / 255, window.light / 255)
            data = part_of_page(page, shape, box, window.scale, levels, self.pre_processor, parameter.dtype)
            maps.append(self.model(self._prepare(data), maps_only=True)["out_map"].float()[0, 0])
        return download(*maps)

    def _boxes(self, page_map: npt.NDArray[np.floating]) -> dict[str, npt.NDArray[np.floating]]:
        return dict(zip(self.model.class_names, self.model.postprocessor(page_map[None])[0], strict=True))


def _corner_factors(width: float, height: float) -> npt.NDArray[np.float64]:
    """Return factors (5, 2) to multiply with a box (5, 2): they scale its corners but not the score in the last row."""
    return np.array([[width, height]] * 4 + [[1, 1]], dtype=np.float64)


def _overlaps(window: Window, quads: npt.NDArray[np.floating]) -> bool:
    low, high = quads.min(axis=1), quads.max(axis=1)
    return bool(((low < (window.right, window.bottom)) & (high > (window.left, window.top))).all(axis=1).any())
