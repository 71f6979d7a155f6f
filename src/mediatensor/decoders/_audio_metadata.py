"""What a stream of sound is, in the terms that users know."""

from __future__ import annotations

from dataclasses import dataclass, fields

from .._pyav import ContainerFacts, StreamFacts
from ._metadata import AudioStreamHeaderMetadata, stream_header_metadata

__all__ = ["AudioStreamMetadata", "audio_stream_metadata"]


@dataclass(repr=False)
class AudioStreamMetadata(AudioStreamHeaderMetadata):
    """What is known of the stream of an `AudioDecoder` or a `WavDecoder`, by its header and its first frame.

    Attributes:
        duration_seconds: From the header of the stream, else of the container; ``None`` if neither states it.
        begin_stream_seconds: Time of the first sample in seconds; 0 if the header does not say.
        end_stream_seconds: Begin plus duration.

    Example:
        >>> from mediatensor.decoders import AudioDecoder
        >>> metadata = AudioDecoder("video.mp4").metadata
        >>> metadata.codec, metadata.sample_rate, metadata.num_channels, metadata.duration_seconds
        ('aac', 48000, 1, 10.0)
    """

    duration_seconds: float | None
    begin_stream_seconds: float
    end_stream_seconds: float | None


def audio_stream_metadata(
    facts: StreamFacts,
    container: ContainerFacts,
    begin_seconds: float,
    delay_seconds: float,
    joined_seconds: float | None = None,
) -> AudioStreamMetadata:
    """The metadata of a decoder.

    Args:
        facts: The header of the stream.
        container: The header of the container, for streams that state no duration of their own.
        begin_seconds: Time of the first sample.
        delay_seconds: How much the encoder put in front of it.
        joined_seconds: Length of a file that was joined, of which the headers tell of the first part.
    """
    header = stream_header_metadata(facts)
    assert isinstance(header, AudioStreamHeaderMetadata)
    end = _end_seconds(facts, container, begin_seconds, delay_seconds)
    if joined_seconds is not None:
        end = begin_seconds + joined_seconds
    return AudioStreamMetadata(
        **{spec.name: getattr(header, spec.name) for spec in fields(header)},
        duration_seconds=None if end is None else end - begin_seconds,
        begin_stream_seconds=begin_seconds,
        end_stream_seconds=end,
    )


def _end_seconds(
    facts: StreamFacts, container: ContainerFacts, begin_seconds: float, delay_seconds: float
) -> float | None:
    duration = facts.duration_seconds
    if duration is not None:
        counts_delay = container.format_name == "ogg" and facts.codec == "opus"
        return begin_seconds + duration - (delay_seconds if counts_delay else 0.0)
    if container.duration_seconds is None:
        return None
    # Matroska and Flash count from time 0.
    return max(begin_seconds, container.duration_seconds)
