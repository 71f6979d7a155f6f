"""Sizes of compressed frames, motion vectors and quantisation parameters, compared with ffprobe and a linear decode."""

from __future__ import annotations

import io
import json
import pickle
import random
import shutil
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import media
from media_surgery import with_data
from media_writing import ClipSpec, write_clip, x264
from mediatensor.decoders import FrameIndex, VideoDecoder
from mediatensor.errors import (
    ClosedError,
    DecodeError,
    InvalidArgumentError,
    OutOfRangeError,
    SizeChangeError,
    StreamError,
)
from mediatensor.transforms import Resize
from places import needs_proc, open_files

# Sizes


def probe_packets(path: Path, *entries: str) -> list[dict[str, Any]]:
    """Return all packets of the video stream in file order, according to the ``ffprobe`` program."""
    program = shutil.which("ffprobe")
    if program is None:
        pytest.skip("needs the ffprobe program (on Debian: apt-get install ffmpeg)")
    command = [program, "-v", "error", "-select_streams", "v:0", *entries, "-of", "json", str(path)]
    found = json.loads(subprocess.run(command, capture_output=True, check=True, text=True, timeout=60).stdout)
    return found.get("packets") or found["frames"]


@pytest.mark.parametrize(
    "name", ["h264_b_pyramid", "h264_open_gop", "hevc_open_gop_mkv", "mp4_fragmented", "one_frame"]
)
def test_sizes_match_ffprobe(name: str, folder: Path) -> None:
    path = media.make(name, folder)
    frames = probe_packets(path, "-show_frames", "-show_entries", "frame=pkt_size,key_frame")
    decoder = VideoDecoder(path)
    sizes = decoder.get_frame_bytes()
    assert sizes.dtype == torch.int64
    assert sizes.tolist() == [int(frame["pkt_size"]) for frame in frames]
    assert decoder.frame_index.is_key_frame.tolist() == [frame["key_frame"] == 1 for frame in frames]
    assert sizes.sum() == decoder.frame_index.gop_bytes.sum()


@pytest.mark.parametrize("name", ["av1_hierarchical", "vp9_mp4", "hevc_radl", "vfr_mkv"])
def test_packets_with_hidden_frames_count_whole(name: str, folder: Path) -> None:
    path = media.make(name, folder)
    packets = sorted((int(packet["pts"]), int(packet["size"])) for packet in probe_packets(path, "-show_packets"))
    assert VideoDecoder(path).get_frame_bytes().tolist() == [size for _, size in packets]


def test_hidden_packets_and_second_fields_count_for_their_frames(folder: Path) -> None:
    for name in ("vp8_hidden_frames", "vp9_hidden_frames_split", "h264_field_pairs_ts"):
        path = media.make(name, folder)
        packets = [int(packet["size"]) for packet in probe_packets(path, "-show_packets")]
        sizes = VideoDecoder(path).get_frame_bytes()
        assert len(packets) > len(sizes), f"{name} has packets without a frame"
        assert sizes.sum() == sum(packets)
    pairs = sorted(one + other for one, other in zip(packets[::2], packets[1::2], strict=True))
    assert sorted(sizes.tolist()) == pairs


def test_trimmed_packets_do_not_count(folder: Path) -> None:
    path = media.make("edit_list_both_ends", folder)
    packets = probe_packets(path, "-show_packets")
    shown = sorted((int(packet["pts"]), int(packet["size"])) for packet in packets if "D" not in packet["flags"])
    assert 0 < len(shown) < len(packets)
    assert VideoDecoder(path).get_frame_bytes().tolist() == [size for _, size in shown]


def test_sizes_of_loaded_and_foreign_indexes(clip: Path, folder: Path) -> None:
    decoder = VideoDecoder(clip)
    decoder.frame_index.save(folder / "sizes.index")
    loaded = VideoDecoder(clip, frame_index=FrameIndex.load(folder / "sizes.index"))
    assert torch.equal(loaded.get_frame_bytes(), decoder.get_frame_bytes())
    decoder.get_frame_bytes()[:] = 0
    assert decoder.get_frame_bytes().min() > 0, "a result is a copy"
    frames = [{"pts": 512 * n, "duration": 512, "key_frame": int(n == 0)} for n in range(5)]
    table = VideoDecoder(clip, custom_frame_mappings=json.dumps({"frames": frames}))
    assert table.get_frame_bytes().tolist() == [-1] * 5
    with pytest.raises(InvalidArgumentError, match="approximate"):
        VideoDecoder(clip, seek_mode="approximate").get_frame_bytes()


# Motion vectors and quantisation parameters, compared with a linear decode


def grid_of(frame: Any) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """Return the vectors (2 directions, 2, rows, columns) of a decoded frame, and a mask, pixel by pixel."""
    height, width = frame.height, frame.width
    by_pixel = np.zeros((2, 2, height + 64, width + 64), np.float32)
    has = np.zeros((2, height + 64, width + 64), bool)
    for vector in frame.side_data.get("MOTION_VECTORS") or ():
        direction = 0 if vector.source < 0 else 1
        top, left = vector.dst_y - vector.h // 2, vector.dst_x - vector.w // 2
        area = slice(top, top + vector.h), slice(left, left + vector.w)
        by_pixel[direction, 0][area] = vector.motion_x / vector.motion_scale
        by_pixel[direction, 1][area] = vector.motion_y / vector.motion_scale
        has[direction][area] = True
    return by_pixel[:, :, :height:8, :width:8], has[:, :height:8, :width:8]


def qp_of(frame: Any) -> NDArray[np.float32]:
    by_pixel = np.full((frame.height + 64, frame.width + 64), np.nan, np.float32)
    params = frame.side_data.get("VIDEO_ENC_PARAMS")
    if params is None:
        return by_pixel[: frame.height : 8, : frame.width : 8]
    if params.nb_blocks == 0:
        by_pixel[:] = params.qp
    for number in range(params.nb_blocks):
        block = params.block_params(number)
        area = slice(block.src_y, block.src_y + block.h), slice(block.src_x, block.src_x + block.w)
        by_pixel[area] = params.qp + block.delta_qp
    return by_pixel[: frame.height : 8, : frame.width : 8]


def decode_linearly(path: Path) -> Iterator[Any]:
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        stream.thread_type = "NONE"
        stream.codec_context.options = {"export_side_data": "mvs+venc_params"}
        yield from container.decode(stream)


EXPORTING = [
    "h264_b_pyramid", "h264_open_gop", "raw_h264_open_gop", "mpeg2_open_gop", "mpeg4_b_frames_avi", "mpeg2_interlaced",
    "h264_mbaff", "h264_field_pairs_ts", "h264_temporal_direct", "mpeg4_qpel_gmc", "h263_3gp", "flv1", "rv20",
    "msmpeg4_avi",
]  # fmt: skip


@pytest.mark.parametrize("name", EXPORTING)
def test_vectors_and_quantisers_in_any_order_are_those_of_a_linear_decode(name: str, folder: Path) -> None:
    path = media.make(name, folder)
    truth = [(*grid_of(frame), qp_of(frame)) for frame in decode_linearly(path)]
    decoder = VideoDecoder(path)
    assert len(decoder) == len(truth)
    order = random.Random(0).sample(range(len(truth)), len(truth))
    for indices in (order[:3], order[3:4], order[4:], [0, 0, -1]):
        vectors, qp = decoder.get_motion_vectors_at(indices), decoder.get_qp_at(indices)
        assert len(vectors) == len(qp) == len(indices)
        for row, index in enumerate(indices):
            grid, has, quantisers = truth[index]
            assert np.array_equal(vectors.past[row], grid[0])
            assert np.array_equal(vectors.future[row], grid[1])
            assert np.array_equal(torch.stack([vectors.has_past[row], vectors.has_future[row]]), has)
            assert np.array_equal(qp[row], quantisers, equal_nan=True)
    assert any(has[0].any() for _, has, _ in truth)
    assert not any(np.isnan(quantisers).any() for *_, quantisers in truth[:-1]), "only the last frame may have none"


# A clip for each codec that FFmpeg encodes or that is built here
BY_CODEC = [
    "h264_no_b_frames", "hevc_closed_gop", "vp8", "vp9", "av1", "mpeg1_program_stream", "mpeg2_ts", "mpeg4_mp4",
    "msmpeg4_avi", "wmv2_asf", "h263_3gp", "h263p_avi", "flv1", "rv20", "theora", "mjpeg_avi", "huffyuv", "gif",
]  # fmt: skip


@pytest.mark.parametrize("name", BY_CODEC)
def test_every_codec_returns_the_decoders_exports_or_an_error(name: str, folder: Path) -> None:
    check_exports(media.make(name, folder))


@pytest.mark.parametrize(
    ("codec", "container"), [("h261", "avi"), ("msmpeg4v2", "avi"), ("wmv1", "asf"), ("rv10", "rm")]
)
def test_rarer_codecs_return_the_decoders_exports(codec: str, container: str, tmp_path: Path) -> None:
    spec = ClipSpec("", codec, container, size=(176, 144), num_frames=9, paint=paint_moving_texture)
    write_clip(spec, tmp_path / f"clip.{container}")
    check_exports(tmp_path / f"clip.{container}")


def check_exports(path: Path) -> None:
    kinds = {item.type.name for frame in decode_linearly(path) for item in frame.side_data}
    decoder = VideoDecoder(path)
    if "MOTION_VECTORS" in kinds:
        assert decoder.get_motion_vectors_at(range(len(decoder))).has_past.any()
    else:
        with pytest.raises(StreamError, match=r"does not export motion vectors .*h264.*get_frame_bytes"):
            decoder.get_motion_vectors_at([0])
    if "VIDEO_ENC_PARAMS" in kinds:
        assert decoder.get_qp_at(range(len(decoder) - 1)).isfinite().all()
    else:
        with pytest.raises(StreamError, match="does not export quantisation parameters"):
            decoder.get_qp_at([0])
    assert decoder.get_frame_bytes().min() > 0


# Known motion

STEP = (3, -2)  # pixels to the right and down from each frame to the next


def paint_moving_texture(number: int, width: int, height: int) -> NDArray[np.uint8]:
    generator = np.random.default_rng(0)
    coarse = generator.integers(0, 256, (100, 120, 1))
    texture = np.kron(coarse, np.ones((4, 4, 3))).astype(np.uint8)
    left, top = 200 - STEP[0] * number, 200 - STEP[1] * number
    return np.ascontiguousarray(texture[top : top + height, left : left + width])


def write_moving_texture(path: Path, codec: str = "libx264", **more: Any) -> VideoDecoder:
    options = x264(bf="0", refs="1") if codec == "libx264" else {"g": "12", "bf": "0", "b": "4M"}
    spec = ClipSpec("", codec, "matroska", options=options, num_frames=8, paint=paint_moving_texture, **more)
    write_clip(spec, path)
    return VideoDecoder(path)


@pytest.mark.parametrize("codec", ["libx264", "mpeg4", "mpeg2video"])
def test_texture_that_moves_has_its_motion_as_vectors(codec: str, tmp_path: Path) -> None:
    decoder = write_moving_texture(tmp_path / "moving.mkv", codec, size=(160, 128))
    # FFmpeg exports nothing about the last frame of MPEG-2.
    vectors = decoder.get_motion_vectors_at(range(7))
    assert vectors.past.shape == (7, 2, 16, 20)
    assert not vectors.has_past[0].any()
    assert not vectors.past[0].any()
    assert not vectors.has_future.any()
    inside = vectors.has_past[1:, 2:-2, 2:-2]
    is_right = (vectors.past[1:, :, 2:-2, 2:-2] == -torch.tensor(STEP)[:, None, None]).all(1)
    assert inside.float().mean() > 0.9
    assert is_right[inside].float().mean() > 0.9


@pytest.mark.parametrize("size", [(160, 128), (150, 122)])
@pytest.mark.parametrize("turn", [(0, False, False), (90, False, False), (180, False, False), (270, True, False),
                                  (0, True, False), (0, False, True)])  # fmt: skip
def test_vectors_are_those_of_upright_frames(
    turn: tuple[float, bool, bool], size: tuple[int, int], tmp_path: Path
) -> None:
    degrees, hflip, vflip = turn
    decoder = write_moving_texture(
        tmp_path / "turned.mkv",
        size=size,
        configure=lambda stream: stream.set_display_rotation(degrees, hflip=hflip, vflip=vflip),
    )
    before, frame = decoder[4:6].float()
    vectors = decoder.get_motion_vectors_at([5])
    height, width = frame.shape[1:]
    assert vectors.past.shape[2:] == (-(-height // 8), -(-width // 8))
    x, y = vectors.past[0, :, 3:-3, 3:-3].flatten(1).median(1).values.int().tolist()
    assert {abs(x), abs(y)} == {3, 2}
    inside, moved = (frame[:, 16:-16, 16:-16], before[:, 16 + y : height - 16 + y, 16 + x : width - 16 + x])
    assert (moved - inside).abs().mean() < 4
    assert (before[:, 16:-16, 16:-16] - inside).abs().mean() > 20


def test_vectors_with_side_data_that_pyav_cannot_name(tmp_path: Path) -> None:
    spec = ClipSpec("", "libx264", "mpegts", options=x264(), num_frames=6, paint=paint_moving_texture)
    write_clip(spec, tmp_path / "plain.ts")
    write_clip(replace(spec, rewrite=add_enhancement), tmp_path / "enhanced.ts")
    with pytest.raises(ValueError, match="is not a valid Type"):
        [list(frame.side_data) for frame in decode_linearly(tmp_path / "enhanced.ts")]
    plain, enhanced = (VideoDecoder(tmp_path / name) for name in ("plain.ts", "enhanced.ts"))
    expected, found = (decoder.get_motion_vectors_at(range(6)) for decoder in (plain, enhanced))
    assert expected.past.any()
    assert torch.equal(found.past, expected.past)
    assert torch.equal(enhanced.get_qp_at([4]), plain.get_qp_at([4]))


def add_enhancement(packets: list[Any]) -> list[Any]:
    """Put a message of MPEG-5 LCEVC into each picture of H.264."""
    payload = b"\xb4\x00\x50\x00" + bytes(range(1, 17))
    message = b"\0\0\0\1\x06\x04" + bytes([len(payload)]) + payload + b"\x80"
    return [with_data(packet, message + bytes(packet)) for packet in packets]


# Requests do not change the decoder


@needs_proc
def test_requests_leave_frames_as_they_are(folder: Path) -> None:
    path = media.make("h264_b_pyramid", folder)
    expected = VideoDecoder(path).get_all_frames().data
    decoder = VideoDecoder(path, num_ffmpeg_threads=2)
    assert len(open_files(path)) == 1
    for i in (20, 3, 21):
        assert torch.equal(decoder[i], expected[i])
        assert len(open_files(path)) == (1 if i == 20 else 2), "the file is opened again only for vectors"
        decoder.get_motion_vectors_at([i])
    decoder.close()
    assert open_files(path) == []
    with pytest.raises(ClosedError):
        decoder.get_motion_vectors_at([0])
    with pytest.raises(ClosedError):
        decoder.get_qp_at([0])
    with pytest.raises(ClosedError):
        VideoDecoder.get_frame_bytes(decoder)


def test_pickled_decoders_and_threads_give_the_same(folder: Path) -> None:
    decoder = VideoDecoder(media.make("h264_b_pyramid", folder))
    expected = decoder.get_motion_vectors_at(range(24)).past
    copied = pickle.loads(pickle.dumps(decoder))
    assert torch.equal(copied.get_motion_vectors_at([7, 2]).past, expected[[7, 2]])
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda i: decoder.get_motion_vectors_at([i]).past[0], range(24)))
    assert torch.equal(torch.stack(found), expected)


def paint_noise(number: int, width: int, height: int) -> NDArray[np.uint8]:
    return np.random.default_rng(number).integers(0, 256, (height, width, 3), np.uint8)


def test_codec_threads_do_not_change_the_exports(tmp_path: Path) -> None:
    path = tmp_path / "noise.mkv"  # noise keeps a thread busy while the next one returns its frame
    write_clip(
        ClipSpec("", "libx264", "matroska", options=x264(), size=(320, 240), num_frames=12, paint=paint_noise), path
    )
    expected, found = (VideoDecoder(path, num_ffmpeg_threads=count).get_qp_at(range(12)) for count in (1, 8))
    assert torch.equal(found, expected)


def test_transforms_and_sources_do_not_matter(folder: Path) -> None:
    path = media.make("h264_b_pyramid", folder)
    expected = VideoDecoder(path).get_motion_vectors_at([5, 17])
    for decoder in (
        VideoDecoder(path, transforms=[Resize((32, 48))], output_dtype=torch.float32, dimension_order="NHWC"),
        VideoDecoder(path.read_bytes()),
        VideoDecoder(io.BytesIO(path.read_bytes())),
    ):
        found = decoder.get_motion_vectors_at(np.array([5, 17]))
        assert torch.equal(found.past, expected.past)
        assert torch.equal(found.has_future, expected.has_future)
        assert found.past.device.type == "cpu"


def test_odd_requests(folder: Path) -> None:
    decoder = VideoDecoder(media.make("h264_b_pyramid", folder))
    empty = decoder.get_motion_vectors_at([])
    assert (empty.past.shape, empty.has_past.shape) == ((0, 2, 8, 12), (0, 8, 12))
    assert decoder.get_qp_at([]).shape == (0, 8, 12)
    for call in (decoder.get_motion_vectors_at, decoder.get_qp_at):
        with pytest.raises(OutOfRangeError, match="40"):
            call([40])
        with pytest.raises(InvalidArgumentError):
            call([0.5])
        with pytest.raises(InvalidArgumentError):
            call("0")
    approximate = VideoDecoder(media.make("h264_b_pyramid", folder), seek_mode="approximate")
    with pytest.raises(InvalidArgumentError, match="approximate"):
        approximate.get_motion_vectors_at([0])
    one = VideoDecoder(media.make("one_frame", folder))
    assert not one.get_motion_vectors_at([0]).has_past.any()
    assert one.get_frame_bytes().shape == (1,)


def test_streams_that_change_their_size(folder: Path) -> None:
    path = media.make("size_change_ts", folder)
    decoder = VideoDecoder(path, on_size_change="scale")
    truth = [grid_of(frame)[0] for frame in decode_linearly(path)]
    shapes = [grid.shape[2:] for grid in truth]
    assert len(set(shapes)) > 1
    with pytest.raises(SizeChangeError, match="cells of 8x8 pixels"):
        decoder.get_motion_vectors_at(range(len(decoder)))
    for i in (0, len(decoder) - 1):
        assert np.array_equal(decoder.get_motion_vectors_at([i]).past[0], truth[i][0])


@pytest.mark.filterwarnings("ignore::mediatensor.errors.DamageWarning")
@pytest.mark.parametrize("on_error", ["keep", "raise", "skip", "nearest"])
def test_damaged_streams(on_error: Any, folder: Path) -> None:
    path = media.make("damage_after_key_ts", folder)
    decoder = VideoDecoder(path, on_error=on_error)
    plain = VideoDecoder(path, on_error="keep")
    plain.get_all_frames()
    num_frames = len(plain)
    assert plain.frame_index.is_damaged.any()
    if on_error == "raise":
        with pytest.raises(DecodeError):
            decoder.get_motion_vectors_at(range(num_frames))
        return
    vectors = decoder.get_motion_vectors_at(range(num_frames))
    truth = [grid_of(frame)[0] for frame in decode_linearly(path)]
    assert len(vectors) == len(truth) == len(decoder)
    intact = np.flatnonzero(~plain.frame_index.is_damaged)
    assert all(np.array_equal(vectors.past[i], truth[i][0]) for i in intact)
