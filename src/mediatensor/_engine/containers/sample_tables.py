"""List the packets of a stream in an ISO media file (MP4) from its headers. Pure functions.

The file lists its samples in one header, or in a header for each fragment. One sample is one packet::

    moov ─► stsz stsc stco   position and size of each sample  ┐
            stts ctts        duration and delay of each sample ├─ matched by position ─► PacketTable
    the demuxer's own list   order, dts and flags, after edit  ┘
                             lists and repairs by the demuxer

    moov (trex: defaults)  sidx  [moof (traf: tfhd tfdt trun...) mdat]  [moof mdat] ... ─► PacketTable

For files that it does not handle, this module raises `MalformedBoxError`. The caller must then read all packets with
the demuxer. References are to ISO/IEC 14496-12.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .boxes import Box, Boxes, Fields, MalformedBoxError, ReadAt, children, find, find_all, read_box

NO_PTS = np.iinfo(np.int64).min

BoolArray = NDArray[np.bool_]
Int8Array = NDArray[np.int8]
Int64Array = NDArray[np.int64]


@dataclass(frozen=True)
class PacketTable:
    """The packets of one stream in decode order, from reading all packets or from headers of the file."""

    pts: Int64Array  # presentation time in the stream's time base; `NO_PTS` if missing
    dts: Int64Array  # decode time in the stream's time base; `NO_PTS` if missing
    duration: Int64Array  # in the stream's time base; 0 if unknown
    size: Int64Array  # in bytes
    position: Int64Array  # byte offset in the file, -1 if unknown
    is_key: BoolArray  # key frame flag of the container (or parser)
    is_discard: BoolArray  # whether to decode but not show it (edit lists)
    is_hidden: BoolArray  # whether it decodes to no frame: only updates references, or has no picture
    is_broken: BoolArray  # flagged corrupt by the demuxer, encrypted, invalid, of another codec, or after a loss
    is_field: BoolArray  # whether it is one field of a frame
    reasons_to_decode: tuple[str, ...] = ()  # breaks in the stream, after which there may be fewer frames than pictures
    read_error: str | None = None  # why reading stopped before the end of the file; `None` if it did not
    changes_palette: bool = False  # whether packets have palettes, which apply to the packets after them

    def __len__(self) -> int:
        return len(self.pts)

    @property
    def times_only_grow(self) -> bool:
        """Whether presentation times never decrease from one packet to the next in the file."""
        return bool((self.pts[1:] >= self.pts[:-1]).all())


def unread_packets(**columns: Any) -> PacketTable:
    """Make a table of packets that have not been read. Properties that are not in ``columns`` are false."""
    nothing = np.zeros(len(columns["pts"]), bool)
    unread: dict[str, Any] = dict.fromkeys(("is_discard", "is_hidden", "is_broken", "is_field"), nothing)
    return PacketTable(**unread | columns)


_ENCRYPTED = (b"encv", b"drmi", b"drms")


@dataclass(frozen=True)
class Track:
    time_scale: int
    movie_time_scale: int
    edits: tuple[tuple[int, int], ...]  # (duration in movie ticks, first media tick); -1 means an empty edit
    num_samples: int  # 0 in a fragmented file
    sample_table: Boxes  # the boxes of `stbl`


def find_track(moov: memoryview, track_id: int) -> Track:
    """Return the track whose identifier is ``track_id``.

    Raises `MalformedBoxError` unless there is exactly one such track. Its samples must be stored in this file, must not
    be encrypted, and must all have the same sample description.
    """
    header = children(moov)
    traks = map(children, find_all(header, b"trak"))
    tracks = [trak for trak in traks if _number_after_times(find(trak, b"tkhd")) == track_id]
    if len(tracks) != 1:
        raise MalformedBoxError(f"{len(tracks)} tracks have the identifier {track_id}")
    trak = tracks[0]
    media = children(find(trak, b"mdia"))
    information = children(find(media, b"minf"))
    table = children(find(information, b"stbl"))
    _check_description(find(table, b"stsd"))
    for data in find_all(information, b"dinf", b"dref"):
        references = Fields(data)
        references.unsigned()
        # 8.7.2: the flag means that the media are in the same file.
        if not all(Fields(content).flags & 1 for _, content in children(references.rest())):
            raise MalformedBoxError("samples in another file")
    return Track(
        time_scale=_time_scale(find(media, b"mdhd")),
        movie_time_scale=_time_scale(find(header, b"mvhd")),
        edits=_edits(trak),
        num_samples=_sizes_box(table)[2],
        sample_table=table,
    )


def _number_after_times(data: memoryview) -> int:
    """Return the field that follows the times of creation and modification in the header of a movie, track or media."""
    header = Fields(data)
    header.take(16 if header.version == 1 else 8)
    return header.unsigned()


def _time_scale(data: memoryview) -> int:
    scale = _number_after_times(data)
    if scale == 0:
        raise MalformedBoxError("a time scale of zero")
    return scale


def _check_description(data: memoryview) -> None:
    description = Fields(data)
    if description.unsigned() != 1:
        raise MalformedBoxError("more than one sample description")
    kinds = [kind for kind, _ in children(description.rest())]
    if len(kinds) != 1 or kinds[0] in _ENCRYPTED:
        raise MalformedBoxError(f"samples of kind {kinds}")


def _edits(trak: Boxes) -> tuple[tuple[int, int], ...]:
    lists = find_all(trak, b"edts", b"elst")
    if not lists:
        return ()
    if len(lists) > 1:
        raise MalformedBoxError("more than one edit list")
    fields = Fields(lists[0])
    width = 8 if fields.version == 1 else 4
    count = fields.unsigned()
    if count > len(fields.rest()) // (2 * width + 4):
        raise MalformedBoxError("an edit list longer than its box")
    edits = []
    for _ in range(count):
        edits.append((fields.unsigned(width), fields.signed(width)))
        fields.take(4)
    return tuple(edits)


def _only_box(table: Boxes, kinds: tuple[bytes, ...], content: str) -> tuple[bytes, memoryview]:
    boxes = [box for box in table if box[0] in kinds]
    if len(boxes) != 1:
        raise MalformedBoxError(f"{len(boxes)} tables of {content}")
    return boxes[0]


# 60 frames per second for three days.
_MAX_SAMPLES = 1 << 24
# Longer durations are damage. Sums of up to `_MAX_SAMPLES` shorter durations cannot overflow.
_MAX_DURATION = 1 << 31

# Number of entries that are compared with the demuxer's list: at each end, and spread in between.
_NUM_AT_ENDS, _NUM_SPREAD = 32, 256
# Boxes other than ``stss`` that mark key frames.
_OTHER_KEY_FRAMES = frozenset((b"stps", b"sbgp"))


@dataclass(frozen=True)
class Samples:
    """The samples of a track in decode order, according to the tables in the header. Each array has length N."""

    position: Int64Array  # position in the file
    size: Int64Array
    duration: Int64Array  # ticks until the next sample is decoded
    delay: Int64Array  # ticks from decoding to presentation, without `shift`
    shift: int  # ticks that the demuxer subtracts from decode times, so that they never exceed presentation times


@dataclass(frozen=True)
class DemuxedSamples:
    """The N packets that FFmpeg's demuxer will return, in the order of its own index. Each array has length N."""

    position: Int64Array
    dts: Int64Array
    size: Int64Array
    is_key: BoolArray
    is_discard: BoolArray


def read_samples(track: Track, file_size: int) -> Samples:
    """Read the positions, sizes and times of all samples from the tables in the header.

    Raises `MalformedBoxError` if the tables contradict each other, or a sample is outside the file.
    """
    table, count = track.sample_table, track.num_samples
    if not 0 < count <= min(_MAX_SAMPLES, file_size):  # check this before allocating memory for the samples
        raise MalformedBoxError(f"{count} samples in {file_size} bytes")
    size = _sizes(table, count)
    if not size.all():
        raise MalformedBoxError("invalid sample sizes")
    position = _positions(table, size, file_size)
    if (position + size > file_size).any():
        raise MalformedBoxError("samples beyond the end of the file")
    duration, durations = _expand_runs(find(table, b"stts"), count)
    if durations.min() <= 0 or durations.max() >= _MAX_DURATION:
        raise MalformedBoxError("invalid sample durations")
    delay, shift = _composition_delays(table, count)
    return Samples(position, size, duration, delay, shift)


def expected_packets(track: Track, samples: Samples, first_dts: int) -> PacketTable | None:
    """Compute the packets that the demuxer should return, assuming that the edit list keeps all samples.

    Return ``None`` if they cannot be computed. ``first_dts`` is the first decode time in the demuxer's list.
    """
    position, size, duration = samples.position, samples.size, samples.duration
    kinds = {kind for kind, _ in track.sample_table}
    parts = sum(start >= 0 for _, start in track.edits)
    has_other_times = not track.edits and first_dts != -samples.shift
    if parts > 1 or has_other_times or kinds & _OTHER_KEY_FRAMES or (position[1:] < (position + size)[:-1]).any():
        return None
    is_key = np.zeros(len(size), bool)
    if b"stss" not in kinds:
        is_key[:] = True
    else:
        fields = Fields(find(track.sample_table, b"stss"))
        numbers = fields.array(fields.unsigned(), ">u4")
        if (numbers < 1).any() or (numbers > len(size)).any():
            return None
        is_key[numbers - 1] = True
    dts = duration.cumsum() - duration + first_dts
    pts = dts + samples.shift + samples.delay
    return unread_packets(pts=pts, dts=dts, duration=duration, size=size, position=position, is_key=is_key)


def entries_to_compare(is_key: BoolArray) -> Int64Array:
    """Choose entries to compare with the demuxer's list: at both ends, at key frames, and at places in between."""
    count = len(is_key)
    is_chosen = np.zeros(count, bool)
    is_chosen[:_NUM_AT_ENDS] = is_chosen[-_NUM_AT_ENDS:] = True
    is_chosen[:: 1 + count // _NUM_SPREAD] = True
    keys = is_key.nonzero()[0]
    keys = keys[:: 1 + len(keys) // _NUM_SPREAD]
    is_chosen[keys] = is_chosen[np.minimum(keys + 1, count - 1)] = True
    return is_chosen.nonzero()[0]


def packets_of_samples(track: Track, samples: Samples, demuxed: DemuxedSamples) -> PacketTable:
    """Return the packets of a track whose header lists its samples. ``demuxed`` is the demuxer's complete list.

    Raises `MalformedBoxError` if ``samples`` and ``demuxed`` contradict each other.
    """
    num_samples, num_demuxed = len(samples.position), len(demuxed.position)
    if not track.edits and num_samples != num_demuxed:
        raise MalformedBoxError(f"{num_samples} samples, of which the demuxer finds {num_demuxed}")
    sample = _match_samples(samples, demuxed)
    _check_times(track, demuxed, sample, samples)
    pts = demuxed.dts + samples.shift + samples.delay[sample]
    return unread_packets(pts=pts, duration=samples.duration[sample], **vars(demuxed))


def _sizes(table: Boxes, count: int) -> Int64Array:
    kind, number, _, fields = _sizes_box(table)
    if kind == b"stsz":
        return np.full(count, number, np.int64) if number else fields.array(count, ">u4")
    if number not in (8, 16):
        raise MalformedBoxError(f"sample sizes of {number} bits")
    return fields.array(count, ">u1" if number == 8 else ">u2")


def _sizes_box(table: Boxes) -> tuple[bytes, int, int, Fields]:
    """Find the box with sample sizes. Return its kind, the two numbers at its start, and the fields after them (8.7.3).

    In ``stsz``, the first number is the size of all samples (0 if it varies). In ``stz2``, it is the number of bits in
    which each size is stored. The second number is the number of samples.
    """
    kind, content = _only_box(table, (b"stsz", b"stz2"), "sample sizes")
    fields = Fields(content)
    return kind, fields.unsigned(), fields.unsigned(), fields


def _positions(table: Boxes, size: Int64Array, file_size: int) -> Int64Array:
    """Return the positions of the samples. Samples are stored one after another in chunks (8.7.4 and 8.7.5)."""
    kind, content = _only_box(table, (b"stco", b"co64"), "chunks")
    fields = Fields(content)
    chunk_offset = fields.array(fields.unsigned(), ">u4" if kind == b"stco" else ">i8")
    if (chunk_offset.view(np.uint64) > file_size).any():  # negative ones are larger than any file
        raise MalformedBoxError("chunks beyond the end of the file")
    fields = Fields(find(table, b"stsc"))
    first_chunk, samples, _ = fields.array(fields.unsigned(), ">u4", 3).T
    num_chunks = np.concatenate([first_chunk[1:], [len(chunk_offset) + 1]]) - first_chunk
    if not len(first_chunk) or first_chunk[0] != 1 or num_chunks.min() <= 0:
        raise MalformedBoxError("chunks out of order, or that do not exist")
    per_chunk = samples.repeat(num_chunks)
    if int(per_chunk.sum()) != len(size):
        raise MalformedBoxError("chunks without the samples")
    begins = size.cumsum() - size
    first_of_chunk = per_chunk.cumsum() - per_chunk
    # For an empty chunk at the end, `first_of_chunk` is the number after the last sample.
    before_chunk = begins[np.minimum(first_of_chunk, len(size) - 1)]
    position: Int64Array = (chunk_offset - before_chunk).repeat(per_chunk) + begins
    return position


def _expand_runs(data: memoryview, count: int, dtype: str = ">u4") -> tuple[Int64Array, Int64Array]:
    """Expand a table of runs of ``count`` samples in total. Return (value of each sample, value of each run)."""
    fields = Fields(data)
    length, value = fields.array(fields.unsigned(), dtype, 2).T
    if (length <= 0).any() or int(length.sum()) != count:
        raise MalformedBoxError("times that do not match the samples")
    return value.repeat(length), value


def _composition_delays(table: Boxes, count: int) -> tuple[Int64Array, int]:
    """Return (ticks from decoding to presentation of each sample, ticks that the demuxer subtracts from dts)."""
    contents = find_all(table, b"ctts")
    if not contents:
        return np.zeros(count, np.int64), 0
    if len(contents) > 1:
        raise MalformedBoxError("more than one table of composition times")
    delay, runs = _expand_runs(contents[0], count, ">i4")
    if (np.abs(runs) >= 1 << 28).any():  # the demuxer's limit
        raise MalformedBoxError("invalid composition times")
    # The demuxer ignores the last two runs, because some writers store invalid values there.
    return delay, -int(runs[:-2].min(initial=0))


def _match_samples(samples: Samples, demuxed: DemuxedSamples) -> Int64Array:
    """Return, for each packet in the demuxer's list, the number of the sample with its position and size.

    Raises `MalformedBoxError` if there is no such sample.
    """
    position, size = samples.position, samples.size
    order = np.argsort(position, kind="stable")
    in_file = position[order]
    if (np.diff(in_file) < size[order][:-1]).any():
        raise MalformedBoxError("samples that overlap in the file")
    at = np.searchsorted(in_file, demuxed.position).clip(max=len(in_file) - 1)
    sample = order[at]
    if (position[sample] != demuxed.position).any() or (size[sample] != demuxed.size).any():
        raise MalformedBoxError("the demuxer finds samples elsewhere")
    return np.asarray(sample, np.int64)


def _check_times(track: Track, demuxed: DemuxedSamples, sample: Int64Array, samples: Samples) -> None:
    """Raise `MalformedBoxError` if the demuxer's decode times do not agree with the durations of the samples.

    Each time must be the sum of all earlier durations. An edit list allows one jump for each edit.
    """
    expected = np.cumsum(samples.duration) - samples.duration - samples.shift
    shift = demuxed.dts - expected[sample]
    leaps = np.count_nonzero(shift[1:] != shift[:-1])
    if not track.edits:
        if leaps or (sample[1:] - sample[:-1] != 1).any() or demuxed.dts[0] != expected[0]:
            raise MalformedBoxError("the demuxer gives samples other times")
    elif leaps > len(track.edits):
        raise MalformedBoxError("the demuxer gives samples other times than the edit list explains")
    if (demuxed.dts[1:] < demuxed.dts[:-1]).any():
        raise MalformedBoxError("decoding times that do not ascend")


# Larger than any file, but small enough that adding sizes to it cannot overflow.
_MAX_POSITION = 1 << 61

# 8.8.7 and 8.8.8
_BASE_DATA_OFFSET, _DESCRIPTION, _BASE_IS_MOOF = 0x1, 0x2, 0x20000
_DEFAULTS = {"duration": 0x8, "size": 0x10, "flags": 0x20}
_DATA_OFFSET, _FIRST_FLAGS = 0x1, 0x4
_RUN_COLUMNS = {"duration": 0x100, "size": 0x200, "flags": 0x400, "delay": 0x800}
# 8.8.3.1: the sample depends on other samples; the sample is not a sync sample
_NO_KEY = 0x01000000 | 0x00010000


@dataclass
class _FragmentRuns:
    """The samples that have been read from fragments so far. Fragments list samples in runs."""

    limit: int  # for `count`
    columns: dict[str, list[Int64Array]] = field(default_factory=dict)
    count: int = 0  # number of samples
    shift: int = 0  # ticks that the demuxer adds to later presentation times, so that none is negative

    def append(self, **columns: Int64Array) -> None:
        for name, values in columns.items():
            self.columns.setdefault(name, []).append(values)

    def column(self, name: str) -> Int64Array:
        return np.concatenate(self.columns[name])


def packets_of_fragments(
    track: Track, track_id: int, moov: memoryview, fragments: Iterable[Box], read_at: ReadAt, file_size: int
) -> PacketTable:
    """Return the packets of a track whose samples are all in fragments.

    ``fragments`` are the ``moof`` boxes in file order. Raises `MalformedBoxError` for files that are not handled here.
    """
    defaults = _track_defaults(moov, track_id)
    offset = _edit_offset(track)
    runs = _FragmentRuns(limit=min(_MAX_SAMPLES, file_size))
    for box in fragments:
        content = read_box(read_at, box)
        for number, traf in enumerate(map(children, find_all(content, b"traf"))):
            header = Fields(find(traf, b"tfhd"))
            if header.unsigned() == track_id:
                base = box.start  # of data offsets (8.8.7.1)
                if header.flags & _BASE_DATA_OFFSET:
                    base = header.unsigned(8)
                elif number and not header.flags & _BASE_IS_MOOF:
                    raise MalformedBoxError("a fragment placed after another track")
                _read_fragment(traf, header, base, defaults, offset, runs)
    if not runs.count:
        raise MalformedBoxError("fragments without samples")
    return _build_fragment_table(runs, file_size)


def _track_defaults(moov: memoryview, track_id: int) -> dict[str, int]:
    """Return the properties of samples, by name, that apply if neither the fragment nor the sample states them."""
    for content in find_all(moov, b"mvex", b"trex"):
        fields = Fields(content)
        if fields.unsigned() == track_id:
            if fields.unsigned() != 1:
                raise MalformedBoxError("fragments with another sample description")
            return {name: fields.unsigned() for name in _DEFAULTS}
    raise MalformedBoxError("no defaults for fragments")


def _edit_offset(track: Track) -> int:
    """Return the number of ticks that must be subtracted from decode times because of the edit list.

    The list can only consist of an empty edit, during which nothing is shown, and one edit that shows a part of the
    media.
    """
    edits = list(track.edits)
    pause = edits.pop(0)[0] if edits and edits[0][1] == -1 else 0
    if len(edits) > 1 or any(start < 0 for _, start in edits):
        raise MalformedBoxError("an edit list of several parts in a fragmented file")
    start = edits[0][1] if edits else 0
    # Round to the nearest tick as the demuxer does, with halves away from zero.
    return start - (2 * pause * track.time_scale + track.movie_time_scale) // (2 * track.movie_time_scale)


def _read_fragment(
    traf: Boxes, header: Fields, base: int, defaults: dict[str, int], time_offset: int, runs: _FragmentRuns
) -> None:
    if header.flags & _DESCRIPTION and header.unsigned() != 1:
        raise MalformedBoxError("fragments with another sample description")
    defaults = defaults | {name: header.unsigned() for name, flag in _DEFAULTS.items() if header.flags & flag}
    if any(kind in (b"senc", b"saiz", b"saio") for kind, _ in traf):
        raise MalformedBoxError("encrypted samples")
    time = Fields(find(traf, b"tfdt"))
    dts = time.unsigned(8 if time.version == 1 else 4) - time_offset
    if abs(dts) >= 1 << 61:
        raise MalformedBoxError("invalid decoding times")
    first = runs.count
    for content in find_all(traf, b"trun"):
        dts = _read_run(Fields(content), base, dts, defaults, runs)
    if runs.count > first:
        runs.append(shift=np.full(runs.count - first, runs.shift, np.int64))


def _read_run(run: Fields, base: int, dts: int, defaults: dict[str, int], runs: _FragmentRuns) -> int:
    """Append the samples of one run to ``runs``. Return the decode time of the sample after them.

    The run's offset is relative to file position ``base``, and ``dts`` is the decode time of its first sample.
    """
    count = run.unsigned()
    if not run.flags & _DATA_OFFSET:
        raise MalformedBoxError("a run without the place of its samples")
    position = base + run.signed()
    if not 0 <= position <= _MAX_POSITION:
        raise MalformedBoxError("samples beyond the end of the file")
    first_flags = run.unsigned() if run.flags & _FIRST_FLAGS else None
    if count == 0:
        return dts
    names = [name for name, flag in _RUN_COLUMNS.items() if run.flags & flag]
    if runs.count + count > runs.limit:
        raise MalformedBoxError("a run of too many samples")
    columns = dict(zip(names, run.array(count, ">u4", len(names)).reshape(count, -1).T, strict=True)) if names else {}
    duration, size, flags = (columns.get(name, np.full(count, default, np.int64)) for name, default in defaults.items())
    if first_flags is not None and "flags" not in columns:
        flags = np.concatenate([[first_flags], flags[1:]])
    # The demuxer reads the delay as signed in both versions.
    delay = columns.get("delay", np.zeros(count, np.int64)).astype(np.uint32).astype(np.int32).astype(np.int64)
    runs.shift = max(runs.shift, int((-delay).max()))
    runs.append(
        position=position + np.cumsum(size) - size,
        dts=dts + np.cumsum(duration) - duration,
        duration=duration,
        size=size,
        delay=delay,
        flags=flags,
    )
    runs.count += count
    return dts + int(duration.sum())


def _build_fragment_table(runs: _FragmentRuns, file_size: int) -> PacketTable:
    columns = {name: runs.column(name) for name in ("position", "dts", "duration", "size")}
    position, dts, duration, size = columns.values()
    if (size <= 0).any() or (position < 0).any() or (position + size > file_size).any():
        raise MalformedBoxError("samples beyond the end of the file")
    if (np.diff(position) < size[:-1]).any():
        raise MalformedBoxError("samples that do not follow each other in the file")
    if (np.diff(dts) <= 0).any():
        raise MalformedBoxError("fragments that overlap in time")
    if (duration <= 0).any():
        raise MalformedBoxError("invalid sample durations")
    pts, is_key = dts + runs.column("shift") + runs.column("delay"), (runs.column("flags") & _NO_KEY) == 0
    return unread_packets(pts=pts, is_key=is_key, **columns)
