"""Make the index of a stream from headers, from packets or from decoded frames; and keep indexes in a shared folder.

For the first frames of a long file, a few packets are enough: see `index_first_frames`. With a cache folder, each file
is scanned only once by all processes.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import numpy as np

from ...errors import FrameIndexError, InvalidArgumentError, ReadError, StreamError
from ..common.checks import path_text
from ..common.interrupts import interrupts_kept
from ..containers.sample_tables import NO_PTS, PacketTable
from ..pyav.reading import VideoReader
from ..sources.source import Source
from .building import from_frames, from_packets
from .frame_index import MAX_DELAY_PACKETS, FrameIndex, note_source
from .header_table import has_header_table, header_table
from .index_file import FORMAT_VERSION, LendReader, SourceIdentity
from .scan import PacketScan, is_proven, probed_key_frames, scan_frames, scan_packets

# FFmpeg's names of single-image formats end like this: png_pipe, webp_pipe.
_SUFFIX_OF_IMAGE_FORMATS = "_pipe"


def index_stream(source: Source, lend_reader: LendReader, before_decoding: Callable[[str], None]) -> FrameIndex:
    """Return the index of a stream; raise `StreamError` if it has no frame.

    ``lend_reader`` lends a reader at any position. ``before_decoding`` is called with the reason if the packets do not
    show which frames there are. After this call, the lent readers must decode in software.
    """
    with interrupts_kept(), lend_reader() as reader:
        _rewind(reader)
        table = header_table(reader)
        if table is None:
            table = scan_packets(reader)
        if len(table) == 0:
            raise StreamError(f"{source.describe()}: the video stream has no packets, so there is no frame.")
        index, reasons = from_packets(table, *_clock(reader))
    return _index_frames(source, lend_reader, before_decoding, table, reasons) if reasons else index


def index_by_decoding(
    source: Source, lend_reader: LendReader, before_decoding: Callable[[str], None], reason: str
) -> FrameIndex:
    """Return the index of a stream by decoding it, for streams whose packet index was wrong; see `index_stream`."""
    with interrupts_kept(), lend_reader() as reader:
        _rewind(reader)
        table = scan_packets(reader)
    return _index_frames(source, lend_reader, before_decoding, table, (reason,))


def _index_frames(
    source: Source,
    lend_reader: LendReader,
    before_decoding: Callable[[str], None],
    table: PacketTable,
    reasons: tuple[str, ...],
) -> FrameIndex:
    """Decode the stream once in software, and index the frames that come out."""
    before_decoding(f"The packets do not show which frames there are ({'; '.join(reasons)})")
    with interrupts_kept(), lend_reader() as reader:
        codec = reader.stream_info().codec
        probed = frozenset[int]() if is_proven(codec) else probed_key_frames(np.flatnonzero(table.is_key))
        records, refused, are_keys = scan_frames(reader, probed)
        time_base, frame_rate = _clock(reader)
        is_image = reader.format_name.endswith(_SUFFIX_OF_IMAGE_FORMATS)
    if not records:
        hint = " It is an image: decode_image may read it, or an animation." if is_image else ""
        raise StreamError(
            f"{source.describe()}: none of the {len(table)} packets of the video stream can be decoded "
            f"(damaged or encrypted), so there is no frame.{hint}"
        )
    if not are_keys:
        table = replace(table, is_key=table.is_key & (np.arange(len(table)) == 0))
    return from_frames(
        records, table, time_base, frame_rate, reasons_to_decode=reasons, refused=refused, codec=codec or ""
    )


def _rewind(reader: VideoReader) -> None:
    if not reader.is_fresh:
        reader.reopen()


def _clock(reader: VideoReader) -> tuple[Fraction, Fraction | None]:
    """Return the seconds per tick, and the frames per second according to the header."""
    info = reader.stream_info()
    return info.time_base or Fraction(1, 1), info.frame_rate


def index_first_frames(reader: VideoReader, num_frames: int) -> tuple[FrameIndex | None, bool]:
    """Return an index of the first ``num_frames`` frames or more, with the same numbers and times as in a whole index.

    Also return whether it is whole, because the stream was short enough to read to its end. The index is ``None`` if
    the caller must make the index of the whole stream, or can do so at no more cost.
    """
    counts = packet_counts(num_frames)
    _rewind(reader)
    if not counts or has_header_table(reader):
        return None, False
    time_base, frame_rate = _clock(reader)
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
    if first is None or len(first) < num_frames or (reader.times_may_restart and not _runs_on(reader, table)):
        return None, False
    return first, False


# A request for later frames restarts the reader, so each step is several times as long as the previous step.
_FIRST_FRAMES, _GROWTH, _NUM_STEPS = 8, 4, 5

# Times are probed at this many evenly spaced bytes of the file. Each probe reads at most this many packets.
_NUM_EVEN_PROBES = 16
_MAX_PACKETS_WITHOUT_TIME = 64


def packet_counts(num_frames: int) -> list[int]:
    """Return how many packets to read from the start: counts to try in turn, until one gives ``num_frames`` frames.

    The list is empty if reading all packets costs about the same.

    >>> packet_counts(1), packet_counts(1000), packet_counts(10**6)
    ([40, 64, 160, 544, 2080], [2080], [])
    """
    frames = [_FIRST_FRAMES * _GROWTH**step for step in range(_NUM_STEPS)]
    return [count + MAX_DELAY_PACKETS for count in frames if count >= num_frames]


def certain_frames(table: PacketTable, time_base: Fraction, frame_rate: Fraction | None) -> FrameIndex | None:
    """Return the index of those first frames that later packets cannot reorder; ``None`` if only decoding can tell."""
    index, reasons = from_packets(table, time_base, frame_rate)
    if reasons or len(table) <= MAX_DELAY_PACKETS:
        return None
    count = int((index.pts < table.pts[-MAX_DELAY_PACKETS:].min()).sum())
    columns = ("pts", "duration", "is_key", "is_damaged", "packet", "disposable")
    return replace(index, **{name: getattr(index, name)[:count] for name in columns})


def _runs_on(reader: VideoReader, table: PacketTable) -> bool:
    """Return whether times grow from probe to probe in the rest of the file. The probes move the reader.

    If two files were joined and the second one's times start again like the first one's, times drop at the joint. At
    equal bit rates, times are lower by the same amount everywhere in the second file. Probes therefore lie at 2, 4, 8,
    ... times the position of the last packet of ``table``, and evenly spaced over the file.
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
    """Return the pts of the first timed packet after a byte position; ``None`` if there is none."""
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

# Increase this number when the index of a file changes, so that indexes by earlier releases are not used.
_RULES_VERSION = 2

_folders_warned_of: set[str] = set()


def set_index_cache(folder: str | os.PathLike[str] | None) -> None:
    """Keep frame indexes in a folder that every decoder of every process uses; ``None`` turns the cache off.

    A decoder that needs an index looks for it in the folder first, and stores it there if it is missing. Media files
    are recognised by size and by their first and last 64 KiB, wherever they are, so a changed file gets a new index.
    URLs that FFmpeg opens get no cached index, nor do files that cannot be read to their end. An unusable
    folder, a full disk and damaged cache files cause at most a warning.

    The setting is stored in the environment variable ``MEDIATENSOR_INDEX_CACHE``, so that processes started later
    (DataLoader workers) use it as well. You can also set the variable outside Python. An index takes a few bytes per
    frame. The library never deletes indexes. You can delete the folder or its files at any time. Anyone with write
    access to the folder can change which frames decoders return, so share it only with people you trust.

    Args:
        folder: Created on the first write.

    Raises:
        SourceTypeError: if ``folder`` is not a path.
        InvalidArgumentError: if the system does not allow such a folder name.

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
        path = os.path.abspath(path_text("folder", folder))
        try:
            os.environ[ENVIRONMENT_VARIABLE] = path
        except ValueError as error:
            raise InvalidArgumentError(f"folder must be a path of this system (got {path!r}: {error}).") from None


def get_index_cache() -> str | None:
    """Return the folder that stores frame indexes (see `set_index_cache`), or ``None``.

    Example:
        >>> from mediatensor import get_index_cache
        >>> get_index_cache() is None
        True
    """
    return os.environ.get(ENVIRONMENT_VARIABLE) or None


def cached_index(identify: Callable[[], SourceIdentity], make: Callable[[], FrameIndex]) -> FrameIndex:
    """Return the index of a source from the cache, or make and store it."""
    if get_index_cache() is None:
        return make()
    identity = identify()
    path = _path_of(identity)
    index = None if path is None else _load(path, identity)
    if index is None:
        index = make()
        store_index(index, lambda: identity)
    return index


def store_index(index: FrameIndex, identify: Callable[[], SourceIdentity]) -> None:
    """Store an index in the cache folder, if one is set. An index made by decoding replaces one made from packets.

    ``identify`` returns the source's identity. It is called only if the index does not record its source yet.
    """
    if get_index_cache() is None:
        return
    if index.made_from is None:
        note_source(index, identify())
    assert index.made_from is not None
    path = _path_of(index.made_from)
    # A read error may be temporary, so its result is not cached. A user's table is not valid for other users.
    if path is None or index.is_cut_short or index.is_authoritative:
        return
    # Another process may have stored an index made by decoding, which must not be replaced by one from packets.
    if not index.settled and _load(path, index.made_from) is not None:
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Opening a pipe for writing would block.
        if path.exists() and not path.is_file():
            raise FrameIndexError(f"{str(path)!r} is not a regular file")
        index.save(path)
    except (OSError, FrameIndexError) as error:
        _warn_once(path.parent, error)


def _path_of(identity: SourceIdentity) -> Path | None:
    folder = get_index_cache()
    key = identity.key(f"index {FORMAT_VERSION}.{_RULES_VERSION}")
    return None if folder is None or key is None else Path(folder, f"{key}.index")


def _load(path: Path, identity: SourceIdentity) -> FrameIndex | None:
    """Return the cached index of the source, or ``None`` if it is missing, invalid or of another source."""
    try:
        index = FrameIndex.load(path)
    except FrameIndexError:
        return None
    if index.made_from is None or index.made_from.differences(identity, is_decoded=True):
        return None
    return index


def _warn_once(folder: Path, error: Exception) -> None:
    if str(folder) not in _folders_warned_of:
        _folders_warned_of.add(str(folder))
        warnings.warn(
            f"Frame indexes cannot be kept in {str(folder)!r}, so files are read for their index again and again "
            f"({error}). Choose another folder with mediatensor.set_index_cache, or None.",
            stacklevel=2,
        )
