"""What codecs and formats allow: exact seeks, how much pre-roll, and how a decoder is reset. Pure; no I/O.

A decoder of sound that starts in the middle of a stream needs some packets before its output is right: the pre-roll.
"""

from __future__ import annotations

import math
from typing import Literal

__all__ = [
    "ResetMethod",
    "can_seek",
    "can_use_long_prediction",
    "has_long_prediction",
    "has_timestamps",
    "is_exact_after_pre_roll",
    "opus_pre_roll_length",
    "pre_roll_length",
    "reset_method",
    "sums_durations",
]

#: How a decoder loses its state: by the flush that every seek does, as a new codec, or by opening the source again.
ResetMethod = Literal["flush", "new_codec", "reopen"]

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

# Frames one after the other, without time stamps.
_BARE_FORMATS = frozenset(("aac", "ac3", "amr", "amrnb", "amrwb", "dts", "eac3", "g722", "gsm", "mlp", "mp3", "truehd"))

# Every packet of these codecs decodes by itself.
_INDEPENDENT = frozenset(("flac", "alac", "wavpack", "tta", "adpcm_ima_wav", "adpcm_ima_qt", "adpcm_ms"))

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

# The state of the other codecs fades: predictors, adaptive quantizers, noise generators. The value for Opus is that of
# its spectral mode (CELT).
_FADING_SECONDS = {"aac": 0.2, "mp1": 0.1, "mp2": 0.1, "opus": 0.5}
_DEFAULT_FADING_SECONDS = 1.0

# The speech mode of Opus (SILK) repeats the signal at the distance of its pitch. A steady note in narrow band takes
# seconds to fade: with a pre-roll of 0.5, 1, 2 and 4 s the result was 6, 13, 20 and 41 dB from that of a full decode.
# In wider bands it was 59 dB with 0.5 s and 104 dB with 1 s. The configuration number, the upper five bits of a
# packet's first byte, tells which mode it is.
_OPUS_WIDE_BAND, _OPUS_SPECTRUM = 8, 16
_OPUS_NARROW_SECONDS, _OPUS_WIDE_SECONDS = 10.0, 1.5
_OPUS_RATE = 48_000
_OPUS_FAMILY_AT, _OPUS_NUM_STREAMS_AT = 18, 19

# The predictor of Speex does not fade, and its decoder draws random numbers.
_NEVER_FADES = frozenset(("speex",))

# A flush resets these codecs completely. It also does for the ones that are exact after their pre-roll.
_RESET_BY_FLUSH = frozenset(("opus",))

# The noise generator of AAC survives a flush. A flush of AC-3 also resets its options, such as dynamic range
# compression.
_NEED_NEW_CODEC = frozenset(("aac", "ac3", "eac3"))

# AAC profiles (FFmpeg's names) whose state fades within the pre-roll. Main and LTP predict each frame from what they
# predicted before. Unknown profiles are taken to do the same.
_AAC_CODECS = frozenset(("aac", "aac_latm"))
_FADING_AAC_PROFILES = frozenset(("LC", "HE-AAC", "HE-AACv2", "LD", "ELD"))


def can_seek(format_name: str, codec: str) -> bool:
    """Whether a seek is exact: packets keep their time stamps, and after the pre-roll they decode to the same samples.

    Args:
        format_name: FFmpeg's names of the demuxer, separated by commas.
        codec: FFmpeg's name of the decoder.

    >>> can_seek("mov,mp4,m4a,3gp,3g2,mj2", "aac"), can_seek("wav", "adpcm_ima_wav")
    (True, False)
    """
    names = set(format_name.split(","))
    if names & _PCM_FORMATS and not codec.startswith("pcm_"):
        return False
    # FFmpeg counts the samples of FLAC in Ogg from the wrong page.
    return bool(names & _EXACT_FORMATS) and not ("ogg" in names and codec == "flac") and codec not in _NEVER_FADES


def has_timestamps(format_name: str) -> bool:
    """Whether the format stores time stamps; for bare frames FFmpeg makes them up by counting.

    >>> has_timestamps("mp3"), has_timestamps("matroska,webm")
    (False, True)
    """
    return format_name not in _BARE_FORMATS


def sums_durations(format_name: str) -> bool:
    """Whether the time stamps of a format are sums of rounded frame durations."""
    return format_name in _SUMMED_FORMATS


def can_use_long_prediction(codec: str) -> bool:
    """Whether frames of a codec may have `has_long_prediction`."""
    return codec in _AAC_CODECS


def has_long_prediction(codec: str, profile: str | None) -> bool:
    """Whether each frame is predicted from all frames before it, so that only a decode from the beginning is right.

    Args:
        codec: FFmpeg's name of the decoder.
        profile: FFmpeg's name of the profile of the last decoded frame.

    >>> has_long_prediction("aac", "Main"), has_long_prediction("aac", "LC"), has_long_prediction("mp3float", None)
    (True, False, False)
    """
    return codec in _AAC_CODECS and profile is not None and profile not in _FADING_AAC_PROFILES


def is_exact_after_pre_roll(codec: str) -> bool:
    """Whether a decode that starts `pre_roll_length` samples early gives the same bits as one from the beginning."""
    return codec in _INDEPENDENT or codec in _PRE_ROLL_LENGTHS or codec.startswith("pcm_")


def reset_method(codec: str) -> ResetMethod:
    """What it takes for a codec to decode a range the same each time, whatever it decoded before.

    >>> reset_method("flac"), reset_method("aac"), reset_method("nellymoser")
    ('flush', 'new_codec', 'reopen')
    """
    if codec in _NEED_NEW_CODEC:
        return "new_codec"
    if codec in _RESET_BY_FLUSH or is_exact_after_pre_roll(codec):
        return "flush"
    return "reopen"


def pre_roll_length(codec: str, sample_rate: int) -> int:
    """How many samples before the first wanted one decoding has to start.

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


def opus_pre_roll_length(packet: bytes, header: bytes) -> int:
    """`pre_roll_length` for Opus, whose modes need different ones.

    Args:
        packet: The packet with which decoding would start. It holds the frames of one or more streams; those of every
            stream but the last come with their length.
        header: The identification header of the stream (``OpusHead``).

    >>> [opus_pre_roll_length(bytes([number << 3, 0, 0]), b"OpusHead") for number in (1, 9, 15, 31)]
    [480000, 72000, 72000, 24000]
    """
    has_streams = len(header) > _OPUS_NUM_STREAMS_AT and header[_OPUS_FAMILY_AT] > 0
    at, lowest = 0, _OPUS_SPECTRUM
    for number in range(header[_OPUS_NUM_STREAMS_AT] if has_streams else 1, 0, -1):
        if at >= len(packet):
            break
        lowest = min(lowest, packet[at] >> 3)
        if number > 1:
            at = _end_of_opus_stream(packet, at)
    if lowest >= _OPUS_SPECTRUM:
        return pre_roll_length("opus", _OPUS_RATE)
    return round((_OPUS_NARROW_SECONDS if lowest < _OPUS_WIDE_BAND else _OPUS_WIDE_SECONDS) * _OPUS_RATE)


def _end_of_opus_stream(packet: bytes, at: int) -> int:
    """Where the self-delimited frames that begin at ``at`` end (RFC 6716, appendix B); past the packet if broken."""
    code, at = packet[at] & 3, at + 1
    num_frames, have_one_size, num_padding = (1, 2, 2)[code] if code < 3 else 0, code == 1, 0
    if code == 3:
        flags, at = int.from_bytes(packet[at : at + 1]), at + 1
        num_frames, have_one_size = flags & 63, not flags & 128
        has_more = bool(flags & 64)
        while has_more and at < len(packet):
            has_more = packet[at] == 255
            num_padding, at = num_padding + packet[at] - has_more, at + 1
    total = num_padding
    for _ in range(1 if have_one_size else num_frames):
        first, second = int.from_bytes(packet[at : at + 1]), int.from_bytes(packet[at + 1 : at + 2])
        length, at = (first, at + 1) if first < 252 else (first + 4 * second, at + 2)
        total += length * (num_frames if have_one_size else 1)
    return at + total
