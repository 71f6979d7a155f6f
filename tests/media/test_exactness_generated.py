"""Every clip of `media`: each way to reach a frame gives the frame of a plain decode, bit for bit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import av
import pytest

import media
from exactness import CHECKS, Truth, assert_all_same, assert_same, find_truth
from mediatensor.decoders import VideoDecoder
from mediatensor.errors import SizeChangeError

_SIZE_CHANGES = [name for name, spec in media.CLIPS.items() if spec.expect == "sizes"]


@pytest.fixture(scope="module", params=media.VIDEO_CLIPS)
def truth(request: pytest.FixtureRequest, folder: Path) -> Iterator[Truth]:
    path = media.make(request.param, folder)
    yield find_truth(path)
    path.unlink()


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__.removeprefix("check_"))
@pytest.mark.every_clip
def test_frames_match_plain_decode(truth: Truth, check: Callable[[Truth], None]) -> None:
    check(truth)


@pytest.mark.parametrize("name", ["two_video_streams", "two_video_streams_mkv"])
def test_every_stream_can_be_chosen(name: str, folder: Path) -> None:
    path = media.make(name, folder)
    lengths = []
    for stream_index in (0, 1):
        truth = find_truth(path, stream_index)
        lengths.append(len(truth))
        with truth.open() as decoder:
            assert_all_same(truth, range(len(truth)), decoder[:])
    assert lengths == [30, 40]
    with av.open(str(path)) as container:
        assert VideoDecoder(path).stream_index == container.streams.best("video").index


@pytest.mark.parametrize("name", _SIZE_CHANGES)
def test_size_change(name: str, folder: Path) -> None:
    truth = find_truth(media.make(name, folder))
    assert truth.shapes[0] != truth.shapes[-1], "the clip must change its size"
    first_of_second_size = truth.shapes.index(truth.shapes[-1])
    with truth.open() as decoder:
        assert len(decoder) == len(truth)
        for index in truth.some():
            frame = decoder.get_frame_at(index)
            assert_same(truth, index, frame.data, frame.pts_seconds)
        batch = decoder.get_frames_in_range(first_of_second_size, len(truth))
        assert_all_same(truth, range(first_of_second_size, len(truth)), batch.data, batch.pts_seconds)
        height, width = truth.shapes[-1][:2]
        with pytest.raises(SizeChangeError, match=f"Frame {first_of_second_size} is {width}x{height} ") as caught:
            decoder.get_frames_in_range(0, len(truth))
        assert isinstance(caught.value, RuntimeError)  # as torchcodec raises
    with VideoDecoder(truth.path, dimension_order="NHWC", on_size_change="scale") as decoder:
        assert decoder[:].shape == (len(truth), *truth.shapes[0])
        assert decoder[-1:].shape[1:] == truth.shapes[0], "the size is the stream's, not the batch's"
        # Frames of the first size are not touched.
        assert_all_same(truth, range(first_of_second_size), decoder[:first_of_second_size])
