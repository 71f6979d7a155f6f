"""Labels that appear where the mouse points, with matplotlib's own events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.patches import Patch

__all__ = ["show_labels_on_hover"]


def show_labels_on_hover(ax: Axes, patches: Sequence[Patch]) -> None:
    """Show the label of the smallest patch under the mouse.

    Args:
        ax: Where the patches are.
        patches: They tell their label by ``get_label()``.
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
    # Of two of one size, the later one lies on top: a word on its line.
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
        # Toward the middle of the page, where there is room.
        on_left, on_top = event.xdata < sum(ax.get_xlim()) / 2, event.ydata < sum(ax.get_ylim()) / 2
        annotation.set_horizontalalignment("left" if on_left else "right")
        annotation.set_verticalalignment("top" if on_top else "bottom")
        annotation.xyann = (12 if on_left else -12, -12 if on_top else 12)
        annotation.xy = (event.xdata, event.ydata)
        annotation.set_text(str(patch.get_label()))
        annotation.set_visible(True)
        ax.figure.canvas.draw_idle()

    ax.figure.canvas.mpl_connect("motion_notify_event", on_move)
