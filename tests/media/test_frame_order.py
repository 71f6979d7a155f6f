"""Files with wrong times: frames keep the codec's order, with times that never decrease."""

from __future__ import annotations

import subprocess
import zlib
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from test_bytes_read import CountingFile

import media
from exactness import CHECKS, Truth, assert_same, find_truth
from media_codecs import mpeg, x265
from media_containers import add_audio_stream, encode_tone
from media_surgery import with_data
from media_writing import (
    ClipSpec,
    Packets,
    add_stream,
    drawn_frames,
    encode,
    mux_in_order,
    open_output,
    paint_picture,
    x264,
)
from mediatensor.cli import main
from mediatensor.decoders import AudioDecoder, VideoDecoder
from mediatensor.encoders import VideoEncoder
from oracles import upright_frames
from real_files import TEST_DATA
from sharing import take_or_write

_B_FRAMES = x264("b-adapt=0:open-gop=1")
_LARGE = (320, 240)  # so that only the header is read


def time_by_decoding(packets: Packets) -> Packets:
    """Give packets the times of B pictures after a copy from AVI: consecutive, in file order."""
    for number, packet in enumerate(packets):
        packet.pts = packet.dts = number
    return packets


def shift_reordering(packets: Packets) -> Packets:
    """Give packets times as libxvid does: the time of the frame being encoded when the packet was written."""
    for number, packet in enumerate(packets):
        packet.dts = number - 2
        packet.pts = number + (0 if number == 0 else 2)
    return packets


# The frames of each clip are numbered, in the order in which they must be returned.
CLIPS = {
    "h264 avi": ClipSpec("", container="avi", options=_B_FRAMES),
    "h264 mxf": ClipSpec("", container="mxf", options=_B_FRAMES),
    "h264 asf": ClipSpec("", container="asf", options=_B_FRAMES),
    "h264 mp4": ClipSpec("", options=_B_FRAMES, size=_LARGE, rewrite=time_by_decoding),
    "h264 mkv": ClipSpec("", container="matroska", options=_B_FRAMES, size=_LARGE, rewrite=time_by_decoding),
    "hevc mp4": ClipSpec("", "libx265", options=x265("b-adapt=0"), size=_LARGE, rewrite=time_by_decoding),
    "mpeg2 mp4": ClipSpec("", "mpeg2video", options=mpeg(), size=_LARGE, rewrite=time_by_decoding),
    "mpeg2 mkv": ClipSpec("", "mpeg2video", "matroska", options=mpeg(), size=_LARGE, rewrite=time_by_decoding),
    **{
        f"xvid {container}": ClipSpec("", "mpeg4", container, options=mpeg(), size=_LARGE, rewrite=shift_reordering)
        for container in ("avi", "matroska", "mp4")
    },
}


def number_of(rgb: torch.Tensor | NDArray[np.uint8]) -> int:
    """Return the number that `paint_picture` has drawn."""
    picture = np.asarray(rgb)
    middles = (np.arange(10) * 2 + 1) * picture.shape[1] // 20
    bits = picture[2:6, middles].mean(axis=(0, 2)) > 125
    return int(bits @ (1 << np.arange(9, -1, -1)))


def write(name: str, folder: Path) -> Path:
    spec = CLIPS[name]
    path = folder / f"{name}.{spec.extension or spec.container}"
    return take_or_write(path, lambda draft: media.write_spec(spec, draft))


@pytest.mark.parametrize("name", CLIPS)
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__.removeprefix("check_"))
def test_frames_match_plain_decode(name: str, check: Callable[[Truth], None], folder: Path) -> None:
    check(find_truth(write(name, folder)))


@pytest.mark.parametrize("name", CLIPS)
def test_frames_have_the_order_in_which_they_were_rendered(name: str, folder: Path) -> None:
    path = write(name, folder)
    with VideoDecoder(path, dimension_order="NHWC") as decoder:
        numbers = [number_of(rgb) for rgb in decoder]
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
        assert decoder.frame_index.settled or name == "xvid avi", "FFmpeg makes up times, and they are right"


@pytest.mark.parametrize("name", ["h264 avi", "xvid matroska"])
def test_verify_accepts_right_order(name: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(write(name, folder)), "--all"]) == 0
    assert "identical" in capsys.readouterr().out


def test_verify_detects_frames_sorted_by_wrong_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write("h264 avi", tmp_path)
    order = np.argsort([pts or 0 for pts, _ in upright_frames(path)], kind="stable").tolist()
    right = VideoDecoder.get_frame_at
    monkeypatch.setattr(VideoDecoder, "get_frame_at", lambda decoder, index: right(decoder, order[index]))
    assert main(["verify", str(path), "--all"]) == 1
    assert "NOT identical" in capsys.readouterr().out


def test_hevc_in_avi_has_right_order(tmp_path: Path, ffmpeg_program: str) -> None:
    """PyAV does not write this, but the ffmpeg program does, even in a copy from an open group of pictures."""
    path, copy = tmp_path / "hevc.avi", tmp_path / "copy.avi"
    spec = ClipSpec("", "libx265", "hevc", options=x265("b-adapt=0:open-gop=1"))
    media.write_spec(spec, tmp_path / "stream.hevc")
    quiet, tag = [ffmpeg_program, "-v", "error", "-nostdin"], ["-c", "copy", "-tag:v", "HEVC"]
    subprocess.run([*quiet, "-fflags", "+genpts", "-r", "25", "-i", tmp_path / "stream.hevc", *tag, path], check=True)
    subprocess.run([*quiet, "-ss", "0.6", "-i", path, *tag, copy], check=True)
    for file in (path, copy):
        truth = find_truth(file)
        for index in (len(truth) - 1, 0, 7, 4):
            with truth.open() as decoder:
                assert len(decoder) == len(truth)
                assert_same(truth, index, decoder[index])
        with truth.open() as decoder:
            numbers = [number_of(rgb) for rgb in decoder]
        assert numbers == sorted(numbers)


# Reordering that begins late


def write_late_b_frames(path: Path, num_plain: int, num_reordered: int) -> None:
    """Write H.264 in mp4 with decoding times, in which only the last pictures are reordered.

    The header allows reordering throughout.
    """
    spec = ClipSpec("", options=_B_FRAMES, size=_LARGE, num_frames=num_plain + num_reordered)
    frames = list(drawn_frames(spec))
    for frame in frames[:num_plain]:
        frame.pict_type = 2  # P
    with open_output(spec, path) as output:
        stream = add_stream(output, spec)
        output.mux(time_by_decoding(encode(stream, spec, frames)))


@pytest.mark.slow
def test_late_reordering_is_found_for_any_first_frame(tmp_path: Path) -> None:
    path = tmp_path / "late.mp4"
    write_late_b_frames(path, 60, 24)
    truth = find_truth(path)
    for index in (83, 70, 66, 62, 61, 60, 59, 72, 73, 74, 0):
        with truth.open() as decoder:
            assert number_of(decoder[index]) == index
            assert_same(truth, index, decoder[index])


def test_header_suffices_for_streams_that_do_not_reorder(tmp_path: Path) -> None:
    path = tmp_path / "plain.mp4"
    write_late_b_frames(path, 120, 0)
    with CountingFile(path) as file, VideoDecoder(file, dimension_order="NHWC", num_ffmpeg_threads=1) as decoder:
        assert len(decoder) == 120
        assert file.num_read < path.stat().st_size / 2
        assert [number_of(rgb) for rgb in decoder] == list(range(120))
        assert not decoder.frame_index.settled


@pytest.mark.parametrize(
    ("codec", "container", "options"),
    [
        ("libx264", "avi", x264(bf="0")),
        ("libx264", "matroska", x264()),
        ("mpeg4", "avi", mpeg()),
        ("mpeg4", "avi", mpeg(bf="0")),
        ("mpeg4", "matroska", mpeg()),
        ("mpeg2video", "avi", mpeg(bf="0")),
        ("mpeg2video", "matroska", mpeg(flags="+cgop")),
        ("libx265", "mpegts", x265("b-adapt=0:open-gop=0")),
    ],
)
def test_streams_whose_packets_prove_their_times_are_not_decoded(
    codec: str, container: str, options: dict[str, str], tmp_path: Path
) -> None:
    path = tmp_path / f"clip.{container}"
    media.write_spec(ClipSpec("", codec, container, options=options), path)
    with VideoDecoder(path, dimension_order="NHWC") as decoder:
        assert len(decoder) == 40
        assert not decoder.frame_index.settled, decoder.frame_index.anomalies
        assert number_of(decoder[17]) == 17


# Beginnings


def test_leading_b_frames_without_reference_do_not_count(tmp_path: Path) -> None:
    """A copy that starts at an open group of pictures. In AVI the times do not show it."""

    def cut(packets: Packets) -> Packets:
        keys = [number for number, packet in enumerate(packets) if packet.is_keyframe]
        return time_by_decoding(packets[keys[1] :])

    for codec, options in (("mpeg1video", mpeg()), ("mpeg2video", mpeg()), ("libx264", _B_FRAMES)):
        path = tmp_path / f"{codec}.avi"
        media.write_spec(ClipSpec("", codec, "avi", options=options, rewrite=cut), path)
        truth = find_truth(path)
        for index in (len(truth) - 1, 0, 5):
            with truth.open() as decoder:
                assert len(decoder) == len(truth)
                assert_same(truth, index, decoder[index])


def test_b_frames_that_no_header_announces_are_counted_by_decoding(tmp_path: Path) -> None:
    """MPEG-4 without its header is decoded anyway; then one picture is returned twice."""

    def without_headers(packets: Packets) -> Packets:
        return [with_data(packet, bytes(packet)[bytes(packet).index(b"\0\0\1\xb6") :]) for packet in packets]

    path = tmp_path / "clip.wtv"
    media.write_spec(ClipSpec("", "mpeg4", "wtv", options=mpeg(), rewrite=without_headers), path)
    truth = find_truth(path)
    with truth.open() as decoder:
        assert len(decoder) == len(truth)
        assert [zlib.crc32(rgb.contiguous().numpy()) for rgb in decoder] == truth.checksums


# Joined files


def write_with_tone(path: Path, first: int, num_frames: int) -> None:
    spec = ClipSpec(
        "", "mpeg2video", "mpegts", options=mpeg(), num_frames=num_frames,
        paint=lambda number, *size: paint_picture(first + number, *size),
    )  # fmt: skip
    with open_output(spec, path) as output:
        audio, video = add_audio_stream(output), add_stream(output, spec)
        mux_in_order(output, encode(video, spec) + encode_tone(audio, num_frames / spec.rate))


@pytest.mark.parametrize("is_twin", [False, True])
def test_joined_parts_have_right_order(is_twin: bool, tmp_path: Path) -> None:
    parts = [tmp_path / "a.ts", tmp_path / "b.ts"]
    write_with_tone(parts[0], 0, 50)
    write_with_tone(parts[1], 0 if is_twin else 50, 50 if is_twin else 60)
    path = tmp_path / "joined.ts"
    path.write_bytes(b"".join(part.read_bytes() for part in parts))
    expected = [*range(50), *range(50)] if is_twin else list(range(110))
    truth = find_truth(path)
    assert len(truth) == len(expected), "an end of a transport stream may be lost"
    with truth.open() as decoder:
        assert [number_of(rgb) for rgb in decoder] == expected
        times = decoder.frame_index.pts_seconds.tolist()
        assert {round(after - before, 6) for before, after in pairwise(times)} == {0.04}
        span = decoder.frame_index.end_seconds - times[0]
    for index in (len(truth) - 1, 60, 50, 49, 20):
        with truth.open() as decoder:
            assert number_of(decoder[index]) == expected[index]
            assert_same(truth, index, decoder[index])
            assert number_of(decoder.get_frame_played_at(times[index]).data) == expected[index]
    with AudioDecoder(path) as audio:
        samples = audio.get_all_samples()
        assert samples.duration_seconds == pytest.approx(span, abs=0.1), "as long as the frames"


# Real and generated files


@pytest.mark.parametrize(
    ("name", "num_frames"),
    [
        ("xvid_b2.avi", 98), ("x264_b3.avi", 100), ("x264_b3.mxf", 100), ("joined_mpeg2.ts", 120),
        ("x264_open_cut.avi", 40), ("mpeg1_cut.avi", 48), ("mpeg4_b2.wtv", 61),
    ],
)  # fmt: skip
def test_odd_files_have_order_of_linear_decode(name: str, num_frames: int) -> None:
    path = TEST_DATA / "odd" / name
    if not path.exists():
        pytest.skip(f"{name} is not here")
    truth = find_truth(path)
    assert len(truth) == num_frames
    for index in truth.some(6):
        with truth.open() as decoder:
            assert_same(truth, index, decoder[index])
    with truth.open() as decoder:
        assert len(decoder) == num_frames
        assert [zlib.crc32(np.ascontiguousarray(rgb.numpy())) for rgb in decoder] == truth.checksums
        times = decoder.frame_index.pts_seconds.tolist()
        assert times == sorted(times)


@pytest.mark.parametrize("codec", ["libx264", "mpeg4", "mpeg2video"])
def test_encoded_avi_decodes_in_order(codec: str, tmp_path: Path) -> None:
    painted = np.stack([paint_picture(number, 96, 64) for number in range(30)])
    path = tmp_path / "ours.avi"
    frames = torch.from_numpy(painted).permute(0, 3, 1, 2)
    VideoEncoder(frames, frame_rate=25).to_file(path, codec=codec, extra_options={"bf": "2"} if codec[0] == "m" else {})
    with VideoDecoder(path, dimension_order="NHWC") as decoder:
        assert [number_of(decoder[index]) for index in (29, 11, 3, 12, 0)] == [29, 11, 3, 12, 0]
        assert [number_of(rgb) for rgb in decoder] == list(range(30))
