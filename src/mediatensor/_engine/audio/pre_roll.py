"""Decide, for each codec and format, whether seeks in audio are exact, and how to prepare the decoder after a seek.

These are pure functions, without I/O.

When an audio decoder starts in the middle of a stream, its first output samples are wrong. Decoding must therefore
start some packets before the wanted samples. These packets are the pre-roll. A codec is listed here only if its design
limits the length of the pre-roll and measurements confirm this limit. In the measurements, test clips from several
encoders were decoded in full, and again in ranges after a seek; the samples differed by less than 1e-4. Streams of all
other codecs are decoded from their beginning.
"""

from __future__ import annotations

import math

# Demuxers (FFmpeg's names) that give packets the same time stamps after a seek as when reading from the beginning. In
# all other formats, notably MPEG program streams, every range is decoded from the beginning.
_EXACT_FORMATS = frozenset((
    "aac", "ac3", "aiff", "asf", "au", "avi", "caf", "eac3", "flac", "flv", "matroska", "mov", "mp3", "mpegts", "ogg",
    "tta", "w64", "wav", "wv",
))  # fmt: skip

# For a seek, these demuxers compute a byte position, which is right only for samples of a fixed size.
_PCM_FORMATS = frozenset(("wav", "w64", "aiff", "au", "caf"))

#: FFmpeg computes the time stamps of these formats as sums of frame durations, each rounded to ticks.
SUMMED_FORMATS = frozenset(("ac3", "eac3"))

# Formats that store a time for each packet. For other formats, FFmpeg computes times from sizes and bit rates. These
# may be far off: an hour for four seconds of G.722 in AVI.
_TIMED_FORMATS = frozenset((
    "asf", "asf_o", "concat", "dash", "flv", "gxf", "hls", "live_flv", "matroska", "mov", "mpeg", "mpegts", "nut",
    "nuv", "ogg", "rm", "rtsp", "sdp", "wtv",
))  # fmt: skip

# In ASF, packets of these codecs start with the end of the previous packet's frame but have the time of the next frame.
_LATE_FORMAT, _LATE_CODECS = "asf", ("wma", "xma")

# Each packet of these codecs is decoded without any other packet.
_INDEPENDENT = frozenset(("flac", "alac", "wavpack", "tta", "adpcm_ima_wav", "adpcm_ms", "adpcm_swf"))

# Pre-roll in samples after which the output of these codecs is bit-identical to a decode from the beginning. Adjacent
# frames overlap. An MP3 frame also uses up to 511 bytes of earlier frames, which are ten frames at 32 kbit/s.
_PRE_ROLL_LENGTHS = {"mp3float": 12 * 1152, "vorbis": 2 * 8192, "ac3": 2 * 1536, "eac3": 2 * 1536}
# Below 32 kHz, MP3 frames have half as many samples and may be much smaller.
_LOW_RATE, _LOW_RATE_MP3_LENGTH = 32_000, 40 * 576

# Pre-roll in seconds after which these codecs are nearly exact. AAC then differs only in its noise. Layers I and II
# differ in the rounding error to 16 bits, which FFmpeg carries from sample to sample. DTS predicts samples of its bands
# from four earlier samples; after a second, the error was 7.6e-6. The value for Opus applies to its spectral mode
# (CELT). Its filter repeats the signal at the distance of the pitch, at most 1022 samples, with a gain of up to 0.75.
# After 47 repetitions, which take a second, the error is 1e-6.
_FADING_SECONDS = {"aac": 0.2, "aac_latm": 0.2, "dca": 1.0, "mp1": 0.1, "mp2": 0.1, "opus": 1.0}

# In AC-3, a flush also resets options such as dynamic range compression.
_NEED_NEW_CODEC = frozenset(("ac3", "eac3"))

#: Codecs whose profile determines `has_unbounded_memory`. AAC in the profile below (FFmpeg's name) needs only the
#: previous frame. In other profiles, a frame may depend on any earlier frame. SBR (HE-AAC) and parametric stereo store
#: their settings only in some frames, and most values as differences in time. Main, LTP and possibly LD predict each
#: frame from earlier predictions. To find a frame with all settings, all frames must be parsed, which takes longer than
#: decoding.
AAC_CODECS = frozenset(("aac", "aac_latm"))
_AAC_BOUNDED_PROFILE = "LC"


def can_seek(format_name: str, codec: str) -> bool:
    """Return whether decoding after a seek and a pre-roll gives the same time stamps and samples as without a seek.

    Both arguments are FFmpeg's names.

    >>> can_seek("mov,mp4,m4a,3gp,3g2,mj2", "aac"), can_seek("wav", "adpcm_ima_wav"), can_seek("asf", "wmav2")
    (True, False, False)
    """
    names = set(format_name.split(","))
    if names & _PCM_FORMATS and not codec.startswith("pcm_"):
        return False
    # In Ogg, FFmpeg counts the samples of FLAC from the wrong page.
    is_exact_format = bool(names & _EXACT_FORMATS) and not ("ogg" in names and codec == "flac")
    return is_exact_format and (codec in _FADING_SECONDS or is_exact_after_pre_roll(codec))


def stores_timestamps(format_name: str) -> bool:
    """Return whether files of this format store the time of each packet, so that a jump of the times shows a gap.

    >>> stores_timestamps("mp3"), stores_timestamps("xwma"), stores_timestamps("matroska,webm")
    (False, False, True)
    """
    return not _TIMED_FORMATS.isdisjoint(format_name.split(","))


def is_late_by_a_frame(format_name: str, codec: str) -> bool:
    """Return whether time stamps of packets can be one frame late, as for WMA in ASF."""
    return format_name == _LATE_FORMAT and codec.startswith(_LATE_CODECS)


def has_unbounded_memory(codec: str, profile: str | None) -> bool:
    """Return whether decoding a frame can require any earlier frame, so that decoding must start at the beginning.

    ``profile`` is FFmpeg's name for the codec's profile, taken from the last decoded frame.

    >>> [has_unbounded_memory("aac", profile) for profile in ("Main", "HE-AAC", "LC")]
    [True, True, False]
    >>> has_unbounded_memory("mp3float", None)
    False
    """
    return codec in AAC_CODECS and profile is not None and profile != _AAC_BOUNDED_PROFILE


def is_exact_after_pre_roll(codec: str) -> bool:
    """Return whether samples decoded after a pre-roll are bit-identical to those of a decode from the beginning."""
    return codec in _INDEPENDENT or codec in _PRE_ROLL_LENGTHS or codec.startswith("pcm_")


def needs_new_codec(codec: str) -> bool:
    """Return whether the codec must be opened again after a seek, because a flush does not reset all of its state.

    >>> needs_new_codec("flac"), needs_new_codec("aac")
    (False, True)
    """
    return codec != "opus" and (codec in _NEED_NEW_CODEC or not is_exact_after_pre_roll(codec))


def pre_roll_length(codec: str, sample_rate: int) -> int:
    """Return the length of the pre-roll of a codec in samples. ``codec`` must be one that `can_seek` accepts.

    >>> pre_roll_length("flac", 44_100), pre_roll_length("ac3", 48_000), pre_roll_length("opus", 48_000)
    (0, 3072, 48000)
    """
    if codec == "mp3float" and sample_rate < _LOW_RATE:
        return _LOW_RATE_MP3_LENGTH
    if codec in _PRE_ROLL_LENGTHS:
        return _PRE_ROLL_LENGTHS[codec]
    return math.ceil(_FADING_SECONDS.get(codec, 0.0) * sample_rate)


# An Opus decoder that started in the middle of a stream is wrong at first. The first bytes of packets show when it has
# become right. The speech mode (SILK) repeats the signal at the distance of its pitch. The effect of a steady note in
# narrow band takes seconds to fade, without a limit. Two kinds of packets end this effect: packets of the spectral mode
# (CELT) reset the speech decoder, and frames that are marked as inactive (a pause) have no pitch.

#: Lengths of pre-roll to try for Opus, shortest first, until the decoder is right.
OPUS_STEPS_SECONDS = (1.0, 4.0, 16.0, 64.0)

# The configuration number, the upper five bits of a packet's first byte, encodes the mode and the length of a frame
# in samples at 48 kHz. Configurations between the speech and the spectral mode use both modes.
_MEDIUM_BAND, _BOTH, _SPECTRUM = 4, 12, 16
_SPEECH_LENGTHS, _BOTH_LENGTHS, _SPECTRUM_LENGTHS = (480, 960, 1920, 2880), (480, 960), (120, 240, 480, 960)
_SPEECH_FRAME = 960
_HAS_TWO_CHANNELS = 4

# Pitch reaches back 18 ms. After a pause of 20, 40, 60 and 200 ms, the error from an unknown state in speech of 8 to
# 12 kbit/s was 1.4e-2, 2.2e-5, 1.9e-5 and 1.9e-5.
_PAUSE_LENGTH = 2880

# The filter of the spectral mode repeats the signal at a distance of at most 1022 samples with a gain of at most 0.75.
# After 47 repetitions, the error is 1e-6.
_SPECTRUM_PRE_ROLL = 48_000

_FAMILY_AT, _NUM_STREAMS_AT = 18, 19


def begins_with_narrow_band(packet: bytes) -> bool:
    """Return whether ``packet``, the first packet of an Opus stream, contains speech in narrow band.

    For such a packet, FFmpeg returns 24 samples too few. It returns the missing samples later, when the bandwidth
    changes. Time stamps do not reflect this, so they do not show at which sample a frame starts.

    >>> begins_with_narrow_band(bytes([1 << 3, 0])), begins_with_narrow_band(bytes([9 << 3, 0]))
    (True, False)
    """
    return bool(packet) and packet[0] >> 3 < _MEDIUM_BAND


class OpusMemory:
    """Finds the packet from which an Opus decoder decodes correctly, after it started in the middle of a stream.

    From that packet on, the decoder gives the same samples as a decoder that started at the beginning. ``header`` is
    the identification header of the stream (``OpusHead``).

    >>> memory = OpusMemory(b"OpusHead")
    >>> pause, speech = bytes([9 << 3, 0]), bytes([9 << 3, 128])
    >>> memory.take(speech), [memory.take(pause) for _ in range(4)], memory.take(speech)
    (False, [False, False, False, True], True)
    """

    def __init__(self, header: bytes) -> None:
        has_streams = len(header) > _NUM_STREAMS_AT and header[_FAMILY_AT] > 0
        self._num_streams = header[_NUM_STREAMS_AT] if has_streams else 1
        self._pause_length = 0
        self._spectrum_length = 0
        self._knows_speech = False

    @property
    def is_complete(self) -> bool:
        return self._knows_speech and self._spectrum_length >= _SPECTRUM_PRE_ROLL

    def take(self, packet: bytes) -> bool:
        """Update the state for the next packet, and return whether the decoder decodes this packet correctly."""
        number, at = _SPECTRUM, 0
        for left in range(self._num_streams, 0, -1):
            if at >= len(packet):
                break
            number = min(number, packet[at] >> 3)
            if left > 1:
                at = _end_of_stream(packet, at)
        has_speech, has_spectrum = number < _SPECTRUM, number >= _BOTH
        if has_speech and self._num_streams > 1:
            return False
        is_right = (self._knows_speech or not has_speech) and (
            self._spectrum_length >= _SPECTRUM_PRE_ROLL or not has_spectrum
        )
        length = _length(packet)
        if has_spectrum:
            self._spectrum_length += length
        if not has_speech:
            self._knows_speech = True
        elif not self._knows_speech:
            self._pause_length = self._pause_length + length if _is_pause(packet) else 0
            self._knows_speech = self._pause_length >= _PAUSE_LENGTH
        return is_right


def _length(packet: bytes) -> int:
    """Return the duration of an Opus packet in samples at 48 kHz."""
    if not packet:
        return 0
    number, code = packet[0] >> 3, packet[0] & 3
    if number >= _SPECTRUM:
        length = _SPECTRUM_LENGTHS[number & 3]
    else:
        length = _BOTH_LENGTHS[number & 1] if number >= _BOTH else _SPEECH_LENGTHS[number & 3]
    return length * ((1, 2, 2)[code] if code < 3 else int.from_bytes(packet[1:2]) & 63)


def _is_pause(packet: bytes) -> bool:
    """Return whether a speech packet contains a single frame that is marked as silent throughout.

    The frame starts with the bits of the first channel, followed by the bits of the second. Each channel has one mark
    for every 20 ms, and then one bit that is set if the frame repeats data for lost packets.
    """
    if len(packet) < 2 or packet[0] & 3:
        return False
    num_marks = max(1, _length(packet) // _SPEECH_FRAME)
    marks = (1 << num_marks) - 1 << 1
    if packet[0] & _HAS_TWO_CHANNELS:
        marks |= marks << num_marks + 1
    num_bits = (num_marks + 1) * (2 if packet[0] & _HAS_TWO_CHANNELS else 1)
    return not packet[1] >> 8 - num_bits & marks


def _end_of_stream(packet: bytes, at: int) -> int:
    """Return the end of the stream at ``at`` in a packet of several Opus streams (RFC 6716, B).

    In a broken packet, the returned position can be past the end of the packet.
    """
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
