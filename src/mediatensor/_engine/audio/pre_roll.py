"""What codecs and formats allow: exact seeks, how much pre-roll, and how a decoder is reset. Pure; no I/O.

An audio decoder that starts in the middle of a stream needs some packets before its output is right: the pre-roll.
A codec is listed here only if its pre-roll is bounded, because of how it works and by measurement: ranges of clips that
each encoder made differ from the whole by less than 1e-4. Every other codec is decoded from the beginning.
"""

from __future__ import annotations

import math
from typing import Literal

__all__ = [
    "ResetMethod",
    "can_seek",
    "has_profiles",
    "has_unbounded_memory",
    "is_exact_after_pre_roll",
    "is_late_by_a_frame",
    "pre_roll_length",
    "reset_method",
    "stores_timestamps",
    "sums_durations",
]

#: How a decoder loses its state: by the flush that every seek does, or as a new codec.
ResetMethod = Literal["flush", "new_codec"]

# Demuxers (FFmpeg's names) that give packets the same time stamps after a seek as in a read from the beginning.
# With all others, notably MPEG program streams, every range is decoded from the beginning.
_EXACT_FORMATS = frozenset(
    ("aac", "ac3", "aiff", "asf", "au", "avi", "caf", "eac3", "flac", "flv", "matroska", "mov", "mp3", "mpegts", "ogg")
)
_EXACT_FORMATS |= {"tta", "w64", "wav", "wv"}

# These demuxers seek by bytes, so that they only find samples of a fixed size.
_PCM_FORMATS = frozenset(("wav", "w64", "aiff", "au", "caf"))

# FFmpeg makes up the time stamps of these formats: sums of frame durations, each rounded to ticks.
_SUMMED_FORMATS = frozenset(("ac3", "eac3"))

# Formats whose files hold a time for each packet. FFmpeg computes the times of the others from sizes and bit rates, and
# may be far from the truth: an hour for four seconds of G.722 in AVI.
_TIMED_FORMATS = frozenset(
    ("asf", "asf_o", "concat", "dash", "flv", "gxf", "hls", "live_flv", "matroska", "mov", "mpeg", "mpegts")
)
_TIMED_FORMATS |= {"nut", "nuv", "ogg", "rm", "rtsp", "sdp", "wtv"}

# A packet of these codecs in ASF begins with the end of a frame of the packet before, and has the time of the next one.
_LATE_FORMAT, _LATE_CODECS = "asf", ("wma", "xma")

# Every packet of these codecs decodes by itself.
_INDEPENDENT = frozenset(("flac", "alac", "wavpack", "tta", "adpcm_ima_wav", "adpcm_ms", "adpcm_swf"))

# Pre-roll in samples after which these codecs give the same bits as a decode from the beginning. Their frames overlap
# the neighbours. MP3 also takes bits from up to 511 bytes of earlier frames, which are ten frames at 32 kbit/s.
_PRE_ROLL_LENGTHS = {
    "mp3float": 12 * 1152,
    "vorbis": 2 * 8192,
    "ac3": 2 * 1536,
    "eac3": 2 * 1536,
}
# Below 32 kHz MP3 frames are half as long and may be much smaller.
_LOW_RATE, _LOW_RATE_MP3_LENGTH = 32_000, 40 * 576

# Pre-roll in seconds after which these codecs are as good as exact: AAC but for its noise, layers I and II but for the
# error of rounding to 16 bits, which FFmpeg carries on from sample to sample. DTS predicts samples of its bands from
# four earlier ones: 7.6e-6 was left after a second. The value for Opus is that of its spectral mode (CELT), whose
# filter repeats the signal at the distance of its pitch, at most 1022 samples, with a gain of up to 0.75: 47 times in a
# second, 1e-6 is left.
_FADING_SECONDS = {"aac": 0.2, "aac_latm": 0.2, "dca": 1.0, "mp1": 0.1, "mp2": 0.1, "opus": 1.0}

# A flush resets these codecs completely. It also does for the ones that are exact after their pre-roll.
_RESET_BY_FLUSH = frozenset(("opus",))

# A flush of AC-3 also resets its options, such as dynamic range compression.
_NEED_NEW_CODEC = frozenset(("ac3", "eac3"))

# AAC of this profile (FFmpeg's name) needs the frame before. SBR, which makes HE-AAC of it, states its settings in some
# frames only and codes most values as differences in time, which also goes for parametric stereo; Main and LTP predict
# each frame from what they predicted before, and LD can. Finding a frame with all settings in it means to parse all of
# the frames, which takes longer than to decode them.
_AAC_CODECS = frozenset(("aac", "aac_latm"))
_AAC_BOUNDED_PROFILE = "LC"


def can_seek(format_name: str, codec: str) -> bool:
    """Whether a seek is exact: packets keep their time stamps, and after the pre-roll they decode to the same samples.

    Args:
        format_name: FFmpeg's names of the demuxer, separated by commas.
        codec: FFmpeg's name of the decoder.

    >>> can_seek("mov,mp4,m4a,3gp,3g2,mj2", "aac"), can_seek("wav", "adpcm_ima_wav"), can_seek("asf", "wmav2")
    (True, False, False)
    """
    names = set(format_name.split(","))
    if names & _PCM_FORMATS and not codec.startswith("pcm_"):
        return False
    # FFmpeg counts the samples of FLAC in Ogg from the wrong page.
    is_exact_format = bool(names & _EXACT_FORMATS) and not ("ogg" in names and codec == "flac")
    return is_exact_format and (codec in _FADING_SECONDS or is_exact_after_pre_roll(codec))


def stores_timestamps(format_name: str) -> bool:
    """Whether files of a format hold the times of packets, so that a leap in them means a gap.

    >>> stores_timestamps("mp3"), stores_timestamps("xwma"), stores_timestamps("matroska,webm")
    (False, False, True)
    """
    return not _TIMED_FORMATS.isdisjoint(format_name.split(","))


def sums_durations(format_name: str) -> bool:
    """Whether the time stamps of a format are sums of rounded frame durations."""
    return format_name in _SUMMED_FORMATS


def is_late_by_a_frame(format_name: str, codec: str) -> bool:
    """Whether the time stamp of a packet may be that of the second frame that comes out of it."""
    return format_name == _LATE_FORMAT and codec.startswith(_LATE_CODECS)


def has_profiles(codec: str) -> bool:
    """Whether frames of a codec may have `has_unbounded_memory`."""
    return codec in _AAC_CODECS


def has_unbounded_memory(codec: str, profile: str | None) -> bool:
    """Whether a frame may depend on any frame before it, so that only a decode from the beginning is right.

    Args:
        codec: FFmpeg's name of a decoder that `can_seek` accepts.
        profile: FFmpeg's name of the profile of the last decoded frame.

    >>> [has_unbounded_memory("aac", profile) for profile in ("Main", "HE-AAC", "LC")]
    [True, True, False]
    >>> has_unbounded_memory("mp3float", None)
    False
    """
    return codec in _AAC_CODECS and profile is not None and profile != _AAC_BOUNDED_PROFILE


def is_exact_after_pre_roll(codec: str) -> bool:
    """Whether a decode that starts `pre_roll_length` samples early gives the same bits as one from the beginning."""
    return codec in _INDEPENDENT or codec in _PRE_ROLL_LENGTHS or codec.startswith("pcm_")


def reset_method(codec: str) -> ResetMethod:
    """What it takes for a codec to decode a range the same each time, whatever it decoded before.

    >>> reset_method("flac"), reset_method("aac")
    ('flush', 'new_codec')
    """
    if codec in _RESET_BY_FLUSH or (is_exact_after_pre_roll(codec) and codec not in _NEED_NEW_CODEC):
        return "flush"
    return "new_codec"


def pre_roll_length(codec: str, sample_rate: int) -> int:
    """How many samples before the first wanted one decoding has to start, of a codec that `can_seek` accepts.

    >>> pre_roll_length("flac", 44_100), pre_roll_length("ac3", 48_000), pre_roll_length("opus", 48_000)
    (0, 3072, 48000)
    """
    if codec == "mp3float" and sample_rate < _LOW_RATE:
        return _LOW_RATE_MP3_LENGTH
    if codec in _PRE_ROLL_LENGTHS:
        return _PRE_ROLL_LENGTHS[codec]
    return math.ceil(_FADING_SECONDS.get(codec, 0.0) * sample_rate)
