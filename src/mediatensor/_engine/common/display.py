"""Show frames and audio in notebooks and with ``show`` methods: small images, waveforms and an audio player."""

from __future__ import annotations

import base64
import io
import math
import wave
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageDraw
from torch import Tensor

from ...errors import InvalidArgumentError, MissingDependencyError

# Largest number of frames in an image, spread evenly over a batch, and largest width of each.
_MAX_FRAMES = 16
_TILE_WIDTH = 240
_CAPTION_HEIGHT = 16

# Limited because the samples are embedded in the page.
_MAX_PLAYED_SECONDS = 120.0


def frame_picture(data: Tensor) -> Image.Image:
    """Return a frame as an image. Channels can come first or last; any dtype that decoders return is accepted.

    Raises `InvalidArgumentError` if the frame does not have 1, 3 or 4 channels.
    """
    channels = (1, 3, 4)
    if data.shape[-3] not in channels and data.shape[-1] not in channels:
        raise InvalidArgumentError(f"A frame must have 1, 3 or 4 channels to be drawn (got shape {tuple(data.shape)}).")
    # Both the first and the last dimension may be 3. Then assume that channels come first, as in results of decoders.
    pixels = data.permute(1, 2, 0) if data.shape[-3] in channels else data
    pixels = pixels.detach().cpu()
    if pixels.is_floating_point():
        pixels = (pixels.float().nan_to_num().clamp(0, 1) * 255).round()
    elif pixels.dtype == torch.uint16:
        pixels = (pixels.float() / 257).round()
    array = pixels.to(torch.uint8).numpy()
    return Image.fromarray(array[:, :, 0] if array.shape[2] == 1 else array)


def frames_picture(data: Tensor, pts_seconds: Tensor) -> Image.Image:
    """Draw a contact sheet: one image that shows up to 16 of the frames (..., C, H, W), each with its time.

    The frames are spread evenly over ``data``. Raises `InvalidArgumentError` if there are none.
    """
    flat, times = data.reshape(-1, *data.shape[-3:]), pts_seconds.flatten().tolist()
    if not len(flat):
        raise InvalidArgumentError("There is no frame to draw.")
    count = min(len(flat), _MAX_FRAMES)
    chosen = [round(k * (len(flat) - 1) / max(1, count - 1)) for k in range(count)]
    pictures = [frame_picture(flat[k]).convert("RGB") for k in chosen]
    width = min(_TILE_WIDTH, pictures[0].width)
    height = max(1, round(pictures[0].height * width / pictures[0].width))
    columns = min(count, 4)
    rows = math.ceil(count / columns)
    sheet = Image.new("RGB", (columns * (width + 4) - 4, rows * (height + _CAPTION_HEIGHT)), "white")
    draw = ImageDraw.Draw(sheet)
    for place, (number, picture) in enumerate(zip(chosen, pictures, strict=True)):
        left, top = place % columns * (width + 4), place // columns * (height + _CAPTION_HEIGHT)
        sheet.paste(picture.resize((width, height), Image.Resampling.BILINEAR), (left, top))
        draw.text((left + 2, top + height + 2), f"{times[number]:.3f} s", fill="black")
    return sheet


def png_or_none(draw: Callable[[], Image.Image]) -> bytes | None:
    """Call ``draw``, and return its image as a PNG file; ``None`` if drawing fails, so that a notebook shows text."""
    try:
        return png_of(draw())
    except (ValueError, NotImplementedError, SystemError):  # other channels, no pixels, no memory
        return None


def png_of(picture: Image.Image) -> bytes:
    file = io.BytesIO()
    picture.save(file, "PNG")
    return file.getvalue()


def wav_file(data: Tensor, sample_rate: int) -> bytes:
    """Return float samples (channels, N) as a 16-bit WAV file."""
    file = io.BytesIO()
    with wave.open(file, "wb") as output:
        output.setparams((max(1, data.shape[0]), 2, sample_rate, 0, "NONE", "not compressed"))
        output.writeframes(pcm16(data).numpy().tobytes())
    return file.getvalue()


def pcm16(data: Tensor) -> Tensor:
    """Convert float samples (C, N) to interleaved int16 (N, C). Values are rounded half to even, and clipped."""
    steps = torch.nan_to_num(data * 32768.0, nan=0.0).round_().clamp_(-32768, 32767)
    return steps.to(torch.int16).t().contiguous()


def html_player(data: Tensor, sample_rate: int) -> str:
    """Return an HTML audio player for samples (channels, N). It contains at most two minutes, as a 16-bit WAV file."""
    length = int(_MAX_PLAYED_SECONDS * sample_rate)
    text = base64.b64encode(wav_file(data[:, :length].detach().cpu().float(), sample_rate)).decode()
    seconds = data.shape[1] / sample_rate
    shown = f"{data.shape[0]} x {data.shape[1]} samples, {sample_rate} Hz, {seconds:.3f} s"
    if data.shape[1] > length:
        shown += f" (the first {_MAX_PLAYED_SECONDS:.0f} s can be played)"
    return f'<div><audio controls src="data:audio/wav;base64,{text}"></audio><br><small>{shown}</small></div>'


def show_picture(picture: Image.Image, title: str) -> None:
    """Show an image in a window, or below a notebook cell. Needs matplotlib."""
    pyplot = _pyplot()
    _, axes = pyplot.subplots(figsize=(min(12.0, 1 + picture.width / 80), min(9.0, 1 + picture.height / 80)))
    axes.imshow(picture, cmap="gray" if picture.mode == "L" else None)
    axes.set_title(title)
    axes.axis("off")
    pyplot.show()


def show_sound(channels: Sequence[Tensor], sample_rate: int, begin_seconds: float, title: str) -> None:
    """Plot the waveform of each channel. Needs matplotlib."""
    pyplot = _pyplot()
    _, axes = pyplot.subplots(len(channels), sharex=True, squeeze=False, figsize=(10, 1 + 1.5 * len(channels)))
    for axis, samples in zip(axes[:, 0], channels, strict=True):
        values = samples.detach().cpu().float()
        axis.plot(begin_seconds + np.arange(len(values)) / sample_rate, values.numpy(), linewidth=0.5)
    axes[0, 0].set_title(title)
    axes[-1, 0].set_xlabel("seconds")
    pyplot.show()


def _pyplot() -> Any:
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise MissingDependencyError('show() needs matplotlib: pip install "mediatensor[plot]"') from error
    return pyplot
