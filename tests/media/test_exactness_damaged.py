"""Every damaged clip of `media`: every access equals a plain decode, bit for bit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import media
from exactness import CHECKS, Truth, assert_all_same, assert_same, find_truth
from sharing import grouped

# Here the codec drops frames, and no packet says so: only decoding past the damage shows it. Until then, a decoder that
# jumps over it also counts the lost frames.
ONLY_DECODING_SHOWS = frozenset(
    (
        "damage_after_key_av1_low_delay",
        "damage_after_key_av1_obu",
        "damage_after_key_ffv1_gop",
        "damaged_packet_av1_low_delay",
        "damaged_packet_av1_obu",
        "damaged_twice_ffv1_gop",
        "lost_after_key_av1_low_delay",
        "lost_after_key_hevc_open_gop_mkv",
        "lost_after_key_hevc_open_gop_ts",
        "lost_key_frame_av1",
        "lost_key_frame_av1_low_delay",
        "lost_key_frame_av1_obu",
        "lost_key_frame_hevc_open_gop_mkv",
        "lost_key_frame_hevc_open_gop_ts",
        "lost_key_frame_mpeg4_b_frames_avi",
        "lost_key_frame_mpeg4_mp4",
        "lost_packets_av1",
        "lost_packets_av1_obu",
        "lost_packets_hevc_open_gop_mkv",
        "lost_packets_hevc_open_gop_ts",
        "lost_packets_mpeg4_b_frames_avi",
        "lost_packets_mpeg4_mp4",
    )
)
SHOWN_BY_PACKETS_OR_ON_CONTACT = [name for name in media.DAMAGED_CLIPS if name not in ONLY_DECODING_SHOWS]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("clips")


@pytest.fixture(scope="module")
def truth(request: pytest.FixtureRequest, folder: Path) -> Iterator[Truth]:
    path = media.make(request.param, folder)
    yield find_truth(path)
    path.unlink()


@pytest.mark.parametrize("truth", grouped(SHOWN_BY_PACKETS_OR_ON_CONTACT), indirect=True)
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__.removeprefix("check_"))
@pytest.mark.every_clip
def test_frames_match_plain_decode(truth: Truth, check: Callable[[Truth], None]) -> None:
    check(truth)


@pytest.mark.parametrize("truth", grouped(media.DAMAGED_CLIPS), indirect=True)
def test_batches_of_fresh_decoder_match_plain_decode(truth: Truth) -> None:
    """Calls that decode through the damage, then some that jump over it, all of pictures that can be kept.

    Each with another number of threads; with which, goes round from clip to clip.
    """
    everything = range(len(truth))
    turn = list(media.DAMAGED_CLIPS).index(truth.path.stem)
    for number, first in enumerate((everything[:32], everything, everything[::-1])):
        with truth.open((1, 3, None)[(turn + number) % 3]) as decoder:
            for indices in (first, everything[::3], everything[1::5]):
                batch = decoder.get_frames_at(list(indices))
                assert_all_same(truth, indices, batch.data, batch.pts_seconds)


@pytest.mark.parametrize("truth", grouped(["damaged_twice_ffv1_gop", "damaged_twice_mjpeg_avi"]), indirect=True)
def test_frames_of_a_call_do_not_show_in_later_ones(truth: Truth) -> None:
    """It must not be held while other frames of the call are decoded: they would use other memory."""
    every_other = range(0, len(truth), 2)
    with truth.open() as decoder:
        batch = decoder.get_frames_at(list(every_other))
        assert_all_same(truth, every_other, batch.data, batch.pts_seconds)


@pytest.mark.parametrize("truth", grouped(SHOWN_BY_PACKETS_OR_ON_CONTACT), indirect=True)
def test_first_batches_that_jump(truth: Truth) -> None:
    everything = range(len(truth))
    for indices in (everything[::3], everything[2::5], everything[12:19:3], everything[17::-4]):
        with truth.open() as decoder:
            batch = decoder.get_frames_at(list(indices))
            assert_all_same(truth, indices, batch.data, batch.pts_seconds)


@pytest.mark.parametrize("truth", grouped(media.DAMAGED_CLIPS), indirect=True)
@pytest.mark.every_clip
def test_damage_met_once_is_remembered(truth: Truth) -> None:
    """Once every frame was decoded, length, times and frames are right, whatever the packets promised before."""
    with truth.open() as decoder:
        for _ in decoder:
            pass
        assert len(decoder) == len(truth)
        for index in truth.some(12):
            frame = decoder.get_frame_at(index)
            assert_same(truth, index, frame.data, frame.pts_seconds)
