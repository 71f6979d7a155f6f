"""Reading text in videos, and their frames as pictures."""

from __future__ import annotations

import base64
import functools
import io
import time
import zipfile
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ...decoders import VideoDecoder
from ...errors import OutOfRangeError
from ...frames import Frame
from .looking import open_video, probed
from .plain import Options, as_json, box_of, finite, jpeg_of, png_of

__all__ = ["decode_frames", "frame_picture", "read_video"]

_PROGRESS_SECONDS = 0.25
# Clients round times.
_ROUNDED_SECONDS = 0.01


def read_video(path: str, progress_path: str, options: Options) -> dict[str, bytes]:
    """Read the text in a video.

    Args:
        path: The upload.
        progress_path: A file for the share that is read, which is written while it works.
        options: How it is read.

    Returns:
        Files by their names: the result, and subtitles.

    Raises:
        MediaTensorError: if it cannot be read.
    """
    predictor = _video_reader(tuple(options.get("languages") or ()), options.get("region"))
    with open_video(path) as decoder:
        facts, total = decoder.metadata, max(len(decoder), 1)
        shown = _Progress(progress_path, total)
        reading = predictor._read_on(decoder, None, lambda _: shown.step())
        reading = replace(reading, name=str(options.get("name") or "video"))
        result = {
            "name": reading.name,
            "width": reading.width,
            "height": reading.height,
            "begin_seconds": reading.begin_seconds,
            "end_seconds": reading.end_seconds,
            "duration_seconds": reading.end_seconds - reading.begin_seconds,
            "fps": finite(facts.average_fps),
            "num_frames": reading.num_frames,
            "tracks": [_described_track(track) for track in reading.tracks],
            "captions": [
                {"begin_seconds": track.start_seconds, "end_seconds": track.end_seconds, "text": track.text}
                for track in reading.captions
            ],
            "problems": list(reading.problems),
            "probe": probed(path, scan=False),
        }
    written = {
        "result.json": as_json(result),
        "captions.srt": reading.captions.render("srt").encode(errors="replace"),
        "captions.vtt": reading.captions.render("vtt").encode(errors="replace"),
        "reading.json": as_json(reading.export()),
    }
    if reading.slides:
        written["slides.pdf"] = reading.slides_document().export_as_pdf()
    return written


class _Progress:
    def __init__(self, path: str, total: int) -> None:
        self._path, self._total = path, total
        self._count, self._written_at = 0, 0.0

    def step(self) -> None:
        self._count += 1
        now = time.monotonic()
        if now - self._written_at >= _PROGRESS_SECONDS:
            self._written_at = now
            with open(self._path, "w", encoding="ascii") as file:
                file.write(f"{min(self._count / self._total, 1.0):.4f}")


@functools.lru_cache(maxsize=2)
def _video_reader(languages: tuple[str, ...], region: tuple[float, ...] | None) -> Any:
    from ...ocr import video_text_predictor

    return video_text_predictor(pretrained=True, languages=languages or None, region=region)


def _described_track(track: Any) -> dict[str, Any]:
    return {
        "kind": track.kind,
        "text": track.text,
        "first_frame": track.first_frame,
        "last_frame": track.last_frame,
        "begin_seconds": track.start_seconds,
        "end_seconds": track.end_seconds,
        "box": box_of(track.geometry),
        "confidence": float(track.confidence),
        "alternatives": [{"text": other.text, "share": other.share} for other in track.alternatives],
    }


def frame_picture(path: str, seconds: float | None, max_width: int | None) -> bytes:
    """A JPEG of the frame that is shown at a time; at the end of the video, of the last one.

    Args:
        path: The upload.
        seconds: The time; ``None`` for the first frame.
        max_width: In pixels; ``None`` for that of the frame.

    Raises:
        MediaTensorError: if it cannot be decoded.
        OutOfRangeError: if the time is before or after the video.
    """
    decoder = _opened(path)
    facts = decoder.metadata
    begin, end = facts.begin_stream_seconds or 0.0, facts.end_stream_seconds or 0.0
    if seconds is None:
        seconds = begin
    if not begin - _ROUNDED_SECONDS <= seconds <= end + _ROUNDED_SECONDS:
        raise OutOfRangeError(f"seconds={seconds:g}: the video is shown from {begin:g} to {end:g} seconds.")
    is_after = seconds >= end
    frame = decoder.get_frame_at(-1) if is_after else decoder.get_frame_played_at(max(seconds, begin))
    return jpeg_of(_pixels(frame), max_width)


def decode_frames(path: str, options: Options) -> dict[str, bytes]:
    """Frames as pictures.

    Args:
        path: The upload.
        options: ``indices`` and ``seconds`` of frames, ``image``, ``"png"`` or ``"jpg"``, ``max_width`` in pixels, and
            ``answer``, ``"json"`` or ``"zip"``.

    Returns:
        ``result.json``, with the pictures as data URLs, or ``frames.zip``, with a file for each.

    Raises:
        MediaTensorError: if there is no such frame, or it cannot be decoded.
    """
    with open_video(path) as decoder:
        decoded = [decoder.get_frame_at(index) for index in options["indices"]]
        decoded += [decoder.get_frame_played_at(seconds) for seconds in options["seconds"]]
        if not decoded:
            decoded = [decoder.get_frame_at(0)]
        pts_seconds = decoder.frame_index.pts_seconds
        frames = []
        for frame in decoded:
            pixels = _pixels(frame)
            make = png_of if options["image"] == "png" else jpeg_of
            index = int(torch.searchsorted(pts_seconds, frame.pts_seconds))
            frames.append((index, frame.pts_seconds, pixels.shape[:2], make(pixels, options["max_width"])))
    if options["answer"] == "zip":
        return {"frames.zip": _zipped(frames, options["image"])}
    media_type = "image/png" if options["image"] == "png" else "image/jpeg"
    described = [
        {
            "index": index,
            "pts_seconds": seconds,
            "width": width,
            "height": height,
            "data_url": f"data:{media_type};base64,{base64.b64encode(data).decode('ascii')}",
        }
        for index, seconds, (height, width), data in frames
    ]
    return {"result.json": as_json({"frames": described})}


@functools.lru_cache(maxsize=1)
def _opened(path: str) -> VideoDecoder:
    return open_video(path)


def _pixels(frame: Frame) -> NDArray[np.uint8]:
    pixels: NDArray[np.uint8] = frame.data.permute(1, 2, 0).contiguous().numpy()
    return pixels


def _zipped(frames: Sequence[tuple[int, float, tuple[int, ...], bytes]], suffix: str) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for number, (index, seconds, _, data) in enumerate(frames):
            archive.writestr(f"{number:04d}_frame{index:06d}_{seconds:.3f}s.{suffix}", data)
    return file.getvalue()
