"""Unrequested frames without references are not decoded; requested frames do not change.

All pictures that are fed to a codec are counted. Frames and their times are compared with a linear decode, bit for bit:
one by one, in pairs and in clips, in a new decoder and in one at another position.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import av
import pytest

from exactness import Truth, assert_all_same, assert_same
from mediatensor._engine.pyav.reading import PacketDecoder

# `media` describes them. Together they have hierarchies of B pictures of one to five levels, open GOPs, weighted
# prediction, interlaced pictures, motion taken from other pictures, sub-layers, and hidden frames.
_SKIPPING = [
    "h264_b_pyramid", "h264_open_gop", "h264_16_b_frames", "h264_mbaff", "h264_temporal_direct", "h264_weighted",
    "h264_hidden_reordering", "h264_hidden_reordering_16", "h264_slices", "h264_long_term", "ts_open_gop",
    "mkv_open_gop", "vfr_mp4", "gaps_ts", "hevc_closed_gop", "hevc_open_gop", "hevc_open_gop_mkv",
    "hevc_open_gop_ts", "hevc_radl", "hevc_weighted", "hevc_temporal_layers", "hevc_temporal_layers_ts",
    "hevc_five_temporal_layers", "av1", "av1_10bit", "av1_low_delay", "av1_hierarchical", "av1_film_grain",
    "av1_obu", "mpeg1_raw", "mpeg2_open_gop", "mpeg2_mkv", "mpeg2_ts", "mpeg2_interlaced", "mpeg4_mp4",
    "mpeg4_b_frames_avi", "mpeg4_qpel_gmc",
]  # fmt: skip

# In these no picture may be left out. Their frames must be right as well.
_NOT_SKIPPING = [
    "h264_field_pairs_ts", "h264_field_pairs_mp4", "h264_field_pairs_unreferenced", "h264_field_pairs_in_packets",
    "h264_intra_refresh", "vp8_hidden_frames", "vp9", "vp9_hidden_frames", "vp9_temporal_layers",
    "vp9_show_existing_frame", "vp9_mp4", "mpeg4_packed_b_frames", "mpeg4_interlaced",
    "raw_h264_open_gop", "equal_pts_b_frames_mkv",
]  # fmt: skip


@pytest.fixture
def fed(monkeypatch: pytest.MonkeyPatch) -> list[int | None]:
    """Record the pts of packets in the order in which codecs get them."""
    packets: list[int | None] = []
    original = PacketDecoder.decode

    def recording(self: PacketDecoder, packet: Any) -> list[Any]:
        if packet is not None:
            packets.append(packet.pts)
        return original(self, packet)

    monkeypatch.setattr(PacketDecoder, "decode", recording)
    return packets


@pytest.fixture(autouse=True)
def no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """Switch the cache off, so that every frame comes from a codec."""
    monkeypatch.setenv("MEDIATENSOR_FRAME_CACHE_BYTES", "0")


@pytest.mark.parametrize("name", [*_SKIPPING, *_NOT_SKIPPING])
def test_single_frames_match_plain_decode(name: str, truth_of: Callable[[str], Truth]) -> None:
    """Jump to each frame from another one, forwards and backwards. Each eighth decoder is new."""
    truth = truth_of(name)
    order = list(range(len(truth)))
    random.Random(name).shuffle(order)
    decoder = truth.open()
    for number, index in enumerate(order):
        if number % 8 == 0:
            decoder.close()
            decoder = truth.open()
        frame = decoder.get_frame_at(index)
        assert_same(truth, index, frame.data, frame.pts_seconds)
    decoder.close()


@pytest.mark.parametrize("name", [*_SKIPPING, *_NOT_SKIPPING])
def test_pairs_and_clips_match_plain_decode(name: str, truth_of: Callable[[str], Truth]) -> None:
    truth = truth_of(name)
    source = random.Random(name)
    with truth.open() as decoder:
        for _ in range(12):
            first = source.randrange(len(truth))
            near = min(len(truth) - 1, max(0, first + source.randint(-6, 6)))
            for index in (first, near):
                assert_same(truth, index, decoder[index])
        for _ in range(6):
            indices = sorted(source.sample(range(len(truth)), 5))
            batch = decoder.get_frames_at(indices)
            assert_all_same(truth, indices, batch.data, batch.pts_seconds)
        for step in (1, 2, 3, 5):
            start = source.randrange(len(truth) - 10)
            batch = decoder.get_frames_in_range(start, len(truth), step)
            assert_all_same(truth, range(start, len(truth), step), batch.data, batch.pts_seconds)
        # The clip continues after a jump: a picture that was left out must not be missing.
        start = source.randrange(len(truth) // 2)
        assert_same(truth, start, decoder[start])
        assert_all_same(truth, range(start, len(truth)), decoder[start:])


@pytest.mark.parametrize("name", _SKIPPING)
def test_fewer_packets_are_fed(name: str, truth_of: Callable[[str], Truth], fed: list[int | None]) -> None:
    """Compare with the same calls on an index by which no picture can be left out."""
    truth = truth_of(name)
    indices = random.Random(name).sample(range(len(truth)), 12)

    def fetch(*, needs_all: bool = False) -> tuple[int, int]:
        """Count the packets that are fed for single frames and for a batch, perhaps as if none could be left out."""
        with truth.open() as decoder:
            decoder.frame_index.disposable[:] = 0 if needs_all else decoder.frame_index.disposable
            fed.clear()
            for index in indices:
                assert_same(truth, index, decoder[index])
            num_one_by_one = len(fed)
        with truth.open() as decoder:
            decoder.frame_index.disposable[:] = 0 if needs_all else decoder.frame_index.disposable
            fed.clear()
            assert_all_same(truth, indices, decoder.get_frames_at(indices).data)
        return num_one_by_one, len(fed)

    one_by_one, in_batch = fetch()
    all_one_by_one, all_in_batch = fetch(needs_all=True)
    assert one_by_one < all_one_by_one
    assert in_batch < all_in_batch


@pytest.mark.parametrize("name", ["h264_16_b_frames", "mpeg4_mp4", "hevc_open_gop"])
def test_batch_feeds_wanted_frames_and_their_references(
    name: str, truth_of: Callable[[str], Truth], fed: list[int | None]
) -> None:
    """According to libavcodec, all other packets are frames that it keeps as references."""
    truth = truth_of(name)
    references = set()
    with av.open(str(truth.path)) as container:
        container.streams.video[0].codec_context.skip_frame = "NONREF"
        references = {frame.pts for frame in container.decode(video=0)}
    assert len(references) < len(truth)
    with truth.open() as decoder:
        decoder[-1]
        fed.clear()
        indices = list(range(3, len(truth) - 12, 4))
        batch = decoder.get_frames_at(indices)
        assert_all_same(truth, indices, batch.data, batch.pts_seconds)
    wanted = {truth.pts[index] for index in indices}
    assert wanted <= set(fed)
    assert set(fed) - wanted <= references | {pts for pts in truth.pts if pts > max(wanted)}


def test_iterating_decodes_every_picture_once(truth_of: Callable[[str], Truth], fed: list[int | None]) -> None:
    truth = truth_of("h264_b_pyramid")
    with truth.open() as decoder:
        decoder[0]
        fed.clear()
        for index, data in enumerate(decoder):
            assert_same(truth, index, data)
    assert len(fed) <= len(truth) + 12
