"""The types of what is found, and which kinds there are."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any

__all__ = ["BAD_KINDS", "FINDING_KINDS", "CheckedFile", "Finding", "MediaFacts", "from_plain", "to_plain"]

#: What can be found in a file, and what it means.
FINDING_KINDS = {
    "unreadable": "the file cannot be opened or read, or reading it crashed or took too long",
    "nothing-decodes": "the file has no video and no sound, or none of it can be decoded",
    "cut-off": "the end of the file is missing",
    "corrupt": "frames cannot be decoded, or are flagged as damaged",
    "corrupt-sound": "sound cannot be decoded",
    "frame-count": "the header, or a table, promises another number of frames",
    "repeated-times": "frames have the same time",
    "gap": "the times of the frames leave a gap",
    "variable-rate": "frames are not evenly spaced",
    "first-frame-not-key": "the stream begins between key frames",
    "sparse-key-frames": "a random access decodes many frames",
    "frozen": "the picture does not change for a while",
    "black": "the picture is black for a while",
    "sound-length": "sound and picture do not begin and end together",
    "clipped": "sound is cut off at full scale",
    "silent": "there is nothing to hear",
    "duplicate": "another file has the same bytes",
    "near-duplicate": "another file shows the same pictures",
    "odd-size": "the frame size is not that of nearly all other files",
    "odd-rotation": "the rotation is not that of nearly all other files",
    "odd-rate": "the frame rate is not that of nearly all other files",
    "odd-sound": "sample rate or channels are not those of nearly all other files",
}

#: What makes a file bad, if nothing else is said: it gives fewer or other frames and samples than it promises.
BAD_KINDS = ("unreadable", "nothing-decodes", "cut-off", "corrupt", "corrupt-sound", "frame-count")


@dataclass(frozen=True)
class Finding:
    """One thing that was found in a file.

    Attributes:
        kind: One of `FINDING_KINDS`.
        message: What was found, with its numbers.
        start_seconds: Where it begins, if it is a part of the file.
        end_seconds: Where it ends.

    Example:
        >>> from mediatensor.datasets import Finding
        >>> Finding("black", "black for 3.0 s", 1.0, 4.0).kind
        'black'
    """

    kind: str
    message: str
    start_seconds: float | None = None
    end_seconds: float | None = None


@dataclass(frozen=True)
class MediaFacts:
    """What is known of a file that was checked; ``None`` where it has no such thing.

    Attributes:
        num_bytes: Its size.
        digest: BLAKE2b of its bytes, in hexadecimal.
        duration_seconds: Of the pictures, or of sound without pictures.
        video_codec: FFmpeg's name.
        width: Of the frames, after rotation.
        height: The same.
        rotation: Counter-clockwise angle in degrees at which pictures are shown.
        num_frames: How many there are.
        average_fps: Frames per second.
        num_key_frames: How many of them are key frames.
        longest_gop: Most frames from one key frame to the next.
        random_access_frames: Frames that are decoded, on average, to get one at random.
        random_access_bytes: Bytes of a group of pictures, on average over the frames.
        audio_codec: FFmpeg's name.
        sample_rate: Samples per second.
        num_channels: Number of channels.
        peak: The largest sample, 1 being full scale.
        picture_hash: A perceptual hash of pictures at eight places, in hexadecimal.

    Example:
        >>> from mediatensor.datasets import check_dataset
        >>> report = check_dataset(["video.mp4"], num_workers=0)
        >>> facts = report.files[0].facts
        >>> facts.num_frames, facts.longest_gop, facts.random_access_frames
        (300, 48, 23.8)
    """

    num_bytes: int | None = None
    digest: str | None = None
    duration_seconds: float | None = None
    video_codec: str | None = None
    width: int | None = None
    height: int | None = None
    rotation: float | None = None
    num_frames: int | None = None
    average_fps: float | None = None
    num_key_frames: int | None = None
    longest_gop: int | None = None
    random_access_frames: float | None = None
    random_access_bytes: int | None = None
    audio_codec: str | None = None
    sample_rate: int | None = None
    num_channels: int | None = None
    peak: float | None = None
    picture_hash: str | None = None


@dataclass(frozen=True)
class CheckedFile:
    """A file that was checked.

    Attributes:
        name: Its name, as of the `Item`.
        findings: What was found in it; empty if it is in order.
        facts: What is known of it.
        thumbnail: A small JPEG picture of it, in base64, if something was found; else ``None``.

    Example:
        >>> from mediatensor.datasets import check_dataset
        >>> check_dataset(["video.mp4"], num_workers=0).files[0].findings
        ()
    """

    name: str
    findings: tuple[Finding, ...] = ()
    facts: MediaFacts = MediaFacts()
    thumbnail: str | None = None


def to_plain(file: CheckedFile) -> dict[str, Any]:
    """A file as JSON has it."""
    return asdict(file) | {"findings": [asdict(finding) for finding in file.findings]}


def from_plain(values: dict[str, Any]) -> CheckedFile:
    """The file of `to_plain`.

    Raises:
        ValueError, TypeError, KeyError, AttributeError: if the values are of something else.
    """
    findings = tuple(Finding(**finding) for finding in values["findings"])
    known = {spec.name for spec in fields(MediaFacts)}
    facts = MediaFacts(**{name: value for name, value in values["facts"].items() if name in known})
    is_text = isinstance(values["name"], str) and isinstance(values["thumbnail"], str | None)
    if not is_text or any(finding.kind not in FINDING_KINDS for finding in findings):
        raise ValueError("not a file that was checked")
    return CheckedFile(values["name"], findings, facts, values["thumbnail"])
