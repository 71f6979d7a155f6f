"""Make the index of a stream from headers, packets or decoded frames, and keep indexes in a shared folder.

If a call needs only the first frames of a long file, `index_first_frames` reads only a few packets. If a cache folder
is set, all processes share their indexes, so that each file is read for its index only once.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import numpy as np

from ...errors import FrameIndexError, InvalidArgumentError, ReadError, StreamError
from ..common.checks import path_text
from ..common.interrupts import interrupts_kept
from ..common.messages import warn_once
from ..common.pictures import MAX_FRAME_PIXELS
from ..containers.sample_tables import NO_PTS, Int64Array, PacketTable
from ..pyav.reading import VideoReader
from ..sources.source import Source
from .building import bytes_of_frames, from_frames, from_packets
from .frame_index import MAX_DELAY_PACKETS, FrameIndex, note_source
from .header_table import has_header_table, header_table
from .index_file import FORMAT_VERSION, LendReader, SourceIdentity
from .scan import PacketScan, is_proven, scan_frames, scan_packets, spread

# FFmpeg's names of formats for single images end like this: png_pipe, webp_pipe.
_SUFFIX_OF_IMAGE_FORMATS = "_pipe"


def index_stream(source: Source, lend_reader: LendReader, before_decoding: Callable[[str], None]) -> FrameIndex:
    """Make the index of a stream. Raise `StreamError` if the stream has no frame.

    ``lend_reader`` lends a reader of the stream. The reader can be at any position. If the packets do not show which
    frames the stream has, ``before_decoding`` is called with the reason, and the stream is decoded. From this call on,
    ``lend_reader`` must lend readers that decode in software.
    """
    with interrupts_kept(), lend_reader() as reader:
        table = _read_table(reader)
        if len(table) == 0:
            raise StreamError(f"{source.describe()}: the video stream has no packets, so there is no frame.")
        index, reasons = from_packets(table, *_time_base_and_rate(reader))
    return _index_frames(source, lend_reader, before_decoding, table, reasons) if reasons else index


def read_frame_bytes(index: FrameIndex, lend_reader: LendReader) -> Int64Array:
    """Return the size of each compressed frame in bytes, -1 if unknown. The packets are listed again for this.

    Raises `ReadError` if reading fails before the end of the stream, unless reading also failed early when the index
    was made.
    """
    with interrupts_kept(), lend_reader() as reader:
        table = _read_table(reader)
    if table.read_error is not None and not index.is_cut_short:
        raise ReadError(f"The sizes of the frames could not be read: {table.read_error}")
    return bytes_of_frames(index.packet, table)


def _read_table(reader: VideoReader) -> PacketTable:
    """Return the table of all packets of a stream: from headers if they can be trusted, otherwise from a scan."""
    reader.rewind()
    table = header_table(reader)
    return scan_packets(reader) if table is None else table


def index_by_decoding(
    source: Source, lend_reader: LendReader, before_decoding: Callable[[str], None], reason: str
) -> FrameIndex:
    """Make the index of a stream by decoding it, because the index from its packets turned out to be wrong.

    ``reason`` says why. The other arguments are the same as in `index_stream`.
    """
    with interrupts_kept(), lend_reader() as reader:
        reader.rewind()
        table = scan_packets(reader)
    return _index_frames(source, lend_reader, before_decoding, table, (reason,))


def _index_frames(
    source: Source,
    lend_reader: LendReader,
    before_decoding: Callable[[str], None],
    table: PacketTable,
    reasons: tuple[str, ...],
) -> FrameIndex:
    """Decode the whole stream in software, and return the index of its frames. ``table`` has its packets."""
    before_decoding(f"The packets do not show which frames there are ({'; '.join(reasons)})")
    with interrupts_kept(), lend_reader() as reader:
        codec = reader.stream_info().codec
        probed = [] if is_proven(codec) else spread(np.flatnonzero(table.is_key[1:]) + 1)
        records, refused, are_keys = scan_frames(reader, probed)
        time_base, frame_rate = _time_base_and_rate(reader)
        is_image = reader.format_name.endswith(_SUFFIX_OF_IMAGE_FORMATS)
    if not records:
        hint = " It is an image: decode_image may read it, or an animation." if is_image else ""
        raise StreamError(
            f"{source.describe()}: none of the {len(table)} packets of the video stream can be decoded "
            f"(damaged, encrypted, or more than {MAX_FRAME_PIXELS} pixels a frame), so there is no frame.{hint}"
        )
    if not are_keys:
        table = replace(table, is_key=table.is_key & (np.arange(len(table)) == 0))
    return from_frames(
        records, table, time_base, frame_rate, reasons_to_decode=reasons, refused=refused, codec=codec or ""
    )


def _time_base_and_rate(reader: VideoReader) -> tuple[Fraction, Fraction | None]:
    info = reader.stream_info()
    return info.time_base or Fraction(1, 1), info.frame_rate


def index_first_frames(reader: VideoReader, num_frames: int) -> tuple[FrameIndex | None, bool]:
    """Make an index of the first frames, reading only as many packets as needed.

    Return (index, whether it is the index of the whole stream). The index has at least ``num_frames`` frames, unless
    the whole stream has fewer. Frames have the same numbers and times as in an index of the whole stream. The index is
    ``None`` if the caller should index the whole stream, because this is necessary or costs no more.
    """
    counts = packet_counts(num_frames)
    reader.rewind()
    if not counts or has_header_table(reader):
        return None, False
    time_base, frame_rate = _time_base_and_rate(reader)
    scan = PacketScan(reader)
    first: FrameIndex | None = None
    for num_packets in counts:
        scan.read(num_packets)
        table = scan.table()
        if scan.is_complete:
            whole, reasons = from_packets(table, time_base, frame_rate)
            return (whole, True) if len(whole) and not reasons else (None, False)
        first = certain_frames(table, time_base, frame_rate)
        if first is None or len(first) >= num_frames:
            break
    if first is None or len(first) < num_frames or (reader.times_may_restart and not _do_times_continue(reader, table)):
        return None, False
    return first, False


# When later frames are requested, reading starts again, so each step is several times as long as the previous one.
_FIRST_FRAMES, _GROWTH, _NUM_STEPS = 8, 4, 5

# Number of evenly spaced bytes of the file where times are probed. Each probe reads at most this many packets.
_NUM_EVEN_PROBES = 16
_MAX_PACKETS_WITHOUT_TIME = 64


def packet_counts(num_frames: int) -> list[int]:
    """Return numbers of packets to read from the start, in order to find at least ``num_frames`` frames.

    The caller tries one number after another, until there are enough frames. The list is empty if reading the whole
    stream would take about as long.

    >>> packet_counts(1), packet_counts(1000), packet_counts(10**6)
    ([40, 64, 160, 544, 2080], [2080], [])
    """
    frames = [_FIRST_FRAMES * _GROWTH**step for step in range(_NUM_STEPS)]
    return [count + MAX_DELAY_PACKETS for count in frames if count >= num_frames]


def certain_frames(table: PacketTable, time_base: Fraction, frame_rate: Fraction | None) -> FrameIndex | None:
    """Return an index of those first frames whose numbers cannot change when more packets are read.

    ``table`` has the first packets of the stream. Return ``None`` if the stream must be decoded to find its frames.
    """
    index, reasons = from_packets(table, time_base, frame_rate)
    if reasons or len(table) <= MAX_DELAY_PACKETS:
        return None
    count = int((index.pts < table.pts[-MAX_DELAY_PACKETS:].min()).sum())
    columns = ("pts", "duration", "is_key", "is_damaged", "packet", "disposable")
    return replace(index, **{name: getattr(index, name)[:count] for name in columns})


def _do_times_continue(reader: VideoReader, table: PacketTable) -> bool:
    """Return whether times never decrease in the rest of the file, judging by packets at some places.

    This moves the reader. If two files were joined, times can start again in the second file, so they drop at the
    joint. If both files have the same bit rate, each time in the second file is too low by the same amount. Therefore
    packets are read at 2, 4, 8, ... times the position of the last packet of ``table``, and at evenly spaced places.
    """
    read_up_to, file_size = int(table.position.max()), reader.file_size
    if read_up_to <= 0 or file_size <= 0:
        return False
    doubling = [read_up_to << shift for shift in range(1, 64) if read_up_to << shift < file_size]
    even = [file_size * k // _NUM_EVEN_PROBES for k in range(1, _NUM_EVEN_PROBES)]
    times: list[int | None] = [int(table.pts.max())]
    times += [_time_at(reader, place) for place in sorted({*doubling, *even}) if place > read_up_to]
    known = [time for time in times if time is not None]
    return len(known) == len(times) and all(before <= after for before, after in pairwise(known))


def _time_at(reader: VideoReader, position: int) -> int | None:
    """Return the pts of the first packet with a pts at or after a byte position, or ``None`` if none is found."""
    if not reader.seek_bytes(position):
        return None
    for _ in range(_MAX_PACKETS_WITHOUT_TIME):
        try:
            packet = reader.read_packet()
        except ReadError:
            return None
        if packet is None:
            return None
        if packet.pts is not None and packet.pts != NO_PTS:
            return int(packet.pts)
    return None


# The cache of indexes


ENVIRONMENT_VARIABLE = "MEDIATENSOR_INDEX_CACHE"

# Increase this number when files get another index than before, so that indexes from earlier releases are not used.
_RULES_VERSION = 3


def set_index_cache(folder: str | os.PathLike[str] | None) -> None:
    """Set the folder in which decoders of all processes cache frame indexes (`mediatensor.decoders.FrameIndex`).

    A decoder that needs an index looks for the index in the folder. If the folder does not have the index, the decoder
    makes and stores it. Media files are identified by their size and their first and last 64 KiB. So a moved file keeps
    its index, and a changed file gets a new one. No index is cached for URLs that FFmpeg opens, or for files that
    cannot be read to their end. If the folder cannot be used, the disk is full, or cache files are damaged, the decoder
    continues without the cache. It raises no error, but can show a warning.

    The setting is stored in the environment variable ``MEDIATENSOR_INDEX_CACHE``, so processes started later, such as
    DataLoader workers, use the same folder. You can also set the variable outside Python. An index takes a few bytes
    per frame. The library never deletes indexes; you can delete files or the folder at any time. Anyone who can write
    to the folder can change which frames decoders return, so share it only with people you trust.

    Args:
        folder: Path of the folder, which is created when the first index is stored. ``None`` turns the cache off.

    Raises:
        SourceTypeError: if ``folder`` is not a path.
        InvalidArgumentError: if ``folder`` is empty, or the system does not allow such a folder name.

    Example:
        >>> from mediatensor import get_index_cache, set_index_cache
        >>> set_index_cache("/tmp/indexes")
        >>> get_index_cache()
        '/tmp/indexes'
        >>> set_index_cache(None)
    """
    if folder is None:
        os.environ.pop(ENVIRONMENT_VARIABLE, None)
    else:
        name = path_text("folder", folder)
        if not name:
            raise InvalidArgumentError(
                "folder must be the path of a folder, such as '.', or None for no cache (got an empty text)."
            )
        path = os.path.abspath(name)
        try:
            os.environ[ENVIRONMENT_VARIABLE] = path
        except ValueError as error:
            raise InvalidArgumentError(f"folder must be a path of this system (got {path!r}: {error}).") from None


def get_index_cache() -> str | None:
    """Return the path of the folder in which frame indexes are cached; ``None`` if the cache is off.

    `set_index_cache` sets the folder.

    Example:
        >>> from mediatensor import get_index_cache
        >>> get_index_cache() is None
        True
    """
    return os.environ.get(ENVIRONMENT_VARIABLE) or None


def cached_index(identify: Callable[[], SourceIdentity], make: Callable[[], FrameIndex]) -> FrameIndex:
    """Return the index of a source from the cache. If it is not in the cache, make it with ``make`` and store it.

    ``identify`` returns the identity of the source. It is not called if the cache is off.
    """
    if get_index_cache() is None:
        return make()
    identity = identify()
    path = _path_of(identity)
    index = None if path is None else _load_cached(path, identity)
    if index is None:
        index = make()
        store_index(index, lambda: identity)
    return index


def store_index(index: FrameIndex, identify: Callable[[], SourceIdentity]) -> None:
    """Store an index in the cache folder, if one is set.

    An index that was made by decoding replaces an index that was made from packets, but not the reverse. ``identify``
    returns the identity of the source. It is called only if the index does not have one yet.
    """
    if get_index_cache() is None:
        return
    if index.made_from is None:
        note_source(index, identify())
    assert index.made_from is not None
    path = _path_of(index.made_from)
    # A read error may be temporary, so an index cut short by one is not cached. A user's table is valid only for that
    # user.
    if path is None or index.is_cut_short or index.is_authoritative:
        return
    # Another process may have stored an index made by decoding, which an index made from packets must not replace.
    if not index.settled and _load_cached(path, index.made_from) is not None:
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Opening a pipe for writing would block.
        if path.exists() and not path.is_file():
            raise FrameIndexError(f"{str(path)!r} is not a regular file")
        index.save(path)
    except (OSError, FrameIndexError) as error:
        warn_once(
            f"Frame indexes cannot be stored in {str(path.parent)!r} ({getattr(error, 'strerror', None) or error}), so "
            "each decoder must read files for their index again. Choose another folder with "
            f"mediatensor.set_index_cache or the environment variable {ENVIRONMENT_VARIABLE}.",
            subject=f"index cache {path.parent}",
        )


def _path_of(identity: SourceIdentity) -> Path | None:
    folder = get_index_cache()
    key = identity.key(f"index {FORMAT_VERSION}.{_RULES_VERSION}")
    return None if folder is None or key is None else Path(folder, f"{key}.index")


def _load_cached(path: Path, identity: SourceIdentity) -> FrameIndex | None:
    """Return the index that is cached at ``path``, or ``None`` if it is missing, invalid or of another source."""
    try:
        index = FrameIndex.load(path)
    except FrameIndexError:
        return None
    if index.made_from is None or index.made_from.differences(identity, is_decoded=True):
        return None
    return index
