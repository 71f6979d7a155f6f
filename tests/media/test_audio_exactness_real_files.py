"""Real files with audio: the whole equals a linear decode, and ranges are parts of it."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from audio_exactness import Truth, assert_range, assert_same
from audio_oracles import linear_decode_samples
from mediatensor.decoders import AudioDecoder
from mediatensor.errors import MediaTensorError, OutOfRangeError

# All streams that can be decoded: (file, index of the stream, similarity of ranges in decibels; None: bit-identical).
STREAMS: list[tuple[str, int, float | None]] = [
    ("androidx-media__bear-vbr-xing-header.mp3", 0, None),
    ("androidx-media__opus-5.1.mka", 0, 80.0),
    ("androidx-media__sample.avi", 1, None),
    ("androidx-media__sample.flv", 1, None),
    ("androidx-media__sample_edit_list_only_preroll_sync_sample.mp4", 1, 20.0),
    ("exoplayer__video_desks.3gp", 1, None),
    ("file-type__fixture2.3gp", 0, None),
    ("gpmf-parser__karma.mp4", 1, None),
    ("mdn__flower-fragmented.mp4", 1, None),
    ("megatron-energon__sync_test.mp4", 1, None),
    ("metadata-extractor-images__100_0306.AVI", 1, None),
    ("moviepy__transparent.webm", 1, None),
    ("mux.js__sintel-captions.ts", 1, None),
    ("rails__video_with_undefined_display_aspect_ratio.mp4", 0, None),
    ("rails__video_without_video_stream.mp4", 0, None),
    ("streamio-ffmpeg__awesome-movie.mov", 0, None),
    ("vali__test_hevc10.mkv", 1, None),
    ("vali__test_multires.mkv", 1, 70.0),
    ("vali__test_multires.mkv", 3, 50.0),
    ("whisper__jfk.flac", 0, None),
    ("winui-gallery__ladybug.wmv", 0, None),
]
# Time stamps of these files disagree with the number of samples in packets, or there is a gap. So the number of a
# sample does not determine its time. In ASF, packets start with samples of the previous packet.
UNEVEN = {
    "androidx-media__sample_edit_list_only_preroll_sync_sample.mp4",
    "file-type__fixture2.3gp",
    "mdn__flower-fragmented.mp4",
    "winui-gallery__ladybug.wmv",
}
# The number of channels increases within this file.
CHANGING = ("flac-test-files__02---increasing-number-of-channels.flac", 0)
ENCRYPTED = ("mp4parse-rust__short-cenc.mp4", 1)


@pytest.fixture(scope="module", params=STREAMS, ids=lambda stream: f"{stream[0]}:{stream[1]}")
def truth(request: pytest.FixtureRequest, media_data: Callable[[str], Path]) -> Truth:
    name, stream_index, range_snr_db = request.param
    return find_truth(media_data(name), stream_index, range_snr_db)


@lru_cache(maxsize=4)
def find_truth(path: Path, stream_index: int, range_snr_db: float | None) -> Truth:
    return Truth(path, linear_decode_samples(path, stream_index), range_snr_db, stream_index)


def test_the_plain_decode_is_that_of_the_reference(truth: Truth, reference_frames: dict[str, dict[str, Any]]) -> None:
    reference = reference_frames[truth.path.name][str(truth.stream_index)]
    assert truth.linear.num_samples == reference["samples"]
    lengths = np.diff([*truth.linear.frame_starts, truth.linear.num_samples])
    assert lengths.tolist() == [samples for _, samples in reference["frames"]]


def test_whole(truth: Truth) -> None:
    assert truth.whole.sample_rate == truth.linear.rate
    num_trimmed = truth.linear.num_samples - truth.num_samples
    assert 0 <= num_trimmed < 2048
    assert np.array_equal(truth.data, truth.linear.data[:, : truth.num_samples])
    assert truth.whole.pts_seconds == pytest.approx(truth.linear.begin_seconds, abs=1.5e-3)


def test_times_are_even(truth: Truth) -> None:
    """Time stamps agree with a count of samples, except in the files of `UNEVEN`."""
    linear = truth.linear
    counted = linear.begin_seconds + np.array(linear.frame_starts) / linear.rate
    times = np.array([np.nan if time is None else time for time in linear.frame_seconds])
    assert (np.nanmax(np.abs(times - counted)) > 2e-3) == (truth.path.name in UNEVEN)


def test_tiles(truth: Truth) -> None:
    """Ranges that meet make up the whole, without missing and repeated samples, even if times jump."""
    begin = truth.whole.pts_seconds
    end = begin + truth.num_samples / truth.linear.rate
    tiles = []
    with truth.open() as decoder:
        edges = [number / 2 for number in range(math.floor(2 * begin), math.ceil(2 * end))]
        for one, other in zip(edges, [*edges[1:], None], strict=True):
            try:
                tiles.append(decoder.get_samples_played_in_range(one, other).data.numpy())
            except OutOfRangeError:
                assert other is None
    joined = np.concatenate(tiles, axis=1)
    assert joined.shape == truth.data.shape
    assert_same(truth, joined, 0, "in tiles")


def test_ranges(truth: Truth) -> None:
    if truth.path.name in UNEVEN:
        pytest.skip("samples are not where their number says")
    draw = truth.random()
    with truth.open() as decoder:
        for number in range(12):
            first = draw.uniform(0, truth.num_samples - 1)
            last = min(truth.num_samples, first + draw.uniform(1, 8000))
            if number % 4 == 0:
                first = draw.choice([start for start in truth.linear.frame_starts if start < truth.num_samples])
            start, stop = truth.seconds(first), truth.seconds(max(last, first + 1))
            assert_range(truth, decoder.get_samples_played_in_range(start, stop), start, stop)


def test_no_file_is_left_out(media_data: Callable[[str], Path], reference_frames: dict[str, dict[str, Any]]) -> None:
    with_sound = {
        (name, int(index))
        for name, streams in reference_frames.items()
        for index, stream in streams.items()
        if isinstance(stream, dict) and stream["type"] == "audio"
    }
    assert with_sound == {(name, index) for name, index, _ in STREAMS} | {CHANGING, ENCRYPTED}


@pytest.mark.parametrize(
    "name",
    [
        "file-type__fixture-corrupt.mkv",
        "mp4ff__init-video.mp4",
        "accv-lab__moving_shape_open_gop_h265.mp4",
        ENCRYPTED[0],
    ],
)
def test_files_without_sound_that_decodes(name: str, media_data: Callable[[str], Path]) -> None:
    with pytest.raises(MediaTensorError):
        AudioDecoder(media_data(name)).get_all_samples()


def test_channels_that_become_more(media_data: Callable[[str], Path]) -> None:
    """Samples of the first format are right. Later ones raise an error, or have the first number of channels."""
    with AudioDecoder(media_data(CHANGING[0])) as decoder:
        assert decoder.get_samples_played_in_range(0.0, 1.0).data.shape == (1, 44100)
        try:
            assert decoder.get_all_samples().data.shape[0] == 1
        except MediaTensorError as error:
            assert "channel" in str(error)  # noqa: PT017
