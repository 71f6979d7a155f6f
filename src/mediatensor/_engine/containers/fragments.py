"""The packets of a track of a fragmented ISO media file, from the headers of its fragments. Pure functions.

::

    moov (trex: defaults)  sidx  [moof (traf: tfhd tfdt trun...) mdat]  [moof mdat] ...

References are to ISO/IEC 14496-12. Anything unusual raises `MalformedBoxError`: the packets then have to be read.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from .boxes import Box, Fields, MalformedBoxError, ReadAt, children, find, find_all, read_box
from .packet_table import PacketTable
from .sample_tables import DemuxedSamples, Int64Array, Track, bare_table

__all__ = ["packets_of_fragments"]

_MAX_SAMPLES = 1 << 24
# Further than any file reaches; no sum of sizes on top of it overflows.
_MAX_POSITION = 1 << 61

# 8.8.7 and 8.8.8
_BASE_DATA_OFFSET, _DESCRIPTION, _DEFAULT_DURATION, _DEFAULT_SIZE, _DEFAULT_FLAGS = 0x1, 0x2, 0x8, 0x10, 0x20
_BASE_IS_MOOF = 0x20000
_DATA_OFFSET, _FIRST_FLAGS = 0x1, 0x4
_RUN_COLUMNS = {"duration": 0x100, "size": 0x200, "flags": 0x400, "delay": 0x800}
# 8.8.3.1: depends on others, is no sync sample
_NO_KEY = 0x01000000 | 0x00010000


@dataclass(frozen=True)
class _Defaults:
    """Properties that samples have unless a run says otherwise, of a track or of one fragment."""

    duration: int
    size: int
    flags: int


@dataclass
class _Runs:
    """Columns of all runs so far, and what the next one goes on from.

    Attributes:
        limit: How many samples there can be.
        count: How many there are.
        shift: How much the demuxer, after all fragments so far, adds to presentation times so that none is negative.
    """

    limit: int
    columns: dict[str, list[Int64Array]] = field(default_factory=dict)
    count: int = 0
    shift: int = 0

    def append(self, **columns: Int64Array) -> None:
        for name, values in columns.items():
            self.columns.setdefault(name, []).append(values)

    def column(self, name: str) -> Int64Array:
        return np.concatenate(self.columns[name])


def packets_of_fragments(
    track: Track, track_id: int, moov: memoryview, fragments: Iterable[Box], read_at: ReadAt, file_size: int
) -> PacketTable:
    """The packets of a track whose samples are all in fragments.

    Args:
        track: The track, as the header describes it.
        track_id: Its identifier.
        moov: The header.
        fragments: The ``moof`` boxes, in the order of the file.
        read_at: Reads them.
        file_size: In bytes.

    Raises:
        MalformedBoxError: if anything is unusual.
    """
    defaults = _track_defaults(moov, track_id)
    offset = _time_offset(track)
    runs = _Runs(limit=min(_MAX_SAMPLES, file_size))
    for box in fragments:
        content = read_box(read_at, box)
        for number, traf in enumerate(find_all(content, b"traf")):
            header = Fields(find(traf, b"tfhd"))
            if header.unsigned() == track_id:
                base = _base(header, box.start, is_first=number == 0)
                _read_fragment(traf, header, base, defaults, offset, runs)
    if not runs.count:
        raise MalformedBoxError("fragments without samples")
    return _table(runs, file_size)


def _track_defaults(moov: memoryview, track_id: int) -> _Defaults:
    for content in find_all(moov, b"mvex", b"trex"):
        fields = Fields(content)
        if fields.unsigned() == track_id:
            if fields.unsigned() != 1:
                raise MalformedBoxError("fragments with another description of the samples")
            return _Defaults(fields.unsigned(), fields.unsigned(), fields.unsigned())
    raise MalformedBoxError("no defaults for fragments")


def _time_offset(track: Track) -> int:
    """Ticks by which the edit list shifts the track: a pause, then the whole media from some tick on."""
    edits = list(track.edits)
    pause = edits.pop(0)[0] if edits and edits[0][1] == -1 else 0
    if len(edits) > 1 or any(start < 0 for _, start in edits):
        raise MalformedBoxError("an edit list of several parts in a fragmented file")
    start = edits[0][1] if edits else 0
    # Rounded to the nearest, halves away from zero, as the demuxer does.
    return start - (2 * pause * track.time_scale + track.movie_time_scale) // (2 * track.movie_time_scale)


def _base(header: Fields, moof_start: int, *, is_first: bool) -> int:
    """Where the data offsets of a fragment count from (8.8.7.1)."""
    if header.flags & _BASE_DATA_OFFSET:
        return header.unsigned(8)
    if not (header.flags & _BASE_IS_MOOF or is_first):
        raise MalformedBoxError("a fragment whose place depends on another track")
    return moof_start


def _read_fragment(
    traf: memoryview, header: Fields, base: int, defaults: _Defaults, time_offset: int, runs: _Runs
) -> None:
    flags = header.flags
    if flags & _DESCRIPTION and header.unsigned() != 1:
        raise MalformedBoxError("fragments with another description of the samples")
    own = _Defaults(
        header.unsigned() if flags & _DEFAULT_DURATION else defaults.duration,
        header.unsigned() if flags & _DEFAULT_SIZE else defaults.size,
        header.unsigned() if flags & _DEFAULT_FLAGS else defaults.flags,
    )
    if any(kind in (b"senc", b"saiz", b"saio") for kind, _ in children(traf)):
        raise MalformedBoxError("encrypted samples")
    time = Fields(find(traf, b"tfdt"))
    dts = time.unsigned(8 if time.version == 1 else 4) - time_offset
    if abs(dts) >= 1 << 61:
        raise MalformedBoxError("decoding times that cannot be")
    first = runs.count
    for content in find_all(traf, b"trun"):
        dts = _read_run(Fields(content), base, dts, own, runs)
    if runs.count > first:
        runs.append(shift=np.full(runs.count - first, runs.shift, np.int64))


def _read_run(run: Fields, base: int, dts: int, defaults: _Defaults, runs: _Runs) -> int:
    """Append one run; returns the decoding time of what follows it."""
    count = run.unsigned()
    if not run.flags & _DATA_OFFSET:
        raise MalformedBoxError("a run that does not say where its samples are")
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
    duration, size, flags = (
        columns.get(name, np.full(count, getattr(defaults, name), np.int64)) for name in ("duration", "size", "flags")
    )
    if first_flags is not None and "flags" not in columns:
        flags = np.concatenate([[first_flags], flags[1:]])
    # The demuxer takes the delay for signed in either version.
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


def _table(runs: _Runs, file_size: int) -> PacketTable:
    position, dts, duration, size = (runs.column(name) for name in ("position", "dts", "duration", "size"))
    if (size <= 0).any() or (position < 0).any() or (position + size > file_size).any():
        raise MalformedBoxError("samples beyond the end of the file")
    if (np.diff(position) < size[:-1]).any():
        raise MalformedBoxError("samples that do not follow each other in the file")
    if (np.diff(dts) <= 0).any():
        raise MalformedBoxError("fragments that overlap in time")
    if (duration <= 0).any():
        raise MalformedBoxError("sample durations that cannot be")
    is_key = (runs.column("flags") & _NO_KEY) == 0
    demuxed = DemuxedSamples(position, dts, size, is_key, np.zeros(len(dts), bool))
    return bare_table(demuxed, dts + runs.column("shift") + runs.column("delay"), duration)
