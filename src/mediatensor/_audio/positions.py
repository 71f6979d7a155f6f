"""What random access to sound needs to know of codecs and formats. Pure; no I/O."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, pairwise
from typing import Literal

__all__ = [
    "NUM_FRAMES_TO_FIT",
    "PositionRule",
    "Renewal",
    "adds_durations",
    "fit_positions",
    "has_clock",
    "is_exact_after_pre_roll",
    "needs_fit",
    "opus_pre_roll_length",
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

# These have frames alone, without times.
_BARE_FORMATS = frozenset(("aac", "ac3", "amr", "amrnb", "amrwb", "dts", "eac3", "g722", "gsm", "mlp", "mp3", "truehd"))

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

# The others keep a past that fades: predictors, adaptive quantizers, noise generators. Of Opus, this is for where it
# codes a spectrum.
_FADING_SECONDS = {"aac": 0.2, "mp1": 0.1, "mp2": 0.1, "opus": 0.5}
_DEFAULT_FADING_SECONDS = 1.0

# Opus that codes speech repeats it at the distance of its pitch. Of a steady note in narrow band it takes seconds to
# forget: with a lead-in of 0.5, 1, 2 and 4 s, it was 6, 13, 20 and 41 dB from the whole; of wider bands, 59 dB with 0.5
# and 104 with 1 s. The number of the configuration, the upper five bits of a frame's first byte, tells which it is.
_OPUS_WIDE_BAND, _OPUS_SPECTRUM = 8, 16
_OPUS_NARROW_SECONDS, _OPUS_WIDE_SECONDS = 10.0, 1.5
_OPUS_RATE = 48_000
_OPUS_FAMILY_AT, _OPUS_NUM_STREAMS_AT = 18, 19

# What Speex predicts frames from does not fade; its decoder draws at random, too.
_NEVER_FORGET = frozenset(("speex",))

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
    """Whether packets have the same time stamps after a seek, and decode to the same samples after some others.

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
    return bool(names & _EXACT_FORMATS) and not ("ogg" in names and codec == "flac") and codec not in _NEVER_FORGET


def has_clock(format_name: str) -> bool:
    """Whether a format has times at all; those that FFmpeg makes up for bare frames count what it parses.

    >>> has_clock("mp3"), has_clock("matroska,webm")
    (False, True)
    """
    return format_name not in _BARE_FORMATS


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


def opus_pre_roll_length(packet: bytes, header: bytes) -> int:
    """The same for Opus, by the packet with which decoding would begin.

    Args:
        packet: Frames of one or more streams, each stream's but the last with its length.
        header: The identification header of the stream.

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
            at = _behind_opus_stream(packet, at)
    if lowest >= _OPUS_SPECTRUM:
        return pre_roll_length("opus", _OPUS_RATE)
    return round((_OPUS_NARROW_SECONDS if lowest < _OPUS_WIDE_BAND else _OPUS_WIDE_SECONDS) * _OPUS_RATE)


def _behind_opus_stream(packet: bytes, at: int) -> int:
    """Where the frames of a stream end that begin at ``at`` and say how long they are; the end or beyond if broken."""
    code, at = packet[at] & 3, at + 1
    num_frames, is_alike, num_padding = (1, 2, 2)[code] if code < 3 else 0, code == 1, 0
    if code == 3:
        flags, at = int.from_bytes(packet[at : at + 1]), at + 1
        num_frames, is_alike = flags & 63, not flags & 128
        more = bool(flags & 64)
        while more and at < len(packet):
            more = packet[at] == 255
            num_padding, at = num_padding + packet[at] - more, at + 1
    total = num_padding
    for _ in range(1 if is_alike else num_frames):
        first, second = int.from_bytes(packet[at : at + 1]), int.from_bytes(packet[at + 1 : at + 2])
        length, at = (first, at + 1) if first < 252 else (first + 4 * second, at + 2)
        total += length * (num_frames if is_alike else 1)
    return at + total


#: How many frames of the beginning `fit_positions` should see: the more, the narrower it gets where sample 0 is.
NUM_FRAMES_TO_FIT = 32

_MIN_FRAMES_TO_FIT = 4

# Demuxers that give times to several frames of a packet round down at each.
_ROUNDING_SAMPLES = 4.5


@dataclass(frozen=True)
class PositionRule:
    """From time stamps to samples.

    Attributes:
        begin_pts: Time stamp of the first frame, in ticks.
        samples_per_tick: Sample rate times time base.
        shift: Samples by which the rounding of ``begin_pts`` misses sample 0.
        grid: Frames begin at multiples of this many samples from ``grid_offset``; 0 if they begin anywhere.
        grid_offset: A sample at which a frame begins.
        tolerance: How far from the grid rounding can put a frame, in samples.
    """

    begin_pts: int
    samples_per_tick: Fraction
    shift: float = 0.0
    grid: int = 0
    grid_offset: int = 0
    tolerance: float = 0.0

    def position(self, pts: int) -> int:
        """The sample with which a frame of this time stamp begins.

        >>> rule = PositionRule(0, Fraction(44100, 1000), grid=1024, tolerance=23)
        >>> [rule.position(pts) for pts in (0, 23, 46, 70)]
        [0, 1024, 2048, 3072]
        >>> rule.position(60)  # too far from any border: left where it is
        2646
        """
        return self.certain_position(pts)[0]

    def certain_position(self, pts: int) -> tuple[int, bool]:
        """The same, and whether it is certain: a frame that lies on no border comes after a leap in time."""
        numerator, denominator = self.samples_per_tick.numerator, self.samples_per_tick.denominator
        ticks = pts - self.begin_pts
        if not self.grid:
            # Halves up, and exact.
            return (2 * ticks * numerator + denominator) // (2 * denominator), numerator == 1
        shifted = ticks * numerator / denominator + self.shift
        nearest = self.grid_offset + self.grid * round((shifted - self.grid_offset) / self.grid)
        if abs(nearest - shifted) <= self.tolerance:
            return nearest, True
        return math.floor(shifted + 0.5), False

    def pts_before(self, position: int) -> int:
        """The last time stamp that is certain not to lie behind a sample."""
        return self.begin_pts + math.floor((position - self.tolerance - self.shift) / self.samples_per_tick)


def needs_fit(samples_per_tick: Fraction) -> bool:
    """Whether some samples begin between two ticks.

    >>> needs_fit(Fraction(44100, 14112000)), needs_fit(Fraction(48000, 90000)), needs_fit(Fraction(44100, 1000))
    (False, True, True)
    """
    return samples_per_tick.numerator != 1


def fit_positions(
    pts: Sequence[int], lengths: Sequence[int], samples_per_tick: Fraction, *, adds_durations: bool = False
) -> PositionRule:
    """The rule that explains the first frames of a stream.

    Args:
        pts: Time stamps of the frames, in ticks; at least one.
        lengths: How many samples each frame has. The first may be cut by the encoder's delay.
        samples_per_tick: Sample rate times time base.
        adds_durations: Whether time stamps are sums of rounded durations.

    Example:
        The first frame lost 312 samples of 960; the others begin at 648, 1608 ...

        >>> rule = fit_positions([0, 14, 34, 54], [648, 960, 960, 960], Fraction(48))
        >>> rule.grid, rule.grid_offset, [rule.position(pts) for pts in (14, 34, 54, 74)]
        (960, 648, [648, 1608, 2568, 3528])

        A frame of 1536 samples is 3134.69 ticks long; the demuxer counts 3134:

        >>> pts = range(0, 31340, 3134)
        >>> fit_positions(pts, [1536] * 10, Fraction(44100, 90000), adds_durations=True).position(3134_000)
        1536000
    """
    exact = PositionRule(pts[0], samples_per_tick)
    if not needs_fit(samples_per_tick) or len(pts) < _MIN_FRAMES_TO_FIT:
        return exact
    if adds_durations and len(steps := {b - a for a, b in pairwise(pts)}) == 1 and len(set(lengths)) == 1:
        samples_per_tick = Fraction(lengths[0], max(1, steps.pop()))
    return _on_grid(pts, lengths, samples_per_tick) or exact


def _on_grid(pts: Sequence[int], lengths: Sequence[int], samples_per_tick: Fraction) -> PositionRule | None:
    counted = list(accumulate(lengths, initial=0))
    off = [float(count - (stamp - pts[0]) * samples_per_tick) for count, stamp in zip(counted, pts, strict=False)]
    rounding = max(float(samples_per_tick) / 2, _ROUNDING_SAMPLES)
    low, high = max(off) - rounding, min(off) + rounding
    if low > high:
        return None
    return PositionRule(
        pts[0],
        samples_per_tick,
        shift=(low + high) / 2,
        grid=math.gcd(*lengths[1:-1]),
        grid_offset=counted[1],
        tolerance=rounding + (high - low) / 2 + 1,
    )
