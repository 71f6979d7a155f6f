"""`TarItems`: the samples of tar shards as the files of a map-style dataset."""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterable, Iterator, Mapping

from ..._common.checks import optional_text
from ...errors import OpenError, ReadError
from .items import Item, LazyItems, MediaKind, UnreadableSource, check_kind
from .tar_format import Member, TarMember, TarReader
from .tar_shards import grouped, is_compressed, is_url, item_of_sample, shard_names

__all__ = ["TarItems"]


class TarItems(LazyItems):
    """The samples of uncompressed tar shards on this machine, as files of any map-style dataset.

    The shards have WebDataset's layout: ``key.mp4``, ``key.cls``, ``key.json``, ``key.txt`` side by side make a sample.
    Their headers are read once; then every sample is reached at once, so that a full shuffle, resuming and ranks work
    as with plain files, and decoders read of a file what its clip needs. For shards that are compressed, or come from
    far away, there is `TarSamples`.

    The label is the number in ``.cls``, or ``"label"`` in ``.json``. The other values of ``.json``, and the text of
    ``.txt``, are in ``extra``. A shard that is damaged has the samples before the damage, and one more item that cannot
    be read and tells why: the error policy of the dataset decides. Nothing is written to disk, and names are only
    names.

    Args:
        shards: A path, or several; with ``{000..009}``, ``{a,b}``, ``*`` and ``?``.
        kind: The kind of media in a sample: ``"video"``, ``"audio"``, ``"image"`` or ``"document"``.
        media: The suffix of that member, if a sample has several of the kind: ``"left.mp4"``.

    Raises:
        InvalidArgumentError: if there are no shards.
        SourceNotFoundError: if one does not exist.
        OpenError: if one is a URL, or is compressed.

    Example:
        >>> from mediatensor.datasets import TarItems, VideoClips
        >>> items = TarItems("shards/train-{000..009}.tar")  # doctest: +SKIP
        >>> items[0].name, items[0].label  # doctest: +SKIP
        ('shards/train-000.tar/jump/1.mp4', 0)
        >>> dataset = VideoClips(items, num_frames_per_clip=8, on_error="skip")  # doctest: +SKIP
    """

    def __init__(
        self,
        shards: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
        *,
        kind: MediaKind = "video",
        media: str | None = None,
    ) -> None:
        super().__init__()
        check_kind(kind)
        optional_text("media", media)
        self.shards = shard_names(shards)
        self._kind = kind
        self._media = media
        self._index = _Index()
        for number, shard in enumerate(self.shards):
            for key, members in _samples(shard):
                self._index.add(number, key, members)

    def __len__(self) -> int:
        return len(self._index)

    def _make(self, index: int) -> Item:
        number, key, members = self._index[index]
        shard = self.shards[number]
        if not members:
            return Item(UnreadableSource(key), name=shard)
        parts = {suffix: TarMember(shard, *member) for suffix, member in members.items()}
        return item_of_sample(shard, key, parts, kind=self._kind, media=self._media)

    def __repr__(self) -> str:
        return f"TarItems({len(self)} samples in {len(self.shards)} shards)"


class _Index:
    """Which samples there are, and where their members lie: a few arrays, however many samples.

    A list of objects would be copied by every forked worker as it touches them.
    """

    def __init__(self) -> None:
        self._shards = array("i")
        self._keys = bytearray()
        self._key_ends = array("q", [0])
        self._member_ends = array("q", [0])
        self._offsets = array("q")
        self._sizes = array("q")
        self._suffixes = array("i")
        self._number_of_suffix: dict[str, int] = {}
        self._suffix_names: list[str] = []

    def add(self, shard: int, key: str, members: Mapping[str, Member]) -> None:
        self._shards.append(shard)
        self._keys += key.encode()
        self._key_ends.append(len(self._keys))
        for suffix, member in members.items():
            number = self._number_of_suffix.setdefault(suffix, len(self._suffix_names))
            if number == len(self._suffix_names):
                self._suffix_names.append(suffix)
            self._suffixes.append(number)
            self._offsets.append(member.offset)
            self._sizes.append(member.size)
        self._member_ends.append(len(self._offsets))

    def __len__(self) -> int:
        return len(self._shards)

    def __getitem__(self, index: int) -> tuple[int, str, dict[str, Member]]:
        """(number of the shard, key, members by suffix)."""
        key = self._keys[self._key_ends[index] : self._key_ends[index + 1]].decode()
        members = {}
        for i in range(self._member_ends[index], self._member_ends[index + 1]):
            suffix = self._suffix_names[self._suffixes[i]]
            members[suffix] = Member(f"{key}.{suffix}", self._offsets[i], self._sizes[i])
        return self._shards[index], key, members


def _samples(shard: str) -> Iterator[tuple[str, dict[str, Member]]]:
    """(key, members by suffix) of each sample; last, if the shard is damaged, (what is wrong, nothing)."""
    if is_url(shard):
        raise OpenError(f"Could not open shard {shard}: a shard is indexed only on this machine; use TarSamples.")
    try:
        with open(shard, "rb") as file:
            if is_compressed(file.peek(8)):
                raise OpenError(
                    f"Could not open shard {shard}: it is compressed, so that samples cannot be reached one by one. "
                    "Use TarSamples, or decompress it: media is compressed already."
                )
            yield from grouped(TarReader(file, shard, can_seek=True), lambda position, suffix, member: member)
    except ReadError as damage:
        yield str(damage), {}
    except OSError as error:
        yield f"Could not open shard {shard} ({error}).", {}
