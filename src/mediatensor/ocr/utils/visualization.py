"""Looking at what was read: figures of matplotlib, with docTR's names, and pictures without it.

`overlay` needs Pillow alone; everything else here needs matplotlib, which ``mediatensor[plot]`` installs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from ...errors import InvalidArgumentError
from ._drawing import as_picture
from ._figures import Rgb, create_obj_patch, get_colors, polygon_patch, pyplot, rect_patch, show_labels_on_hover
from ._overlay import OverlayText, overlay
from .geometry import boxes_to_polygons

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "OverlayText",
    "create_obj_patch",
    "draw_boxes",
    "get_colors",
    "overlay",
    "polygon_patch",
    "rect_patch",
    "visualize_kie_page",
    "visualize_page",
]

_BLOCK, _LINE, _WORD, _ARTEFACT = (0.0, 1.0, 0.0), (1.0, 0.0, 0.0), (0.0, 0.0, 1.0), (0.5, 0.5, 0.5)


class _Shape(NamedTuple):
    """One element to outline.

    Attributes:
        geometry: Relative, two or four points.
        label: Shown under the mouse.
        color: RGB in [0, 1].
        linewidth: In points.
        fill: Whether the inside is tinted.
        caption: Written on the figure when it is not interactive.
    """

    geometry: Any
    label: str
    color: Rgb
    linewidth: int = 1
    fill: bool = True
    caption: str | None = None


def visualize_page(
    page: Mapping[str, Any],
    image: NDArray[Any] | torch.Tensor,
    words_only: bool = True,
    display_artefacts: bool = True,
    display_layout: bool = True,
    scale: float = 10,
    interactive: bool = True,
    add_labels: bool = True,
    **kwargs: Any,
) -> Figure:
    """A figure of a page with the outlines of what was found on it.

    Args:
        page: An exported `Page`.
        image: Its pixels, array (H, W, 3) or tensor (3, H, W), uint8.
        words_only: Leave lines and blocks out.
        display_artefacts: Outline artefacts.
        display_layout: Outline regions of the layout.
        scale: Length of the longer side of the figure, in inches.
        interactive: Show text and confidence of what the mouse points at.
        add_labels: If not interactive, write the text of every straight box on the figure.
        **kwargs: For `create_obj_patch`: ``alpha``, ``preserve_aspect_ratio``.

    Returns:
        The figure, known to pyplot: ``plt.show()`` shows it, ``plt.close(figure)`` frees it.

    Raises:
        InvalidArgumentError: if the image or a geometry is unusable.
        MissingDependencyError: if matplotlib is not installed.

    Example:
        >>> import numpy as np
        >>> from mediatensor.ocr.io import Block, Line, Page, Word
        >>> word = Word("Total", 0.9, ((0.1, 0.1), (0.3, 0.2)), 0.9, {"value": 0, "confidence": None})
        >>> page = Page(np.full((80, 120, 3), 255, np.uint8), [Block([Line([word])])], 0, (80, 120))
        >>> from mediatensor.ocr.utils import visualize_page
        >>> figure = visualize_page(page.export(), page.page, interactive=False)
        >>> figure.savefig("page_with_boxes.png")
    """
    shapes = [*(_regions(page) if display_layout else ())]
    for block in page["blocks"]:
        if not words_only:
            shapes.append(_Shape(block["geometry"], "block", _BLOCK))
        for line in block["lines"]:
            if not words_only:
                shapes.append(_Shape(line["geometry"], "line", _LINE))
            shapes += [_Shape(word["geometry"], _told(word), _WORD, 2, caption=word["value"]) for word in line["words"]]
        if display_artefacts:
            shapes += [_Shape(artefact["geometry"], "artefact", _ARTEFACT) for artefact in block["artefacts"]]
    return _figure(as_picture(image), shapes, scale, interactive, add_labels, kwargs)


def visualize_kie_page(
    page: Mapping[str, Any],
    image: NDArray[Any] | torch.Tensor,
    words_only: bool = False,
    display_artefacts: bool = True,
    display_layout: bool = True,
    scale: float = 10,
    interactive: bool = True,
    add_labels: bool = True,
    **kwargs: Any,
) -> Figure:
    """A figure of a page with the outlines of its predictions, one color for each class.

    Args:
        page: An exported `KIEPage`.
        image: Its pixels, array (H, W, 3) or tensor (3, H, W), uint8.
        words_only: Leave all predictions out.
        display_artefacts: Taken for the sake of `visualize_page`: such a page has no artefacts.
        display_layout: Outline regions of the layout.
        scale: Length of the longer side of the figure, in inches.
        interactive: Show class, text and confidence of what the mouse points at.
        add_labels: If not interactive, write the text of every straight box on the figure.
        **kwargs: For `create_obj_patch`: ``alpha``, ``preserve_aspect_ratio``.

    Returns:
        The figure, known to pyplot: ``plt.show()`` shows it, ``plt.close(figure)`` frees it.

    Raises:
        InvalidArgumentError: if the image or a geometry is unusable.
        MissingDependencyError: if matplotlib is not installed.

    Example:
        >>> import numpy as np
        >>> from mediatensor.ocr.io import KIEPage, Prediction
        >>> found = Prediction("12.50", 0.9, ((0.1, 0.1), (0.3, 0.2)), 0.9, {"value": 0, "confidence": None})
        >>> page = KIEPage(np.full((80, 120, 3), 255, np.uint8), {"total": [found]}, 0, (80, 120))
        >>> from mediatensor.ocr.utils import visualize_kie_page
        >>> figure = visualize_kie_page(page.export(), page.page, interactive=False)
        >>> figure.savefig("page_with_boxes.png")
    """
    shapes = [*(_regions(page) if display_layout else ())]
    predictions = {} if words_only else page["predictions"]
    for color, (name, entries) in zip(get_colors(len(predictions)), predictions.items(), strict=True):
        shapes += [
            _Shape(entry["geometry"], f"{name}\n{_told(entry)}", color, caption=entry["value"]) for entry in entries
        ]
    return _figure(as_picture(image), shapes, scale, interactive, add_labels, kwargs)


def _told(word: Mapping[str, Any]) -> str:
    return f"{word['value']} (confidence: {word['confidence']:.2%})"


def _regions(page: Mapping[str, Any]) -> Iterator[_Shape]:
    regions = page.get("layout") or ()
    kinds = sorted({region["type"] for region in regions})
    colors = dict(zip(kinds, get_colors(len(kinds)), strict=True))
    for region in regions:
        kind = region["type"]
        label = f"{kind} (confidence: {region['confidence']:.2%})"
        yield _Shape(region["geometry"], label, colors[kind], 2, fill=False, caption=kind)


def _figure(
    picture: NDArray[np.uint8],
    shapes: Sequence[_Shape],
    scale: float,
    interactive: bool,
    add_labels: bool,
    options: Mapping[str, Any],
) -> Figure:
    size = height, width = picture.shape[0], picture.shape[1]
    longer = max(height, width)
    figure: Figure
    figure, ax = pyplot().subplots(figsize=(scale * width / longer, scale * height / longer))
    ax.imshow(picture)
    ax.axis("off")
    patches = []
    for shape in shapes:
        style = {"label": shape.label, "color": shape.color, "linewidth": shape.linewidth, "fill": shape.fill}
        patch = create_obj_patch(shape.geometry, size, **{**style, **options})
        patches.append(ax.add_patch(patch))
        if add_labels and not interactive and shape.caption is not None and len(shape.geometry) == 2:
            left, top = np.asarray(patch.get_path().transformed(patch.get_patch_transform()).vertices)[0]
            # A dollar sign is text here, not mathematics.
            ax.text(left, top, shape.caption, size=10, alpha=0.5, color=shape.color, parse_math=False)
    if interactive:
        show_labels_on_hover(ax, patches)
    figure.tight_layout(pad=0.0)
    return figure


def draw_boxes(
    boxes: NDArray[Any],
    image: NDArray[Any] | torch.Tensor,
    color: tuple[int, int, int] | None = None,
    **kwargs: Any,
) -> None:
    """Show an image with boxes on it, in the current axes of matplotlib; ``plt.show()`` brings it up.

    Args:
        boxes: Relative boxes: straight (N, 4) or rotated (N, 4, 2), also with their scores, (N, 5) or (N, 5, 2).
        image: Array (H, W, 3) or tensor (3, H, W), uint8 or floats in [0, 1]; not changed.
        color: RGB of the outlines, from 0 to 255; blue unless given.
        **kwargs: How to draw the outlines, as for ``matplotlib.pyplot.plot``: ``linewidth``, ``alpha``, ...

    Raises:
        InvalidArgumentError: if the boxes have another shape, or the image is unusable.
        MissingDependencyError: if matplotlib is not installed.

    Example:
        >>> import numpy as np
        >>> from mediatensor.ocr.utils import draw_boxes
        >>> draw_boxes(np.array([[0.1, 0.1, 0.5, 0.4]]), np.zeros((80, 120, 3), np.uint8))
    """
    if boxes.shape[1:] not in ((4,), (5,), (4, 2), (5, 2)):
        raise InvalidArgumentError(f"boxes must be of shape (N, 4) or (N, 4, 2), got {boxes.shape}")
    picture = as_picture(image)
    height, width = picture.shape[:2]
    corners = boxes[:, :4] if boxes.ndim == 3 else boxes_to_polygons(boxes[:, :4])
    # One line for all boxes: each is closed, and a gap goes before the next.
    outlines = np.full((len(corners), 6, 2), np.nan)
    outlines[:, :4] = corners * np.array([width, height])
    outlines[:, 4] = outlines[:, 0]
    plt = pyplot()
    plt.imshow(picture)
    style = {"color": tuple(channel / 255 for channel in color or (0, 0, 255)), "linewidth": 2}
    # Edges lie between pixels, whose centers are at whole numbers for matplotlib.
    columns, rows = outlines.reshape(-1, 2).T - 0.5
    plt.plot(columns, rows, **{**style, **kwargs})
