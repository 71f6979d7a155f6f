"""The packets of a track from the tables in the header of an ISO media file, without reading any media. Pure functions.

::

    moov ─► stsz stsc stco   where every sample is        ┐
            stts ctts        how long, shown how late     ├─ matched by position ─► PacketTable
    the demuxer's own list   order, dts, flags: what edit ┘
                             lists and their repair leave

References are to ISO/IEC 14496-12. Anything unusual raises `MalformedBoxError`: the packets then have to be read.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .boxes import Boxes, Fields, MalformedBoxError, children, find, find_all
from .packet_table import PacketTable, unread_packets

__all__ = [
    "DemuxedSamples",
    "Samples",
    "Track",
    "bare_table",
    "entries_to_compare",
    "expected_entries",
    "find_track",
    "packets_of_samples",
    "read_samples",
    "sizes_box",
]

_ENCRYPTED = (b"encv", b"drmi", b"drms")


@dataclass(frozen=True)
class Track:
    """A track of the header.

    Attributes:
        time_scale: Ticks a second.
        movie_time_scale: Of the movie, in which the durations of edits are counted.
        edits: (duration in movie ticks, first media tick; -1 for an empty one) of its edit list.
        num_samples: That the header describes; 0 in a fragmented file.
        sample_table: The boxes of its ``stbl``.
    """

    time_scale: int
    movie_time_scale: int
    edits: tuple[tuple[int, int], ...]
    num_samples: int
    sample_table: Boxes


def find_track(moov: memoryview, track_id: int) -> Track:
    """The track of an identifier.

    Raises:
        MalformedBoxError: if it is not there once, refers to other files, is encrypted or has several descriptions.
    """
    header = children(moov)
    tracks = [trak for trak in map(children, find_all(header, b"trak")) if _track_id(trak) == track_id]
    if len(tracks) != 1:
        raise MalformedBoxError(f"{len(tracks)} tracks have the identifier {track_id}")
    trak = tracks[0]
    media = children(find(trak, b"mdia"))
    information = children(find(media, b"minf"))
    table = children(find(information, b"stbl"))
    _check_description(find(table, b"stsd"))
    for reference in find_all(information, b"dinf", b"dref"):
        _check_references(reference)
    return Track(
        time_scale=_time_scale(find(media, b"mdhd")),
        movie_time_scale=_time_scale(find(header, b"mvhd")),
        edits=_edits(trak),
        num_samples=_num_samples(table),
        sample_table=table,
    )


def _track_id(trak: Boxes) -> int:
    header = Fields(find(trak, b"tkhd"))
    header.skip(16 if header.version == 1 else 8)
    return header.unsigned()


def _time_scale(data: memoryview) -> int:
    header = Fields(data)
    header.skip(16 if header.version == 1 else 8)
    scale = header.unsigned()
    if scale == 0:
        raise MalformedBoxError("a time scale of zero")
    return scale


def _check_description(data: memoryview) -> None:
    description = Fields(data)
    if description.unsigned() != 1:
        raise MalformedBoxError("more than one description of the samples")
    kinds = [kind for kind, _ in children(description.rest())]
    if len(kinds) != 1 or kinds[0] in _ENCRYPTED:
        raise MalformedBoxError(f"samples of kind {kinds}")


def _check_references(data: memoryview) -> None:
    references = Fields(data)
    references.unsigned()
    for _, content in children(references.rest()):
        if not Fields(content).flags & 1:  # 8.7.2: the media are in the same file
            raise MalformedBoxError("samples in another file")


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
        fields.skip(4)
    return tuple(edits)


def _num_samples(table: Boxes) -> int:
    """8.7.3: the number in ``stsz`` (or ``stz2``), which has it at the same place."""
    fields = Fields(sizes_box(table)[1])
    fields.unsigned()
    return fields.unsigned()


def sizes_box(table: Boxes) -> tuple[bytes, memoryview]:
    found = [(kind, content) for kind, content in table if kind in (b"stsz", b"stz2")]
    if len(found) != 1:
        raise MalformedBoxError(f"{len(found)} tables of sample sizes")
    return found[0]


# Sixty frames a second for three days.
_MAX_SAMPLES = 1 << 24
# Longer is damage; shorter, no sum of `_MAX_SAMPLES` of them overflows.
_MAX_DURATION = 1 << 31

# How much of the demuxer's list is compared where no surprise is expected: at either end, and in between.
_NUM_AT_ENDS, _NUM_SPREAD = 32, 256
# Boxes that name key frames beside ``stss``.
_OTHER_KEY_FRAMES = frozenset((b"stps", b"sbgp"))

Int64Array = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


@dataclass(frozen=True)
class Samples:
    """The samples of a track in the order of the header, which is that of decoding.

    Attributes:
        position, size: Where they are in the file, int64 (N,).
        duration: Ticks until the next one is decoded, int64 (N,).
        delay: Ticks from decoding to showing, but for ``shift``, int64 (N,).
        shift: Ticks by which the demuxer sets decoding times back, so that nothing is shown before it is decoded.
    """

    position: Int64Array
    size: Int64Array
    duration: Int64Array
    delay: Int64Array
    shift: int


@dataclass(frozen=True)
class DemuxedSamples:
    """What the demuxer's list says of the packets it is going to give, in that order.

    Attributes:
        position, dts, size: As of the packets, int64 (N,).
        is_key, is_discard: bool (N,).
    """

    position: Int64Array
    dts: Int64Array
    size: Int64Array
    is_key: BoolArray
    is_discard: BoolArray

    def __len__(self) -> int:
        return len(self.position)


def read_samples(track: Track, file_size: int) -> Samples:
    """The samples that the header describes.

    Raises:
        MalformedBoxError: if the tables do not add up, or the samples are not all in the file.
    """
    table, count = track.sample_table, track.num_samples
    if not 0 < count <= min(_MAX_SAMPLES, file_size):  # before anything of that size is allocated
        raise MalformedBoxError(f"{count} samples in {file_size} bytes")
    size = _sizes(table, count)
    if (size <= 0).any() or int(size.sum()) > file_size:
        raise MalformedBoxError("sample sizes that cannot be")
    position = _positions(table, size, file_size)
    if (position + size > file_size).any():
        raise MalformedBoxError("samples beyond the end of the file")
    duration = _expanded(find(table, b"stts"), count)[0]
    if (duration <= 0).any() or (duration >= _MAX_DURATION).any():
        raise MalformedBoxError("sample durations that cannot be")
    delay, shift = _composition(table, count)
    return Samples(position, size, duration, delay, shift)


def expected_entries(track: Track, samples: Samples, first_dts: int) -> DemuxedSamples | None:
    """What the demuxer's list should be if the edit list keeps everything; ``None`` if that takes a closer look.

    Args:
        track: The track.
        samples: Its samples.
        first_dts: The first decoding time of the demuxer's list.
    """
    kinds = {kind for kind, _ in track.sample_table}
    parts = sum(start >= 0 for _, start in track.edits)
    if parts > 1 or kinds & _OTHER_KEY_FRAMES:
        return None
    count = len(samples.position)
    is_key = np.zeros(count, bool)
    if b"stss" in kinds:
        fields = Fields(find(track.sample_table, b"stss"))
        numbers = fields.array(fields.unsigned(), ">u4")
        if (numbers < 1).any() or (numbers > count).any():
            return None
        is_key[numbers - 1] = True
    else:
        is_key[:] = True
    dts = np.cumsum(samples.duration) - samples.duration + first_dts
    return DemuxedSamples(samples.position, dts, samples.size, is_key, np.zeros(count, bool))


def entries_to_compare(is_key: BoolArray) -> Int64Array:
    """Numbers of the entries to compare with the demuxer's list: both ends, key frames, and some in between."""
    count = len(is_key)
    is_chosen = np.zeros(count, bool)
    is_chosen[:_NUM_AT_ENDS] = is_chosen[-_NUM_AT_ENDS:] = True
    is_chosen[:: 1 + count // _NUM_SPREAD] = True
    keys = np.flatnonzero(is_key)
    keys = keys[:: 1 + len(keys) // _NUM_SPREAD]
    is_chosen[keys] = is_chosen[np.minimum(keys + 1, count - 1)] = True
    return np.flatnonzero(is_chosen)


def packets_of_samples(track: Track, samples: Samples, demuxed: DemuxedSamples) -> PacketTable:
    """The packets of a track that is described in the header.

    Args:
        track: The track.
        samples: Its samples.
        demuxed: The demuxer's list, complete.

    Raises:
        MalformedBoxError: if the samples and the list do not agree.
    """
    if not track.edits and len(samples.position) != len(demuxed):
        raise MalformedBoxError(f"{len(samples.position)} samples, of which the demuxer finds {len(demuxed)}")
    sample = _match(samples, demuxed)
    _check_times(track, demuxed, sample, samples)
    pts = demuxed.dts + samples.shift + samples.delay[sample]
    return bare_table(demuxed, pts, samples.duration[sample])


def bare_table(demuxed: DemuxedSamples, pts: Int64Array, duration: Int64Array) -> PacketTable:
    """The table of packets of which nobody has seen the content."""
    return unread_packets(
        pts=pts,
        dts=demuxed.dts,
        duration=duration,
        size=demuxed.size,
        position=demuxed.position,
        is_key=demuxed.is_key,
        is_discard=demuxed.is_discard,
    )


def _sizes(table: Boxes, count: int) -> Int64Array:
    kind, content = sizes_box(table)
    fields = Fields(content)
    if kind == b"stsz":
        constant = fields.unsigned()
        fields.unsigned()
        return np.full(count, constant, np.int64) if constant else fields.array(count, ">u4")
    bits = fields.unsigned()
    fields.unsigned()
    if bits not in (8, 16):
        raise MalformedBoxError(f"sample sizes of {bits} bits")
    return fields.array(count, ">u1" if bits == 8 else ">u2")


def _positions(table: Boxes, size: Int64Array, file_size: int) -> Int64Array:
    """8.7.4 and 8.7.5: samples lie in chunks one after the other."""
    chunk_offset = _chunk_offsets(table)
    if (chunk_offset < 0).any() or (chunk_offset > file_size).any():
        raise MalformedBoxError("chunks beyond the end of the file")
    per_chunk = _samples_per_chunk(find(table, b"stsc"), len(chunk_offset))
    if int(per_chunk.sum()) != len(size):
        raise MalformedBoxError("chunks that do not hold the samples")
    ends = np.cumsum(size)
    begins = ends - size
    first_of_chunk = np.cumsum(per_chunk) - per_chunk
    # Where a chunk is empty, `first_of_chunk` may point behind the last sample.
    before_chunk = begins[np.minimum(first_of_chunk, len(size) - 1)]
    return np.asarray(np.repeat(chunk_offset - before_chunk, per_chunk) + begins, np.int64)


def _chunk_offsets(table: Boxes) -> Int64Array:
    found = [(kind, content) for kind, content in table if kind in (b"stco", b"co64")]
    if len(found) != 1:
        raise MalformedBoxError(f"{len(found)} tables of chunks")
    fields = Fields(found[0][1])
    return fields.array(fields.unsigned(), ">u4" if found[0][0] == b"stco" else ">i8")


def _samples_per_chunk(data: memoryview, num_chunks: int) -> Int64Array:
    fields = Fields(data)
    first_chunk, samples, _ = fields.array(fields.unsigned(), ">u4", 3).T
    if not len(first_chunk) or first_chunk[0] != 1 or (first_chunk[1:] <= first_chunk[:-1]).any():
        raise MalformedBoxError("chunks out of order")
    if first_chunk[-1] > num_chunks:
        raise MalformedBoxError("chunks that do not exist")
    count = np.append(first_chunk[1:], num_chunks + 1) - first_chunk
    if int((samples * count).sum()) > _MAX_SAMPLES:
        raise MalformedBoxError("chunks of too many samples")
    return np.repeat(samples, count)


def _expanded(data: memoryview, count: int, dtype: str = ">u4") -> tuple[Int64Array, Int64Array]:
    """(value of each of ``count`` samples, value of each run) of a table of runs."""
    fields = Fields(data)
    num_runs = fields.unsigned()
    runs = np.frombuffer(fields.rest()[: num_runs * 8], [("length", ">u4"), ("value", dtype)])
    length = runs["length"].astype(np.int64)
    value = runs["value"].astype(np.int64)
    if len(runs) != num_runs or (length == 0).any() or int(length.sum()) != count:
        raise MalformedBoxError("times that do not belong to the samples one by one")
    return np.repeat(value, length), value


def _composition(table: Boxes, count: int) -> tuple[Int64Array, int]:
    """(how much later than decoded each sample is shown, how much the demuxer shifts decoding times back)."""
    found = find_all(table, b"ctts")
    if not found:
        return np.zeros(count, np.int64), 0
    if len(found) > 1:
        raise MalformedBoxError("more than one table of composition times")
    delay, runs = _expanded(found[0], count, ">i4")
    if (np.abs(runs) >= 1 << 28).any():  # where the demuxer, too, gives up
        raise MalformedBoxError("composition times that cannot be")
    # The demuxer leaves the last two runs out, because writers put nonsense there.
    return delay, int(max(0, (-runs[:-2]).max(initial=0)))


def _match(samples: Samples, demuxed: DemuxedSamples) -> Int64Array:
    """Number of the sample in the header for each entry of the demuxer's list."""
    position, size = samples.position, samples.size
    if demuxed.position is position and not (position[1:] < position[:-1] + size[:-1]).any():
        return np.arange(len(position))  # the list is what the header was taken to say, in the order of the file
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
    """The demuxer's decoding times are the sums of durations, but for one leap at each edit."""
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
