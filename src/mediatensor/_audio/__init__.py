"""The way from a stream of sound to samples.

`ranges` and `positions` say which samples are meant and which sample a time stamp means, `reader` and `stream` decode
them, `batch` makes one tensor of them. `wav` reads samples straight from the bytes of WAV files.
"""

from __future__ import annotations

from .batch import OutputForm, input_range, joined, section_begin
from .handles import AudioHandle, AudioHandleSpec
from .positions import is_exact_after_pre_roll
from .ranges import check_ranges, checked_range, no_samples_error, sample_offset, sample_range
from .stream import AudioStream, CountingNeededError, UnsteadyTimesError
from .wav import WavFile, convert_samples, num_lead_bytes, wav_source

__all__ = [
    "AudioHandle",
    "AudioHandleSpec",
    "AudioStream",
    "CountingNeededError",
    "OutputForm",
    "UnsteadyTimesError",
    "WavFile",
    "check_ranges",
    "checked_range",
    "convert_samples",
    "input_range",
    "is_exact_after_pre_roll",
    "joined",
    "no_samples_error",
    "num_lead_bytes",
    "sample_offset",
    "sample_range",
    "section_begin",
    "wav_source",
]
