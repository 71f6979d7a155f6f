"""When an Opus decoder that started midway is right, by the first bytes of its packets. Pure; no I/O.

The speech mode of Opus (SILK) repeats the signal at the distance of its pitch: a steady note in narrow band takes
seconds to fade, and nothing bounds it. Two things end it, which packets show: a packet of the spectral mode (CELT)
resets the speech decoder, and frames that are marked as inactive (a pause) have no pitch.
"""

from __future__ import annotations

__all__ = ["OPUS_STEPS_SECONDS", "OpusMemory", "begins_with_narrow_band"]

#: How much earlier than a range decoding starts: the first of these after which the decoder is right.
OPUS_STEPS_SECONDS = (1.0, 4.0, 16.0, 64.0)

# The configuration number, the upper five bits of a packet's first byte, tells the mode, and how long a frame is in
# samples at 48 kHz. Between the two modes are frames with both.
_MEDIUM_BAND, _BOTH, _SPECTRUM = 4, 12, 16
_SPEECH_LENGTHS, _BOTH_LENGTHS, _SPECTRUM_LENGTHS = (480, 960, 1920, 2880), (480, 960), (120, 240, 480, 960)
_SPEECH_FRAME = 960
_HAS_TWO_CHANNELS = 4

# Pitch reaches back 18 ms. After a pause of 20, 40, 60 and 200 ms, what was left of an unknown state in speech of 8 to
# 12 kbit/s was 1.4e-2, 2.2e-5, 1.9e-5 and 1.9e-5.
_PAUSE_LENGTH = 2880

# The filter of the spectral mode repeats the signal at a distance of at most 1022 samples with a gain of at most 0.75:
# after 47 times 1e-6 is left.
_SPECTRUM_PRE_ROLL = 48_000

_FAMILY_AT, _NUM_STREAMS_AT = 18, 19


def begins_with_narrow_band(packet: bytes) -> bool:
    """Whether the first packet of a stream is speech in narrow band.

    FFmpeg then returns 24 samples less for it, and 24 more when the band changes: time stamps do not tell which samples
    a packet has.

    >>> begins_with_narrow_band(bytes([1 << 3, 0])), begins_with_narrow_band(bytes([9 << 3, 0]))
    (True, False)
    """
    return bool(packet) and packet[0] >> 3 < _MEDIUM_BAND


class OpusMemory:
    """What a decoder that started midway has in common with one that started at the beginning.

    Args:
        header: The identification header of the stream (``OpusHead``).

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
        """Whether every packet that follows is decoded right."""
        return self._knows_speech and self._spectrum_length >= _SPECTRUM_PRE_ROLL

    def take(self, packet: bytes) -> bool:
        """Note what the next packet does to the decoder, and return whether it is decoded right itself.

        Args:
            packet: It holds the frames of one or more streams; those of every stream but the last come with their
                length.
        """
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
    """Samples of a packet at 48 kHz."""
    if not packet:
        return 0
    number, code = packet[0] >> 3, packet[0] & 3
    if number >= _SPECTRUM:
        length = _SPECTRUM_LENGTHS[number & 3]
    else:
        length = _BOTH_LENGTHS[number & 1] if number >= _BOTH else _SPEECH_LENGTHS[number & 3]
    return length * ((1, 2, 2)[code] if code < 3 else int.from_bytes(packet[1:2]) & 63)


def _is_pause(packet: bytes) -> bool:
    """Whether a packet of speech is one frame that is marked as inactive, in all of its parts and channels.

    These marks are its first bits: one for each 20 ms, and one that says whether data of lost packets is repeated; then
    the same for the second channel.
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
