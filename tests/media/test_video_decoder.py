"""`VideoDecoder` by index and by time: results, and errors for missing frames."""

from __future__ import annotations

import io
import itertools
import json
import math
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
import torch

import media
from mediatensor import Frame
from mediatensor._engine.common.messages import forget_warnings
from mediatensor.decoders import VideoDecoder
from mediatensor.encoders import VideoEncoder
from mediatensor.errors import InvalidArgumentError, OutOfRangeError, SizeChangeError, StreamError
from mediatensor.transforms import CenterCrop, Resize


@pytest.fixture(scope="module")
def decoder(clip: Path) -> VideoDecoder:
    return VideoDecoder(clip)


@pytest.fixture(scope="module")
def gappy(tmp_path_factory: pytest.TempPathFactory) -> VideoDecoder:
    """A clip with a gap: the duration of a frame ends long before the next frame starts."""
    return VideoDecoder(media.make("gaps_mkv", tmp_path_factory.mktemp("gap")))


# By index


@pytest.mark.parametrize("kind", [int, np.int8, np.uint16, np.int64, torch.tensor, bool])
def test_indices_of_every_integer_type_work(
    kind: Callable[[int], Any], decoder: VideoDecoder, clip_rgb: torch.Tensor
) -> None:
    assert torch.equal(decoder[kind(1)], clip_rgb[1])
    assert torch.equal(decoder.get_frame_at(kind(1)).data, clip_rgb[1])


def test_negative_indices_count_from_the_end(decoder: VideoDecoder, clip_rgb: torch.Tensor) -> None:
    count = len(clip_rgb)
    for i in (-1, -2, -count):
        assert torch.equal(decoder[i], clip_rgb[i])
    assert torch.equal(decoder.get_frames_at([-1, count - 1, 0, -count]).data, clip_rgb[[-1, -1, 0, 0]])


BOUNDS = (None, 0, 3, 17, 39, 40, 41, 1000, -1, -7, -40, -41, -1000)


@pytest.mark.parametrize("step", [None, 1, 2, 7, 100])
def test_slices_match_python_slices(step: int | None, decoder: VideoDecoder, clip_rgb: torch.Tensor) -> None:
    generator = np.random.default_rng(step)
    for start, stop in generator.permutation(list(itertools.product(BOUNDS, BOUNDS)))[:40]:
        expected = clip_rgb[list(range(len(clip_rgb)))[start:stop:step]]
        assert torch.equal(decoder[start:stop:step], expected), (start, stop, step)
        batch = decoder.get_frames_in_range(start, stop, step)
        assert len(batch) == len(expected)


@pytest.mark.parametrize("key", [slice(5, 5), slice(10, 5), slice(100, 200), slice(-1, 3)])
def test_empty_slices_are_empty_batches(key: slice, decoder: VideoDecoder, clip_rgb: torch.Tensor) -> None:
    batch = decoder.get_frames_in_range(key.start, key.stop)
    assert batch.data.shape == (0, *clip_rgb.shape[1:])
    assert batch.data.dtype == torch.uint8
    assert batch.pts_seconds.shape == batch.duration_seconds.shape == (0,)
    assert batch.pts_seconds.dtype == torch.float64


def test_batches_keep_order_and_own_memory(decoder: VideoDecoder, clip_rgb: torch.Tensor) -> None:
    indices = [30, 2, 2, 39, 0, 30]
    batch = decoder.get_frames_at(indices)
    assert torch.equal(batch.data, clip_rgb[indices])
    batch.data[1] = 0
    assert torch.equal(batch.data[2], clip_rgb[2])


@pytest.mark.parametrize("as_type", [list, tuple, np.array, torch.tensor, lambda i: torch.tensor(i, dtype=torch.int8)])
def test_indices_in_every_form(
    as_type: Callable[[list[int]], Any], decoder: VideoDecoder, clip_rgb: torch.Tensor
) -> None:
    assert torch.equal(decoder.get_frames_at(as_type([7, 3])).data, clip_rgb[[7, 3]])


@pytest.mark.parametrize("index", [7, np.int64(7), torch.tensor(7)])
def test_single_index_gives_batch_of_one_as_in_torchcodec(
    index: Any, decoder: VideoDecoder, clip_rgb: torch.Tensor
) -> None:
    assert torch.equal(decoder.get_frames_at(index).data, clip_rgb[[7]])


@pytest.mark.parametrize("index", [torch.tensor(7.0), torch.tensor([7]), np.array(7)])
def test_tensor_with_one_number_is_an_index(index: Any, decoder: VideoDecoder, clip_rgb: torch.Tensor) -> None:
    assert torch.equal(decoder.get_frame_at(index).data, clip_rgb[7])


def test_empty_indices_give_empty_batch(decoder: VideoDecoder) -> None:
    assert len(decoder.get_frames_at([])) == 0
    assert len(decoder.get_frames_played_at([])) == 0


@pytest.mark.parametrize("index", [40, 1000, -41, -1000, 2**70])
def test_indices_out_of_range(index: int, decoder: VideoDecoder) -> None:
    for call in (decoder.__getitem__, decoder.get_frame_at, lambda i: decoder.get_frames_at([0, i])):
        for kind in (OutOfRangeError, IndexError, RuntimeError, ValueError):
            with pytest.raises(kind, match=f"Invalid frame index={index}"):
                call(index)


@pytest.mark.parametrize("step", [0, -1])
def test_steps_must_be_positive(step: int, decoder: VideoDecoder) -> None:
    for kind in (RuntimeError, ValueError):
        with pytest.raises(kind, match=f"Step must be greater than 0; is {step}"):
            decoder.get_frames_in_range(0, 5, step)


# By time


def test_frames_carry_their_times(decoder: VideoDecoder) -> None:
    batch = decoder.get_all_frames()
    assert batch.pts_seconds.tolist() == [i / 25 for i in range(40)]
    assert batch.duration_seconds.tolist() == [1 / 25] * 40
    frame = decoder.get_frame_at(3)
    assert isinstance(frame, Frame)
    assert (frame.pts_seconds, frame.duration_seconds) == (3 / 25, 1 / 25)


@pytest.mark.parametrize(("offset", "played"), [(0.0, 5), (0.02, 5), (0.0399, 5), (-1e-9, 4), (0.04, 6)])
def test_the_frame_played_at_a_time(offset: float, played: int, decoder: VideoDecoder, clip_rgb: torch.Tensor) -> None:
    seconds = 5 / 25 + offset
    frame = decoder.get_frame_played_at(seconds)
    assert frame.pts_seconds == played / 25
    assert torch.equal(frame.data, clip_rgb[played])
    assert torch.equal(decoder.get_frames_played_at([seconds]).data[0], clip_rgb[played])


def test_in_a_gap_every_method_returns_the_frame_before(gappy: VideoDecoder) -> None:
    pts, duration = gappy.frame_index.pts_seconds, gappy.frame_index.duration_seconds
    before = int((pts[1:] - pts[:-1] - duration[:-1]).argmax())
    middle = float(pts[before] + duration[before] + pts[before + 1]) / 2
    assert middle > float(pts[before] + duration[before]), "there is a gap"
    expected = gappy[before]
    assert torch.equal(gappy.get_frame_played_at(middle).data, expected)
    assert torch.equal(gappy.get_frames_played_at([middle]).data[0], expected)
    assert torch.equal(gappy.get_frames_played_in_range(middle, middle + 1e-6).data, expected[None])
    assert torch.equal(gappy.get_frames_played_in_range(middle, middle + 0.01, fps=100).data, expected[None])


@pytest.mark.parametrize("seconds", [-0.001, 1.6, 100.0, math.nan, math.inf, -math.inf])
def test_times_out_of_range(seconds: float, decoder: VideoDecoder) -> None:
    assert (decoder.metadata.begin_stream_seconds, decoder.metadata.end_stream_seconds) == (0.0, 1.6)
    for call in (decoder.get_frame_played_at, lambda t: decoder.get_frames_played_at([0.1, t])):
        for kind in (IndexError, RuntimeError, ValueError):
            with pytest.raises(kind, match="Invalid pts in seconds"):
                call(seconds)


@pytest.mark.parametrize(
    ("start", "stop", "indices"),
    [
        (0.0, 0.2, range(5)),
        (8 / 25 - 0.02, 8 / 25 + 0.02, (7, 8)),
        (35 / 25, 35 / 25 + 1e-10, (35,)),
        (0.01, 0.04, (0,)),
        (0.01, 0.0400001, (0, 1)),
        (0.3, 0.3, ()),
        (0.0, 1.6, range(40)),
        (1.59, 1.6, (39,)),
    ],
)
def test_ranges_of_time(start: float, stop: float, indices: Any, decoder: VideoDecoder, clip_rgb: torch.Tensor) -> None:
    batch = decoder.get_frames_played_in_range(start, stop)
    assert torch.equal(batch.data, clip_rgb[list(indices)])
    assert batch.pts_seconds.tolist() == [i / 25 for i in indices]


@pytest.mark.parametrize(
    ("start", "stop", "message"),
    [
        (1.0, 0.5, "Invalid start seconds: 1.0. It must be less than or equal to stop seconds"),
        (-0.1, 0.5, "Invalid start seconds: -0.1. It must be greater than or equal to 0.0 and less than 1.6"),
        (1.6, 1.6, "Invalid start seconds: 1.6"),
        (0.5, 1.7, "Invalid stop seconds: 1.7. It must be less than or equal to 1.6"),
        (math.nan, 1.0, "Invalid start seconds"),
        (0.0, math.nan, "Invalid start seconds"),
    ],
)
@pytest.mark.parametrize("fps", [None, 10])
def test_ranges_of_time_out_of_range(
    start: float, stop: float, message: str, fps: float | None, decoder: VideoDecoder
) -> None:
    with pytest.raises(ValueError, match=message):
        decoder.get_frames_played_in_range(start, stop, fps)


@pytest.mark.parametrize("fps", [5, 15, 24, 29.97, 30.1, 60])
def test_resampling_takes_every_frame_that_is_shown(fps: float, decoder: VideoDecoder, clip_rgb: torch.Tensor) -> None:
    batch = decoder.get_frames_played_in_range(0.2, 1.4, fps=fps)
    times = [0.2 + k / fps for k in range(math.floor(1.2 * fps + 0.5))]
    assert batch.pts_seconds.tolist() == times
    assert batch.duration_seconds.tolist() == [1 / fps] * len(times)
    starts = [i / 25 for i in range(40)]
    shown = [max(i for i, start in enumerate(starts) if start <= t) for t in times]
    assert torch.equal(batch.data, clip_rgb[shown])


def test_resampling_the_whole_stream(decoder: VideoDecoder) -> None:
    assert len(decoder.get_all_frames(fps=10)) == 16
    assert len(decoder.get_all_frames()) == 40


# Format of frames


def test_layouts(clip: Path, decoder: VideoDecoder) -> None:
    other = VideoDecoder(clip, dimension_order="NHWC")
    assert other[3].shape == (64, 96, 3)
    assert other[3].is_contiguous()
    assert decoder[3].shape == (3, 64, 96)
    assert torch.equal(other[3].permute(2, 0, 1), decoder[3])
    assert decoder[:4].is_contiguous(memory_format=torch.channels_last)
    assert other[9:9].shape == (0, 64, 96, 3)


def test_float_output_is_near_the_uint8_output(clip: Path, decoder: VideoDecoder) -> None:
    batch = VideoDecoder(clip, output_dtype=torch.float32)[:10]
    assert batch.dtype == torch.float32
    assert float(batch.min()) >= 0
    assert float(batch.max()) <= 1
    # Both paths round colours differently; the 8-bit path, a fast path of swscale, is within 3 levels.
    assert float((batch * 255 - decoder[:10].float()).abs().max()) <= 3


@pytest.mark.parametrize(("name", "dtype"), [("h264_10bit", torch.float32), ("h264_no_b_frames", torch.uint8)])
def test_automatic_dtype_follows_the_bit_depth(name: str, dtype: torch.dtype, tmp_path: Path) -> None:
    decoder = VideoDecoder(media.make(name, tmp_path), output_dtype="auto")
    assert decoder[0].dtype == decoder[3:3].dtype == dtype


@pytest.mark.parametrize(
    ("transfer", "name"), [("smpte2084", "PQ"), ("arib-std-b67", "HLG"), ("bt709", None), ("smpte170m", None)]
)
def test_hdr_warning_comes_once(transfer: str, name: str | None) -> None:
    forget_warnings()
    frames = torch.zeros(3, 3, 64, 64, dtype=torch.uint8)
    video = VideoEncoder(frames, frame_rate=25).to_tensor("mp4", extra_options={"color_trc": transfer})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert len(VideoDecoder(video)) == 3
        assert VideoDecoder(video).metadata.color_transfer_characteristic == transfer
        assert caught == []
        for _ in range(2):
            decoder = VideoDecoder(video)
            decoder[0], decoder.get_frame_played_at(0.05), VideoDecoder(video, seek_mode="approximate")[1]
    assert [warning.filename for warning in caught] == [__file__] * (name is not None)
    assert name is None or name in str(caught[0].message)


@pytest.mark.parametrize("policy", ["raise", "scale"])
def test_frames_smaller_than_a_crop_are_a_size_change(policy: str) -> None:
    sizes = [(64, 96), (48, 96), (128, 128)]
    encoders = [VideoEncoder(torch.zeros(4, 3, *size, dtype=torch.uint8), frame_rate=25) for size in sizes]
    video = b"".join(bytes(encoder.to_tensor("mpegts").numpy()) for encoder in encoders)
    shapes = [frame.shape[1:] for frame in VideoDecoder(video)]
    small, large = shapes.index(sizes[1]), shapes.index(sizes[2])
    decoder = VideoDecoder(video, transforms=[CenterCrop((64, 64))], on_size_change=policy)
    for frames in ([small], [large, small], [*range(len(shapes))]):
        with pytest.raises(SizeChangeError, match=rf"^Frame {small} cannot .* CropStep.* 96x48 pixels.*Resize"):
            decoder.get_frames_at(frames)
    assert decoder.get_frames_at([0, large]).data.shape == (2, 3, 64, 64)
    resized = VideoDecoder(video, transforms=[Resize((64, 96)), CenterCrop((64, 64))], on_size_change=policy)
    assert resized[:].shape == (len(shapes), 3, 64, 64)


# Metadata


METADATA = [
    "VideoStreamMetadata", "duration_seconds_from_header", "begin_stream_seconds_from_header", "bit_rate", "codec",
    "stream_index", "media_type", "width", "height", "num_frames_from_header", "average_fps_from_header",
    "pixel_aspect_ratio", "rotation", "color_primaries", "color_space", "color_transfer_characteristic", "pixel_format",
    "begin_stream_seconds_from_content", "end_stream_seconds_from_content", "num_frames_from_content",
    "duration_seconds", "begin_stream_seconds", "end_stream_seconds", "num_frames", "average_fps", "tags",
    "disposition",
]  # fmt: skip


def test_metadata_of_a_plain_clip(decoder: VideoDecoder) -> None:
    metadata = decoder.metadata
    assert (metadata.width, metadata.height) == (96, 64)
    assert metadata.num_frames == metadata.num_frames_from_content == metadata.num_frames_from_header == len(decoder)
    assert metadata.average_fps == metadata.average_fps_from_header == 25
    assert metadata.duration_seconds == metadata.end_stream_seconds_from_content == 1.6
    assert metadata.begin_stream_seconds == metadata.begin_stream_seconds_from_content == 0
    assert (metadata.codec, metadata.pixel_format, metadata.media_type) == ("h264", "yuv420p", "video")
    assert metadata.stream_index == decoder.stream_index == 0
    assert metadata.rotation is None
    assert torch.equal(decoder._get_key_frame_indices(), decoder.frame_index.key_frame_indices)
    assert decoder._num_frames == 40
    names = [line.split(":")[0].strip() for line in str(metadata).splitlines()]
    assert names == METADATA
    metadata.average_fps = 3.0
    assert decoder.metadata.average_fps == 3.0, "it can be assigned to"


# Streams


@pytest.mark.parametrize(
    ("name", "stream_index", "message"),
    [
        ("audio_only", None, "no video stream"),
        ("audio_only", 0, "not a video stream that can be decoded"),
        ("audio_beside_video", 40, "stream index 40 is not a valid stream"),
        ("audio_beside_video", -1, "stream index -1 is not a valid stream"),
    ],
)
def test_missing_streams_are_named(name: str, stream_index: int | None, message: str, tmp_path: Path) -> None:
    with pytest.raises(StreamError, match=message):
        VideoDecoder(media.make(name, tmp_path), stream_index=stream_index)


# Arguments


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"seek_mode": "fast"}, r"Invalid seek mode \(fast\). Supported values are exact, approximate."),
        ({"dimension_order": "CHW"}, r"Invalid dimension order \(CHW\). Supported values are NCHW, NHWC."),
        ({"num_ffmpeg_threads": -1}, "num_ffmpeg_threads = -1"),
        ({"num_ffmpeg_threads": 1.5}, "num_ffmpeg_threads = 1.5"),
        ({"output_dtype": torch.int8}, r"Invalid output_dtype \(torch.int8\).*torch.uint8, torch.float32, 'auto'"),
        ({"on_error": "ignore"}, "Invalid on_error"),
        ({"on_size_change": "crop"}, "Invalid on_size_change"),
        ({"device": "meta"}, "Unsupported device: meta"),
        ({"seek_mode": "approximate", "custom_frame_mappings": "{}"}, "incompatible"),
        ({"transforms": [5]}, "5"),
    ],
)
def test_arguments_that_are_not_accepted(arguments: dict[str, Any], message: str, clip: Path) -> None:
    for kind in (ValueError, RuntimeError):
        with pytest.raises(kind, match=message):
            VideoDecoder(clip, **arguments)


@pytest.mark.parametrize("num_ffmpeg_threads", [0, 1, 2, 7, None])
def test_any_number_of_codec_threads_gives_the_same_frames(
    num_ffmpeg_threads: int | None, clip: Path, clip_rgb: torch.Tensor
) -> None:
    decoder = VideoDecoder(clip, num_ffmpeg_threads=num_ffmpeg_threads)
    indices = [39, 0, 12, 13, 14, 30, 2]
    for i in indices:
        assert torch.equal(decoder[i], clip_rgb[i])
    assert torch.equal(decoder.get_frames_at(indices).data, clip_rgb[indices])


def test_the_default_device_is_followed(clip: Path) -> None:
    with torch.device("cpu"):
        VideoDecoder(clip)[0]
    with torch.device("meta"), pytest.raises(InvalidArgumentError, match="meta"):
        VideoDecoder(clip)


def test_there_is_no_fallback_from_the_cpu(decoder: VideoDecoder) -> None:
    assert decoder.cpu_fallback.status_known
    assert not decoder.cpu_fallback
    assert "No fallback required" in str(decoder.cpu_fallback)


# The user's own table of frames


def mappings_of(path: Path, pts: str = "pts", duration: str = "duration", *, as_text: bool = False) -> str:
    with av.open(str(path)) as container:
        packets = [p for p in container.demux(video=0) if p.size]
    number: Callable[[int], Any] = str if as_text else int
    rows = [
        {pts: number(p.pts), duration: number(p.duration), "key_frame": number(int(p.is_keyframe))}
        for p in sorted(packets, key=lambda p: p.pts)
    ]
    return json.dumps({"frames": rows})


@pytest.mark.parametrize("pts", ["pts", "pkt_pts"])
@pytest.mark.parametrize("duration", ["duration", "pkt_duration"])
@pytest.mark.parametrize("wrap", [str, str.encode, io.StringIO])
def test_custom_frame_mappings_are_read_in_every_spelling(
    pts: str, duration: str, wrap: Callable[[str], Any], clip: Path, clip_rgb: torch.Tensor
) -> None:
    mappings = mappings_of(clip, pts, duration, as_text=pts == "pts")
    decoder = VideoDecoder(clip, custom_frame_mappings=wrap(mappings))
    assert len(decoder) == len(clip_rgb)
    assert torch.equal(decoder[:], clip_rgb)
    assert torch.equal(decoder.get_frames_at([33, 5, -1]).data, clip_rgb[[33, 5, -1]])
    assert decoder.get_frame_played_at(0.5).pts_seconds == 12 / 25


def test_frame_table_is_trusted(clip: Path, clip_rgb: torch.Tensor) -> None:
    frames = json.loads(mappings_of(clip))["frames"]
    every_third = json.dumps({"frames": frames[::3]})
    decoder = VideoDecoder(clip, custom_frame_mappings=every_third)
    assert torch.equal(decoder[:], clip_rgb[::3])


@pytest.mark.parametrize(
    ("mappings", "message"),
    [
        ("not json", "valid JSON"),
        (5, "valid JSON"),
        ("{}", "'frames' key"),
        ("[]", "'frames' key"),
        ('{"frames": []}', "empty or missing"),
        ('{"frames": [{"pts": 0}]}', "keys are required"),
        ('{"frames": [{"pts": "x", "duration": 1, "key_frame": 1}]}', "Frame 0"),
        ('{"frames": [{"pts": 0, "duration": 1, "key_frame": 1}, 3]}', "frame 1"),
        ('{"frames": [{"pts": 0, "duration": -1, "key_frame": 1}]}', "Frame 0: duration -1 is negative"),
        ('{"frames": [{"pts": 0.5, "duration": 1, "key_frame": 1}]}', "Frame 0: 0.5 is not a whole number"),
        ('{"frames": [{"pts": 0, "duration": NaN, "key_frame": 1}]}', "Frame 0"),
        ('{"frames": [{"pts": 0, "duration": 1, "key_frame": 2}]}', "Frame 0: key_frame 2 is not 0 or 1"),
    ],
)
def test_invalid_tables_are_refused(mappings: Any, message: str, clip: Path) -> None:
    with pytest.raises(ValueError, match=message):
        VideoDecoder(clip, custom_frame_mappings=mappings)
