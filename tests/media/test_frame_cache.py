"""Kept frames are returned without decoding, they are the right ones, and their memory is bounded."""

from __future__ import annotations

import gc
import pickle
import random
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import av
import pytest
import torch

import media
import mediatensor
from exactness import assert_same, find_truth
from mediatensor._engine.video.handles import FrameCache, kept_bytes
from mediatensor.decoders import VideoDecoder
from mediatensor.errors import InvalidArgumentError
from oracles import linear_decode_rgb
from places import in_child, needs_fork

GOP = 12
VARIABLE = "MEDIATENSOR_FRAME_CACHE_BYTES"
Count = Callable[..., int]

pytestmark = pytest.mark.usefixtures("own_limits")


@pytest.fixture
def decoder(clip: Path) -> Iterator[VideoDecoder]:
    with VideoDecoder(clip, num_ffmpeg_threads=1) as decoder:
        len(decoder)
        yield decoder


@pytest.fixture(scope="session")
def picture_bytes(clip: Path) -> int:
    """Return the bytes of a decoded frame of the clip."""
    with av.open(str(clip)) as container:
        return sum(plane.buffer_size for plane in next(container.decode(video=0)).planes)


# Repeated access without decoding


def test_same_frames_again_need_no_decoding(decoder: VideoDecoder, clip_rgb: torch.Tensor, count: Count) -> None:
    wanted = [33, 2, 17, 17, -1, 8]
    assert torch.equal(decoder.get_frames_at(wanted).data, clip_rgb[wanted])
    for order in (wanted, sorted(wanted), wanted[::-1], [8], [17, 2, 17]):
        assert count(lambda order=order: decoder.get_frames_at(order)) == 0
        assert torch.equal(decoder.get_frames_at(order).data, clip_rgb[order])
    seconds = decoder.frame_index.pts_seconds[[33, 2]].tolist()
    assert count(lambda: decoder.get_frames_played_at(seconds)) == 0


def test_only_new_frames_are_decoded(clip: Path, decoder: VideoDecoder, clip_rgb: torch.Tensor, count: Count) -> None:
    decoder.get_frames_at([14, 30])
    wanted = [30, 26, 14]
    alone = count(lambda: VideoDecoder(clip, num_ffmpeg_threads=1)[26])
    assert count(lambda: decoder.get_frames_at(wanted)) <= alone
    assert torch.equal(decoder.get_frames_at(wanted).data, clip_rgb[wanted])


@pytest.mark.parametrize("stride", [1, 3, 5])
def test_overlapping_clips_decode_each_frame_once(
    stride: int, decoder: VideoDecoder, clip_rgb: torch.Tensor, count: Count
) -> None:
    clips = []

    def slide() -> None:
        clips.extend(decoder[start : start + 8] for start in range(0, len(decoder) - 8, stride))

    assert count(slide) <= len(decoder) + GOP
    for number, data in enumerate(clips):
        assert torch.equal(data, clip_rgb[number * stride : number * stride + 8])


BACKWARDS = ["h264_b_pyramid", "h264_open_gop", "h264_10bit", "hevc_open_gop_mkv", "vp9", "av1", "mpeg4_b_frames_avi"]


@pytest.mark.parametrize("name", BACKWARDS)
@pytest.mark.parametrize("step", [1, 3])
def test_stepping_backwards_decodes_each_gop_once(step: int, name: str, folder: Path, count: Count) -> None:
    path = media.make(name, folder)
    _, rgb = linear_decode_rgb(path)
    order = range(len(rgb) - 1, -1, -step)
    frames: list[torch.Tensor] = []
    with VideoDecoder(path, num_ffmpeg_threads=1, dimension_order="NHWC") as decoder:
        key_frames = decoder.frame_index.key_frame_indices.tolist()
        cost = count(lambda: frames.extend(decoder[i] for i in order))
    for i, frame in zip(order, frames, strict=True):
        assert torch.equal(frame, torch.from_numpy(rgb[i])), f"frame {i}"
    # The first step is decoded alone. Pictures between two GOPs may need both key frames. A codec that goes past the
    # last wanted picture may have begun with the next.
    longest = max(b - a for a, b in zip(key_frames, [*key_frames[1:], len(rgb)], strict=True))
    assert cost <= len(rgb) + longest + 4 * len(key_frames)


def test_step_back_skips_frames_that_do_not_fit(
    clip: Path, decoder: VideoDecoder, picture_bytes: int, count: Count
) -> None:
    """B pictures that are not references need no decoding if the cache cannot hold them."""
    mediatensor.set_frame_cache_bytes(picture_bytes)
    wanted = 2 * GOP - 2
    with VideoDecoder(clip, num_ffmpeg_threads=1) as other:
        len(other)
        cost = count(lambda: other[wanted])
    assert cost < GOP - 3
    decoder[wanted + 1]
    assert count(lambda: decoder[wanted]) <= cost + 1  # the codec may return one more frame


def test_going_forward_keeps_no_earlier_frames(decoder: VideoDecoder, count: Count) -> None:
    frames = list(decoder)
    assert count(lambda: decoder[len(frames) // 2]) > 0
    decoder[0]
    for start in range(1, len(frames) - 4, 4):
        decoder[start : start + 4]
    assert count(lambda: decoder[len(frames) // 2]) > 0


@pytest.mark.parametrize("name", ["h264_10bit", "h264_mbaff", "h264_422", "rotated_90", "png_palette", "odd_size"])
def test_kept_frames_convert_like_decoded_ones(name: str, folder: Path, count: Count) -> None:
    path = media.make(name, folder)
    _, rgb = linear_decode_rgb(path)
    wanted = [5, 4, 9, 5]
    with VideoDecoder(path, num_ffmpeg_threads=1, dimension_order="NHWC") as decoder:
        decoder.get_frames_at(wanted)
        again = []
        assert count(lambda: again.append(decoder.get_frames_at(wanted[::-1]).data)) == 0
    assert torch.equal(again[0], torch.from_numpy(rgb[wanted[::-1]]))


@pytest.mark.parametrize(
    "name",
    ["lost_packets_mp4", "damaged_packet_ts", "lost_after_key_mkv_open_gop", "damaged_packet_vp9", "lost_packets_av1",
     "begins_in_gop_ts", "damage_after_key_hevc_open_gop_ts"],
)  # fmt: skip
def test_frames_of_damaged_files_stay_the_same(name: str, folder: Path) -> None:
    """If decoding finds other frames midway, frames cached under old numbers must not be returned."""
    truth = find_truth(media.make(name, folder))
    order = list(range(len(truth)))
    shuffled = random.Random(name).sample(order, len(order))
    with truth.open() as decoder:
        for wanted in (order[:4], order[::-1], shuffled, order[::3], shuffled):
            for i in wanted:
                assert_same(truth, i, decoder[i])


def test_frames_numbered_by_another_index_are_dropped(clip: Path) -> None:
    """Another thread may have replaced the index meanwhile."""
    with av.open(str(clip)) as container:
        picture = next(container.decode(video=0))
    cache, one, other = FrameCache(), object(), object()
    cache.number_by(one)
    cache.put(3, picture)
    cache.number_by(one)
    assert cache.get(3) is picture
    cache.number_by(other)
    assert cache.get(3) is None


@pytest.mark.parametrize("on_error", ["skip", "nearest"])
def test_error_policy_repeats_its_reports(on_error: str, folder: Path) -> None:
    path = media.make("damaged_packet_mpeg4_mp4", folder)
    wanted = [*range(10, 30), 16, 17]

    def ask(decoder: VideoDecoder) -> mediatensor.FrameBatch:
        return decoder.get_frames_at(wanted)

    mediatensor.set_frame_cache_bytes(0)
    with VideoDecoder(path, on_error=on_error, num_ffmpeg_threads=1) as decoder:
        expected = ask(decoder)
    assert expected.replaced
    mediatensor.set_frame_cache_bytes(None)
    with VideoDecoder(path, on_error=on_error, num_ffmpeg_threads=1) as decoder:
        for _ in range(2):
            batch = ask(decoder)
            assert torch.equal(batch.data, expected.data)
            assert torch.equal(batch.pts_seconds, expected.pts_seconds)
            assert batch.replaced == expected.replaced


# The bound


def test_zero_keeps_nothing_and_none_is_the_default(decoder: VideoDecoder, count: Count) -> None:
    default = mediatensor.get_frame_cache_bytes()
    decoder[20]
    assert count(lambda: decoder[20]) == 0
    mediatensor.set_frame_cache_bytes(0)
    assert mediatensor.get_frame_cache_bytes() == 0
    assert count(lambda: decoder[20]) > 0
    assert count(lambda: decoder[20]) > 0
    mediatensor.set_frame_cache_bytes(None)
    assert mediatensor.get_frame_cache_bytes() == default
    decoder[20]
    assert count(lambda: decoder[20]) == 0


def test_frame_not_kept_is_freed_at_once(clip: Path) -> None:
    """A frame that is not freed makes the codec allocate memory for each of the next ones."""

    def num_pictures() -> int:
        return sum(type(thing) is av.VideoFrame for thing in gc.get_objects())

    mediatensor.set_frame_cache_bytes(0)
    with VideoDecoder(clip, num_ffmpeg_threads=1) as decoder:
        gc.collect()
        before = num_pictures()
        gc.disable()
        try:
            decoder.get_frames_at(range(20))
            assert num_pictures() <= before + 4  # of 20; the codec's next ones may be waiting
        finally:
            gc.enable()


def test_the_environment_sets_the_bound_and_the_function_overrides_it(
    decoder: VideoDecoder, count: Count, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "0")
    decoder[20]
    assert count(lambda: decoder[20]) > 0
    mediatensor.set_frame_cache_bytes(1 << 25)
    assert mediatensor.get_frame_cache_bytes() == 1 << 25
    decoder[20]
    assert count(lambda: decoder[20]) == 0


@pytest.mark.parametrize("text", ["-1", "many", "1.5", "", "128MB"])
def test_bad_environment_variable_is_named(text: str, clip: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, text)
    with pytest.raises(InvalidArgumentError, match=VARIABLE) as caught:
        mediatensor.get_frame_cache_bytes()
    assert repr(text) in str(caught.value)
    with VideoDecoder(clip) as decoder, pytest.raises(InvalidArgumentError, match=VARIABLE):
        decoder[0]


def test_least_recently_used_decoder_gives_way(clip: Path, picture_bytes: int, count: Count) -> None:
    mediatensor.set_frame_cache_bytes(6 * picture_bytes)
    one, other, third = (VideoDecoder(clip, num_ffmpeg_threads=1) for _ in range(3))
    wanted = [2, 8, 14]
    one.get_frames_at(wanted)
    other.get_frames_at(wanted)
    assert count(lambda: one.get_frames_at(wanted)) == 0
    assert count(lambda: other.get_frames_at(wanted)) == 0
    third.get_frames_at(wanted)
    assert count(lambda: third.get_frames_at(wanted)) == 0
    assert count(lambda: one.get_frames_at(wanted)) > 0


def test_frames_are_right_however_many_fit(decoder: VideoDecoder, clip_rgb: torch.Tensor, picture_bytes: int) -> None:
    for num_pictures in (1, 2, 5, 100):  # all of them fit at last
        mediatensor.set_frame_cache_bytes(num_pictures * picture_bytes)
        assert torch.equal(torch.stack(list(reversed(decoder))), clip_rgb.flip(0))
        assert torch.equal(decoder.get_all_frames().data, clip_rgb)
        for start in range(0, 30, 3):
            assert torch.equal(decoder[start : start + 8], clip_rgb[start : start + 8])


def test_many_decoders_share_one_bound(folder: Path, count: Count) -> None:
    """Every picture of the clip is a key frame, so exactly those that are no longer kept are decoded."""
    path = media.make("h264_all_intra", folder)
    with av.open(str(path)) as container:
        size = sum(plane.buffer_size for plane in next(container.decode(video=0)).planes)
    mediatensor.set_frame_cache_bytes(11 * size)
    decoders = [VideoDecoder(path, num_ffmpeg_threads=1) for _ in range(6)]
    wanted = list(range(1, 32, 4))
    for decoder in decoders:
        assert count(lambda decoder=decoder: decoder.get_frames_at(wanted)) == len(wanted)
    mediatensor.set_frame_cache_bytes(1 << 30)  # so that asking makes nothing give way
    missing = [count(lambda decoder=decoder: decoder.get_frames_at(wanted)) for decoder in decoders]
    assert sum(missing) == len(decoders) * len(wanted) - 11
    assert missing[-1] == 0


@pytest.mark.parametrize("drop", ["close", "del"])
def test_closed_decoder_returns_kept_frames(drop: str, clip: Path) -> None:
    gc.collect()
    before = kept_bytes()
    decoder = VideoDecoder(clip)
    decoder.get_frames_at([1, 20])
    assert kept_bytes() > before
    if drop == "close":
        decoder.close()
    else:
        del decoder
        gc.collect()
    assert kept_bytes() == before


# Other threads and processes


def test_threads_that_share_a_decoder_get_their_frames(clip: Path, clip_rgb: torch.Tensor, picture_bytes: int) -> None:
    mediatensor.set_frame_cache_bytes(9 * picture_bytes)
    decoder = VideoDecoder(clip, num_ffmpeg_threads=1)

    def walk(seed: int) -> bool:
        source = random.Random(seed)
        position, right = source.randrange(40), True
        for _ in range(40):
            position = max(0, min(39, position + source.choice([-7, -3, -1, -1, 0, 1, 2, 8])))
            wanted = [position, *(source.randrange(40) for _ in range(source.choice([0, 0, 3])))]
            right = right and torch.equal(decoder.get_frames_at(wanted).data, clip_rgb[wanted])
        return right

    with ThreadPoolExecutor(4) as executor:
        assert all(executor.map(walk, range(8)))


def test_pickled_decoder_has_no_frames(decoder: VideoDecoder, clip_rgb: torch.Tensor, count: Count) -> None:
    small = len(pickle.dumps(decoder))
    decoder.get_frames_at(range(0, 40, 2))
    data = pickle.dumps(decoder)
    assert len(data) < small + clip_rgb[0].numel()
    with pickle.loads(data) as other:
        frames: list[torch.Tensor] = []
        assert count(lambda: frames.append(other[20])) > 0
        assert torch.equal(frames[0], clip_rgb[20])
    assert count(lambda: decoder[20]) == 0


@needs_fork
def test_forked_child_decodes_independently(clip: Path, tmp_path: Path) -> None:
    def checksums(decoder: VideoDecoder) -> list[int]:
        return [zlib.crc32(decoder[i].contiguous().numpy()) for i in (30, 29, 28, 5, 4, 30)]

    decoder, *others = [VideoDecoder(clip) for _ in range(4)]
    expected = checksums(decoder)
    for other in others:
        other.get_frames_at(range(0, 40, 3))

    def use_what_the_parent_made() -> None:
        assert all(checksums(one) == expected for one in [decoder, *others, VideoDecoder(clip)])
        mediatensor.set_frame_cache_bytes(20000)
        assert all(checksums(one) == expected for one in [decoder, *others])
        decoder.close()

    in_child(tmp_path, use_what_the_parent_made)
    assert checksums(decoder) == expected


@pytest.mark.slow
def test_closed_decoders_leave_no_frames(clip: Path) -> None:
    """An entry for each decoder would be too much: a worker opens hundreds of thousands."""

    def open_and_close(count: int) -> None:
        for _ in range(count):
            with VideoDecoder(clip) as decoder:
                decoder.get_frames_at([3, 5])

    only_here = tracemalloc.Filter(True, "*/mediatensor/_engine/video/handles.py")
    tracemalloc.start()
    try:
        open_and_close(10)
        before = tracemalloc.take_snapshot().filter_traces([only_here])
        open_and_close(60)
        after = tracemalloc.take_snapshot().filter_traces([only_here])
    finally:
        tracemalloc.stop()
    grown = sum(change.count_diff for change in after.compare_to(before, "filename"))
    assert grown < 20
