"""The demonstration clip: a real H.264 file with sound, made with FFmpeg's own test signals."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import av

from ..errors import MissingDependencyError
from .encoding_options import WITHOUT_LOG

__all__ = ["write_test_pattern"]

_SAMPLE_RATE = 48_000
_AAC_FRAME_LENGTH = 1024


def write_test_pattern(
    path: Path, *, width: int = 640, height: int = 360, fps: int = 30, num_frames: int = 300, gop_length: int = 48
) -> None:
    """Write a moving test pattern as H.264 in MP4, with a pyramid of B-frames, and a beep every second as AAC.

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
    beeps = f"sine=frequency=440:beep_factor=4:sample_rate={_SAMPLE_RATE}:duration={num_frames / fps}"
    with av.open(str(path), "w", format="mp4") as output:
        video = output.add_stream("libx264", rate=fps)
        video.width, video.height, video.pix_fmt = width, height, "yuv420p"
        video.options = {**WITHOUT_LOG, "preset": "veryfast", "crf": "23", "bf": "3", "b-pyramid": "normal"}
        video.codec_context.gop_size = gop_length
        sound = output.add_stream("aac", rate=_SAMPLE_RATE, layout="mono")
        resampler = av.AudioResampler(format="fltp", layout="mono", rate=_SAMPLE_RATE, frame_size=_AAC_FRAME_LENGTH)
        with av.open(beeps, format="lavfi") as source:
            for beep in source.decode(audio=0):
                for piece in resampler.resample(beep):
                    output.mux(sound.encode(piece))
        for piece in resampler.resample(None):
            output.mux(sound.encode(piece))
        output.mux(sound.encode(None))
        with av.open(pattern, format="lavfi") as source:
            for number, frame in enumerate(source.decode(video=0)):
                if number == num_frames:
                    break
                picture = frame.reformat(format="yuv420p")
                # The source marks every frame as an I-frame and x264 obeys: 0 lets the encoder choose.
                picture.pict_type = 0
                picture.pts, picture.time_base = number, Fraction(1, fps)
                output.mux(video.encode(picture))
        output.mux(video.encode(None))
