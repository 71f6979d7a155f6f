"""Looking at what was read: figures of matplotlib, with docTR's names, and pictures without it.

`overlay` needs Pillow alone; everything else here needs matplotlib, which ``mediatensor[plot]`` installs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from ...errors import InvalidArgumentError
from ._drawing import Lettering, Placed, as_picture, confidence_color, pixel_quad, place
from ._figures import Rgb, create_obj_patch, get_colors, polygon_patch, pyplot, rect_patch, show_labels_on_hover
from .geometry import boxes_to_polygons
from .reconstitution import synthesize_kie_page, synthesize_page

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

OverlayText = Literal["above", "beside", "none"]

# Of 255; the text below a box stays legible.
_FILL, _LABEL = 48, 208
_UNREAD = (150, 0, 200)
# A label above a box, in parts of the height of the box.
_LABEL_HEIGHT = 0.7
_LABEL_SIZES = (7, 40)

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
            shapes += [
                _Shape(word["geometry"], _hover_text(word), _WORD, 2, caption=word["value"]) for word in line["words"]
            ]
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
    for color, (name, group) in zip(get_colors(len(predictions)), predictions.items(), strict=True):
        shapes += [
            _Shape(entry["geometry"], f"{name}\n{_hover_text(entry)}", color, caption=entry["value"]) for entry in group
        ]
    return _figure(as_picture(image), shapes, scale, interactive, add_labels, kwargs)


def _hover_text(word: Mapping[str, Any]) -> str:
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


def overlay(
    page: Any,
    image: NDArray[Any] | torch.Tensor | None = None,
    *,
    text: OverlayText = "beside",
    line_width: int | None = None,
    font_family: str | None = None,
) -> NDArray[np.uint8]:
    """Draw the boxes of the words on their page, colored by confidence, and what was read.

    Args:
        page: A `Page` or `KIEPage`, or an exported one.
        image: The pixels: array (H, W, 3) or tensor (3, H, W), uint8. ``None`` takes those of the element.
        text: Where to write what was read: on a sheet ``"beside"`` the page (the result is twice as wide), ``"above"``
            each box (for few words, as in a frame of a video), or ``"none"``.
        line_width: Of the outlines, in pixels; ``None`` follows the size of the page.
        font_family: As for `get_font`.

    Returns:
        Array (H, W, 3) uint8, or (H, 2 W, 3): blue boxes are sure, orange ones less so, red ones have a confidence of
        0.5 or less, and purple ones are lines that were not read, or not in full.

    Raises:
        InvalidArgumentError: if there is no image, or an argument has no usable value.

    Example:
        >>> import numpy as np
        >>> from mediatensor.ocr.io import Block, Line, Page, Word
        >>> word = Word("Total", 0.9, ((0.1, 0.1), (0.3, 0.2)), 0.9, {"value": 0, "confidence": None})
        >>> page = Page(np.full((80, 120, 3), 255, np.uint8), [Block([Line([word])])], 0, (80, 120))
        >>> from mediatensor.ocr.utils import overlay
        >>> overlay(page, text="none").shape, overlay(page).shape
        ((80, 120, 3), (80, 240, 3))
    """
    if text not in get_args(OverlayText):
        raise InvalidArgumentError(f"text must be one of {get_args(OverlayText)}, got {text!r}")
    if line_width is not None and line_width < 1:
        raise InvalidArgumentError(f"line_width must be at least 1, got {line_width}")
    exported: Mapping[str, Any] = page if isinstance(page, Mapping) else page.export()
    image = getattr(page, "page", None) if image is None else image
    if image is None:
        raise InvalidArgumentError("an exported page has no pixels: give the image of the page too")
    picture = as_picture(image)
    size = picture.shape[0], picture.shape[1]
    words = [place(word, size, confidence_color(word["confidence"])) for word in _words(exported)]
    unread = [Placed("", pixel_quad(line["geometry"], size), _UNREAD) for line in exported.get("unread") or ()]
    canvas = _with_boxes(picture, words + unread, line_width or max(round(max(size) / 1000), 1))
    if text == "above":
        _label(canvas, words, font_family)
    if text == "beside":
        synthesize = synthesize_kie_page if "predictions" in exported else synthesize_page
        # The page as it was read may have had another size than the picture given.
        read = synthesize({**exported, "dimensions": size}, draw_proba=True, font_family=font_family)
        return np.concatenate([np.asarray(canvas), read], axis=1)
    return np.array(canvas)


def _words(page: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for block in page.get("blocks") or ():
        for line in block["lines"]:
            yield from line["words"]
    for predictions in (page.get("predictions") or {}).values():
        yield from predictions
    for table in page.get("tables") or ():
        yield from table["cells"]


def _with_boxes(picture: NDArray[np.uint8], words: list[Placed], line_width: int) -> Image.Image:
    tint = Image.new("RGBA", (picture.shape[1], picture.shape[0]))
    draw = ImageDraw.Draw(tint)
    for word in words:
        corners = [(x, y) for x, y in word.quad.tolist()]
        draw.polygon(corners, fill=(*word.color, _FILL), outline=(*word.color, 255), width=line_width)
    canvas = Image.fromarray(picture)
    canvas.paste(tint, mask=tint)
    return canvas


def _label(canvas: Image.Image, words: list[Placed], font_family: str | None) -> None:
    """Write each text on a light strip above its box, in the direction of its box."""
    labels = [word._replace(quad=_strip(word.quad)) for word in words if word.text]
    paper = Image.new("RGBA", canvas.size)
    draw = ImageDraw.Draw(paper)
    for label in labels:
        draw.polygon([(x, y) for x, y in label.quad.tolist()], fill=(255, 255, 255, _LABEL))
    canvas.paste(paper, mask=paper)
    lettering = Lettering(canvas, font_family, *_LABEL_SIZES)
    for label in labels:
        lettering.write_line([label])


def _strip(quad: NDArray[np.float64]) -> NDArray[np.float64]:
    """The place above a box; within its upper part where the page ends there."""
    up = (quad[[0, 1]] - quad[[3, 2]]) * _LABEL_HEIGHT
    lower = quad[[0, 1]]
    if (lower + up)[:, 1].min() < 0:
        lower = lower - up
    return np.concatenate([lower + up, lower[::-1]])
