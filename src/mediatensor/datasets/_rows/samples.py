"""The data types of datasets: `Sample`, `Batch` and `ColumnDict`, and `Failure` for rows that could not be read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

import torch
from torch import Tensor

from ..._engine.common.checks import whole_number
from ..._engine.common.devices import on_device, pinned
from ..._engine.common.messages import counted
from ...frames import AudioSamples, AudioSamplesBatch, FrameBatch
from ...transforms._transform import is_channels_last
from .captions import ClipCaption
from .transport import pack, unpack

#: The column of ``extra`` with the ranges of samples where silence replaces missing audio.
SILENT_SPANS = "silent_spans"
#: The column of ``extra`` with the box of the frame in frames that the decoder padded: (left, top, right, bottom).
FRAME_BOX = "frame_box"


@dataclass(frozen=True)
class Failure:
    """A record of a row that could not be read: the reason, and whether the row was skipped or replaced.

    Attributes:
        source: Name of the file that could not be read.
        row: Index in the dataset of the row (one sample, such as a clip).
        epoch: Epoch in which the row was read.
        error: Name of the exception's type, such as ``"DecodeError"``.
        message: The message of the exception.
        action: ``"skipped"`` or ``"replaced"``.
        replaced_by: Name of the file whose sample replaces the row; ``None`` if the row was skipped.

    Example:
        >>> from pathlib import Path
        >>> from mediatensor.datasets import DataLoader, VideoClips
        >>> size = Path("broken.mp4").write_bytes(b"no video")
        >>> dataset = VideoClips(["broken.mp4", "video.mp4"], num_frames_per_clip=4, on_error="skip")
        >>> batch = next(iter(DataLoader(dataset, batch_size=2)))
        >>> batch.failures[0].source, batch.failures[0].row
        ('broken.mp4', 0)
    """

    source: str
    row: int
    epoch: int
    error: str
    message: str
    action: Literal["skipped", "replaced"]
    replaced_by: str | None = None


@dataclass(frozen=True)
class Timing:
    """When a worker read some rows (samples) of a dataset, and how long each stage of reading took.

    Attributes:
        worker: Number of the DataLoader worker that read the rows; ``None`` if a loader without workers read them.
        started: When reading began, in seconds of ``time.monotonic``.
        finished: When reading ended, on the same clock.
        stage_seconds: Dict from each stage of reading, such as ``"decode"``, to its seconds; see `StallMeter`.
    """

    worker: int | None
    started: float
    finished: float
    stage_seconds: dict[str, float]


@dataclass(frozen=True)
class Skipped:
    """A placeholder that a dataset returns for a row that was left out. Collate functions leave it out of the batch.

    Attributes:
        failures: A tuple of `Failure`: why the row and, if tried, its replacements could not be read.
        timing: `Timing` of a group of rows that were read together; ``None`` except in the first row of the group.

    Example:
        >>> from pathlib import Path
        >>> from mediatensor.datasets import Skipped, VideoClips
        >>> size = Path("broken.mp4").write_bytes(b"no video")
        >>> row = VideoClips(["broken.mp4"], num_frames_per_clip=4, on_error="skip")[0]
        >>> isinstance(row, Skipped)
        True
    """

    failures: tuple[Failure, ...]
    timing: Timing | None = None


@dataclass(repr=False)
class Sample:
    """One row of a dataset: a clip, a page or a word, with its label and other columns.

    ``frames``, ``audio``, ``features`` and ``image`` are ``None`` if the dataset does not have such data.

    Attributes:
        frames: `FrameBatch` with ``data`` (T, C, H, W), uint8 unless the decoder or a transform makes floats, and times
            ``pts_seconds`` (T,). With ``keep_clip_dimension``, ``data`` is (clips, T, C, H, W), and the times are
            (clips, T).
        audio: `AudioSamples` with ``data`` float32 (channels, samples). With ``keep_clip_dimension``,
            `AudioSamplesBatch` with (clips, channels, samples).
        features: Features that a transform made from the audio, such as (channels, mels, frames) from
            `LogMelSpectrogram`. ``audio`` is then ``None``.
        image: A page or a word as an image: uint8 (3, H, W).
        label: Label of the file, of any type; ``None`` if it has no label. For `VideoTextClips`, the text of the
            caption.
        source: Name of the file from which the sample was read.
        row: Index of the row in the dataset.
        epoch: Epoch in which the row was read.
        frame_indices: Indices of the frames in the video, int64, in the shape of the times; ``None`` if unknown.
        effective_fps: Frames per second of the sampled clip; NaN without frames.
        num_valid_samples: Number of samples before the padding at the end of ``audio``. ``None`` if nothing is padded,
            or if ``audio`` has its own ``num_valid_samples``.
        captions: A tuple with a `ClipCaption` for each caption of the clip, in order of start time. With
            ``keep_clip_dimension``, a tuple that has such a tuple for each clip. ``None`` if no captions were
            requested.
        extra: Dict with the other columns of the file's row in the manifest, and columns that a dataset adds.
        failures: A tuple of `Failure`. If this sample replaces an unreadable row, the tuple has the failures of that
            row and of all unreadable replacements.
        timing: `Timing` of a group of samples that were read together. Only the first sample of the group has it. The
            rest have ``None``.

    Example:
        >>> from mediatensor.datasets import VideoClips
        >>> sample = VideoClips(["video.mp4"], num_frames_per_clip=4)[0]
        >>> sample.frames.data.shape, sample.source, sample.row
        (torch.Size([4, 3, 360, 640]), 'video.mp4', 0)
    """

    frames: FrameBatch | None = None
    audio: AudioSamples | AudioSamplesBatch | None = None
    features: Tensor | None = None
    image: Tensor | None = None
    label: Any = None
    source: str = ""
    row: int = 0
    epoch: int = 0
    frame_indices: Tensor | None = None
    effective_fps: float = float("nan")
    num_valid_samples: int | None = None
    extra: dict[str, Any] = field(default_factory=dict)
    failures: tuple[Failure, ...] = ()
    timing: Timing | None = None
    captions: tuple[ClipCaption, ...] | tuple[tuple[ClipCaption, ...], ...] | None = None

    @property
    def sample_mask(self) -> Tensor | None:
        """Mask of the samples of ``audio``, bool (samples,) or (clips, samples).

        It is true for samples from the file, and false for silence in place of missing audio. It is ``None`` if the
        sample has no ``audio``.
        """
        if self.audio is None:
            return None
        length, spans = self.audio.data.shape[-1], self.extra.get(SILENT_SPANS, ())
        if isinstance(self.audio, AudioSamplesBatch):
            return _mask_of_samples(self.audio.num_valid_samples, length, spans, self.audio.data.device)
        num_valid = torch.tensor([length if self.num_valid_samples is None else self.num_valid_samples])
        return _mask_of_samples(num_valid, length, [spans], self.audio.data.device)[0]

    def __repr__(self) -> str:
        names = ("frames", "audio", "features", "image", "label", "frame_indices", "num_valid_samples")
        more = [] if self.captions is None else [f"  captions: {len(self.captions)}"]
        more += [f"  effective_fps: {self.effective_fps:g}"] if self.effective_fps == self.effective_fps else []
        return _describe_all(self, f"of {self.source!r}, row {self.row}", names, more)


class ColumnDict(dict[str, Any]):
    """A dict with the columns of a row, or of a batch of rows. Failures and reading times are attributes, not columns.

    Attributes:
        failures: A tuple of `Failure`, for the rows that were skipped or replaced.
        timings: A tuple with a `Timing` for each group of rows that were read together.

    Example:
        >>> from mediatensor.datasets import LeRobotClips
        >>> row = LeRobotClips("robot")[0]
        >>> row["task"], row["action"].shape, row.failures
        ('Push the block.', torch.Size([2]), ())
    """

    def __init__(
        self, columns: Mapping[str, Any], failures: tuple[Failure, ...] = (), timings: tuple[Timing, ...] = ()
    ) -> None:
        super().__init__(columns)
        self.failures = failures
        self.timings = timings

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        packed_fields = {"columns": pack(dict(self)), "failures": self.failures, "timings": self.timings}
        return _unpack_into, (ColumnDict, packed_fields)


@dataclass(repr=False)
class Batch:
    """A batch of B samples, made by a collate function such as `stack`.

    The fields ``frames``, ``audio``, ``features`` and ``images`` are ``None`` if the samples do not have such data. If
    the collate function does not stack samples (`ragged`, for example), they are lists with one element per sample.

    Attributes:
        frames: `FrameBatch` with ``data`` (B, T, C, H, W), uint8 unless the decoder or a transform makes floats, and
            times ``pts_seconds`` (B, T). With ``keep_clip_dimension``, ``data`` is (B, clips, T, C, H, W), and the
            times are (B, clips, T).
        audio: `AudioSamplesBatch` with ``data`` float32 (B, channels, samples). ``audio.num_valid_samples`` has the
            lengths before padding.
        features: Features that a transform made from the audio, (B, ...); see `Sample`.
        images: Pages or words as images, uint8 (B, 3, H, W).
        label: Labels of the samples: int64 or float64 (B,) if all labels are numbers. Tensors or arrays of one shape
            are stacked. All other labels are a list.
        source: List with the name of each sample's file.
        row: Indices of the rows in the dataset, int64 (B,).
        epoch: Epoch in which the samples were read.
        frame_indices: Indices of the frames in their videos, int64 (B, T), or a list of tensors; ``None`` if unknown.
        effective_fps: Frames per second of each clip, float64 (B,); NaN without frames.
        num_valid_frames: Number of frames of each clip before padding, int64 (B,). ``None`` if nothing was padded.
        num_valid_features: Length of the last dimension of each sample's features before padding, int64 (B,). ``None``
            if nothing was padded.
        valid_sizes: (height, width) of each clip or image before padding, int64 (B, 2). ``None`` if nothing was padded.
        extra: Dict from the name of each further column to a list with the values of all samples.
        failures: A tuple of `Failure`, for the rows that were skipped or replaced.
        timings: A tuple with a `Timing` for each group of rows that were read together.
        captions: A list with the ``captions`` of each sample; see `Sample`. ``None`` if no captions were requested.
        caption_ids: Token ids of the captions, int64 (B, captions, tokens), padded with 0; with ``keep_clip_dimension``
            (B, clips, captions, tokens). ``None`` if the captions have no tokens.
        num_caption_ids: Number of tokens of each caption, int64 (B, captions) or (B, clips, captions). A sample with
            fewer captions than others has 0 in the remaining places.

    Example:
        >>> from mediatensor.datasets import DataLoader, VideoClips
        >>> batch = next(iter(DataLoader(VideoClips("videos", num_frames_per_clip=4), batch_size=2)))
        >>> batch.frames.data.shape, len(batch)
        (torch.Size([2, 4, 3, 120, 160]), 2)
    """

    frames: FrameBatch | list[FrameBatch] | None = None
    audio: AudioSamplesBatch | list[AudioSamples] | list[AudioSamplesBatch] | None = None
    features: Tensor | list[Tensor] | None = None
    images: Tensor | list[Tensor] | None = None
    label: Tensor | list[Any] = field(default_factory=list)
    source: list[str] = field(default_factory=list)
    row: Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.int64, device="cpu"))
    epoch: int = 0
    frame_indices: Tensor | list[Tensor] | None = None
    effective_fps: Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.float64, device="cpu"))
    num_valid_frames: Tensor | None = None
    num_valid_features: Tensor | None = None
    valid_sizes: Tensor | None = None
    extra: dict[str, list[Any]] = field(default_factory=dict)
    failures: tuple[Failure, ...] = ()
    timings: tuple[Timing, ...] = ()
    captions: list[Any] | None = None
    caption_ids: Tensor | None = None
    num_caption_ids: Tensor | None = None

    def __len__(self) -> int:
        return len(self.source)

    @property
    def frame_mask(self) -> Tensor | None:
        """Mask of frames, bool (B, T): true for frames, false for padding.

        It is ``None`` if the frames of the batch are not in one tensor.
        """
        if not isinstance(self.frames, FrameBatch) or self.frames.data.ndim < 5:
            return None
        num_frames = self.frames.data.shape[-4]
        return _is_before(self.num_valid_frames, num_frames, len(self), self.frames.data.device)

    @property
    def pixel_mask(self) -> Tensor | None:
        """Mask of pixels, bool (B, H, W): true for pixels of a frame or image, false for padding.

        It is also false for the padding of a `Letterbox` in the decoder, if no transform of the dataset moves this
        padding. The mask is ``None`` if neither the frames nor the images of the batch are in one tensor.
        """
        pixels = self.frames.data if isinstance(self.frames, FrameBatch) else self.images
        if not isinstance(pixels, Tensor):
            return None
        valid_heights, valid_widths = (None, None) if self.valid_sizes is None else self.valid_sizes.unbind(1)
        height, width = pixels.shape[-3:-1] if is_channels_last(pixels.shape) else pixels.shape[-2:]
        rows = _is_before(valid_heights, height, len(self), pixels.device)
        mask = rows[:, :, None] & _is_before(valid_widths, width, len(self), pixels.device)[:, None, :]
        for of_image, box in zip(mask, self.extra.get(FRAME_BOX, ()), strict=False):
            if isinstance(box, tuple):
                left, top, right, bottom = box
                of_image[:top], of_image[bottom:] = False, False
                of_image[:, :left], of_image[:, right:] = False, False
        return mask

    @property
    def sample_mask(self) -> Tensor | None:
        """Mask of audio samples, bool (B, samples).

        It is true for samples from a file, and false for padding and for silence in place of missing audio. It is
        ``None`` if the audio of the batch is not in a single tensor.
        """
        if not isinstance(self.audio, AudioSamplesBatch):
            return None
        data = self.audio.data
        spans = self.extra.get(SILENT_SPANS, ())
        return _mask_of_samples(self.audio.num_valid_samples, data.shape[-1], spans, data.device)

    @property
    def num_captions(self) -> Tensor | None:
        """Number of captions of each sample, int64 (B,) or (B, clips); ``None`` if no captions were requested."""
        if self.captions is None:
            return None
        has_clips = any(isinstance(one, tuple) for captions in self.captions for one in captions)
        counts = [[len(clip) for clip in captions] if has_clips else len(captions) for captions in self.captions]
        return torch.tensor(counts, dtype=torch.int64, device="cpu")

    @property
    def caption_mask(self) -> Tensor | None:
        """Mask of tokens, bool, in the shape of ``caption_ids``.

        It is true for tokens and false for padding. It is ``None`` if there are no ``caption_ids``.
        """
        if self.caption_ids is None or self.num_caption_ids is None:
            return None
        places = torch.arange(self.caption_ids.shape[-1], device=self.caption_ids.device)
        return places < on_device(self.num_caption_ids, self.caption_ids.device)[..., None]

    def to(self, device: str | torch.device, *, non_blocking: bool = False) -> Batch:
        """Return the batch with its data, labels and caption ids on a device.

        Data are ``frames``, ``audio``, ``features`` and ``images``. ``num_valid_frames``, ``num_valid_features``,
        ``valid_sizes`` and ``num_caption_ids`` move as well. Times, names and other fields do not.

        Example:
            >>> from mediatensor.datasets import DataLoader, VideoClips
            >>> batch = next(iter(DataLoader(VideoClips("videos", num_frames_per_clip=4), batch_size=2)))
            >>> batch.to("cpu").frames.data.device
            device(type='cpu')
        """
        return self._with_tensors(lambda tensors: tensors.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> Batch:
        """Return the batch in page-locked memory, for ``DataLoader(pin_memory=True)``. Data on a GPU does not move."""
        return self._with_tensors(lambda one: pinned(one) if isinstance(one, Tensor) else one.pin_memory())

    def _with_tensors(self, change: Callable[[Any], Any]) -> Batch:
        def change_value(value: Any) -> Any:
            if isinstance(value, list):
                return [change_value(one) for one in value]
            return change(value) if isinstance(value, Tensor | FrameBatch | AudioSamples | AudioSamplesBatch) else value

        return replace(self, **{name: change_value(getattr(self, name)) for name in _FIELDS_ON_DEVICE})

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[type[Batch], dict[str, Any]]]:
        return _unpack_into, (type(self), {spec.name: pack(getattr(self, spec.name)) for spec in fields(self)})

    def __repr__(self) -> str:
        names = ("frames", "audio", "features", "images", "label", "source")
        more = [] if self.captions is None else [f"  captions: {[len(captions) for captions in self.captions]}"]
        return _describe_all(self, f"of {len(self)}", names, more)


#: The fields that `Batch.to` moves.
_FIELDS_ON_DEVICE = (
    "frames",
    "audio",
    "features",
    "images",
    "label",
    "num_valid_frames",
    "num_valid_features",
    "valid_sizes",
    "caption_ids",
    "num_caption_ids",
)

#: Number of list elements that the repr of `Batch` shows.
_NUM_LISTED = 4
#: Number of reasons that the printed report shows for a file: rows of a file fail for similar reasons.
_NUM_REASONS_PRINTED = 3
#: Number of reasons that a report keeps for a file: messages may name the frame, and so differ in every epoch.
_MAX_REASONS = 20
#: A report counts each row once per epoch. It remembers the rows of two epochs, because their batches may alternate.
_NUM_EPOCHS_COUNTED = 2


def _is_before(num_valid: Tensor | None, size: int, count: int, device: torch.device) -> Tensor:
    """Return a mask, bool (count, size): row ``i`` is true at its first ``num_valid[i]`` positions.

    If ``num_valid`` is ``None``, the whole mask is true.
    """
    if num_valid is None:
        return torch.ones(count, size, dtype=torch.bool, device=device)
    return torch.arange(size, device=device) < on_device(num_valid, device)[:, None]


def _mask_of_samples(num_valid: Tensor, size: int, silent_spans: Sequence[Any], device: torch.device) -> Tensor:
    """Return a mask, bool (clips, size), that is true for samples that come from a file.

    For each clip, ``num_valid`` has the number of samples before padding, and ``silent_spans`` the ranges [first, last)
    of silence.
    """
    mask = _is_before(num_valid, size, len(num_valid), device)
    for row, spans in zip(mask, silent_spans, strict=False):
        for first, last in spans if isinstance(spans, list | tuple) else ():
            row[first:last] = False
    return mask


def _unpack_into(kind: Callable[..., Any], packed_fields: dict[str, Any]) -> Any:
    return kind(**{name: unpack(value) for name, value in packed_fields.items()})


def _describe_all(owner: Sample | Batch, which: str, names: Sequence[str], more: list[str]) -> str:
    values = [(name, getattr(owner, name)) for name in names]
    lines = [f"  {name}: {_describe(value)}" for name, value in values if value is not None] + more
    lines += [f"  extra: {', '.join(owner.extra)}"] if owner.extra else []
    lines += [f"  failures: {len(owner.failures)}"] if owner.failures else []
    return "\n".join([f"{type(owner).__name__} {which}, epoch {owner.epoch}:", *lines])


def _describe(value: Any) -> str:
    """Return the dtype and shape of a tensor, the first few elements of a list, or the repr of another value.

    >>> import torch
    >>> _describe(torch.zeros(2, 3)), _describe(["a", "b", "c", "d", "e", "f"])
    ('float32 (2, 3)', "['a', 'b', 'c', 'd', ... 2 more]")
    """
    if isinstance(value, FrameBatch | AudioSamples | AudioSamplesBatch):
        value = value.data
    if isinstance(value, Tensor):
        return f"{str(value.dtype).removeprefix('torch.')} {tuple(value.shape)}"
    if isinstance(value, list):
        elements = [_describe(one) for one in value[:_NUM_LISTED]]
        elements += [f"... {len(value) - _NUM_LISTED} more"] if len(value) > _NUM_LISTED else []
        return f"[{', '.join(elements)}]"
    return repr(value)


@dataclass
class _FileFailures:
    """The failures of one file: their number, and the first 20 different reasons.

    ``num_rows`` counts the rows that this file made unreadable. If replacements of a row failed as well, the row counts
    only for the file of the last replacement.
    """

    num_failures: int = 0
    num_rows: int = 0
    reasons: list[str] = field(default_factory=list)
    has_more_reasons: bool = False

    def add(self, failure: Failure) -> None:
        self.num_failures += 1
        reason = f"{failure.error}: {failure.message}"
        if reason in self.reasons:
            return
        if len(self.reasons) < _MAX_REASONS:
            self.reasons.append(reason)
        else:
            self.has_more_reasons = True


class FailureReport:
    """A report on files that could not be read, with reasons and counts, collected from the batches of all workers.

    A report keeps exact counts, the most recent failures, and up to 20 reasons for each file. It does not grow with the
    number of epochs.

    Args:
        max_failures: Maximum number of failures to keep.

    Attributes:
        failures: A list of `Failure`: the most recent failures, in the order of their batches. If a row (one sample)
            and then its replacement fail, the list has both failures, but the printed report counts the row only once.
        max_failures: Maximum number of failures to keep.

    Raises:
        InvalidArgumentError: if ``max_failures`` is not positive.

    Example:
        >>> from mediatensor.datasets import Failure, FailureReport
        >>> report = FailureReport()
        >>> report.add([Failure("cut.mp4", 3, 0, "DecodeError", "Frame 9 could not be decoded.", "skipped")])
        >>> print(report)
        1 row could not be read (1 skipped, 0 replaced), of 1 file:
          cut.mp4: 1 row, DecodeError: Frame 9 could not be decoded.
    """

    def __init__(self, max_failures: int = 1000) -> None:
        self.max_failures = whole_number("max_failures", max_failures, at_least=1)
        self.failures: list[Failure] = []
        self._actions: Counter[str] = Counter()
        self._files: dict[str, _FileFailures] = {}
        # For each row of the last epochs, the file that failed last for this row, and the action.
        self._rows: dict[int, dict[int, tuple[_FileFailures, str]]] = {}
        self._row_actions: Counter[str] = Counter()

    def add(self, failures: Iterable[Failure]) -> None:
        """Add the failures of a batch, ``batch.failures``."""
        for failure in failures:
            self.failures.append(failure)
            self._actions[failure.action] += 1
            file = self._files.setdefault(failure.source, _FileFailures())
            file.add(failure)
            self._count_row(failure, file)
        del self.failures[: -self.max_failures]

    def _count_row(self, failure: Failure, file: _FileFailures) -> None:
        rows = self._rows.setdefault(failure.epoch, {})
        if failure.row in rows:
            last_file, last_action = rows[failure.row]
            last_file.num_rows -= 1
            self._row_actions[last_action] -= 1
        rows[failure.row] = file, failure.action
        file.num_rows += 1
        self._row_actions[failure.action] += 1
        while len(self._rows) > _NUM_EPOCHS_COUNTED:
            del self._rows[next(iter(self._rows))]

    def __len__(self) -> int:
        """Return the number of all failures, including those that are too old to be kept in ``failures``."""
        return self._actions.total()

    def by_file(self) -> dict[str, list[Failure]]:
        """Return a dict from each file name to a list of its failures in ``failures``.

        The file with the most failures comes first.

        Example:
            >>> from mediatensor.datasets import FailureReport
            >>> FailureReport().by_file()
            {}
        """
        files: dict[str, list[Failure]] = {}
        for failure in self.failures:
            files.setdefault(failure.source, []).append(failure)
        return dict(sorted(files.items(), key=lambda entry: -len(entry[1])))

    def as_dict(self) -> dict[str, Any]:
        """Return the report as a dict that can be written as JSON.

        ``num_failures`` is the total number of failures, and ``actions`` has the number of failures for each action.
        ``files`` has a dict for each file, with its ``num_failures`` and up to 20 ``reasons``.

        Example:
            >>> from mediatensor.datasets import FailureReport
            >>> FailureReport().as_dict()
            {'num_failures': 0, 'actions': {}, 'files': {}}
        """
        files = sorted(self._files.items(), key=lambda entry: -entry[1].num_failures)
        return {
            "num_failures": len(self),
            "actions": dict(self._actions),
            "files": {name: {"num_failures": file.num_failures, "reasons": list(file.reasons)} for name, file in files},
        }

    def __str__(self) -> str:
        files = sorted(self._files.items(), key=lambda entry: -entry[1].num_rows)
        files = [(name, file) for name, file in files if file.num_rows]
        actions = self._row_actions
        head = (
            f"{counted(actions.total(), 'row')} could not be read ({actions['skipped']} skipped, {actions['replaced']} "
            f"replaced), of {counted(len(files), 'file')}"
        )
        lines = [
            line for name, file in files for line in _reason_lines(f"  {name}: {counted(file.num_rows, 'row')}", file)
        ]
        text = "\n".join([head + (":" if lines else "."), *lines])
        # File names may not be valid Unicode, which could not be printed.
        return text.encode(errors="backslashreplace").decode()


def _reason_lines(head: str, file: _FileFailures) -> list[str]:
    reasons = file.reasons
    if len(reasons) == 1:
        return [f"{head}, {reasons[0]}"]
    or_more = " or more" if file.has_more_reasons else ""
    more = len(reasons) - _NUM_REASONS_PRINTED
    lines = [f"    {reason}" for reason in reasons[:_NUM_REASONS_PRINTED]]
    if more > 0:
        lines.append(f"    and {more}{or_more or ' more'} (see as_dict)")
    return [f"{head}, {len(reasons)}{or_more} reasons:", *lines]
