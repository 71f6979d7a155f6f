"""The demonstration clip: a real H.264 file made with FFmpeg's own test pattern."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import av

from ..errors import MissingDependencyError

__all__ = ["write_test_pattern"]


def write_test_pattern(
    path: Path, *, width: int = 640, height: int = 360, fps: int = 30, num_frames: int = 300, gop_length: int = 48
) -> None:
    """Write a moving test pattern as H.264 in MP4, with a pyramid of B-frames.

    The pattern carries its time and frame number in the picture, so no two frames are equal.

    Args:
        path: Where to write; replaced if it exists.
        width: Width in pixels, even.
        height: Height in pixels, even.
        fps: Frames per second.
        num_frames: Number of frames.
        gop_length: Largest distance between two key frames, in frames.

    Raises:
        MissingDependencyError: if this build of FFmpeg has no H.264 encoder.
        OSError: if ``path`` cannot be written.
    """
    if "libx264" not in av.codecs_available:
        raise MissingDependencyError(
            "Writing an H.264 video needs an FFmpeg with the encoder libx264, which this build of PyAV lacks; "
            "the PyAV wheels on PyPI have it."
        )
    pattern = f"testsrc2=size={width}x{height}:rate={fps}"
    with av.open(pattern, format="lavfi") as source, av.open(str(path), "w", format="mp4") as output:
        stream = output.add_stream("libx264", rate=fps)
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        stream.options = {"preset": "veryfast", "crf": "23", "bf": "3", "b-pyramid": "normal"}
        stream.codec_context.gop_size = gop_length
        for number, frame in enumerate(source.decode(video=0)):
            if number == num_frames:
                break
            picture = frame.reformat(format="yuv420p")
            # The source marks every frame as an I-frame and x264 obeys: 0 lets the encoder choose.
            picture.pict_type = 0
            picture.pts, picture.time_base = number, Fraction(1, fps)
            output.mux(stream.encode(picture))
        output.mux(stream.encode(None))
