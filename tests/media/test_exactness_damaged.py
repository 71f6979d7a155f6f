"""Every damaged clip of `media`: every access equals a plain decode, bit for bit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import media
from exactness import CHECKS, Truth, assert_all_same, assert_same, find_truth
from media_surgery import with_data
from media_writing import Packets

_HEVC, _MPEG4 = ("hevc_open_gop_mkv", "hevc_open_gop_ts"), ("mpeg4_b_frames_avi", "mpeg4_mp4")
# In these clips the codec drops frames without a sign in the packets. Only decoding past the damage shows it. Until
# then, a decoder that jumps over the damage also counts the lost frames.
ONLY_DECODING_SHOWS = {
    f"{damage}_{clip}"
    for damage, clips in {
        "damage_after_key": ("av1_low_delay", "av1_obu", "ffv1_gop"),
        "damaged_packet": ("av1_low_delay", "av1_obu"),
        "damaged_twice": ("ffv1_gop",),
        "lost_after_key": ("av1_low_delay", *_HEVC),
        "lost_key_frame": ("av1", "av1_low_delay", "av1_obu", *_HEVC, *_MPEG4),
        "lost_packets": ("av1", "av1_obu", *_HEVC, *_MPEG4),
    }.items()
    for clip in clips
}
SHOWN_BY_PACKETS_OR_ON_CONTACT = [name for name in media.DAMAGED_CLIPS if name not in ONLY_DECODING_SHOWS]


@pytest.fixture(scope="module")
def truth(request: pytest.FixtureRequest, folder: Path) -> Iterator[Truth]:
    path = media.make(request.param, folder)
    yield find_truth(path)
    path.unlink()


@pytest.mark.parametrize("truth", SHOWN_BY_PACKETS_OR_ON_CONTACT, indirect=True)
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__.removeprefix("check_"))
@pytest.mark.every_clip
def test_frames_match_plain_decode(truth: Truth, check: Callable[[Truth], None]) -> None:
    check(truth)


@pytest.mark.parametrize("truth", media.DAMAGED_CLIPS, indirect=True)
def test_batches_of_fresh_decoder_match_plain_decode(truth: Truth) -> None:
    """Read from each fresh decoder with another number of threads, which changes from clip to clip."""
    everything = range(len(truth))
    turn = list(media.DAMAGED_CLIPS).index(truth.path.stem)
    for number, first in enumerate((everything[:32], everything, everything[::-1])):
        with truth.open((1, 3, None)[(turn + number) % 3]) as decoder:
            for indices in (first, everything[::3], everything[1::5]):
                batch = decoder.get_frames_at(list(indices))
                assert_all_same(truth, indices, batch.data, batch.pts_seconds)


@pytest.mark.parametrize("truth", SHOWN_BY_PACKETS_OR_ON_CONTACT, indirect=True)
def test_first_batches_that_jump(truth: Truth) -> None:
    everything = range(len(truth))
    for indices in (everything[::3], everything[2::5], everything[12:19:3], everything[17::-4]):
        with truth.open() as decoder:
            batch = decoder.get_frames_at(list(indices))
            assert_all_same(truth, indices, batch.data, batch.pts_seconds)


@pytest.mark.parametrize("name", ["ffvhuff", "huffyuv"])
def test_what_a_packet_lacks_does_not_come_from_earlier_ones(name: str, tmp_path: Path) -> None:
    def cut(packets: Packets) -> Packets:
        return [with_data(one, bytes(one)[: -(number == 12) or None]) for number, one in enumerate(packets)]

    path = tmp_path / "cut.avi"
    media.write_spec(replace(media.CLIPS[name], rewrite=cut), path)
    truth = find_truth(path)
    with truth.open() as decoder:
        for index in (20, 12, 3, 12):
            assert_same(truth, index, decoder[index])


@pytest.mark.parametrize(("name", "damaged", "index"), [("h264_b_pyramid", 25, 26), ("h264_slices", 21, 20)])
def test_damage_in_a_reference_shown_later_is_noticed(name: str, damaged: int, index: int, tmp_path: Path) -> None:
    """The codec conceals it, and flags only the reference."""

    def spoil(packets: Packets) -> Packets:
        data = bytes(packets[damaged])
        middle = len(data) // 2
        spoiled = with_data(packets[damaged], data[:middle] + bytes(16) + data[middle + 16 :])
        return [*packets[:damaged], spoiled, *packets[damaged + 1 :]]

    path = tmp_path / "spoiled.mp4"
    media.write_spec(replace(media.CLIPS[name], rewrite=spoil), path)
    truth = find_truth(path)
    for other in (0, 39):
        with truth.open() as decoder:
            assert_all_same(truth, [index, other], decoder.get_frames_at([index, other]).data)


@pytest.mark.parametrize("truth", media.DAMAGED_CLIPS, indirect=True)
def test_damage_met_once_is_remembered(truth: Truth) -> None:
    """After every frame was decoded, length, times and frames are right, even if the packets promised others."""
    with truth.open() as decoder:
        for _ in decoder:
            pass
        assert len(decoder) == len(truth)
        for index in truth.some(12):
            frame = decoder.get_frame_at(index)
            assert_same(truth, index, frame.data, frame.pts_seconds)
