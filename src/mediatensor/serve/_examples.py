"""Generate a page and a video as examples, with which users can try out the web page."""

from __future__ import annotations

import functools
import io
import math
from typing import Final

import numpy as np
import torch
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

from ..encoders import VideoEncoder

#: Names of the example files and their media types.
EXAMPLES: Final = {"page.png": "image/png", "video.mp4": "video/mp4"}

_PAGE_SIZE = (1000, 1240)
_LEFT, _RIGHT = 90, 910
#: (left edge, baseline, font size, text); the numbers are in pixels.
_TEXTS: Final = (
    (_LEFT, 140, 50, "Invoice"),
    (_LEFT, 216, 26, "Invoice number: MT-2048"),
    (_LEFT, 256, 26, "Date: 14 March 2026"),
    (560, 216, 26, "Customer: Northwind Films"),
    (560, 256, 26, "Due: 28 March 2026"),
    (_LEFT, 356, 26, "Thank you for your order. Every word on this page was found in its"),
    (_LEFT, 392, 26, "pixels: point at one, search for one, or select some and copy them."),
    (_LEFT, 428, 26, "The table below comes out as cells, for a spreadsheet."),
    (_LEFT, 1010, 34, "How to pay"),
    (_LEFT, 1070, 26, "Transfer the total within fourteen days, and give the number of the"),
    (_LEFT, 1106, 26, "invoice as the reference."),
)
_TABLE_TOP, _ROW_HEIGHT = 500, 62
_COLUMNS: Final = (_LEFT, 500, 640, 770, _RIGHT)
_ROWS: Final = (
    ("Article", "Pieces", "Price", "Sum"),
    ("Frames, exact to the bit", "300", "0.25", "75.00"),
    ("Seconds of sound", "120", "0.10", "12.00"),
    ("Pages, read", "17", "1.50", "25.50"),
    ("Captions on a time line", "42", "0.75", "31.50"),
    ("Total", "", "", "144.00"),
)

_HEIGHT, _WIDTH, _FPS, _NUM_FRAMES = 360, 640, 12, 96
#: (first frame, last frame + 1, caption).
_CAPTIONS: Final = (
    (6, 26, "These captions are pixels."),
    (26, 48, "Each was read,"),
    (48, 66, "and placed in time,"),
    (72, 92, "exact to the frame."),
)


@functools.cache
def example_file(name: str) -> bytes:
    return _draw_page() if name == "page.png" else _draw_video()


def _draw_page() -> bytes:
    page = Image.new("RGB", _PAGE_SIZE, "white")
    draw = ImageDraw.Draw(page)
    for left, baseline, size, text in _TEXTS:
        draw.text((left, baseline), text, fill="#1a1d21", font=ImageFont.load_default(size), anchor="ls")
    font = ImageFont.load_default(25)
    bottom = _TABLE_TOP + len(_ROWS) * _ROW_HEIGHT
    draw.rectangle((_LEFT, _TABLE_TOP, _RIGHT, _TABLE_TOP + _ROW_HEIGHT), fill="#eef1f4")
    for number, row in enumerate(_ROWS):
        middle = _TABLE_TOP + (number + 0.5) * _ROW_HEIGHT
        draw.text((_COLUMNS[0] + 16, middle), row[0], fill="#1a1d21", font=font, anchor="lm")
        for right, text in zip(_COLUMNS[2:], row[1:], strict=True):
            draw.text((right - 16, middle), text, fill="#1a1d21", font=font, anchor="rm")
    for number in range(len(_ROWS) + 1):
        height = _TABLE_TOP + number * _ROW_HEIGHT
        draw.line((_LEFT, height, _RIGHT, height), fill="#9aa3ad", width=2)
    for column in _COLUMNS:
        draw.line((column, _TABLE_TOP, column, bottom), fill="#9aa3ad", width=2)
    data = io.BytesIO()
    page.save(data, "PNG", optimize=True)
    return data.getvalue()


def _draw_video() -> bytes:
    frames = torch.stack([_add_text(_draw_waves(number / _NUM_FRAMES), number) for number in range(_NUM_FRAMES)])
    return (
        VideoEncoder(frames, frame_rate=_FPS)
        .to_tensor("mp4", preset="veryfast", extra_options={"g": 24})
        .numpy()
        .tobytes()
    )


def _draw_waves(share: float) -> Tensor:
    """Draw a frame of coloured waves, uint8 (3, H, W). ``share`` is the elapsed part of the video, from 0 to 1."""
    rows = torch.linspace(-1, 1, _HEIGHT)[:, None]
    columns = torch.linspace(-1, 1, _WIDTH)[None] * _WIDTH / _HEIGHT
    turn = 2 * math.pi * share
    waves = (
        torch.sin(2.1 * columns + turn) + torch.sin(2.7 * rows - turn) + torch.sin(1.7 * (rows + columns) + 2 * turn)
    )
    phases = torch.tensor([0.0, 0.8, 1.7])[:, None, None]
    return (110 + 75 * torch.sin(waves[None] + phases + turn)).to(torch.uint8)


def _add_text(frame: Tensor, number: int) -> Tensor:
    picture = Image.fromarray(frame.permute(1, 2, 0).contiguous().numpy())
    draw = ImageDraw.Draw(picture)
    texts = [((_WIDTH - 24.0, 44), "rs", 24, "EXAMPLE TV")]
    texts += [((_WIDTH / 2, _HEIGHT - 36), "ms", 34, text) for first, end, text in _CAPTIONS if first <= number < end]
    for place, anchor, size, text in texts:
        font = ImageFont.load_default(size)
        draw.text(place, text, fill="white", font=font, anchor=anchor, stroke_width=2, stroke_fill="black")
    return torch.from_numpy(np.array(picture)).permute(2, 0, 1)
