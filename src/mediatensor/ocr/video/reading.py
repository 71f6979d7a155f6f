"""`VideoReading`, which contains all text of a video and writes it in several formats."""

from __future__ import annotations

import csv
import io
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal, Self, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from ..._engine.common.checks import MAX_INT, path_text, shown, whole_number
from ..._engine.common.display import png_of, show_picture
from ..._engine.common.messages import clock, json_bytes
from ..._engine.sources.output_files import write_file
from ...errors import InvalidArgumentError, ReadError, SourceNotFoundError
from ..io import Document, Page
from ._redaction import redact_video
from ._timeline import draw_slides, draw_timeline
from .captions import Captions, SubtitleFormat, format_of
from .tracks import (
    Alternative,
    Box,
    Place,
    Slide,
    TextKind,
    TextTrack,
    TrackLine,
    check_items,
    check_kind,
    check_seconds,
    check_tracks,
    set_attributes,
)

__all__ = ["ReadingFormat", "VideoReading"]

ReadingFormat = Literal["srt", "vtt", "ass", "json", "csv", "md", "pdf"]

# Schema and version of exports. The version increases with each change that older releases cannot read.
_SCHEMA = "mediatensor.ocr.video.VideoReading"
_SCHEMA_VERSION = 1

# Maximum size of a stored reading in bytes.
MAX_STORED_BYTES = 256 << 20

_CSV_COLUMNS = (
    "kind", "start_seconds", "end_seconds", "first_frame", "last_frame", "xmin", "ymin", "xmax", "ymax", "confidence",
    "appears", "text",
)  # fmt: skip

_Data = TypeVar("_Data", TextTrack, TrackLine, Alternative, Place, Slide)


@dataclass(frozen=True)
class VideoReading:
    """All text that was read in a video: tracks of text with times and positions, and slides.

    Attributes:
        name: File name of the video.
        height: Height of the upright video in pixels.
        width: Width of the upright video in pixels.
        num_frames: Number of frames. Frames after the last one that could be decoded do not count.
        begin_seconds: Time in seconds at which the first frame is shown.
        end_seconds: Time in seconds at which the last frame ends.
        tracks: Texts with times and positions, as `TextTrack` objects, ordered by start.
        slides: Distinct slides as `Slide` objects, in order of appearance.
        problems: One sentence for each damaged part of the video that could not be decoded.

    Raises:
        InvalidArgumentError: A value has a wrong type or range.

    Example:
        >>> from mediatensor.ocr.video import TextTrack, VideoReading
        >>> said = TextTrack("Good evening", "caption", 1.0, 2.5, 30, 74, ((0.3, 0.88), (0.7, 0.94)), 0.97)
        >>> logo = TextTrack("ONE", "overlay", 0.0, 10.0, 0, 299, ((0.9, 0.05), (0.97, 0.1)), 0.9)
        >>> reading = VideoReading("talk.mp4", 720, 1280, 300, 0.0, 10.0, (said, logo))
        >>> [track.text for track in reading.tracks], [track.text for track in reading.captions]
        (['ONE', 'Good evening'], ['Good evening'])
        >>> reading.save("talk.srt")
        >>> VideoReading.from_dict(reading.export()) == reading
        True
    """

    name: str
    height: int
    width: int
    num_frames: int
    begin_seconds: float
    end_seconds: float
    tracks: tuple[TextTrack, ...] = ()
    slides: tuple[Slide, ...] = ()
    problems: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise InvalidArgumentError(f"name must be a str (got {shown(self.name)}).")
        set_attributes(
            self,
            height=whole_number("height", self.height, at_least=0, at_most=MAX_INT),
            width=whole_number("width", self.width, at_least=0, at_most=MAX_INT),
            num_frames=whole_number("num_frames", self.num_frames, at_least=0, at_most=MAX_INT),
            begin_seconds=check_seconds("begin_seconds", self.begin_seconds),
            end_seconds=check_seconds("end_seconds", self.end_seconds),
            tracks=check_tracks(self.tracks),
            slides=check_items("slides", self.slides, Slide),
            problems=check_items("problems", self.problems, str),
        )

    @property
    def captions(self) -> Captions:
        """The tracks of kind ``"caption"`` as `Captions`, which can be saved as subtitles.

        Example:
            >>> from mediatensor.ocr.video import VideoReading
            >>> VideoReading("silent.mp4", 720, 1280, 300, 0.0, 10.0).captions.render("vtt")
            'WEBVTT\\n'
        """
        return self.of_kind("caption")

    def of_kind(self, *kinds: TextKind) -> Captions:
        """Return the tracks of the given kinds as `Captions`, which can be saved as subtitles.

        Args:
            *kinds: One or several of ``"caption"``, ``"overlay"``, ``"scene"`` and ``"slide"``.

        Returns:
            The tracks, ordered by start.

        Raises:
            InvalidArgumentError: A kind is unknown, or none is given.

        Example:
            >>> from mediatensor.ocr.video import TextTrack, VideoReading
            >>> logo = TextTrack("ONE", "overlay", 0.0, 10.0, 0, 299, ((0.9, 0.05), (0.97, 0.1)), 0.9)
            >>> reading = VideoReading("talk.mp4", 720, 1280, 300, 0.0, 10.0, (logo,))
            >>> len(reading.of_kind("overlay", "scene")), len(reading.of_kind("caption"))
            (1, 0)
        """
        if not kinds:
            raise InvalidArgumentError(f"kinds must name at least one of {get_args(TextKind)} (got none).")
        wanted = {check_kind(kind) for kind in kinds}
        chosen = [track for track in self.tracks if track.kind in wanted]
        return Captions(chosen, height=max(self.height, 1), width=max(self.width, 1))

    def slides_document(self) -> Document:
        """Return a `Document` with one page for each slide of the video, to export it as searchable PDF or Markdown.

        Example:
            >>> from mediatensor.ocr.video import VideoReading
            >>> len(VideoReading("silent.mp4", 720, 1280, 300, 0.0, 10.0).slides_document().pages)
            0
        """
        return Document([slide.page for slide in self.slides])

    def export(self) -> dict[str, Any]:
        """Return the reading, without the images of slides, as nested dictionaries and lists.

        Returns:
            A dict that ``json.dumps`` accepts and `VideoReading.from_dict` restores.

        Example:
            >>> from mediatensor.ocr.video import VideoReading
            >>> exported = VideoReading("silent.mp4", 720, 1280, 300, 0.0, 10.0).export()
            >>> exported["version"], exported["num_frames"], exported["tracks"]
            (1, 300, [])
        """
        plain = {"name", "height", "width", "num_frames", "begin_seconds", "end_seconds"}
        return {
            "schema": _SCHEMA,
            "version": _SCHEMA_VERSION,
            **{field.name: getattr(self, field.name) for field in fields(self) if field.name in plain},
            "problems": list(self.problems),
            "tracks": [_export_data(track) for track in self.tracks],
            "slides": [
                {
                    **{field.name: getattr(slide, field.name) for field in fields(slide) if field.name != "page"},
                    "page": slide.page.export(),
                }
                for slide in self.slides
            ],
        }

    @classmethod
    def from_dict(cls, save_dict: Mapping[str, Any], pictures: Sequence[NDArray[np.uint8]] | None = None) -> Self:
        """Create a reading from the result of `export`.

        Args:
            save_dict: The result of `export`. It can have been saved as JSON and loaded again.
            pictures: The images of all slides, uint8 (H, W, 3). ``save_dict`` does not contain them. Without these
                images, slides can neither be shown nor written as PDF.

        Returns:
            The reading.

        Raises:
            InvalidArgumentError: ``save_dict`` is damaged or was made by a later version of mediatensor, or the number
                of images differs from the number of slides.
        """
        stored = _stored_dict(save_dict, "reading")
        if stored.get("schema") != _SCHEMA:
            raise InvalidArgumentError(
                f"This is not a stored VideoReading: its schema is {shown(stored.get('schema'))}, not {_SCHEMA!r}. "
                "Pass the result of VideoReading.export()."
            )
        version = whole_number("version", stored.get("version"), at_least=1)
        if version > _SCHEMA_VERSION:
            raise InvalidArgumentError(
                f"The stored VideoReading has version {version}; this mediatensor reads up to {_SCHEMA_VERSION}. "
                "Use a later mediatensor."
            )
        slides = _stored_list(stored, "slides")
        if pictures is not None and len(pictures) != len(slides):
            raise InvalidArgumentError(
                f"The stored VideoReading has {len(slides)} slides, but {len(pictures)} pictures were passed."
            )
        values = {field.name: _stored_value(stored, field.name, "reading") for field in fields(cls)}
        values["tracks"] = tuple(_restore_track(track) for track in _stored_list(stored, "tracks"))
        values["problems"] = tuple(_stored_list(stored, "problems"))
        values["slides"] = tuple(
            _restore_slide(slide, None if pictures is None else pictures[number]) for number, slide in enumerate(slides)
        )
        return cls(**values)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Restore a reading from a JSON file that `save` wrote; see `from_dict`.

        Args:
            path: Path of the file.

        Returns:
            The reading. Its slides have no images.

        Raises:
            SourceNotFoundError: The file does not exist.
            ReadError: The file cannot be read, is larger than 256 MiB, or is not JSON.
            SourceTypeError: ``path`` is not a path.
            InvalidArgumentError: The JSON is not a stored reading.

        Example:
            >>> from mediatensor.ocr.video import VideoReading
            >>> VideoReading("silent.mp4", 720, 1280, 300, 0.0, 10.0).save("silent.json")
            >>> VideoReading.load("silent.json").num_frames
            300
        """
        file = Path(path_text("path", path))
        try:
            size = file.stat().st_size
            written = file.read_bytes() if size <= MAX_STORED_BYTES else b""
        except FileNotFoundError:
            raise SourceNotFoundError(f"Could not open input file: {file} does not exist.") from None
        except (OSError, ValueError) as error:  # a path with a null character is a ValueError
            raise ReadError(f"{str(file)!r} cannot be read ({error}).") from error
        if size > MAX_STORED_BYTES:
            raise ReadError(f"{file} has {size} bytes, more than the limit of {MAX_STORED_BYTES}.")
        try:
            stored = json.loads(written)
        except (ValueError, RecursionError) as error:
            raise ReadError(f"{file} is not JSON: {error}") from error
        return cls.from_dict(stored)

    def save(self, path: str | os.PathLike[str], format: ReadingFormat | None = None) -> None:
        """Write the reading, or a part of it, to a file.

        An existing file is replaced only when the new one is complete.

        Args:
            path: Path of the file.
            format: One of the following formats; by default, the suffix of ``path``.

                * ``"srt"``, ``"vtt"``, ``"ass"``: the captions, see `Captions.save`;
                * ``"json"``: the result of `export`;
                * ``"csv"``: a header, and a row for each track of any kind (RFC 4180, UTF-8);
                * ``"md"``: the slides as Markdown, with their times;
                * ``"pdf"``: the slides as searchable PDF.

        Raises:
            InvalidArgumentError: The format is unknown, ``"md"`` or ``"pdf"`` is chosen but there are no slides, or
                ``"pdf"`` is chosen but the slides have no images.
            MissingDependencyError: ``"pdf"`` needs pypdfium2, which is not installed.
            WriteError: The file cannot be written.
            SourceTypeError: ``path`` is not a path.
        """
        chosen = format_of(path, get_args(ReadingFormat), format)
        if chosen in get_args(SubtitleFormat):
            self.captions.save(path, chosen)  # type: ignore[arg-type]
        elif chosen == "json":
            write_file(path, json_bytes(self.export(), indent=1))
        elif chosen == "csv":
            write_file(path, self._csv().encode(errors="replace"))
        elif not self.slides:
            raise InvalidArgumentError(
                f"format {chosen!r} is for slides, and the reading of {shown(self.name)} has none; "
                "the others are srt, vtt, ass, json and csv."
            )
        elif chosen == "md":
            write_file(path, self._markdown().encode(errors="replace"))
        else:
            self.slides_document().save_pdf(path)

    def redact(
        self,
        video: Any,
        path: str | os.PathLike[str],
        *texts: str | re.Pattern[str] | TextTrack,
        regions: Iterable[Sequence[float] | Box] = (),
        predictor: Callable[[Any], VideoReading] | None = None,
    ) -> tuple[TextTrack, ...]:
        """Write a copy of the video in which black boxes cover texts.

        A text is covered with a margin in all frames of its track, and for 0.6 seconds before and after, because it may
        fade. The boxes of a moving text follow it. Frame times, rotation, size and colours are kept. Audio packets are
        copied, so spoken words remain. Subtitles, closed captions, chapters, tags and other streams are left out,
        because they may contain the text. Text that was not recognised is not covered: watch the result.

        Args:
            video: The video that was read: a source, or a `VideoDecoder`. The decoder's ``on_error`` controls how
                damaged frames are handled, and its ``on_size_change`` how frames of different sizes are handled.
            path: Path of the new file, which must end in ``.mp4``, ``.mov``, ``.mkv`` or ``.webm``. The file appears
                when it is complete.
            *texts: Words or phrases (``str``), regular expressions, and tracks. If a part of a track matches, the whole
                track is covered. Matching works as in `Document.find`: a ``str`` ignores case, spaces, and kinds of
                dashes and quotes, and words that are divided by a hyphen at a line end are joined.
                `TextTrack.alternatives` are searched as well.
            regions: Boxes (xmin, ymin, xmax, ymax) to cover in all frames, relative to the upright frame.
            predictor: Predictor from `video_text_predictor` that reads the result and searches it for the words,
                phrases and regular expressions in ``texts``. If it still finds one, this text is covered as well, and
                the result is checked once more, up to three times in total. Tracks and regions are covered only at
                their own place, and not searched for: give the text of a track to check it. By default, the result is
                not checked.

        Returns:
            A tuple of the tracks that were covered.

        Warns:
            UserWarning: A text matches nothing, or streams of the video are left out.

        Raises:
            InvalidArgumentError: There is nothing to redact, an argument is invalid, ``path`` is the video itself, or
                the reading does not have the size of the video.
            RedactionError: ``predictor`` can still read a word, phrase or match. Nothing is written.
            OpenError, ReadError, DecodeError: The video cannot be read.
            SizeChangeError: Frames have different rotations, or different sizes without ``on_size_change="scale"``.
            EncodeError: The container cannot store the audio of the video.
            WriteError: The file cannot be written.

        Example:
            >>> import re
            >>> from mediatensor.ocr import video_text_predictor
            >>> reading = video_text_predictor(pretrained=True)("video.mp4")
            >>> covered = reading.redact("video.mp4", "redacted.mp4", re.compile(r"\\d{2}:\\d{2}"))
        """
        size = self.height, self.width
        return redact_video(self.tracks, size, video, path, texts, regions, predictor)

    def _csv(self) -> str:
        table = io.StringIO(newline="")
        writer = csv.writer(table)
        writer.writerow(_CSV_COLUMNS)
        for track in self.tracks:
            corners = [coordinate for corner in track.geometry for coordinate in corner]
            extent = (track.start_seconds, track.end_seconds, track.first_frame, track.last_frame)
            writer.writerow((track.kind, *extent, *corners, track.confidence, track.appears, track.text))
        return table.getvalue()

    def _markdown(self) -> str:
        return (
            "\n\n---\n\n".join(
                f"*Slide {slide.number}, {clock(slide.start_seconds, 0)} to {clock(slide.end_seconds, 0)}*\n\n"
                f"{slide.page.export_as_markdown()}".rstrip()
                for slide in self.slides
            )
            + "\n"
        )

    def synthesize_timeline(
        self, *, start_seconds: float | None = None, stop_seconds: float | None = None, width: int = 1600
    ) -> NDArray[np.uint8]:
        """Draw the tracks along a time axis: a lane for each kind of text, and a bar for the duration of each track.

        A long video is drawn in several strips, one below the other.

        Args:
            start_seconds: First time to draw, in seconds; by default the start of the video.
            stop_seconds: Last time to draw, in seconds; by default the end of the video.
            width: Width of the image in pixels, from 400 to 20,000.

        Returns:
            The image, uint8 (H, W, 3).

        Raises:
            InvalidArgumentError: A time is not finite, the start is not before the stop, or the width is out of range.

        Example:
            >>> from mediatensor.ocr.video import TextTrack, VideoReading
            >>> said = TextTrack("Good evening", "caption", 1.0, 2.5, 30, 74, ((0.3, 0.88), (0.7, 0.94)), 0.97)
            >>> reading = VideoReading("talk.mp4", 720, 1280, 300, 0.0, 10.0, (said,))
            >>> reading.synthesize_timeline(width=800).shape[1:]
            (800, 3)
        """
        start = self.begin_seconds if start_seconds is None else check_seconds("start_seconds", start_seconds)
        stop = self.end_seconds if stop_seconds is None else check_seconds("stop_seconds", stop_seconds)
        # A video of at most one frame may have a duration of 0.
        stop = start + 1.0 if stop_seconds is None and stop <= start else stop
        if start >= stop:
            raise InvalidArgumentError(
                f"start_seconds must be before stop_seconds (got {start} and {stop}; the video is read from "
                f"{self.begin_seconds} to {self.end_seconds})."
            )
        width = whole_number("width", width, at_least=400, at_most=20_000)
        return np.asarray(draw_timeline(self.tracks, self.name, start, stop, width))

    def synthesize_slides(self, *, num_columns: int = 4, tile_width: int = 320) -> NDArray[np.uint8]:
        """Draw all slides in a grid, with their numbers and times.

        Args:
            num_columns: Maximum number of slides in a row.
            tile_width: Width of each slide in pixels, at least 100.

        Returns:
            The image, uint8 (H, W, 3).

        Raises:
            InvalidArgumentError: There are no slides, slides have no images, or an argument is invalid.

        Example:
            >>> import numpy as np
            >>> from mediatensor.ocr.io import Page
            >>> from mediatensor.ocr.video import Slide, VideoReading
            >>> slide = Slide(1, 0, 299, 0.0, 10.0, Page(np.full((180, 320, 3), 255, np.uint8), [], 0, (180, 320)))
            >>> VideoReading("talk.mp4", 180, 320, 300, 0.0, 10.0, slides=(slide,)).synthesize_slides().shape[2]
            3
        """
        if not self.slides:
            raise InvalidArgumentError(f"The reading of {shown(self.name)} has no slides to draw.")
        columns = whole_number("num_columns", num_columns, at_least=1)
        return np.asarray(draw_slides(self.slides, columns, whole_number("tile_width", tile_width, at_least=100)))

    def show(self, **kwargs: Any) -> None:
        """Show the image of `synthesize_timeline` in a window, or under the cell of a notebook.

        Args:
            **kwargs: Arguments of `synthesize_timeline`.

        Raises:
            MissingDependencyError: matplotlib is not installed.

        Example:
            >>> from mediatensor.ocr.video import VideoReading
            >>> VideoReading("silent.mp4", 720, 1280, 300, 0.0, 10.0).show()  # doctest: +SKIP
        """
        show_picture(Image.fromarray(self.synthesize_timeline(**kwargs)), self.name)

    def _repr_png_(self) -> bytes:
        return png_of(Image.fromarray(self.synthesize_timeline(width=1000)))

    def __repr__(self) -> str:
        counts = {"num_frames": self.num_frames, "tracks": len(self.tracks), "slides": len(self.slides)}
        if self.problems:
            counts["problems"] = len(self.problems)
        described = ", ".join(f"{name}={count}" for name, count in counts.items())
        return f"VideoReading({self.name!r}, {self.width}x{self.height}, {described})"


def _export_data(data: TextTrack | TrackLine | Alternative | Place) -> dict[str, Any]:
    exported: dict[str, Any] = {}
    for field in fields(data):
        value = getattr(data, field.name)
        if field.name == "geometry":
            value = [list(corner) for corner in value]
        elif isinstance(value, tuple):
            value = [_export_data(item) for item in value]
        exported[field.name] = value
    return exported


def _stored_dict(value: Any, what: str) -> Mapping[str, Any]:
    if isinstance(value, Mapping):
        return value
    raise InvalidArgumentError(f"A stored {what} is a dictionary, as from VideoReading.export() (got {shown(value)}).")


def _stored_value(stored: Mapping[str, Any], key: str, what: str) -> Any:
    if key in stored:
        return stored[key]
    raise InvalidArgumentError(f"The stored {what} has no {key!r}; it has {sorted(map(str, stored))}.")


def _stored_list(stored: Mapping[str, Any], key: str) -> Sequence[Any]:
    value = stored.get(key)
    if isinstance(value, list | tuple):
        return value
    raise InvalidArgumentError(f"A stored VideoReading has a list of {key} (got {shown(value)}).")


def _restore(kind: type[_Data], stored: Any, **replaced: Any) -> _Data:
    stored = _stored_dict(stored, kind.__name__)
    values = {field.name: _stored_value(stored, field.name, kind.__name__) for field in fields(kind)}
    return kind(**{**values, **replaced})


def _restore_track(stored: Any) -> TextTrack:
    stored = _stored_dict(stored, "TextTrack")
    return _restore(
        TextTrack,
        stored,
        lines=tuple(_restore(TrackLine, line) for line in _stored_list(stored, "lines")),
        alternatives=tuple(_restore(Alternative, other) for other in _stored_list(stored, "alternatives")),
        places=tuple(_restore(Place, place) for place in _stored_list(stored, "places")),
    )


def _restore_slide(stored: Any, picture: NDArray[np.uint8] | None) -> Slide:
    page = _stored_value(_stored_dict(stored, "Slide"), "page", "Slide")
    return _restore(Slide, stored, page=Page.from_dict(page, page=picture))
