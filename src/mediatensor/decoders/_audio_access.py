"""What random access to sound needs to know of codecs and formats. Pure; no I/O."""

from __future__ import annotations

import math
from typing import Literal

__all__ = [
    "Renewal",
    "adds_durations",
    "is_exact_after_pre_roll",
    "pre_roll_length",
    "predicts_without_end",
    "renewal",
    "seeks_exactly",
]

#: What seeking does anyway, a codec made anew, or the whole source opened again.
Renewal = Literal["flush", "codec", "reopen"]

# Demuxers (FFmpeg's names) that give packets the same time stamps after a seek as in a read from the beginning.
# Of the others, notably MPEG program streams, everything is read from the beginning.
_EXACT_FORMATS = frozenset(
    ("aac", "ac3", "aiff", "asf", "au", "avi", "caf", "eac3", "flac", "flv", "matroska", "mov", "mp3", "mpegts", "ogg")
)
_EXACT_FORMATS |= {"tta", "w64", "wav", "wv"}

# These count in bytes, so that they only know where samples of a fixed size are.
_PCM_FORMATS = frozenset(("wav", "w64", "aiff", "au", "caf"))

# These have no clock but add up the durations of frames, rounded to their ticks.
_FORMATS_WITHOUT_CLOCK = frozenset(("ac3", "eac3"))

# Codecs of which every packet decodes by itself.
_INDEPENDENT = frozenset(("flac", "alac", "wavpack", "tta", "adpcm_ima_wav", "adpcm_ima_qt", "adpcm_ms"))

# How many samples earlier decoding must begin to give the same bits from there on. A frame of these codecs overlaps
# its neighbour; MP3 moreover takes bits from up to 511 bytes of earlier frames, ten frames at 32 kbit/s.
_PRE_ROLL_LENGTHS = {
    "mp3float": 12 * 1152,
    "vorbis": 2 * 8192,
    "ac3": 2 * 1536,
    "eac3": 2 * 1536,
}
# Below 32 kHz frames of MP3 are half as long, and may be much smaller.
_LOW_RATE, _LOW_RATE_MP3_LENGTH = 32_000, 40 * 576

# The others keep a past that fades: predictors, adaptive quantizers, noise generators.
_FADING_SECONDS = {"aac": 0.2, "mp1": 0.1, "mp2": 0.1, "opus": 0.5}
_DEFAULT_FADING_SECONDS = 1.0

# Flushing leaves these nothing of what they decoded before; neither do the exact ones remember.
_FORGET_WHEN_FLUSHED = frozenset(("opus",))

# AAC makes up noise with a generator that flushing does not reset. Flushing AC-3 resets what it must not: its options,
# dynamic range compression among them.
_NEED_FRESH_CODEC = frozenset(("aac", "ac3", "eac3"))

# Kinds of AAC (FFmpeg's names) whose past fades within the pre-roll. What Main and LTP predict each frame from is what
# they predicted before; other kinds are not known to forget either.
_AAC_CODECS = frozenset(("aac", "aac_latm"))
_AAC_PROFILES_THAT_FORGET = frozenset(("LC", "HE-AAC", "HE-AACv2", "LD", "ELD"))


def seeks_exactly(format_name: str, codec: str) -> bool:
    """Whether packets have the same time stamps after a seek.

    Args:
        format_name: FFmpeg's names of the demuxer, separated by commas.
        codec: FFmpeg's name of the decoder.

    >>> seeks_exactly("mov,mp4,m4a,3gp,3g2,mj2", "aac"), seeks_exactly("wav", "adpcm_ima_wav")
    (True, False)
    """
    names = set(format_name.split(","))
    if names & _PCM_FORMATS and not codec.startswith("pcm_"):
        return False
    # Of FLAC in Ogg, FFmpeg counts from the wrong page.
    return bool(names & _EXACT_FORMATS) and not ("ogg" in names and codec == "flac")


def adds_durations(format_name: str) -> bool:
    """Whether the time stamps of a format are sums of rounded durations."""
    return format_name in _FORMATS_WITHOUT_CLOCK


def predicts_without_end(codec: str, profile: str | None) -> bool:
    """Whether frames are predicted from all before them, so that only a decode from the beginning is right.

    Args:
        codec: FFmpeg's name of the decoder.
        profile: FFmpeg's name of the kind of stream that it has found the frames to be.

    >>> predicts_without_end("aac", "Main"), predicts_without_end("aac", "LC"), predicts_without_end("mp3float", None)
    (True, False, False)
    """
    return codec in _AAC_CODECS and profile is not None and profile not in _AAC_PROFILES_THAT_FORGET


def is_exact_after_pre_roll(codec: str) -> bool:
    """Whether a decode that begins a `pre_roll_length` early gives the same bits as one from the beginning."""
    return codec in _INDEPENDENT or codec in _PRE_ROLL_LENGTHS or codec.startswith("pcm_")


def renewal(codec: str) -> Renewal:
    """What makes a codec decode a range the same each time, whatever it decoded before.

    >>> renewal("flac"), renewal("aac"), renewal("nellymoser")
    ('flush', 'codec', 'reopen')
    """
    if codec in _NEED_FRESH_CODEC:
        return "codec"
    if codec in _FORGET_WHEN_FLUSHED or is_exact_after_pre_roll(codec):
        return "flush"
    return "reopen"


def pre_roll_length(codec: str, sample_rate: int) -> int:
    """How many samples before the wanted one decoding has to begin.

    >>> pre_roll_length("flac", 44_100), pre_roll_length("ac3", 48_000), pre_roll_length("opus", 48_000)
    (0, 3072, 24000)
    """
    if codec in _INDEPENDENT or codec.startswith("pcm_"):
        return 0
    if codec == "mp3float" and sample_rate < _LOW_RATE:
        return _LOW_RATE_MP3_LENGTH
    if codec in _PRE_ROLL_LENGTHS:
        return _PRE_ROLL_LENGTHS[codec]
    return math.ceil(_FADING_SECONDS.get(codec, _DEFAULT_FADING_SECONDS) * sample_rate)
