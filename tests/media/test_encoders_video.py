"""`VideoEncoder`: its files, read by other programs."""

from __future__ import annotations

import io
import os
import re
import subprocess
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
import torch

from encoder_oracles import moving_pictures, probe, psnr
from mediatensor import FrameBatch
from mediatensor.decoders import VideoDecoder
from mediatensor.encoders import VideoEncoder
from mediatensor.errors import EncodeError, InvalidArgumentError, SourceTypeError, WriteError
from oracles import ffmpeg_rgb

# Tests that compare files use MPEG-4, because x264 reads uninitialised memory for such small pictures.
NOISE = torch.randint(0, 256, (6, 3, 50, 70), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))

LOSSLESS = {
    "ffv1 bgr0 in mkv": ("mkv", {"codec": "ffv1", "pixel_format": "bgr0"}),
    "libx264rgb in mkv": ("mkv", {"codec": "libx264rgb", "crf": 0}),
    "libx264rgb in mp4": ("mp4", {"codec": "libx264rgb", "crf": 0, "preset": "ultrafast"}),
    "png in mov": ("mov", {"codec": "png"}),
    "huffyuv rgb24 in avi": ("avi", {"codec": "huffyuv", "pixel_format": "rgb24"}),
    "utvideo gbrp in avi": ("avi", {"codec": "utvideo"}),
    "apng": ("apng", {}),
}


@pytest.mark.parametrize("name", LOSSLESS)
def test_lossless_codecs_give_back_every_bit(name: str, tmp_path: Path, ffmpeg_program: str) -> None:
    extension, options = LOSSLESS[name]
    path = tmp_path / f"video.{extension}"
    VideoEncoder(NOISE, frame_rate=25).to_file(path, **options)
    assert np.array_equal(ffmpeg_rgb(ffmpeg_program, path).transpose(0, 3, 1, 2), NOISE.numpy())
    assert torch.equal(VideoDecoder(path)[:], NOISE)


@pytest.mark.parametrize(
    ("codec", "extension", "options"),
    [
        ("libx264", "mp4", {"crf": 23, "preset": "veryfast"}),
        ("libx264", "mkv", {"crf": 30, "preset": "medium", "pixel_format": "yuv444p"}),
        ("libvpx-vp9", "webm", {"crf": 30, "extra_options": {"b": 0, "cpu-used": 8, "deadline": "realtime"}}),
        ("mpeg4", "avi", {"extra_options": {"b": "1M"}}),
    ],
)
def test_lossy_codecs_are_as_good_as_the_ffmpeg_program(
    codec: str, extension: str, options: dict[str, Any], tmp_path: Path, ffmpeg_program: str
) -> None:
    frames = moving_pictures(30, 120, 160)
    path, reference = tmp_path / f"ours.{extension}", tmp_path / f"theirs.{extension}"
    options = dict(options)
    extra = options.pop("extra_options", {})
    VideoEncoder(frames, frame_rate=25).to_file(path, codec=codec, **options, extra_options=extra)
    command = [ffmpeg_program, "-v", "error", "-nostdin", "-f", "rawvideo", "-pix_fmt", "rgb24", "-s", "160x120"]
    command += ["-r", "25", "-i", "pipe:0", "-c:v", codec, "-pix_fmt", options.pop("pixel_format", "yuv420p")]
    for key, value in {**options, **extra}.items():
        command += [f"-{key}" if key != "b" else "-b:v", str(value)]
    raw = frames.permute(0, 2, 3, 1).numpy().tobytes()
    subprocess.run([*command, str(reference)], input=raw, check=True, timeout=120, stderr=subprocess.DEVNULL)
    ours = psnr(ffmpeg_rgb(ffmpeg_program, path).transpose(0, 3, 1, 2), frames.numpy())
    theirs = psnr(ffmpeg_rgb(ffmpeg_program, reference).transpose(0, 3, 1, 2), frames.numpy())
    assert ours > 25
    assert ours == pytest.approx(theirs, abs=0.5)
    assert path.stat().st_size == pytest.approx(reference.stat().st_size, rel=0.15)


@pytest.mark.parametrize(
    ("rate", "as_fraction"), [(25, "25/1"), (29.97, "2997/100"), (30000 / 1001, "30000/1001"), (Fraction(5, 2), "5/2")]
)
def test_frame_rate_and_times(rate: float | Fraction, as_fraction: str, tmp_path: Path) -> None:
    path = tmp_path / "video.mp4"
    VideoEncoder(moving_pictures(12, 64, 64), frame_rate=rate).to_file(path)
    stream, packets = probe(path, packets=["duration_time"])
    assert stream["avg_frame_rate"] == as_fraction
    assert stream["nb_frames"] == "12"
    assert [float(packet["pts_time"]) for packet in packets] == pytest.approx([k / rate for k in range(12)], abs=1e-5)
    assert float(packets[-1]["duration_time"]) == pytest.approx(float(1 / rate), abs=1e-5)
    assert float(stream["duration"]) == pytest.approx(float(12 / rate), abs=1e-3)


def test_frame_rates_of_numpy_and_torch() -> None:
    def encode(frame_rate: Any) -> torch.Tensor:
        return VideoEncoder(FRAMES, frame_rate=frame_rate).to_tensor("avi", codec="mpeg4")

    expected = encode(30)
    for rate in (np.int64(30), np.uint8(30), np.float32(30), np.array(30), torch.tensor(30), torch.tensor(30.0)):
        assert torch.equal(encode(rate), expected), repr(rate)
    with pytest.raises(InvalidArgumentError, match=r"frame_rate = Tensor of shape \(2,\)"):
        encode(torch.ones(2))


def uneven_frames() -> FrameBatch:
    pts = torch.tensor([7.0, 7.1, 7.137, 7.5, 8.25, 8.26], dtype=torch.float64)
    return FrameBatch(moving_pictures(6, 64, 64), pts, torch.cat([pts.diff(), torch.tensor([0.4])]))


@pytest.mark.parametrize(
    ("extension", "codec", "tolerance"),
    [("mp4", None, 1e-5), ("mov", None, 1e-5), ("mkv", None, 6e-4), ("mp4", "mpeg4", 1e-5)],
)
def test_variable_times_are_kept(extension: str, codec: str | None, tolerance: float, tmp_path: Path) -> None:
    frames = uneven_frames()
    pts, path = frames.pts_seconds, tmp_path / f"video.{extension}"
    VideoEncoder(frames).to_file(path, codec=codec)
    _, packets = probe(path, packets=["duration_time"])
    assert [float(packet["pts_time"]) for packet in packets] == pytest.approx((pts - 7).tolist(), abs=tolerance)
    batch = VideoDecoder(path).get_all_frames()
    assert torch.allclose(batch.pts_seconds, pts - 7, atol=tolerance)
    if extension != "mkv":  # which stores no duration
        assert batch.duration_seconds[-1].item() == pytest.approx(0.4, abs=tolerance)


@pytest.mark.parametrize("codec", [None, "libx264"])
def test_variable_times_in_avi_are_an_error(codec: str | None, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="avi does not store the times of frames"):
        VideoEncoder(uneven_frames()).to_file(tmp_path / "video.avi", codec=codec)
    assert list(tmp_path.iterdir()) == []


def test_even_times_of_a_batch_are_a_rate_and_a_rate_overrides_times(tmp_path: Path) -> None:
    frames, path = moving_pictures(8, 64, 64), tmp_path / "video.mp4"
    pts = 3 + torch.arange(8, dtype=torch.float64) * 1001 / 24000
    batch = FrameBatch(frames, pts, torch.full((8,), 1001 / 24000))
    VideoEncoder(batch).to_file(path)
    assert probe(path)[0]["avg_frame_rate"] == "24000/1001"
    VideoEncoder(batch, frame_rate=10).to_file(path)
    assert probe(path)[0]["avg_frame_rate"] == "10/1"
    VideoEncoder(batch[[2, 1, 1]], frame_rate=10).to_file(path)  # times that do not increase
    assert VideoDecoder(path).frame_index.pts_seconds.tolist() == pytest.approx([0.0, 0.1, 0.2])


def test_memory_layout_does_not_change_the_file() -> None:
    frames = moving_pictures(5, 64, 96)
    padded = torch.zeros(5, 3, 70, 110, dtype=torch.uint8)
    padded[:, :, :64, :96] = frames
    layouts = [
        frames,
        frames.to(memory_format=torch.channels_last),
        padded[:, :, :64, :96],
        padded.to(memory_format=torch.channels_last)[:, :, :64, :96],
        frames.flip(0).flip(0),
        frames.transpose(2, 3).contiguous().transpose(2, 3),
    ]
    files = [VideoEncoder(layout, frame_rate=25).to_tensor("mp4", codec="mpeg4") for layout in layouts]
    assert all(torch.equal(files[0], other) for other in files[1:])


def test_expanded_frames_are_encoded() -> None:
    picture = moving_pictures(1, 48, 64)
    repeated = VideoEncoder(picture.expand(4, -1, -1, -1), frame_rate=25).to_tensor("mkv", codec="ffv1")
    copied = VideoEncoder(picture.repeat(4, 1, 1, 1), frame_rate=25).to_tensor("mkv", codec="ffv1")
    assert torch.equal(VideoDecoder(repeated)[:], VideoDecoder(copied)[:])


def test_faststart_moves_the_header_to_the_front(tmp_path: Path) -> None:
    encoder = VideoEncoder(moving_pictures(5, 64, 64), frame_rate=25)
    for name, options in (("plain", {}), ("fast", {"movflags": "faststart"})):
        encoder.to_file(tmp_path / f"{name}.mp4", codec="mpeg4", extra_options=options)
    plain, fast = ((tmp_path / f"{name}.mp4").read_bytes() for name in ("plain", "fast"))
    assert plain.index(b"moov") > plain.index(b"mdat")
    assert fast.index(b"moov") < fast.index(b"mdat")
    assert torch.equal(VideoDecoder(fast)[:], VideoDecoder(plain)[:])
    assert bytes(encoder.to_tensor("mp4", codec="mpeg4", extra_options={"movflags": "faststart"}).numpy()) == fast


def test_options_reach_the_encoder() -> None:
    options = {"g": 6, "bf": 0, "sc_threshold": 0}
    video = VideoEncoder(moving_pictures(24, 64, 64), frame_rate=24).to_tensor("mp4", extra_options=options)
    assert VideoDecoder(video).frame_index.key_frame_indices.tolist() == [0, 6, 12, 18]


@pytest.mark.parametrize(
    ("container", "codec", "options", "profile"),
    [
        ("mp4", "libx264", {"profile": "baseline"}, "Constrained Baseline"),
        ("mp4", "libx264", {"profile": "main"}, "Main"),
        ("mp4", "libx264", {"profile": "high"}, "High"),
        ("mp4", "libx265", {"profile": "main"}, "Main"),
        ("mpeg", "mpeg2video", {"profile": "simple", "bf": 0}, "Simple"),
        ("mov", "prores_ks", {"profile": "hq"}, "HQ"),
        ("mov", "prores_ks", {"profile": "3"}, "HQ"),
        ("mp4", "mpeg4", {"profile": 1}, "Simple Scalable Profile"),
    ],
)
def test_a_profile_is_set_by_the_name_that_the_encoder_has(
    container: str, codec: str, options: dict[str, Any], profile: str
) -> None:
    video = VideoEncoder(moving_pictures(3, 64, 64), frame_rate=25).to_tensor(
        container, codec=codec, extra_options=options
    )
    with av.open(io.BytesIO(video.numpy())) as file:
        next(file.decode(video=0))
        assert file.streams.video[0].profile == profile


@pytest.mark.parametrize(
    ("options", "settings"),
    [
        ({"g": "2*3"}, "keyint=6"),
        ({"g": "0x10"}, "keyint=16"),
        ({"maxrate": "2*100k", "bufsize": "0.5M"}, "vbv_maxrate=200 vbv_bufsize=500"),
        ({"me_method": "umh"}, "me=umh"),
        ({"coder": "vlc", "weightp": "none"}, "cabac=0"),
        ({"flags": "+psnr-cgop"}, "open_gop=1"),
        ({"mixed-refs": "false", "aq-mode": "none"}, "mixed_ref=0"),
        ({"b-pyramid": "strict", "direct-pred": "temporal"}, "b_pyramid=1"),
        ({"tune": "zerolatency"}, "bframes=0"),
        ({"x264-params": "keyint=7:bframes=0"}, "keyint=7"),
        ({"partitions": "none", "refs": "max"}, "ref=16"),
        ({"intra-refresh": "yes"}, "intra_refresh=1"),
    ],
)
def test_option_values_can_be_names_suffixes_and_expressions(options: dict[str, Any], settings: str) -> None:
    video = VideoEncoder(moving_pictures(3, 64, 64), frame_rate=24).to_tensor("h264", extra_options=options)
    written_down = bytes(video.numpy()).decode("latin-1").partition("options: ")[2]  # x264 does that
    assert settings in written_down


@pytest.mark.parametrize(
    ("codec", "options", "as_numbers"),
    [
        ("mpeg4", {"mbd": "rd"}, {"mbd": 2}),
        ("mpeg4", {"qmin": "2*5", "qmax": "max"}, {"qmin": 10, "qmax": 1024}),
        ("mpeg4", {"motion_est": "zero"}, {"motion_est": 0}),
        ("mpeg4", {"flags": "+qpel"}, {"flags": "+16"}),
        ("libvpx-vp9", {"deadline": "realtime", "cpu-used": "max"}, {"deadline": 1, "cpu-used": 8}),
    ],
)
def test_named_option_values_equal_their_numbers(
    codec: str, options: dict[str, Any], as_numbers: dict[str, Any]
) -> None:
    encoder = VideoEncoder(moving_pictures(12, 64, 64), frame_rate=24)
    named, numbered, plain = (
        VideoDecoder(encoder.to_tensor("mkv", codec=codec, extra_options={"threads": 1} | more))[:]
        for more in (options, as_numbers, {})
    )
    assert torch.equal(named, numbered)
    assert not torch.equal(named, plain)


def test_an_option_can_be_a_ratio() -> None:
    encoder = VideoEncoder(moving_pictures(3, 64, 64), frame_rate=24)
    for aspect in ("16/9", "16:9", "1.7777777"):
        video = encoder.to_tensor("mp4", codec="mpeg4", extra_options={"aspect": aspect})
        assert VideoDecoder(video).metadata.pixel_aspect_ratio == Fraction(16, 9)


def test_flags_without_a_sign_leave_the_container_its_header(tmp_path: Path) -> None:
    VideoEncoder(moving_pictures(5, 64, 64), frame_rate=25).to_file(tmp_path / "v.mkv", extra_options={"flags": "cgop"})
    with av.open(str(tmp_path / "v.mkv")) as file:
        assert file.streams.video[0].codec_context.extradata
    assert len(VideoDecoder(tmp_path / "v.mkv")) == 5


@pytest.mark.parametrize("name", ["pixel_format", "pix_fmt"])
def test_a_pixel_format_can_be_an_option(name: str) -> None:
    encoder = VideoEncoder(moving_pictures(3, 64, 64), frame_rate=25)
    as_option = encoder.to_tensor("mp4", extra_options={name: "yuv444p"})
    as_argument = encoder.to_tensor("mp4", pixel_format="yuv444p")
    assert torch.equal(as_option, as_argument)
    as_both = encoder.to_tensor("mp4", pixel_format="yuv444p", extra_options={name: "yuv420p"})
    assert torch.equal(as_both, as_argument)


@pytest.mark.parametrize(
    ("container", "codec", "options", "ignored"),
    [
        ("mp4", "mpeg4", {"crf": 20}, "crf"),
        ("avi", None, {"crf": 0}, "crf"),
        ("flv", None, {"crf": 0}, "crf"),
        ("gif", None, {"crf": 0, "preset": "fast"}, "crf, preset"),
        ("webm", "libvpx-vp9", {"preset": "ultrafast"}, "preset"),
        ("mp4", "mpeg4", {"extra_options": {"tune": "film"}}, "tune"),
        ("mkv", "mpeg4", {"extra_options": {"movflags": "faststart"}}, "movflags"),
    ],
)
def test_options_of_other_encoders_are_ignored_with_a_warning(
    container: str, codec: str | None, options: dict[str, Any], ignored: str
) -> None:
    encoder = VideoEncoder(moving_pictures(3, 64, 64), frame_rate=25)
    with pytest.warns(UserWarning, match=f"Nothing uses the option {ignored}: ") as caught:
        video = encoder.to_tensor(container, codec=codec, **options)
    assert [warning.filename for warning in caught] == [__file__]
    assert torch.equal(VideoDecoder(video)[:], VideoDecoder(encoder.to_tensor(container, codec=codec))[:])


def test_x264_is_not_cut_into_slices() -> None:
    video = VideoEncoder(moving_pictures(3, 640, 640), frame_rate=24).to_tensor("h264", preset="ultrafast")
    data = bytes(video.numpy())
    types = [data[at + 3] & 31 for at in range(len(data) - 3) if data[at : at + 3] == b"\0\0\1"]
    assert sum(kind in (1, 5) for kind in types) == 3


FRAMES = torch.zeros(2, 3, 16, 16, dtype=torch.uint8)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: VideoEncoder([1], frame_rate=25), "Expected frames to be a Tensor"),
        (lambda: VideoEncoder(FRAMES[0], frame_rate=25), "Expected 4D frames"),
        (lambda: VideoEncoder(FRAMES.float(), frame_rate=25), "Expected uint8 frames"),
        (lambda: VideoEncoder(FRAMES[:, :1], frame_rate=25), "3 channels"),
        (lambda: VideoEncoder(FRAMES[:0], frame_rate=25), "no frames"),
        (lambda: VideoEncoder(FRAMES, frame_rate=0), "frame_rate = 0 must be > 0"),
        (lambda: VideoEncoder(FRAMES, frame_rate=float("nan")), "frame_rate = nan must be"),
        (lambda: VideoEncoder(FRAMES, frame_rate=True), "frame_rate = True must be"),
        (lambda: VideoEncoder(FRAMES), "frame_rate is required"),
        (lambda: VideoEncoder(FrameBatch(FRAMES, torch.tensor([1.0, 1.0]), torch.ones(2))), "must increase"),
        (lambda: VideoEncoder(FrameBatch(FRAMES, torch.tensor([1.0, np.inf]), torch.ones(2))), "finite"),
        (lambda: VideoEncoder(FrameBatch(FRAMES, torch.tensor([1.0, 1e30]), torch.ones(2))), "finite"),
        (lambda: VideoEncoder(FRAMES.to("meta"), frame_rate=25), "no values"),
    ],
)
def test_wrong_frames_and_rates(make: Callable[[], object], words: str) -> None:
    with pytest.raises(InvalidArgumentError, match=words) as caught:
        make()
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"codec": "nosuch"}, "Video codec nosuch not found"),
        ({"codec": ""}, "Video codec  not found"),
        ({"pixel_format": ""}, "Unknown pixel format"),
        ({"codec": "aac"}, "codec for audio"),
        ({"pixel_format": "nosuch"}, "Unknown pixel format: nosuch"),
        ({"pixel_format": "rgb24"}, "pixel format rgb24 is not supported by the libx264 encoder"),
        ({"crf": -10}, "crf=-10 is out of valid range"),
        ({"codec": "libvpx-vp9", "crf": 64}, r"crf=64 is out of valid range \[-1, 63\]"),
        ({"extra_options": {"qp": "many"}}, "Option qp expects a numeric value but got"),
        ({"extra_options": {"g": "12x"}}, "Option g expects a numeric value but got '12x'"),
        ({"extra_options": {"aq-mode": "best"}}, "aq-mode expects a numeric value.*one of.*variance"),
        ({"extra_options": {"a53cc": "maybe"}}, "a53cc expects true or false but got 'maybe'"),
        ({"extra_options": {"flags": "+cgop+nosuch"}}, r"flags expects names joined by \+ or -, of .*cgop"),
        ({"codec": "libsvtav1", "preset": "fast"}, "Option preset expects a numeric value but got 'fast'"),
        ({"extra_options": {"nosuch": 1}}, "Unknown option in extra_options: nosuch"),
        ({"extra_options": {"colorspace": "ycgco"}}, "colorspace=ycgco is not supported"),
        ({"extra_options": {"color_trc": "nosuch"}}, "color_trc=nosuch is not known"),
        ({"extra_options": ["g"]}, "extra_options must be a dict"),
        ({"extra_options": {"\0": 1}}, "NUL"),
        ({"extra_options": {"g": "1\0"}}, "NUL"),
        ({"codec": "libvpx"}, "does not go with the container"),
        *[({"crf": value}, "crf must be a number") for value in ("23", torch.zeros(2))],
        *[({"preset": value}, "preset must be a name") for value in (5.0, [])],
    ],
)
def test_wrong_options(options: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match=words) as caught:
        VideoEncoder(FRAMES, frame_rate=25).to_file(tmp_path / "video.mp4", **options)
    assert isinstance(caught.value, RuntimeError)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [np.int64, np.float32, np.float64, torch.tensor, lambda x: torch.tensor(float(x))])
def test_numbers_of_numpy_and_torch_are_options(number: Callable[[int], Any]) -> None:
    decoder = VideoDecoder(
        VideoEncoder(NOISE, frame_rate=number(25)).to_tensor("mp4", codec="libx264rgb", crf=number(0))
    )
    assert torch.equal(decoder[:], NOISE)  # only lossless with crf 0
    assert decoder.metadata.average_fps == 25


def test_a_preset_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(EncodeError, match=r"libx264 encoder could not be opened.*slowish"):
        VideoEncoder(FRAMES, frame_rate=25).to_file(tmp_path / "video.mp4", preset="slowish")


@pytest.mark.parametrize("size", [(31, 32), (32, 31), (31, 31)])
def test_the_error_for_odd_sizes_names_a_pixel_format(size: tuple[int, int], tmp_path: Path) -> None:
    frames = NOISE[:, :, : size[0], : size[1]]
    path = tmp_path / "video.mp4"
    with pytest.raises(InvalidArgumentError, match=f"height {size[0]} and width {size[1]}") as caught:
        VideoEncoder(frames, frame_rate=25).to_file(path)
    advised = re.search(r"pixel_format='(\w+)'", str(caught.value))
    assert advised is not None
    VideoEncoder(frames, frame_rate=25).to_file(path, pixel_format=advised[1])
    assert VideoDecoder(path)[:].shape == frames.shape


@pytest.mark.parametrize(
    ("destination", "error", "words"),
    [
        ("video.nosuch", InvalidArgumentError, "check the desired extension"),
        ("video", InvalidArgumentError, "check the desired extension"),
        ("picture.jpg", InvalidArgumentError, "JpegEncoder"),
        ("stream.m3u8", InvalidArgumentError, "writes several files"),
        ("no/such/folder/video.mp4", WriteError, "valid path"),
        ("s3://bucket/video.mp4", InvalidArgumentError, "fsspec"),
        (io.BytesIO(), SourceTypeError, r"to_file_like\(\) or open_file_like\(\)"),
    ],
)
def test_wrong_destinations(destination: Any, error: type[Exception], words: str, tmp_path: Path) -> None:
    if isinstance(destination, str) and "://" not in destination:
        destination = tmp_path / destination
    with pytest.raises(error, match=words):
        VideoEncoder(FRAMES, frame_rate=25).to_file(destination)
    assert list(tmp_path.iterdir()) == []


def test_wrong_formats_and_file_objects() -> None:
    encoder = VideoEncoder(FRAMES, frame_rate=25)
    for name in ("nosuch", "", "mp4:aac", None):
        with pytest.raises(InvalidArgumentError, match="Got format="):
            encoder.to_tensor(name)  # type: ignore[arg-type]
    for file in (object(), io.StringIO(), "name"):
        with pytest.raises(SourceTypeError, match="binary file object"):
            encoder.to_file_like(file, "mp4")


def test_encoders_of_other_libraries_are_left_alone(capfd: pytest.CaptureFixture[str]) -> None:
    frames = moving_pictures(3, 64, 64)
    for codec in {"libx264", "libx265", "libsvtav1", "libvpx-vp9"} & av.codecs_available:
        VideoEncoder(frames, frame_rate=25).to_tensor("mp4", codec=codec)
    assert capfd.readouterr().err == ""


@pytest.mark.skipif(not hasattr(os, "sched_getscheduler"), reason="the system knows no scheduling policies")
def test_a_thread_that_encodes_keeps_its_priority() -> None:
    """SVT-AV1 makes it a real-time thread if it has the permission, for example as root."""
    before = os.sched_getscheduler(0), os.sched_getparam(0)
    VideoEncoder(torch.zeros(2, 3, 64, 64, dtype=torch.uint8), frame_rate=10).to_tensor("mp4", codec="libsvtav1")
    assert (os.sched_getscheduler(0), os.sched_getparam(0)) == before
