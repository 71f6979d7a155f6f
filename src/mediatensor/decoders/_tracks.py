"""The description of a track in the header of an ISO media file. Pure functions; references are to ISO/IEC 14496-12."""

from __future__ import annotations

from dataclasses import dataclass

from ._boxes import Fields, MalformedBoxError, children, find, find_all

__all__ = ["Track", "find_track", "sizes_box"]

_ENCRYPTED = (b"encv", b"drmi", b"drms")


@dataclass(frozen=True)
class Track:
    """A track of the header.

    Attributes:
        time_scale: Ticks a second.
        movie_time_scale: Of the movie, in which the durations of edits are counted.
        edits: (duration in movie ticks, first media tick; -1 for an empty one) of its edit list.
        num_samples: That the header describes; 0 in a fragmented file.
        sample_table: Content of its ``stbl``.
    """

    time_scale: int
    movie_time_scale: int
    edits: tuple[tuple[int, int], ...]
    num_samples: int
    sample_table: memoryview


def find_track(moov: memoryview, track_id: int) -> Track:
    """The track of an identifier.

    Raises:
        MalformedBoxError: if it is not there once, refers to other files, is encrypted or has several descriptions.
    """
    tracks = [trak for trak in find_all(moov, b"trak") if _track_id(trak) == track_id]
    if len(tracks) != 1:
        raise MalformedBoxError(f"{len(tracks)} tracks have the identifier {track_id}")
    trak = tracks[0]
    table = find(trak, b"mdia", b"minf", b"stbl")
    _check_description(find(table, b"stsd"))
    for reference in find_all(trak, b"mdia", b"minf", b"dinf", b"dref"):
        _check_references(reference)
    return Track(
        time_scale=_time_scale(find(trak, b"mdia", b"mdhd")),
        movie_time_scale=_time_scale(find(moov, b"mvhd")),
        edits=_edits(trak),
        num_samples=_num_samples(table),
        sample_table=table,
    )


def _track_id(trak: memoryview) -> int:
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


def _edits(trak: memoryview) -> tuple[tuple[int, int], ...]:
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


def _num_samples(table: memoryview) -> int:
    """8.7.3: the number in ``stsz`` (or ``stz2``), which has it at the same place."""
    fields = Fields(sizes_box(table)[1])
    fields.unsigned()
    return fields.unsigned()


def sizes_box(table: memoryview) -> tuple[bytes, memoryview]:
    found = [(kind, content) for kind, content in children(table) if kind in (b"stsz", b"stz2")]
    if len(found) != 1:
        raise MalformedBoxError(f"{len(found)} tables of sample sizes")
    return found[0]
