"""The way from a stream of sound to samples.

    seconds ──plan──► samples of the output, and of the stream ──stream──► slices ──batch──► one tensor

`stream` seeks, demuxes, decodes and cuts. It stands on `reader` (bare MP3 and AAC, Ogg Vorbis, joined files) and is
told by `pre_roll` and `opus` where decoding has to start and by `sample_clock` which sample a time stamp means. A
`handle` is a stream that is open, lent to one call at a time. `wav` reads samples straight from the bytes of WAV files,
and `sample_grid` takes samples by number from any decoder of sound.

`plan`, `pre_roll`, `opus` and `sample_clock` are pure. Only `sample_grid` knows decoders, by what all of them can do.
"""

from __future__ import annotations

from .._pyav import Downmix
from .handle import AudioHandle, AudioHandleSpec
from .plan import (
    OutputFormat,
    SamplePlan,
    check_downmix,
    check_output_format,
    check_range,
    check_ranges,
    group_ranges,
    input_range,
    no_samples_error,
    sample_offset,
    sample_range,
)
from .pre_roll import is_exact_after_pre_roll
from .sample_clock import NUM_FRAMES_TO_FIT, SampleClock, fit_clock
from .sample_grid import SampleGrid, SoundDecoder, existing_samples, sample_grid, with_silence
from .stream import AudioStream
from .wav import WavFile, convert_samples, num_lead_bytes

__all__ = [
    "NUM_FRAMES_TO_FIT",
    "AudioHandle",
    "AudioHandleSpec",
    "AudioStream",
    "Downmix",
    "OutputFormat",
    "SampleClock",
    "SampleGrid",
    "SamplePlan",
    "SoundDecoder",
    "WavFile",
    "check_downmix",
    "check_output_format",
    "check_range",
    "check_ranges",
    "convert_samples",
    "existing_samples",
    "fit_clock",
    "group_ranges",
    "input_range",
    "is_exact_after_pre_roll",
    "no_samples_error",
    "num_lead_bytes",
    "sample_grid",
    "sample_offset",
    "sample_range",
    "with_silence",
]
