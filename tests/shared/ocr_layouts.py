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


TABLE_GAIN = 2.0
TABLE_SHAPE = (2, 3, 128, 192)
TABLE_SCORE, TABLE_PAGE_SCORE = 0.2, 0.4755
TABLE_LEARNT = (
    "feat_extractor.0.0.conv.weight",
    "dla_up.ida_2.proj_2.conv.conv_offset_mask.weight",
    "dla_up.ida_0.up_1.weight",
    "ida_up.node_2.conv.weight",
    "ct2cn.2.weight",
    "cn2ct.0.weight",
    "hm.2.bias",
    "lc.2.weight",
    "sp.2.weight",
)
"""Parameters whose gradients are compared."""


def table_target(corners: bool) -> list[dict[str, np.ndarray]]:
    """Tables of two pictures with a cell that spans columns, one that is too thin, and, with ``corners``, askew."""
    x, y = np.array([0.1, 0.35, 0.6, 0.9]), np.array([0.15, 0.3, 0.55, 0.8])
    logic = [[0, 2, 0, 0], *([column, column, row, row] for row in (1, 2) for column in range(3)), [2, 2, 1, 1]]
    cells = [[x[first], y[top], x[last + 1], y[bottom + 1]] for first, last, top, bottom in logic]
    cells[-1][2] = cells[-1][0]
    boxes, places = np.array(cells, np.float32), np.array(logic, np.int64)
    if corners:
        quads = np.stack([boxes[:, [0, 1]], boxes[:, [2, 1]], boxes[:, [2, 3]], boxes[:, [0, 3]]], axis=1)
        bent = quads + 0.06 * quads[..., ::-1] * np.array([1.0, -0.8]) * (0.3 + quads[..., :1])
        boxes = bent.clip(0, 1).astype(np.float32)
    return [{"cells": boxes, "logic": places}, {"cells": boxes[2:4], "logic": places[2:4]}]


def noisy_page() -> np.ndarray:
    """A picture of bytes (192, 192, 3) without areas of one colour, in which rounding decides where key points are."""
    noise = uniform("page", (192, 192, 3))
    rows, columns = np.ogrid[:192, :192]
    pattern = (np.sin(rows / 5.0) * np.cos(columns / 7.0))[..., None]
    return (127.5 + 60 * noise + 60 * pattern).astype(np.uint8)


def table_maps() -> dict[str, torch.Tensor]:
    """Maps of two tables as a network gives them that is good and not perfect: noise over the truth."""
    height, width = 40, 60
    generator = {name: uniform(name, (2, channels, height, width)) for name, channels in MAPS.items()}
    maps = {"hm": -6 + 0.5 * generator["hm"], "reg": 0.5 + 0.4 * generator["reg"]}
    maps |= {name: 0.5 * generator[name] for name in ("ct2cn", "cn2ct", "sp")}
    columns, rows = np.meshgrid(np.arange(width) / 12 + 1.0, np.arange(height) / 8 + 1.0)
    maps["lc"] = np.stack([columns, rows])[None] + 0.3 * generator["lc"]
    lean = 0.06
    for picture in range(2):
        for row in range(5):
            for column in range(5):
                spans = 2 if (row, column) == (1, 1) else 1
                left, right, top, bottom = 12 * column, 12 * (column + spans), 8 * row, 8 * (row + 1)
                quad = np.array([[left, top], [right, top], [right, bottom], [left, bottom]], float)
                quad[:, 1] += lean * quad[:, 0]
                center = quad.mean(axis=0)
                x, y = center.astype(int).clip(0, [width - 1, height - 1])
                maps["hm"][picture, 0, y, x] = 2 + generator["hm"][picture, 0, y, x]
                maps["ct2cn"][picture, :, y, x] += (center - quad).ravel()
                maps["sp"][picture, :, y, x] += [spans, 1]
                for corner, place in enumerate(quad):
                    x, y = place.astype(int).clip(0, [width - 1, height - 1])
                    maps["hm"][picture, 1, y, x] = 1.5 + 2 * generator["hm"][picture, 1, y, x]
                    maps["cn2ct"][picture, 2 * corner : 2 * corner + 2, y, x] += place - center
    return {name: torch.from_numpy(values.astype(np.float32)) for name, values in maps.items()}


MAPS = {"hm": 2, "reg": 2, "ct2cn": 8, "cn2ct": 8, "lc": 2, "sp": 2}
