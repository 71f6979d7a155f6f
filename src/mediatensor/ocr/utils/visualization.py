"""Show recognised pages in matplotlib figures, or draw them as images. The functions are named as in docTR.

`overlay` needs only Pillow. All other functions need matplotlib, which ``mediatensor[plot]`` installs.
"""

from __future__ import annotations

import colorsys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from ..._engine.common.checks import checked, image_size, number_array, whole_number
from ...errors import InvalidArgumentError, MissingDependencyError
from ._drawing import (
    Lettering,
    Placed,
    as_picture,
    confidence_color,
    corners,
    draw_structure,
    exported_page,
    pixel_quad,
    place,
)
from .geometry import boxes_to_polygons
from .reconstitution import synthesize_kie_page, synthesize_page

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch, Polygon, Rectangle

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


Rgb: TypeAlias = tuple[float, float, float]


def pyplot() -> Any:
    """Import ``matplotlib.pyplot``. Raise `MissingDependencyError` if matplotlib is not installed."""
    try:
        from matplotlib import pyplot as module
    except ImportError:
        raise MissingDependencyError('Figures need matplotlib: pip install "mediatensor[plot]".') from None
    return module


def _patches() -> Any:
    pyplot()
    from matplotlib import patches

    return patches


def _points(geometry: Any, count: int, dimensions: tuple[int, int], preserve_aspect_ratio: bool) -> NDArray[np.float64]:
    """Convert a relative geometry of ``count`` points to pixels, (count, 2). See `rect_patch` for the arguments."""
    try:
        points = np.array(geometry, dtype=np.float64)
    except (TypeError, ValueError):
        points = np.empty(0)
    if points.shape != (count, 2):
        raise InvalidArgumentError(f"invalid geometry format {geometry!r}: expected {count} points (x, y)")
    height, width = dimensions
    pixels: NDArray[np.float64] = points * ([max(height, width)] * 2 if preserve_aspect_ratio else [width, height])
    return pixels


@checked(page_dimensions=image_size)
def rect_patch(
    geometry: Any,
    page_dimensions: tuple[int, int],
    label: str | None = None,
    color: Rgb = (0, 0, 0),
    alpha: float = 0.3,
    linewidth: int = 2,
    fill: bool = True,
    preserve_aspect_ratio: bool = False,
) -> Rectangle:
    """Return a matplotlib patch, a coloured shape, for an axis-aligned box.

    Args:
        geometry: The box, relative to the page: ``((xmin, ymin), (xmax, ymax))``.
        page_dimensions: (height, width) of the page in pixels.
        label: The text that appears while the mouse is over the patch.
        color: RGB in [0, 1].
        alpha: Opacity, from 0 to 1.
        linewidth: The width of the outline, in points.
        fill: Whether the inside is coloured as well.
        preserve_aspect_ratio: Whether x and y are both fractions of the longer side of the page. By default, x is a
            fraction of the width, and y is a fraction of the height, as in the results of predictors.

    Returns:
        A rectangle in pixel coordinates of the page.

    Raises:
        InvalidArgumentError: if the geometry does not have this form.
        MissingDependencyError: if matplotlib is not installed.

    Example:
        >>> from mediatensor.ocr.utils.visualization import rect_patch
        >>> rect_patch(((0.1, 0.1), (0.5, 0.4)), (80, 120)).get_width()
        48.0
    """
    (left, top), (right, bottom) = _points(geometry, 2, page_dimensions, preserve_aspect_ratio).tolist()
    style = {"fill": fill, "linewidth": linewidth, "color": (*color, alpha), "label": label}
    rectangle: Rectangle = _patches().Rectangle((left, top), right - left, bottom - top, **style)
    return rectangle


@checked(page_dimensions=image_size)
def polygon_patch(
    geometry: Any,
    page_dimensions: tuple[int, int],
    label: str | None = None,
    color: Rgb = (0, 0, 0),
    alpha: float = 0.3,
    linewidth: int = 2,
    fill: bool = True,
    preserve_aspect_ratio: bool = False,
) -> Polygon:
    """Return a matplotlib patch, a coloured shape, for a rotated box.

    Args:
        geometry: The four corners (x, y) of the box, relative to the page.
        page_dimensions, label, color, alpha, linewidth, fill, preserve_aspect_ratio: Page size, label and style, as for
            `rect_patch`.

    Returns:
        A polygon in pixel coordinates of the page.

    Raises:
        InvalidArgumentError, MissingDependencyError: See `rect_patch`.

    Example:
        >>> from mediatensor.ocr.utils.visualization import polygon_patch
        >>> len(polygon_patch(((0.1, 0.1), (0.5, 0.1), (0.5, 0.4), (0.1, 0.4)), (80, 120)).get_xy())
        5
    """
    points = _points(geometry, 4, page_dimensions, preserve_aspect_ratio)
    style = {"fill": fill, "linewidth": linewidth, "color": (*color, alpha), "label": label}
    polygon: Polygon = _patches().Polygon(points, **style)
    return polygon


def create_obj_patch(geometry: Any, page_dimensions: tuple[int, int], **kwargs: Any) -> Patch:
    """Return a matplotlib patch, a coloured shape, for an axis-aligned box or a rotated box.

    Args:
        geometry: The box, relative to the page: ``((xmin, ymin), (xmax, ymax))``, or four corners (x, y). Tuples, lists
            and arrays are accepted.
        page_dimensions, **kwargs: Page size, label and style, as for `rect_patch`, which raises the same
            errors.

    Returns:
        A rectangle or a polygon in pixel coordinates of the page.

    Example:
        >>> from mediatensor.ocr.utils.visualization import create_obj_patch
        >>> create_obj_patch(((0.1, 0.1), (0.5, 0.4)), (80, 120)).get_width()
        48.0
    """
    count = len(geometry) if isinstance(geometry, (Sequence, np.ndarray)) else 0
    if count == 2:
        return rect_patch(geometry, page_dimensions, **kwargs)
    return polygon_patch(geometry, page_dimensions, **kwargs)


@checked(num_colors=whole_number)
def get_colors(num_colors: int) -> list[Rgb]:
    """Return colors that are easy to distinguish. Every call returns the same colors.

    Args:
        num_colors: The number of colors.

    Returns:
        A list of tuples (red, green, blue), with values in [0, 1].

    >>> from mediatensor.ocr.utils.visualization import get_colors
    >>> [tuple(round(channel, 2) for channel in color) for color in get_colors(2)]
    [(1.0, 0.1, 0.1), (0.1, 1.0, 1.0)]
    """
    return [colorsys.hls_to_rgb(index / num_colors, 0.55, 1.0) for index in range(num_colors)]


def show_labels_on_hover(ax: Axes, patches: Sequence[Patch]) -> None:
    """Show the label of the smallest patch under the mouse whenever the mouse moves over ``ax``."""
    annotation = ax.annotate(
        "",
        xy=(0, 0),
        xytext=(12, 12),
        textcoords="offset points",
        bbox={"boxstyle": "round", "facecolor": "lightyellow", "alpha": 0.95},
        zorder=1000,
        visible=False,
        annotation_clip=False,
    )
    extents = [patch.get_path().transformed(patch.get_patch_transform()).get_extents() for patch in patches]
    corners = np.array([[box.x0, box.y0, box.x1, box.y1] for box in extents]).reshape(-1, 4)
    areas = (corners[:, 2] - corners[:, 0]) * (corners[:, 3] - corners[:, 1])
    # Of two patches with the same size, such as a line with one word, the later one is on top.
    by_size = np.lexsort((-np.arange(len(patches)), areas))

    def under(x: float, y: float, event: Any) -> Patch | None:
        near = (corners[:, 0] <= x) & (x <= corners[:, 2]) & (corners[:, 1] <= y) & (y <= corners[:, 3])
        for index in by_size[near[by_size]].tolist():
            patch: Patch = patches[index]
            if patch.contains(event)[0]:
                return patch
        return None

    def on_move(event: Any) -> None:
        patch = under(event.xdata, event.ydata, event) if event.inaxes is ax else None
        if patch is None:
            if annotation.get_visible():
                annotation.set_visible(False)
                ax.figure.canvas.draw_idle()
            return
        # Place the label on the side of the middle of the page, where there is space.
        on_left, on_top = event.xdata < sum(ax.get_xlim()) / 2, event.ydata < sum(ax.get_ylim()) / 2
        annotation.set_horizontalalignment("left" if on_left else "right")
        annotation.set_verticalalignment("top" if on_top else "bottom")
        annotation.xyann = (12 if on_left else -12, -12 if on_top else 12)
        annotation.xy = (event.xdata, event.ydata)
        annotation.set_text(str(patch.get_label()))
        annotation.set_visible(True)
        ax.figure.canvas.draw_idle()

    ax.figure.canvas.mpl_connect("motion_notify_event", on_move)


OverlayText = Literal["above", "beside", "none"]

# Opacity of boxes and labels, from 0 to 255. The text below a box stays legible.
_FILL, _LABEL = 48, 208
_UNREAD = (150, 0, 200)
# Height of a label above a box, relative to the height of the box.
_LABEL_HEIGHT = 0.7
_LABEL_SIZES = (7, 40)

_BLOCK, _LINE, _WORD, _ARTEFACT = (0.0, 1.0, 0.0), (1.0, 0.0, 0.0), (0.0, 0.0, 1.0), (0.5, 0.5, 0.5)
_CELL = (0.08, 0.47, 0.24)


class _Shape(NamedTuple):
    """One element to outline. ``label`` appears under the mouse, and ``caption`` is written on static figures."""

    geometry: Any
    label: str
    color: Rgb
    linewidth: int = 1
    fill: bool = True
    caption: str | None = None


@checked(page=exported_page)
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
    """Return a matplotlib figure of a page with the outlines of its elements.

    Args:
        page: The result of `Page.export`, a dict.
        image: The page image, array (H, W, 3) or tensor (3, H, W), uint8.
        words_only: Whether to outline only words. Otherwise, lines and blocks are outlined too.
        display_artefacts: Whether to outline artefacts, which are parts of a page that are not text.
        display_layout: Whether to outline layout regions.
        scale: The length of the longer side of the figure, in inches.
        interactive: Whether to show the text and confidence of the word that is under the mouse.
        add_labels: Whether to write the text of each axis-aligned box into the figure. Has an effect only if
            ``interactive`` is false.
        **kwargs: Arguments of `create_obj_patch`: ``alpha`` (opacity) and ``preserve_aspect_ratio``.

    Returns:
        The figure. It is registered with pyplot: ``plt.show()`` shows it, and ``plt.close(figure)`` frees it.

    Raises:
        InvalidArgumentError: if the image has a wrong shape or dtype, or a geometry is invalid.
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
    shapes = list(_regions(page)) if display_layout else []
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
    for table in page.get("tables") or ():
        for cell in table["cells"]:
            words = cell.get("words") or ()
            shapes.append(_Shape(cell["geometry"], _hover_text(cell), _CELL, caption="" if words else cell["value"]))
            shapes += [_Shape(word["geometry"], _hover_text(word), _WORD, 2, caption=word["value"]) for word in words]
    return _figure(as_picture(image), shapes, scale, interactive, add_labels, kwargs)


@checked(page=exported_page)
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
    """Return a matplotlib figure of a page with its predictions outlined, each class in its own colour.

    Args:
        page: The result of `KIEPage.export`, a dict.
        image: The page image, array (H, W, 3) or tensor (3, H, W), uint8.
        words_only: If true, no predictions are outlined, as in docTR.
        display_artefacts: Has no effect, because a `KIEPage` has no artefacts.
        display_layout, scale, interactive, add_labels, **kwargs: Content and style of the figure, as for
            `visualize_page`.

    Returns:
        The figure, registered with pyplot as in `visualize_page`.

    Raises:
        InvalidArgumentError, MissingDependencyError: See `visualize_page`.

    Example:
        >>> import numpy as np
        >>> from mediatensor.ocr.io import KIEPage, Prediction
        >>> found = Prediction("12.50", 0.9, ((0.1, 0.1), (0.3, 0.2)), 0.9, {"value": 0, "confidence": None})
        >>> page = KIEPage(np.full((80, 120, 3), 255, np.uint8), {"total": [found]}, 0, (80, 120))
        >>> from mediatensor.ocr.utils import visualize_kie_page
        >>> figure = visualize_kie_page(page.export(), page.page, interactive=False)
        >>> figure.savefig("page_with_boxes.png")
    """
    shapes = list(_regions(page)) if display_layout else []
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
            # If math were parsed, a dollar sign would start a formula.
            ax.text(left, top, shape.caption, size=10, alpha=0.5, color=shape.color, parse_math=False)
    if interactive:
        show_labels_on_hover(ax, patches)
    figure.tight_layout(pad=0.0)
    return figure


@checked(boxes=number_array)
def draw_boxes(
    boxes: NDArray[Any],
    image: NDArray[Any] | torch.Tensor,
    color: tuple[int, int, int] | None = None,
    **kwargs: Any,
) -> None:
    """Draw an image with boxes into matplotlib's current axes. ``plt.show()`` then shows the figure.

    Args:
        boxes: Boxes relative to the image: (N, 4), each (xmin, ymin, xmax, ymax), or corners (N, 4, 2). They can
            include scores, which are ignored: (N, 5) or (N, 5, 2), as detectors return them.
        image: Array (H, W, 3) or tensor (3, H, W), uint8 or floats in [0, 1]. It is not changed.
        color: RGB of the outlines, from 0 to 255; blue by default.
        **kwargs: Arguments of ``matplotlib.pyplot.plot`` for the outlines: ``linewidth``, ``alpha``, ...

    Raises:
        InvalidArgumentError: if the boxes or the image have a wrong shape, or the image has a wrong dtype.
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
    # One polyline draws all boxes. Each box is closed and followed by a gap.
    outlines = np.full((len(corners), 6, 2), np.nan)
    outlines[:, :4] = corners * np.array([width, height])
    outlines[:, 4] = outlines[:, 0]
    plt = pyplot()
    plt.imshow(picture)
    style = {"color": tuple(channel / 255 for channel in color or (0, 0, 255)), "linewidth": 2}
    # Edges lie between pixels, but matplotlib places pixel centres at whole numbers.
    columns, rows = outlines.reshape(-1, 2).T - 0.5
    plt.plot(columns, rows, **{**style, **kwargs})


def overlay(
    page: Any,
    image: NDArray[Any] | torch.Tensor | None = None,
    *,
    text: OverlayText = "beside",
    line_width: int | None = None,
    font_family: str | None = None,
    structure: bool = True,
) -> NDArray[np.uint8]:
    """Draw the boxes of all words on the image of a page, coloured by confidence, together with the recognised text.

    If the page has a structure, its regions are drawn with their kinds, and with numbers and arrows that show the
    reading order. Table cells are outlined, and arrows lead from the keys of fields to their values.

    Args:
        page: A `Page` or `KIEPage`, or the result of its method ``export``.
        image: The image of the page: array (H, W, 3) or tensor (3, H, W), uint8. By default, the image that ``page``
            contains.
        text: Where to write the recognised text. ``"beside"`` writes it on a blank page to the right of the image, as
            wide as the image. ``"above"`` writes it above each box, which suits pages of few words, such as video
            frames. ``"none"`` writes no text.
        line_width: The width of outlines in pixels; ``None`` chooses it by the size of the page.
        font_family: The path of a font file, or the name of an installed font; see `get_font`.
        structure: Whether to draw regions, table cells and fields, if the page has any.

    Returns:
        Array (H, W, 3) uint8, or (H, 2 W, 3) if ``text`` is ``"beside"``. Boxes are blue for a high confidence,
        orange for a lower one, and red for 0.5 or less. Purple boxes are lines that were not read completely.

    Raises:
        InvalidArgumentError: if there is no image, or an argument is invalid.

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
    if line_width is not None:
        line_width = whole_number("line_width", line_width, at_least=1, or_none=True)
    exported = exported_page("page", page.export() if hasattr(page, "export") else page)
    image = getattr(page, "page", None) if image is None else image
    if image is None:
        raise InvalidArgumentError("an exported page has no pixels: give the image of the page as well")
    picture = as_picture(image)
    size = picture.shape[0], picture.shape[1]
    words = [place(word, size, confidence_color(word["confidence"])) for word in _words(exported)]
    unread = [Placed("", pixel_quad(line["geometry"], size), _UNREAD) for line in exported.get("unread") or ()]
    width = line_width or max(round(max(size) / 1000), 1)
    canvas = _with_boxes(picture, words + unread, width)
    if structure:
        canvas = draw_structure(canvas, exported, width)
    if text == "above":
        _label(canvas, words, font_family)
    if text == "beside":
        synthesize = synthesize_kie_page if "predictions" in exported else synthesize_page
        # The given image may have another size than the image that was read.
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
        for cell in table["cells"]:
            yield from cell.get("words") or ([cell] if cell["value"] else [])


def _with_boxes(picture: NDArray[np.uint8], words: list[Placed], line_width: int) -> Image.Image:
    tint = Image.new("RGBA", (picture.shape[1], picture.shape[0]))
    draw = ImageDraw.Draw(tint)
    for word in words:
        draw.polygon(corners(word.quad), fill=(*word.color, _FILL), outline=(*word.color, 255), width=line_width)
    canvas = Image.fromarray(picture)
    canvas.paste(tint, mask=tint)
    return canvas


def _label(canvas: Image.Image, words: list[Placed], font_family: str | None) -> None:
    """Write each text above its box on a light strip, which is rotated like the box."""
    labels = [word._replace(quad=_strip(word.quad)) for word in words if word.text]
    paper = Image.new("RGBA", canvas.size)
    draw = ImageDraw.Draw(paper)
    for label in labels:
        draw.polygon(corners(label.quad), fill=(255, 255, 255, _LABEL))
    canvas.paste(paper, mask=paper)
    lettering = Lettering(canvas, font_family, *_LABEL_SIZES)
    for label in labels:
        lettering.write_line([label])


def _strip(quad: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the corners of a strip above a box, for its text. At the top of the page, the strip is inside the box."""
    up = (quad[[0, 1]] - quad[[3, 2]]) * _LABEL_HEIGHT
    lower = quad[[0, 1]]
    if (lower + up)[:, 1].min() < 0:
        lower = lower - up
    return np.concatenate([lower + up, lower[::-1]])
