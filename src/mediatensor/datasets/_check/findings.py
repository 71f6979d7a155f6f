"""The classes of the results of a check, and the list of all kinds of findings."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

#: How serious a finding is: the file is ``"bad"``, needs a ``"look"``, or has only a ``"note"``.
Severity = Literal["bad", "look", "note"]

SEVERITIES: tuple[Severity, ...] = get_args(Severity)
SEVERITY_TITLES: dict[Severity | None, str] = {
    "bad": "bad",
    "look": "worth a look",
    "note": "with a note",
    None: "in order",
}


@dataclass(frozen=True)
class FindingKind:
    """A kind of problem that `check_dataset` can find in a file, with its meaning, severity and advice.

    Attributes:
        meaning: Description of this kind of finding.
        severity: ``"bad"`` if decoding does not give the frames or samples that the header states, or if a row cannot
            be used for training. ``"look"`` if a person should look at the file. ``"note"`` if the file is in order,
            but has an unusual property.
        advice: What to do about a finding of this kind.

    Example:
        >>> from mediatensor.datasets import FINDING_KINDS
        >>> FINDING_KINDS["cut-off"].meaning, FINDING_KINDS["cut-off"].severity
        ('the end of the file is missing', 'bad')
    """

    meaning: str
    severity: Severity
    advice: str


# fmt: off
#: All kinds of findings, by name.
FINDING_KINDS: dict[str, FindingKind] = {
    "unreadable": FindingKind(
        "the file cannot be opened or read, or reading it crashed or took too long", "bad",
        "Fetch it again, or leave it out."),
    "nothing-decodes": FindingKind(
        "the file has no video and no audio, or none of it can be decoded", "bad",
        "Leave it out. It may be encrypted, or only a header."),
    "no-video": FindingKind(
        "the file has no video, but videos were requested", "bad",
        "Leave it out. To check audio files, use kind=\"audio\" (--kind audio)."),
    "no-sound": FindingKind("the file has no audio, but audio was requested", "bad", "Leave it out."),
    "cut-off": FindingKind(
        "the end of the file is missing", "bad", "Fetch it again, because a download or a copy was interrupted."),
    "corrupt": FindingKind(
        "frames cannot be decoded or are flagged as damaged, or packets have no frame", "bad",
        "Fetch it again, or cut out this part. on_error of decoders and datasets determines how it is read."),
    "corrupt-sound": FindingKind(
        "audio cannot be decoded", "bad", "Fetch it again, or use the file without its audio."),
    "frame-count": FindingKind(
        "the header or a table states a wrong number of frames", "bad",
        "Count frames by decoding, not from the header. Correct the table."),
    "table-rows": FindingKind(
        "rows of a table are damaged: their numbers, times or tasks are wrong or missing", "bad",
        "Write the table again, or leave out the episode."),
    "table-times": FindingKind(
        "rows of a table have times at which the video has no frame", "bad",
        "Encode the video again at the frame rate of the table, or leave out the episode."),
    "segment-outside": FindingKind(
        "the segment of a row begins after the end of its file", "bad", "Correct the times of the row."),
    "wrong-label": FindingKind(
        "the label is not a number, negative, or not below the number of classes", "bad",
        "Correct the label. Training would fail, or learn a wrong class."),
    "repeated-times": FindingKind(
        "several frames have the same time", "look", "Read the file by frame index, or remux it."),
    "gap": FindingKind(
        "there is a gap between the times of two frames", "look",
        "Take no clips across the gap: the frames before and after it would look adjacent."),
    "sound-gap": FindingKind(
        "there is a gap in the times of the audio", "look",
        "Fill the gap with silence before you compute times from sample numbers."),
    "first-frame-not-key": FindingKind(
        "the stream does not begin with a key frame", "look", "Cut recordings at key frames, or encode them again."),
    "sparse-key-frames": FindingKind(
        "many frames must be decoded to get a single one", "look",
        "Encode with about one key frame per second (ffmpeg -g 30)."),
    "frozen": FindingKind(
        "the video shows a still image for a while", "look",
        "Cut out this part, unless the scene is meant to be still."),
    "black": FindingKind("the video is black for a while", "look", "Cut out this part."),
    "dropped-frames": FindingKind(
        "frames were lost: the previous frame is repeated, and then the video jumps", "look",
        "Record it again, or give the model the true times. At the jumps, speeds look wrong."),
    "sound-length": FindingKind(
        "audio and video do not begin or end together", "look", "Take clips only where both exist."),
    "sound-drift": FindingKind(
        "audio and video drift apart", "look", "Correct the rate of one of them. The error is largest at the end."),
    "camera-drift": FindingKind(
        "the frame times of a camera drift from its table, or from the other cameras of its episode", "look",
        "Encode the video again at its true frame rate, or match frames by time, not by index."),
    "clipped": FindingKind("the audio is clipped at full scale", "look", "Use another recording, or leave it out."),
    "silent": FindingKind("the audio is silent", "look", "Use the file without its audio, or leave it out."),
    "duplicate": FindingKind(
        "another file has the same bytes", "look", "Keep one of them, and do not put them in different splits."),
    "near-duplicate": FindingKind(
        "a part has the same content as a part of another file", "look",
        "Keep one of them, and do not put them in different splits."),
    "two-labels": FindingKind(
        "the same file has a different label in another row", "look", "Find out which label is right."),
    "missing-label": FindingKind(
        "the row has no label, but most rows have one", "look", "Label it, or leave it out."),
    "rare-label": FindingKind(
        "no other row has this label", "look",
        "Check its spelling. A class with one row cannot be in both training and test data."),
    "label-gap": FindingKind(
        "some class numbers have no row", "look", "Number the classes again, or pass num_classes."),
    "table-facts": FindingKind(
        "the row contradicts its file", "look", "Correct the row, or find the right file."),
    "segment-cut": FindingKind(
        "the segment of a row ends after its file", "look", "Correct the times of the row."),
    "odd-size": FindingKind(
        "the frame size differs from nearly all other files", "look", "Resize in the recipe, or leave it out."),
    "odd-rotation": FindingKind(
        "the rotation differs from nearly all other files", "look", "Check whether the decoded frames are upright."),
    "odd-rate": FindingKind(
        "the frame rate differs from nearly all other files", "look", "Sample by time, not by frame index."),
    "odd-sound": FindingKind(
        "the audio, its sample rate or its channels differ from nearly all other files", "look",
        "Pass sample_rate and num_channels to the decoder."),
    "odd-codec": FindingKind(
        "the codec differs from nearly all other files", "note", "Decoding may be slower; the results are the same."),
    "variable-rate": FindingKind(
        "frames are not evenly spaced in time", "note", "Sample by time, not by frame index."),
    "repeated-frames": FindingKind(
        "frames repeat the previous frame, as after converting a video to a higher frame rate", "note",
        "Sample at the lower frame rate, because repeated frames add nothing."),
}
# fmt: on

#: Kinds of findings that make a file bad by default: decoding gives other frames or samples than the header states.
BAD_KINDS = tuple(name for name, kind in FINDING_KINDS.items() if kind.severity == "bad")


@dataclass(frozen=True)
class Finding:
    """One finding of `check_dataset`: what is wrong, and in which part of a file.

    Attributes that do not apply are ``None``.

    Attributes:
        kind: A key of `FINDING_KINDS`.
        message: What was found, with the measured numbers.
        start_seconds: Start, in seconds, of the part of the file that the finding is about. ``None`` if the finding is
            not about a certain time.
        end_seconds: End of this part in seconds.
        start_frame: Index of the first frame of this part.
        end_frame: One past the index of the last frame of this part.
        episode: Number of the episode in a LeRobot dataset.
        row: Number of the row in the table of a LeRobot dataset (column ``index``).
        other_name: For ``"near-duplicate"``, the name of the file that has the same part.
        other_start_seconds: Start, in seconds, of the same part in the other file.
        other_end_seconds: End, in seconds, of the same part in the other file.

    Example:
        >>> from mediatensor.datasets import Finding
        >>> Finding("black", "black for 3.0 s", 1.0, 4.0).kind
        'black'
    """

    kind: str
    message: str
    start_seconds: float | None = None
    end_seconds: float | None = None
    start_frame: int | None = None
    end_frame: int | None = None
    episode: int | None = None
    row: int | None = None
    other_name: str | None = None
    other_start_seconds: float | None = None
    other_end_seconds: float | None = None


@dataclass(frozen=True)
class MediaFacts:
    """Properties of a checked file. A property that is unknown, or that the file does not have, is ``None``.

    Attributes:
        num_bytes: Size of the file in bytes.
        digest: BLAKE2b digest of the file's bytes, as hexadecimal text.
        begin_seconds: Time of the first frame in seconds, or of the first audio sample in a file without video.
        duration_seconds: Duration of the video in seconds, or of the audio in a file without video.
        video_codec: FFmpeg's name of the video codec.
        width: Width of the frames in pixels, after rotation.
        height: Height of the frames in pixels, after rotation.
        rotation: Counter-clockwise angle in degrees by which frames are rotated for display.
        num_frames: Number of frames.
        average_fps: Average number of frames per second.
        num_key_frames: Number of key frames.
        longest_gop: Largest number of frames in a group of pictures, from one key frame up to the next.
        random_access_frames: Number of frames that must be decoded, on average, to get a random frame.
        random_access_bytes: Number of bytes, on average, in the group of pictures of a random frame.
        audio_codec: FFmpeg's name of the audio codec.
        sample_rate: Audio samples per second.
        num_channels: Number of audio channels.
        peak: Largest absolute value of an audio sample, where full scale is 1.
        picture_signature: How the video changes over time, as text of about 300 bytes for each second. Videos that
            share a part have similar signatures for this part. JSON reports do not include it.

    Example:
        >>> from mediatensor.datasets import check_dataset
        >>> report = check_dataset(["video.mp4"], num_workers=0)
        >>> facts = report.files[0].facts
        >>> facts.num_frames, facts.longest_gop, facts.random_access_frames
        (300, 48, 23.8)
    """

    num_bytes: int | None = None
    digest: str | None = None
    begin_seconds: float | None = None
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
    picture_signature: str | None = None


@dataclass(frozen=True)
class CheckedFile:
    """The findings and properties of a checked file.

    Attributes:
        name: Name of the file, as in its `Item`.
        findings: A tuple of `Finding`; empty if the file is in order.
        facts: Properties of the file, as `MediaFacts`.
        thumbnail: A small JPEG image of one frame, in base64, if the file has findings and a video stream; otherwise
            ``None``.

    Example:
        >>> from mediatensor.datasets import check_dataset
        >>> check_dataset(["video.mp4"], num_workers=0).files[0].findings
        ()
    """

    name: str
    findings: tuple[Finding, ...] = ()
    facts: MediaFacts = MediaFacts()
    thumbnail: str | None = None


def describe_finding(finding: Finding) -> str:
    places = []
    if finding.episode is not None:
        places.append(f"episode {finding.episode}")
    if finding.row is not None:
        places.append(f"row {finding.row}")
    start, end = finding.start_seconds, finding.end_seconds
    if start is not None:
        places.append(f"at {start:.2f} s" if end is None or end == start else f"from {start:.2f} s to {end:.2f} s")
    first, last = finding.start_frame, finding.end_frame
    if first is not None:
        is_one = last is None or last - first < 2
        places.append(f"frame {first}" if is_one else f"frames {first} to {(last or 0) - 1}")
    return f"{finding.message} ({', '.join(places)})" if places else finding.message


def from_plain(values: dict[str, Any]) -> CheckedFile:
    """Make a `CheckedFile` from ``asdict(checked_file)``. Raise ValueError, TypeError, KeyError or AttributeError."""
    findings = tuple(Finding(**finding) for finding in values["findings"])
    known = {spec.name for spec in fields(MediaFacts)}
    facts = MediaFacts(**{name: value for name, value in values["facts"].items() if name in known})
    is_text = isinstance(values["name"], str) and isinstance(values["thumbnail"], str | None)
    if not is_text or any(finding.kind not in FINDING_KINDS for finding in findings):
        raise ValueError("not a file that was checked")
    return CheckedFile(values["name"], findings, facts, values["thumbnail"])
