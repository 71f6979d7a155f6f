"""Geometries as patches of matplotlib, which is imported on use."""

from __future__ import annotations

import colorsys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ...errors import InvalidArgumentError, MissingDependencyError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.patches import Patch, Polygon, Rectangle

__all__ = ["Rgb", "create_obj_patch", "get_colors", "polygon_patch", "pyplot", "rect_patch", "show_labels_on_hover"]

Rgb: TypeAlias = tuple[float, float, float]


def pyplot() -> Any:
    """The module ``matplotlib.pyplot``.

    Raises:
        MissingDependencyError: if matplotlib is not installed.
    """
    try:
        from matplotlib import pyplot as module
    except ImportError:
        raise MissingDependencyError('Figures need matplotlib: pip install "mediatensor[plot]".') from None
    return module


def _patches() -> Any:
    pyplot()
    from matplotlib import patches

    return patches


def _points(geometry: Any, count: int) -> NDArray[np.float64]:
    try:
        points = np.array(geometry, dtype=np.float64)
    except (TypeError, ValueError):
        points = np.empty(0)
    if points.shape != (count, 2):
        raise InvalidArgumentError(f"invalid geometry format {geometry!r}: expected {count} points (x, y)")
    return points


def _scale(page_dimensions: tuple[int, int], preserve_aspect_ratio: bool) -> NDArray[np.float64]:
    height, width = page_dimensions
    return np.full(2, max(height, width), float) if preserve_aspect_ratio else np.array([width, height], float)


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
    """A matplotlib patch of a straight box.

    Args:
        geometry: Relative, ``((xmin, ymin), (xmax, ymax))``.
        page_dimensions: Height and width of the page in pixels.
        label: The text that appears under the mouse.
        color: RGB in [0, 1].
        alpha: Opacity, from 0 to 1.
        linewidth: The width of the outline, in points.
        fill: Whether the inside is tinted.
        preserve_aspect_ratio: Whether coordinates are relative to a square around the page, as from a predictor with
            this argument.

    Raises:
        InvalidArgumentError: if the geometry is not of this form.
        MissingDependencyError: if matplotlib is not installed.

    Example:
        >>> from mediatensor.ocr.utils.visualization import rect_patch
        >>> rect_patch(((0.1, 0.1), (0.5, 0.4)), (80, 120)).get_width()
        48.0
    """
    points = _points(geometry, 2) * _scale(page_dimensions, preserve_aspect_ratio)
    (left, top), (right, bottom) = points.tolist()
    tint = (*color, alpha)
    rectangle: Rectangle = _patches().Rectangle(
        (left, top),
        right - left,
        bottom - top,
        fill=fill,
        linewidth=linewidth,
        edgecolor=tint,
        facecolor=tint,
        label=label,
    )
    return rectangle


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
    """A matplotlib patch of a rotated box.

    Args:
        geometry: Four relative points; not changed.
        page_dimensions: Height and width of the page in pixels.
        label: The text that appears under the mouse.
        color: RGB in [0, 1].
        alpha: Opacity, from 0 to 1.
        linewidth: The width of the outline, in points.
        fill: Whether the inside is tinted.
        preserve_aspect_ratio: Whether coordinates are relative to a square around the page.

    Raises:
        InvalidArgumentError: if the geometry is not of this form.
        MissingDependencyError: if matplotlib is not installed.

    Example:
        >>> from mediatensor.ocr.utils.visualization import polygon_patch
        >>> len(polygon_patch(((0.1, 0.1), (0.5, 0.1), (0.5, 0.4), (0.1, 0.4)), (80, 120)).get_xy())
        5
    """
    points = _points(geometry, 4) * _scale(page_dimensions, preserve_aspect_ratio)
    tint = (*color, alpha)
    polygon: Polygon = _patches().Polygon(
        points, fill=fill, linewidth=linewidth, edgecolor=tint, facecolor=tint, label=label
    )
    return polygon


def create_obj_patch(geometry: Any, page_dimensions: tuple[int, int], **kwargs: Any) -> Patch:
    """A matplotlib patch of a geometry of two or four points.

    Args:
        geometry: Relative; tuples, lists or an array.
        page_dimensions: Height and width of the page in pixels.
        **kwargs: For `rect_patch` or `polygon_patch`.

    Raises:
        InvalidArgumentError: if the geometry is not of this form.
        MissingDependencyError: if matplotlib is not installed.

    Example:
        >>> from mediatensor.ocr.utils.visualization import create_obj_patch
        >>> create_obj_patch(((0.1, 0.1), (0.5, 0.4)), (80, 120)).get_width()
        48.0
    """
    count = len(geometry) if isinstance(geometry, (Sequence, np.ndarray)) else 0
    if count == 2:
        return rect_patch(geometry, page_dimensions, **kwargs)
    return polygon_patch(geometry, page_dimensions, **kwargs)


def get_colors(num_colors: int) -> list[Rgb]:
    """Colors that are easy to distinguish, the same in every call.

    Args:
        num_colors: The number of colors.

    Returns:
        RGB in [0, 1].

    >>> from mediatensor.ocr.utils.visualization import get_colors
    >>> [tuple(round(channel, 2) for channel in color) for color in get_colors(2)]
    [(1.0, 0.1, 0.1), (0.1, 1.0, 1.0)]
    """
    hues = (index / num_colors for index in range(num_colors))
    return [colorsys.hls_to_rgb(hue, 0.55, 1.0) for hue in hues] if num_colors else []


def show_labels_on_hover(ax: Axes, patches: Sequence[Patch]) -> None:
    """Show the label of the smallest patch under the mouse.

    Args:
        ax: The axes of the patches.
        patches: The patches, with labels.
    """
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
    # If two patches have the same size, the later one is on top, such as a word on its line.
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
        # Place the label toward the middle of the page, where there is room.
        on_left, on_top = event.xdata < sum(ax.get_xlim()) / 2, event.ydata < sum(ax.get_ylim()) / 2
        annotation.set_horizontalalignment("left" if on_left else "right")
        annotation.set_verticalalignment("top" if on_top else "bottom")
        annotation.xyann = (12 if on_left else -12, -12 if on_top else 12)
        annotation.xy = (event.xdata, event.ydata)
        annotation.set_text(str(patch.get_label()))
        annotation.set_visible(True)
        ax.figure.canvas.draw_idle()

    ax.figure.canvas.mpl_connect("motion_notify_event", on_move)
