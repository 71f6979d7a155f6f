"""Inputs and targets for networks of layouts and tables, the same for docTR's and ours; needs torch and numpy only."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ocr_weights import uniform

LAYOUT_GAINS = {"lw_detr_s": 1.0, "lw_detr_m": 1.0}
"""The gain of each network's weights, such that regions differ in score, kind and place."""
LAYOUT_SCORE = 0.88
LAYOUT_SHAPE = (2, 3, 256, 320)
LAYOUT_LEARNT = (
    "bbox_embed.layers.2.weight",
    "class_embed.bias",
    "decoder.angle_proj.0.weight",
    "decoder.layers.0.cross_attn.sampling_offsets.weight",
    "decoder.layers.1.cross_attn.value_proj.weight",
    "decoder.layers.2.self_attn.q_proj.weight",
    "enc_out_bbox_embed.7.layers.0.weight",
    "feat_extractor.encoder.0.patch_embed.proj.weight",
)
"""Parameters whose gradients are compared."""


def layout_masks() -> torch.Tensor:
    """The second page is padded on the right and on the left."""
    masks = torch.ones(2, *LAYOUT_SHAPE[2:], dtype=torch.bool)
    masks[1, :, :24] = masks[1, :, -30:] = False
    return masks


def layout_target(corners: bool) -> list[dict[str, Any]]:
    """Regions of two pages: straight boxes, or corners, of which some are turned."""
    if corners:
        turned = [
            [[0.1, 0.2], [0.4, 0.1], [0.45, 0.25], [0.15, 0.35]],
            [[0.6, 0.5], [0.7, 0.5], [0.7, 0.9], [0.6, 0.9]],
        ]
        line = [[[0.2, 0.5], [0.5, 0.5], [0.5, 0.5], [0.2, 0.5]]]
        first = {"Text": np.array(turned, np.float32), "Title": np.array(line, np.float32)}
        return [first, {"Table": np.array(turned[:1], np.float32)}]
    boxes = np.array([[0.1, 0.1, 0.5, 0.3], [0.5, 0.5, 0.52, 0.9], [0.2, 0.6, 0.4, 0.8]], np.float32)
    return [{"Text": boxes, "Picture": boxes[:1] + np.float32(0.01)}, {"Formula": np.zeros((0, 4), np.float32)}]


def drawn_page() -> np.ndarray:
    """A page of bytes (224, 320, 3) with some dark lines."""
    rows, columns = np.ogrid[:224, :320]
    shade = 200 + 50 * np.sin(rows / 9.0) * np.cos(columns / 13.0)
    page = np.repeat(shade[..., None], 3, axis=2).astype(np.uint8)
    page[20:40, 30:200] = page[60:120, 40:280:7] = 30
    return page


def overlapping_boxes() -> tuple[np.ndarray, np.ndarray]:
    """Scores (1, 60, 3) and large boxes (1, 60, 6) in all directions, many of which overlap."""
    numbers = uniform("boxes", (1, 60, 5))
    centre, size = 0.5 + 0.3 * numbers[..., :2], 0.25 + 0.15 * numbers[..., 2:4]
    angle = np.pi * numbers[..., 4]
    boxes = np.concatenate([centre, size, np.sin(angle)[..., None], np.cos(angle)[..., None]], axis=-1)
    return (4 * uniform("scores", (1, 60, 3))).astype(np.float32), boxes.astype(np.float32)
