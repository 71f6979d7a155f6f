"""The predictor that reads the text in videos, and the stream that yields each text when it has ended."""

from __future__ import annotations

import copy
import hashlib
import math
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any, cast, get_args

import numpy as np
import numpy.typing as npt
from torch import nn

from ...._engine.common.checks import finite_number, shown
from ...._engine.common.messages import counted, progress
from ....decoders import VideoDecoder
from ....decoders._access import access_to
from ....errors import ClosedError, InvalidArgumentError, MediaTensorError
from ...io import Page
from ...video import Place, Slide, TextKind, TextTrack, TrackLine, VideoReading
from ..detection.predictor import DetectionPredictor
from ..predictor import OCRPredictor
from ..recognition.onnx_lines import leave_out_of_state, readers_by_script
from ..recognition.predictor import RecognitionPredictor
from ._kinds import (
    KindJudge,
    TrackGroup,
    alternatives,
    is_awaited,
    is_better,
    is_part_of,
    join_interrupted,
    rolls_up_to,
    tie_growing_texts,
    tie_rolling_lines,
    write_ellipses,
)
from ._slides import SlidePicture, SlideWatch, StillPage, is_on_page, is_part_of_page, is_slide
from ._tracking import LineTrack, LineTracker
from ._watching import Box, FrameReader, Picture

__all__ = ["TextStream", "VideoTextPredictor"]

KINDS: tuple[TextKind, ...] = get_args(TextKind)
FRAMES_UNTIL_COMPLETE = 12  # number of frames to wait for lines that end together
LEAST_CONFIDENCE = 0.4  # lines with a lower confidence are not part of a text
# Unreadable text that is shown for less time is ignored, because it may be anything.
LEAST_UNREAD_SECONDS = 0.5
FEWEST_FRAMES = 3  # least number of frames of a text
TIME_TOLERANCE = 1e-6
# A file is truncated if the duration in its headers is longer by at least this many seconds and this share.
LEAST_LOST_SECONDS, LEAST_LOST = 0.5, 0.05

Region = tuple[float, float, float, float]
Progress = tuple[list[TextTrack], dict[str, Any]]  # finished texts, and the state of the stream
_END = object()


class VideoTextPredictor(nn.Module):
    """Module that detects and recognises the text shown in videos; created by `video_text_predictor`.

    Args:
        det_predictor: Predictor that detects lines of text, from `detection_predictor`.
        reco_predictor: Predictor that recognises lines of text, from `recognition_predictor`.
        region, kinds, min_confidence: As for `video_text_predictor`.

    Raises:
        InvalidArgumentError: An argument is invalid, or the detector or recogniser is for single words rather than
            lines.

    Example:
        >>> from mediatensor.ocr import video_text_predictor
        >>> reading = video_text_predictor(pretrained=True)("video.mp4")
        >>> reading.num_frames
        300
    """

    def __init__(
        self,
        det_predictor: DetectionPredictor,
        reco_predictor: RecognitionPredictor,
        *,
        region: Sequence[float] | None = None,
        kinds: Sequence[TextKind] | None = None,
        min_confidence: float = 0.1,
    ) -> None:
        super().__init__()
        if not (det_predictor.finds_lines and reco_predictor.reads_lines):
            raise InvalidArgumentError(
                "video_text_predictor needs a detector and a recogniser of lines, such as ppocr_v6_small_det and "
                "ppocr_v6_small_reco; those of words cannot be used."
            )
        self.det_predictor = det_predictor.eval()
        self.reco_predictor = reco_predictor.eval()
        self.script_readers = nn.ModuleDict(readers_by_script(None, reco_predictor.model))
        leave_out_of_state(self)
        self.region = _check_region(region)
        self.kinds = _check_kinds(kinds)
        if not 0 <= finite_number("min_confidence", min_confidence) <= 1:
            raise InvalidArgumentError(f"min_confidence={min_confidence!r}: give a number in [0, 1].")
        self.min_confidence = float(min_confidence)

    if TYPE_CHECKING:  # type checkers cannot infer the type of a module's call

        def __call__(self, video: Any) -> VideoReading: ...

    def forward(self, video: Any) -> VideoReading:
        """Detect and recognise the text in a video. On a terminal, a progress bar is shown.

        Frames that cannot be decoded are skipped and listed in ``problems`` of the result. If a file is truncated, the
        result has the texts before the truncation.

        Args:
            video: A `VideoDecoder`, or a source: a path, a URL, bytes or an open file.

        Returns:
            A `VideoReading`. Its ``tracks`` are the texts, sorted by the time at which they appear. It also has the
            slides, and the size and times of the video.

        Raises:
            OpenError, StreamError: The video cannot be opened, or does not have any frames.
        """
        return read_resumably(self, video)

    def stream(self, video: Any, *, state: dict[str, Any] | None = None) -> TextStream:
        """Return an iterator that yields each text of a video as soon as it is no longer shown.

        The iterator decodes frames when the next text is requested, so it is suitable for long videos.

        Args:
            video: A `VideoDecoder`, or a source: a path, a URL, bytes or an open file.
            state: Result of `TextStream.state_dict` of an earlier stream of this video. The new stream continues where
                that stream stopped. By default, the stream starts at the first frame.

        Returns:
            A `TextStream`, which is an iterator of `TextTrack`. Its attributes have the times, slides and problems
            found so far.

        Example:
            >>> from mediatensor.ocr import video_text_predictor
            >>> stream = video_text_predictor(pretrained=True).stream("video.mp4")
            >>> [track.kind for track in stream]
            ['overlay', 'overlay']
        """
        return TextStream(self, video, state)


def read_resumably(
    predictor: VideoTextPredictor,
    video: Any,
    kept: Progress | None = None,
    keep: Callable[[Callable[[], Progress]], None] | None = None,
) -> VideoReading:
    """Read the text in a video, or continue an interrupted reading. The command and the service call this function.

    Args:
        predictor: The predictor that reads the text.
        video: The video, as for `VideoTextPredictor.forward`.
        kept: Saved progress from which to continue.
        keep: Function that is called after every frame. Its argument is a function that returns the progress so
            far, to be saved and passed as ``kept`` later.

    Raises:
        InvalidArgumentError: ``kept`` belongs to another video.
    """
    earlier, state = kept or ([], None)
    tracks = list(earlier)
    with closing(predictor.stream(video, state=state)) as stream:
        while (step := stream._step()) is not _END:
            if isinstance(step, TextTrack):
                tracks.append(step)
            elif keep is not None:
                keep(lambda: (list(tracks), stream.state_dict()))
        return VideoReading(
            name=stream.name,
            height=stream.height,
            width=stream.width,
            num_frames=stream.num_frames,
            begin_seconds=stream.begin_seconds,
            end_seconds=stream.end_seconds,
            tracks=tuple(tracks),
            slides=tuple(stream.slides),
            problems=tuple(stream.problems),
        )


class TextStream(Iterator[TextTrack]):
    """Iterator that yields the texts of a video as `TextTrack`, in the order in which they end.

    Streams are created by `VideoTextPredictor.stream`.

    Args:
        predictor: The predictor that reads the text.
        video: A `VideoDecoder`, or a source: a path, a URL, bytes or an open file.
        state: Result of `state_dict` of an earlier stream, to continue where it stopped. None starts at the first
            frame.

    Attributes:
        name: The file name of the video without folders, or a description of the source if it does not have a name.
        height: Height in pixels of the video as displayed, after its rotation.
        width: Width in pixels of the video as displayed, after its rotation.
        begin_seconds: The presentation time of the first frame in seconds.
        end_seconds: The time in seconds at which the last frame processed so far ends.
        num_frames: The number of frames processed so far.
        problems: List of problems with the video found so far, one sentence each.
        slides: List of `Slide` found so far, except the slide that is shown in the current frame.
    """

    def __init__(self, predictor: VideoTextPredictor, video: Any, state: dict[str, Any] | None) -> None:
        self._predictor, self._video = predictor, video
        self._owns_decoder = not isinstance(video, VideoDecoder)
        self._decoder: VideoDecoder = VideoDecoder(video) if self._owns_decoder else video
        try:
            self._begin(state)
        except BaseException:
            self._release()
            raise
        self._tracks = self._read()

    def _begin(self, state: dict[str, Any] | None) -> None:
        metadata = self._decoder.metadata
        self.name = access_to(self._decoder).video.spec.source.file_name
        self.height, self.width = int(metadata.height or 0), int(metadata.width or 0)
        self.begin_seconds = float(metadata.begin_stream_seconds or 0.0)
        self._total_seconds = float(metadata.end_stream_seconds or 0.0) - self.begin_seconds
        self.end_seconds = self.begin_seconds
        self.problems: list[str] = []
        self.num_frames = 0
        left, top, right, bottom = self._predictor.region
        self._part = (
            math.floor(left * self.width),
            math.floor(top * self.height),
            max(math.ceil(right * self.width), math.floor(left * self.width) + 1),
            max(math.ceil(bottom * self.height), math.floor(top * self.height) + 1),
        )
        self._tracker = LineTracker()
        self._judge = KindJudge(self.height, self.width, self._part[:2], self._total_seconds)
        self.slides: list[Slide] = []
        self._watch = SlideWatch(self._part[3] - self._part[1])
        self._pages: list[StillPage] = []  # the pages of the slides
        self._turned: list[StillPage] = []  # pages that have ended and may be slides
        self._shown: list[int] = []  # the frames from which the images of the slides are taken
        self._ended: list[LineTrack] = []
        self._complete: list[TextTrack] = []
        self._starts: dict[int, float] = {}
        self._remembered = range(0)
        self._promised: npt.NDArray[np.float64] = np.empty(0)
        self._num_passed = 0
        self._unread: dict[str, tuple[int, float, float]] = {}
        self._is_interrupted = False
        if state is not None:
            self._load(state)

    def __next__(self) -> TextTrack:
        """Process frames until a text ends, and return the text.

        Raises:
            ClosedError: The stream cannot continue, because an exception such as KeyboardInterrupt was raised while it
                processed a frame.
        """
        while (step := self._step()) is None:
            pass
        if isinstance(step, TextTrack):
            return step
        raise StopIteration

    def _step(self) -> TextTrack | object | None:
        """Process one frame. Return a text that is no longer shown, None without one, or `_END` after the last text."""
        self._check_whole()
        try:
            return next(self._tracks, _END)
        except BaseException:
            self._is_interrupted = True
            raise

    def _check_whole(self) -> None:
        if self._is_interrupted:
            raise ClosedError(
                "The stream was interrupted within a frame, and has no more texts; take state_dict() between two "
                "texts, and give it to stream(video, state=...) to resume there."
            )

    def __reduce__(self) -> Any:
        raise TypeError("A stream cannot be pickled; pickle its state_dict(), and give it to stream(video, state=...).")

    def close(self) -> None:
        """Close the decoder, unless the caller passed a `VideoDecoder`. The stream then yields no more texts."""
        self._tracks.close()
        self._release()

    def _release(self) -> None:
        if self._owns_decoder:
            self._decoder.close()

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the stream, to pass to ``VideoTextPredictor.stream(video, state=...)`` later.

        The new stream continues with the next text.

        Returns:
            A picklable dict. Its contents are private.

        Raises:
            ClosedError: The stream cannot continue, because an exception was raised while it processed a frame.
        """
        self._check_whole()
        tracker = {name: value for name, value in vars(self._tracker).items() if name != "_recent"}
        return {
            # Ended lines refer to active lines that continue them, so both are copied together.
            "lines": copy.deepcopy((tracker, self._ended)),
            "complete": list(self._complete),
            "remembered": self._tracker.remembered,
            "watch": copy.deepcopy(vars(self._watch)),
            "pages": (list(self._pages), list(self._turned), list(self._shown)),
            "slides": [{**vars(slide), "page": slide.page.export()} for slide in self.slides],
            "judge": copy.deepcopy(vars(self._judge)),
            "starts": dict(self._starts),
            "num_frames": self.num_frames,
            "end_seconds": self.end_seconds,
            "problems": list(self.problems),
            "passed": self._num_passed,
            "unread": dict(self._unread),
            "video": self._identity(),
        }

    def _identity(self) -> tuple[Any, ...]:
        """Return what identifies the video and the settings, to check that a state belongs to them; decode no frame."""
        stated, predictor = self._decoder.metadata, self._predictor
        rates = (stated.codec, stated.average_fps_from_header, stated.num_frames_from_header)
        characters = hashlib.sha256(predictor.reco_predictor.model.vocab.encode()).hexdigest()
        wanted = (self._part, tuple(predictor.kinds), predictor.min_confidence, characters)
        return (self.height, self.width, self.begin_seconds, self._total_seconds, *rates, *wanted)

    def _load(self, state: dict[str, Any]) -> None:
        problem = InvalidArgumentError(
            f"state={shown(state)}: give what state_dict() of a stream over this video returned, with the same "
            "region, kinds, min_confidence and languages."
        )
        mine = self.state_dict()
        if not isinstance(state, dict) or set(state) != set(mine) or state["video"] != mine["video"]:
            raise problem
        try:
            self._take(state)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError):
            raise problem from None

    def _take(self, state: dict[str, Any]) -> None:
        tracker, self._ended = copy.deepcopy(state["lines"])
        vars(self._tracker).update(tracker)
        self._complete = list(state["complete"])
        self._remembered = state["remembered"]
        vars(self._judge).update(copy.deepcopy(state["judge"]))
        vars(self._watch).update(copy.deepcopy(state["watch"]))
        self._pages, self._turned, self._shown = (list(part) for part in state["pages"])
        self.slides = [Slide(**{**slide, "page": Page.from_dict(slide["page"])}) for slide in state["slides"]]
        for slide, shown_frame in zip(self.slides, self._shown, strict=True):
            slide.page.page = self._picture_of(shown_frame)
        self._starts = dict(state["starts"])
        self.num_frames, self.end_seconds = state["num_frames"], state["end_seconds"]
        self.problems = list(state["problems"])
        self._num_passed, self._unread = state["passed"], dict(state["unread"])

    def _read(self) -> Generator[TextTrack | None]:
        left, top, right, bottom = self._part
        size = (self.height, self.width)
        first = self.num_frames
        predictor = self._predictor
        readers = dict(cast(Any, predictor.script_readers).items())
        reader = FrameReader(predictor.det_predictor, predictor.reco_predictor, readers, size)
        begin = self._remembered.start if self._remembered else first
        pictures = access_to(self._decoder).pictures(begin)
        total = max(len(self._decoder) - begin, 0)
        with suppress(InvalidArgumentError):  # in approximate mode the number of frames may be wrong
            self._promised = self._decoder.frame_index.pts_seconds.numpy()
        yield from self._take_complete()
        try:
            for decoded in progress(pictures, f"reading {self.name}", total=total):
                luma = decoded.luma(size)[top:bottom, left:right]
                picture = Picture(decoded.frame, decoded.pts_seconds, luma)
                if decoded.frame < first:
                    self._tracker.remember(picture)
                    continue
                self._note_missing(decoded.pts_seconds)
                self._starts[decoded.frame] = decoded.pts_seconds
                self.end_seconds = decoded.pts_seconds + decoded.duration_seconds
                self.num_frames = decoded.frame + 1
                reader.show(lambda: decoded.rgb(size)[top:bottom, left:right])  # noqa: B023, the reader asks at once
                self._ended += self._tracker.see(picture, reader)
                if (page := self._watch.see(decoded.frame, decoded.pts_seconds, luma)) is not None:
                    self._turned.append(page)
                self._take_slides(decoded.frame - FRAMES_UNTIL_COMPLETE // 2)
                if self._ended:
                    self._join_lines(decoded.frame - FRAMES_UNTIL_COMPLETE)
                    yield from self._take_complete()
                if decoded.frame % 64 == 0:
                    self._forget_starts()
                yield None
        except MediaTensorError as error:
            if not self.num_frames:
                raise
            self._note(f"The video breaks off after frame {self.num_frames - 1}: {error}")
        self._note_missing(None)
        self._ended += self._tracker.finish(reader)
        if (page := self._watch.finish()) is not None:
            self._turned.append(page)
        self._take_slides(self.num_frames)
        self._join_lines(self.num_frames)
        yield from self._take_complete()
        self._note_scripts()
        if 0 < self.num_frames < FEWEST_FRAMES:
            self._note(
                f"The video has {counted(self.num_frames, 'frame')}, and text counts where it stands for "
                f"{FEWEST_FRAMES}; read pictures as pages, with ocr_predictor."
            )

    def _take_complete(self) -> Iterator[TextTrack]:
        while self._complete:
            yield self._complete.pop(0)

    def _note(self, problem: str) -> None:
        """Add a sentence to `problems`, unless it is there already, as when a stream resumes at the end of a video."""
        if problem not in self.problems:
            self.problems.append(problem)

    def _note_missing(self, seconds: float | None) -> None:
        """Note in `problems` which frames could not be decoded between the last decoded frame and the time ``seconds``.

        If ``seconds`` is None, check all frames up to the end of the file, and note if the file is truncated. Frames
        are identified by their times, because in damaged files most missing frames have no frame number.
        """
        times = self._promised
        here = after = len(times)
        if seconds is not None:  # several frames may have the same time
            here, after = np.searchsorted(times, (seconds - TIME_TOLERANCE, seconds + TIME_TOLERANCE)).tolist()
        missing = times[self._num_passed : here]
        if len(missing):
            span = f" to {missing[-1]:.3f}" if len(missing) > 1 else ""
            self._note(f"{counted(len(missing), 'frame')} at {missing[0]:.3f}{span} seconds could not be decoded.")
        self._num_passed = max(min(max(here, self._num_passed) + 1, after), self._num_passed)
        if seconds is not None or len(missing):
            return
        promised = self._decoder.metadata.duration_seconds_from_header or 0.0
        found = self.end_seconds - self.begin_seconds
        if promised - found > max(LEAST_LOST_SECONDS, LEAST_LOST * promised):
            self._note(f"The video breaks off after {found:.3f} seconds; its header promises {promised:.3f} seconds.")
        elif access_to(self._decoder).breaks_off():
            self._note(f"The video breaks off after {found:.3f} seconds: the end of its file is missing.")

    def _note_scripts(self) -> None:
        for script, (number, first, last) in sorted(self._unread.items()):
            self._note(
                f"{counted(number, 'line')} of text between {first:.3f} and {last:.3f} seconds could not be read, of "
                f"which the script seems to be {script}."
            )

    def _take_slides(self, frame: int) -> None:
        """Check which of the pages that ended before ``frame`` are slides, and read the text of these slides."""
        while self._turned and self._turned[0].last_frame < frame:
            page = self._turned.pop(0)
            lines = (*self._ended, *self._tracker.active)
            if not is_slide(page, lines, self._part[1], self.height):
                continue
            comes_back = any(is_part_of_page(page, known) for known in self._pages)
            self._pages.append(page)
            if not comes_back and "slide" in self._predictor.kinds:
                self._read_slide(page, lines)

    def _read_slide(self, page: StillPage, lines: Sequence[LineTrack]) -> None:
        others = [line for line in lines if line.readings and not line.places and not is_on_page(line, page)]
        # A page that is wiped over this page also adds ink, but is not at rest.
        last_frame = page.rest_frame if page.rest_frame > page.first_frame else page.last_frame
        began = page.grown_frame if page.first_frame < page.grown_frame <= last_frame else page.first_frame
        last_state = range(min(last_frame, page.last_frame - 1), began - 1, -1)
        clear = (
            frame
            for frame in last_state
            if not any(line.first_frame - 2 <= frame <= line.last_frame + 2 for line in others)
        )
        shown_frame = next(clear, last_frame)
        picture = self._picture_of(shown_frame)
        try:
            pixels = picture()
        except MediaTensorError as error:
            self._note(f"The slide at frame {shown_frame} could not be read: {error}")
            return
        predictor = self._predictor
        readers = dict(cast(Any, predictor.script_readers).items())
        reader = OCRPredictor(predictor.det_predictor, predictor.reco_predictor, script_readers=readers)
        (read,) = reader([pixels]).pages
        read.page, read.page_idx = picture, len(self.slides)
        end = self._starts.get(page.last_frame + 1, self.end_seconds)
        self._shown.append(shown_frame)
        self.slides.append(
            Slide(len(self.slides) + 1, page.first_frame, page.last_frame, page.first_seconds, end, read)
        )

    def _picture_of(self, frame: int) -> SlidePicture:
        return SlidePicture(self._video, frame, (self.height, self.width), self._part)

    def _forget_starts(self) -> None:
        """Discard the times of frames that no current text refers to, so that long videos do not fill the memory."""
        lines = (*self._tracker.active, *self._tracker.moving, *self._ended)
        kept = {stage.first_frame for line in lines for stage in line.stages}
        kept.update(frame for line in lines for frame, _ in (*line.places, *line.absorbed_places))
        # Later texts may begin in any frame that the tracker remembers. The frame after a last frame ends its text.
        last_frames = [line.last_frame for line in lines] + [page.last_frame for page in self._turned]
        oldest = min([self._tracker.remembered.start - 1, *last_frames])
        self._starts = {
            number: seconds for number, seconds in self._starts.items() if number >= oldest or number in kept
        }

    def _join_lines(self, frame: int) -> None:
        """Combine lines into texts, and complete each text whose lines had all ended by ``frame``."""
        waiting, active = self._ended, self._tracker.active
        join_interrupted(waiting, active)
        tie_growing_texts(waiting, active)
        tie_rolling_lines(waiting, active)
        known = [line for line in (*waiting, *active) if line.readings]
        groups: list[TrackGroup] = []
        left_out: list[LineTrack] = []
        for line in sorted(waiting, key=lambda line: (line.first_frame, line.box[1])):
            is_doubtful = line.legibility < LEAST_CONFIDENCE or any(is_better(other, line) for other in known)
            if line.continued_by is not None or is_doubtful:
                left_out.append(line)
                continue
            group = next((group for group in groups if is_part_of(group, line)), None)
            if group is None:
                groups.append(TrackGroup([line]))
            else:
                group.lines.append(line)
        unread = [line for line in active if not line.readings]
        complete = [
            group
            for group in groups
            if group.last_frame <= frame
            and not any(rolls_up_to(line, other) for line in group.lines for other in unread)
        ]
        gone = {id(line) for group in complete for line in group.lines}
        gone |= {id(line) for line in left_out if line.last_frame <= frame and not is_awaited(line, active)}
        # Also drop lines that are worse than a line that is removed now: without that line, they would later count as
        # good.
        left = [line for line in waiting if id(line) in gone]
        gone |= {
            id(line) for line in left_out if line.continued_by is None and any(is_better(one, line) for one in left)
        }
        self._ended = [line for line in waiting if id(line) not in gone]
        for line in left_out:
            script = line.script if id(line) in gone and not line.places else None
            if script is None or any(other.follows is line for other in (*waiting, *active)):
                continue
            begin = self._starts[line.first_frame]
            end = self._starts.get(line.last_frame, begin)
            if end - begin >= LEAST_UNREAD_SECONDS:
                number, first, last = self._unread.get(script, (0, begin, end))
                self._unread[script] = (number + 1, min(first, begin), max(last, end))
        for group in sorted(complete, key=lambda group: group.first_frame):
            track = self._track(group)
            if track is not None and track.kind in self._predictor.kinds:
                self._complete.append(track)

    def _track(self, group: TrackGroup) -> TextTrack | None:
        first, last = group.first_frame, group.last_frame
        start = self._starts[first]
        end = next((self._starts[after] for after in range(last + 1, last + 64) if after in self._starts), None)
        end = self.end_seconds if end is None else end
        cuts = self._tracker.cuts
        is_cut = all(any(abs(cut - frame) <= 1 for cut in cuts) for frame in (first, last + 1))
        is_cut = is_cut or (first == 0 and any(abs(cut - last - 1) <= 1 for cut in cuts))
        kind = self._judge.kind_of(group, end - start, is_cut=is_cut)
        if kind is not None and self._is_on_slide(group):
            kind = "slide"
        if kind is None or group.confidence < self._predictor.min_confidence or end <= start:
            return None
        lines = tuple(
            TrackLine(
                write_ellipses(" ".join(line.text for line in row.lines)), self._geometry(row.box), row.confidence
            )
            for row in map(TrackGroup, group.rows)
        )
        places = tuple(Place(frame, self._starts.get(frame, start), self._geometry(box)) for frame, box in group.places)
        return TextTrack(
            text="\n".join(line.text for line in lines),
            kind=kind,
            start_seconds=start,
            end_seconds=end,
            first_frame=first,
            last_frame=last,
            geometry=places[0].geometry if places else self._geometry(group.box),
            confidence=group.confidence,
            lines=lines,
            alternatives=alternatives(group),
            appears="word by word" if group.grows else "at once",
            places=places,
        )

    def _is_on_slide(self, group: TrackGroup) -> bool:
        """Return whether any line of a text is on a recent slide, including the slide that is shown now."""
        if any(line.places for line in group.lines):
            return False
        pages, page = self._pages[-4:], self._watch.page
        lines = (*group.lines, *self._ended, *self._tracker.active)
        if page is not None and page.is_established and is_slide(page, lines, self._part[1], self.height):
            pages = [*pages, page]
        return any(is_on_page(line, page) for page in pages for line in group.lines)

    def _geometry(self, box: Box) -> tuple[tuple[float, float], tuple[float, float]]:
        x, y = self._part[:2]
        left, top, right, bottom = box
        upper_left = (left + x) / self.width, (top + y) / self.height
        return upper_left, ((right + x) / self.width, (bottom + y) / self.height)


def _check_region(region: Sequence[float] | None) -> Region:
    if region is None:
        return 0.0, 0.0, 1.0, 1.0
    problem = InvalidArgumentError(
        f"region={shown(region)}: give (xmin, ymin, xmax, ymax), relative, in [0, 1], xmin < xmax and ymin < ymax."
    )
    try:
        left, top, right, bottom = (float(value) for value in region)
    except (TypeError, ValueError):
        raise problem from None
    if not (0 <= left < right <= 1 and 0 <= top < bottom <= 1):
        raise problem
    return left, top, right, bottom


def _check_kinds(kinds: Sequence[TextKind] | None) -> tuple[TextKind, ...]:
    if kinds is None:
        return KINDS
    chosen: tuple[Any, ...] = tuple(kinds) if isinstance(kinds, Iterable) and not isinstance(kinds, str) else (kinds,)
    if not chosen or any(kind not in KINDS for kind in chosen):
        raise InvalidArgumentError(f"kinds={shown(kinds)}: give one or more of {', '.join(KINDS)}.")
    return chosen
