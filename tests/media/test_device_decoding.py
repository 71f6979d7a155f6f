"""Decoding on a device: the whole path of it, with backends that need no GPU and a device made in Python."""

from __future__ import annotations

import dataclasses
import pickle
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
import torch

import media
from device_backends import ClumsyBackend, PlaneBackend, StandInCudaBackend, largest_difference, registered
from fake_device import crossings
from forked import run_program
from mediatensor._engine.common.messages import forget_warnings
from mediatensor._engine.pyav import pixels
from mediatensor.backends import StreamParameters, Surface
from mediatensor.decoders import VideoDecoder
from mediatensor.errors import DeviceError, InvalidArgumentError
from mediatensor.samplers import clips_at_regular_indices
from mediatensor.transforms import CenterCrop, Resize
from places import needs_proc, open_files

# The largest difference of colours on a device, in levels of 255.
TOLERANCE = 2

CLIPS = ["h264_b_pyramid", "h264_open_gop", "hevc_open_gop", "hevc_10bit", "vp8", "av1", "h264_mbaff", "mpeg2_ts"]


# The container says so, and not the packets that a backend gets.
TURNED_CLIPS = ["rotated_90", "rotated_180", "rotated_90_mkv", "flipped_horizontally", "transposed"]

# Packets do not show which frames exist; a software decoder must find out.
DECODED_CLIPS = [
    "raw_h264",
    "edit_list_two_parts",
    "ts_concatenated",
    "missing_pts_ts",
    "equal_pts_mkv",
    "cover_art_alone",
]


@pytest.fixture(autouse=True)
def _warn_anew() -> None:
    forget_warnings()


@pytest.fixture(autouse=True)
def _take_stand_ins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Side data are read by compiled code, which accepts only PyAV's frames."""
    list_side_data = pixels._list_side_data
    monkeypatch.setattr(pixels, "_list_side_data", lambda frame: list_side_data(getattr(frame, "frame", frame)))


# The hybrid path: decoded on the CPU, converted on the device


@pytest.mark.parametrize("name", [*CLIPS, "h264_422_10bit", "h264_444", "h264_gray", "h264_rgb", "vp9"])
def test_frames_on_a_device_are_those_of_the_cpu(name: str, folder: Path, fake_device: torch.device) -> None:
    path = media.make(name, folder)
    wanted = [5, 0, 17, 5]
    expected = VideoDecoder(path).get_frames_at(wanted)
    batch = VideoDecoder(path, device=fake_device).get_frames_at(wanted)
    assert batch.data.device == fake_device
    assert batch.data.shape == expected.data.shape
    assert batch.data.stride() == expected.data.stride()
    assert largest_difference(batch.data, expected.data) <= TOLERANCE
    assert batch.pts_seconds.device.type == "cpu"
    assert torch.equal(batch.pts_seconds, expected.pts_seconds)


def test_planes_are_uploaded_once_and_nothing_comes_back(clip: Path, fake_device: torch.device) -> None:
    decoder = VideoDecoder(clip, device=fake_device, transforms=[Resize((40, 60)), CenterCrop((32, 32))])
    height, width = decoder.metadata.height, decoder.metadata.width
    assert height is not None
    assert width is not None
    decoder[0]
    with crossings() as seen:
        frames = decoder.get_frames_in_range(10, 18).data
    assert frames.shape == (8, 3, 32, 32)
    assert seen.uploaded_bytes == 8 * height * width * 3 // 2, seen
    assert not seen.downloads, seen
    assert seen.num_waits == 0, seen


def test_float_frames(folder: Path, fake_device: torch.device) -> None:
    path = media.make("hevc_10bit", folder)
    expected = VideoDecoder(path, output_dtype=torch.float32)[7]
    frame = VideoDecoder(path, output_dtype="auto", device=fake_device)[7]
    assert frame.dtype == torch.float32
    assert (frame.cpu() - expected).abs().max() < 2 / 255


@pytest.mark.parametrize("arguments", [{"dimension_order": "NHWC"}, {"seek_mode": "approximate"}])
def test_arguments_mean_the_same_on_a_device(arguments: Any, clip: Path, fake_device: torch.device) -> None:
    expected = VideoDecoder(clip, **arguments).get_frames_played_at([0.1, 0.9])
    batch = VideoDecoder(clip, device=fake_device, **arguments).get_frames_played_at([0.1, 0.9])
    assert batch.data.device == fake_device
    assert largest_difference(batch.data, expected.data) <= TOLERANCE


def test_everything_that_gives_frames_gives_them_on_the_device(clip: Path, fake_device: torch.device) -> None:
    decoder = VideoDecoder(clip, device=fake_device)
    plain = VideoDecoder(clip)
    for frame, expected in zip(list(decoder)[:4], plain, strict=False):
        assert frame.device == fake_device
        assert largest_difference(frame, expected) <= TOLERANCE
    assert decoder[5:5].device == fake_device
    assert decoder.get_frame_at(3).data.device == fake_device
    clips = clips_at_regular_indices(decoder, num_clips=2, num_frames_per_clip=3)
    assert clips.data.device == fake_device
    assert clips.pts_seconds.device.type == "cpu"


@pytest.mark.slow
def test_a_turned_video_is_turned_on_the_device(media_data: Callable[[str], Path], fake_device: torch.device) -> None:
    path = media_data("rails__rotated_hdr_video.mov")
    decoder = VideoDecoder(path, device=fake_device)
    expected = VideoDecoder(path)[20]
    assert decoder[20].shape == expected.shape
    assert largest_difference(decoder[20], expected) <= TOLERANCE


def test_the_default_device_of_torch_is_followed(clip: Path, fake_device: torch.device) -> None:
    with torch.device(fake_device):
        decoder = VideoDecoder(clip)
        batch = decoder.get_frames_in_range(0, 3)
    assert batch.data.device == fake_device
    assert batch.pts_seconds.device.type == "cpu"
    assert VideoDecoder(clip, device="cpu")[0].device.type == "cpu"


def test_a_decoder_on_a_device_can_be_pickled(clip: Path, fake_device: torch.device) -> None:
    decoder = VideoDecoder(clip, device=fake_device)
    expected = decoder[11].cpu()
    copied = pickle.loads(pickle.dumps(decoder))
    assert copied[11].device == fake_device
    assert torch.equal(copied[11].cpu(), expected)


def test_asking_for_the_cpu_by_name_is_no_fallback(clip: Path, fake_device: torch.device) -> None:
    decoder = VideoDecoder(clip, device=fake_device, decode_backend="cpu", strict_device=True)
    assert decoder[0].device == fake_device
    assert decoder.cpu_fallback.status_known
    assert not decoder.cpu_fallback


# Devices that there are not


def test_cuda_where_there_is_none(clip: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a CUDA device here")
    for kind in (ValueError, RuntimeError, InvalidArgumentError):
        with pytest.raises(kind, match="Unsupported device: cuda"):
            VideoDecoder(clip, device="cuda")


@pytest.mark.parametrize("device", ["nowhere", "fake:7:1", 3.5, object()])
def test_what_is_no_device(device: Any, clip: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="Unsupported device"):
        VideoDecoder(clip, device=device)


def test_a_forked_process_cannot_use_cuda(clip: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "_is_in_bad_fork", lambda: True)
    with pytest.raises(DeviceError, match=r"forked.*spawn.*ToDevice"):
        VideoDecoder(clip, device="cuda")


def test_a_backend_that_there_is_not(clip: Path) -> None:
    with pytest.raises(InvalidArgumentError, match=r"Invalid decode_backend \('gpu'\).*cpu, cuda"):
        VideoDecoder(clip, decode_backend="gpu")


# A backend of a third party


@pytest.mark.parametrize("name", CLIPS)
def test_a_backend_gives_the_frames_of_the_cpu(name: str, folder: Path, fake_device: torch.device) -> None:
    path = media.make(name, folder)
    backend = PlaneBackend()
    with registered(backend):
        decoder = VideoDecoder(path, device=fake_device, decode_backend="planes", strict_device=True)
        wanted = [len(decoder) - 1, 20, 3, 4, 3, 0]
        batch = decoder.get_frames_at(wanted)
        linear = torch.stack(list(decoder))
    expected = VideoDecoder(path)
    assert largest_difference(batch.data, expected.get_frames_at(wanted).data) <= TOLERANCE
    assert largest_difference(linear, expected[:]) <= TOLERANCE
    assert backend.num_opened
    assert decoder.cpu_fallback.status_known
    assert not decoder.cpu_fallback
    decoder.close()
    assert backend.num_open == 0


def test_a_backend_with_pictures_of_its_own(clip: Path, clip_rgb: torch.Tensor) -> None:
    with registered(PlaneBackend(makes_surfaces_late=True)):
        decoder = VideoDecoder(clip, decode_backend="planes", strict_device=True)
        for wanted in ([4, 20], [4, 21]):  # the second time, one of them was kept
            assert largest_difference(decoder.get_frames_at(wanted).data, clip_rgb[wanted]) <= TOLERANCE


def test_the_plan_is_that_of_the_cpu(folder: Path) -> None:
    """Unrequested frames without references are not sent to a backend either."""
    path = media.make("h264_16_b_frames", folder)
    backend = PlaneBackend()
    with registered(backend):
        decoder = VideoDecoder(path, decode_backend="planes", strict_device=True)
        last = len(decoder) - 1
        decoder[last]
    assert 0 < len([pts for pts in backend.packets if pts is not None]) < len(decoder) // 2


def _frames(path: Path, indices: list[int]) -> tuple[VideoDecoder, torch.Tensor]:
    decoder = VideoDecoder(path, decode_backend="planes")
    return decoder, decoder.get_frames_at(indices).data


@pytest.mark.parametrize("arguments", [{"refusal": "No such engine"}, {"fails_to_open": True}, {"num_packets": 0}])
def test_what_a_backend_refuses_the_cpu_decodes(arguments: Any, clip: Path, clip_rgb: torch.Tensor) -> None:
    backend = PlaneBackend(**arguments)
    with registered(backend), pytest.warns(UserWarning, match=r"decoded in software.*strict_device=True"):
        decoder, frames = _frames(clip, [3, 30])
    assert torch.equal(frames, clip_rgb[[3, 30]])
    assert decoder.cpu_fallback
    assert "Falling back due to: " in str(decoder.cpu_fallback)
    assert backend.num_open == 0
    with warnings.catch_warnings(), registered(backend):
        warnings.simplefilter("error")
        other = VideoDecoder(clip, decode_backend="planes")
        assert torch.equal(other[7], clip_rgb[7])  # and reports it once
    assert other.cpu_fallback.reason == decoder.cpu_fallback.reason


@pytest.mark.parametrize("arguments", [{"refusal": "No such engine"}, {"fails_to_open": True}, {"num_packets": 3}])
def test_a_strict_device_raises_instead(arguments: Any, clip: Path) -> None:
    with registered(PlaneBackend(**arguments)), pytest.raises(DeviceError, match="strict_device=True"):
        VideoDecoder(clip, decode_backend="planes", strict_device=True).get_frames_in_range(0, 20)


@pytest.mark.parametrize("seek_mode", ["exact", "approximate"])
def test_a_backend_that_stops_midway(seek_mode: Any, clip: Path, clip_rgb: torch.Tensor) -> None:
    backend = PlaneBackend(num_packets=12)
    with registered(backend):
        decoder = VideoDecoder(clip, decode_backend="planes", seek_mode=seek_mode)
        assert largest_difference(decoder[2], clip_rgb[2]) <= TOLERANCE
        assert not decoder.cpu_fallback
        with pytest.warns(UserWarning, match="The engine has stopped"):
            frames = decoder.get_frames_in_range(0, 40).data
    assert torch.equal(frames, clip_rgb[:40])
    assert decoder.cpu_fallback.reason == "The engine has stopped"


def test_a_rejected_packet_ends_decoding_on_the_device_only_if_its_frame_is_missed(
    clip: Path, clip_rgb: torch.Tensor
) -> None:
    index = VideoDecoder(clip).frame_index
    with av.open(str(clip)) as container:
        # ITU-T H.264, 7.4.1: no frame refers to a picture whose nal_ref_idc is 0, which is in the first byte of a unit.
        pts = next(packet.pts for packet in container.demux(video=0) if packet.size and bytes(packet)[4] == 1)
    missing = index.pts.tolist().index(pts)
    backend = PlaneBackend(rejects=pts)
    rest = [number for number in range(missing + 10) if number != missing]
    with registered(backend), warnings.catch_warnings():
        warnings.simplefilter("error")
        decoder = VideoDecoder(clip, decode_backend="planes", seek_mode="approximate")
        frames = [decoder.get_frame_played_at(float(index.pts_seconds[number])).data for number in rest]
        assert not decoder.cpu_fallback
    worst = [largest_difference(frame, clip_rgb[number]) for frame, number in zip(frames, rest, strict=True)]
    assert max(worst) <= TOLERANCE
    with registered(backend), pytest.warns(UserWarning, match="packets that the codec cannot decode"):
        decoder, frames = _frames(clip, [missing - 1, missing])
    assert torch.equal(frames, clip_rgb[[missing - 1, missing]])
    assert decoder.cpu_fallback


def test_a_picture_that_does_not_come_out(clip: Path, clip_rgb: torch.Tensor) -> None:
    pts = VideoDecoder(clip).frame_index.pts[10]
    wanted = list(range(5, 15))
    with registered(PlaneBackend(leaves_out=int(pts))), pytest.warns(UserWarning, match="does not give the frames"):
        decoder, frames = _frames(clip, wanted)
    assert torch.equal(frames, clip_rgb[wanted])
    assert not decoder.frame_index.anomalies  # the index was not to blame


@pytest.mark.parametrize("on_error", ["skip", "nearest"])
def test_error_policies_need_a_codec_that_tells_damage(on_error: Any, clip: Path) -> None:
    with registered(PlaneBackend()), pytest.warns(UserWarning, match="on_error"):
        decoder = VideoDecoder(clip, decode_backend="planes", on_error=on_error)
    assert decoder.cpu_fallback
    assert len(decoder.get_frames_in_range(0, 5)) == 5


def test_damage_that_a_backend_reports_is_judged_by_the_cpu(folder: Path) -> None:
    path = media.make("damage_after_key_mp4", folder)
    with registered(PlaneBackend()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        decoder = VideoDecoder(path, decode_backend="planes")
        frames = decoder[:]
    plain = VideoDecoder(path)
    assert torch.equal(frames, plain[:])
    assert decoder.frame_index.anomalies == plain.frame_index.anomalies
    assert decoder.cpu_fallback


def _raise(error: BaseException) -> Callable[[], Any]:
    def do() -> Any:
        raise error

    return do


@pytest.mark.parametrize("seek_mode", ["exact", "approximate"])
@pytest.mark.parametrize("place", ["why_not", "open", "decode", "flush", "surface"])
@pytest.mark.parametrize(
    "does",
    [_raise(RuntimeError("out of order")), _raise(MemoryError("out of order")), _raise(StopIteration()), lambda: 42],
    ids=["RuntimeError", "MemoryError", "StopIteration", "number"],
)
def test_a_backend_that_breaks_its_contract(
    seek_mode: Any, place: str, does: Callable[[], Any], clip: Path, clip_rgb: torch.Tensor
) -> None:
    with registered(ClumsyBackend(place, does)), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        decoder = VideoDecoder(clip, decode_backend="clumsy", seek_mode=seek_mode)
        frames = decoder.get_frames_at([30, 2]).data
    assert largest_difference(frames, clip_rgb[[30, 2]]) <= TOLERANCE
    if decoder.cpu_fallback:  # what flush() returns does not matter
        assert "clumsy" in str(caught[0].message) or "42" in str(caught[0].message)
    else:
        assert (place, does()) == ("flush", 42)


@pytest.mark.parametrize(
    ("place", "gives"), [("surface", [1]), ("surface", Surface((np.zeros((1, 1)),), "gray", 1, 1))]
)
def test_surfaces_without_tensors(place: str, gives: Any, clip: Path, clip_rgb: torch.Tensor) -> None:
    with (
        registered(ClumsyBackend(place, lambda: gives)),
        pytest.warns(UserWarning, match="must return a Surface with planes"),
    ):
        assert torch.equal(VideoDecoder(clip, decode_backend="clumsy")[2], clip_rgb[2])


def test_pictures_that_are_none(clip: Path, clip_rgb: torch.Tensor) -> None:
    with registered(ClumsyBackend("decode", lambda: [42])), pytest.warns(UserWarning, match="has no pts, duration"):
        assert torch.equal(VideoDecoder(clip, decode_backend="clumsy")[2], clip_rgb[2])


def test_a_refusal_without_words(clip: Path) -> None:
    with registered(PlaneBackend(refusal="")), pytest.warns(UserWarning, match="'planes' gives no reason") as caught:
        decoder = VideoDecoder(clip, decode_backend="planes")
    assert decoder.cpu_fallback
    assert caught[0].filename == __file__  # it points at who made the decoder


@needs_proc
def test_a_backend_that_does_not_close(clip: Path) -> None:
    with registered(ClumsyBackend("close", _raise(RuntimeError("stuck")))):
        before = len(open_files(clip))
        decoder = VideoDecoder(clip, decode_backend="clumsy")
        decoder[0]
        assert len(open_files(clip)) > before
        with pytest.warns(UserWarning, match=r"'clumsy' failed: RuntimeError\('stuck'\)"):
            decoder.close()
    assert len(open_files(clip)) == before


def test_approximate_access_to_a_backend_that_gives_nothing(clip: Path, clip_rgb: torch.Tensor) -> None:
    with registered(ClumsyBackend("decode", list)), pytest.warns(UserWarning, match="gives no frame"):
        frame = VideoDecoder(clip, decode_backend="clumsy", seek_mode="approximate")[4]
    assert torch.equal(frame, clip_rgb[4])


def test_nothing_is_known_of_the_device_before_a_frame(clip: Path) -> None:
    with registered(PlaneBackend()):
        decoder = VideoDecoder(clip, decode_backend="planes")
        assert not decoder.cpu_fallback.status_known
        assert decoder.metadata.width  # which is looked up on the CPU
        assert len(decoder.get_frames_at([])) == 0
        assert not decoder.cpu_fallback.status_known
        decoder[0]
        assert decoder.cpu_fallback.status_known


def test_a_decoder_in_a_forked_child_does_not_fall_back(clip: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with registered(StandInCudaBackend()):
        decoder = VideoDecoder(clip, decode_backend="replacement")
        decoder._video.spec = dataclasses.replace(decoder._video.spec, device=torch.device("cuda", 0))
        monkeypatch.setattr(torch.cuda, "_is_in_bad_fork", lambda: True)
        with pytest.raises(DeviceError, match=r"forked.*spawn.*ToDevice"):
            decoder[0]
    assert not decoder.cpu_fallback


# The CUDA backend over replacements


@pytest.mark.parametrize("name", [*CLIPS, *TURNED_CLIPS])
def test_the_cuda_backend_gives_the_frames_of_the_cpu(name: str, folder: Path) -> None:
    path = media.make(name, folder)
    backend = StandInCudaBackend()
    wanted = [17, 0, 5, 5, -1]
    with registered(backend):
        decoder = VideoDecoder(path, decode_backend="replacement", strict_device=True)
        frames = decoder.get_frames_at(wanted).data
    assert largest_difference(frames, VideoDecoder(path).get_frames_at(wanted).data) <= TOLERANCE
    assert backend.contexts
    assert not decoder.cpu_fallback


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("h264_10bit", "H.264 with 8 bits"),
        ("h264_422", "yuv422p"),
        ("h264_444", "yuv444p"),
        ("vp9", "odd"),
        ("ffv1_gop", "no decoder for ffv1"),
    ],
)
def test_what_nvdec_does_not_take(name: str, reason: str, folder: Path) -> None:
    path = media.make(name, folder)
    backend = StandInCudaBackend()
    with registered(backend), pytest.warns(UserWarning, match="decoded in software"):
        decoder = VideoDecoder(path, decode_backend="replacement")
    assert decoder.cpu_fallback.status_known
    assert str(decoder.cpu_fallback.reason).startswith("Video not supported: ")
    assert reason in str(decoder.cpu_fallback)
    assert torch.equal(decoder[3], VideoDecoder(path)[3])
    assert not backend.contexts


@pytest.mark.parametrize("name", DECODED_CLIPS)
def test_streams_whose_frames_must_be_compared(name: str, folder: Path) -> None:
    path = media.make(name, folder)
    plain = VideoDecoder(path)
    with registered(StandInCudaBackend()), pytest.warns(UserWarning, match="packets do not show which frames"):
        num_frames = len(decoder := VideoDecoder(path, decode_backend="replacement"))
    assert num_frames == len(plain)
    assert torch.equal(decoder[:], plain[:])
    with registered(StandInCudaBackend()), pytest.raises(DeviceError, match="packets do not show which frames"):
        len(VideoDecoder(path, decode_backend="replacement", strict_device=True))


def test_a_machine_without_nvdec(clip: Path, clip_rgb: torch.Tensor) -> None:
    with registered(StandInCudaBackend(unavailable="there is no driver")), pytest.warns(UserWarning, match="no driver"):
        decoder = VideoDecoder(clip, decode_backend="replacement")
    assert str(decoder.cpu_fallback).endswith("Falling back due to: NVcuvid unavailable: there is no driver")
    assert torch.equal(decoder[9], clip_rgb[9])


@pytest.mark.parametrize("trouble", ["falls_back", "crops"])
def test_what_ffmpeg_does_by_itself_is_noticed(trouble: str, clip: Path, clip_rgb: torch.Tensor) -> None:
    """Pictures that were decoded in software after all, or come out larger than the stream says."""
    backend = StandInCudaBackend()
    with registered(backend):
        decoder = VideoDecoder(clip, decode_backend="replacement")
        decoder[0]
        assert not decoder.cpu_fallback
        setattr(backend.contexts[0], trouble, True)
        with pytest.warns(UserWarning, match="Video not supported"):
            frame = decoder[30]
    assert torch.equal(frame, clip_rgb[30])


@pytest.mark.parametrize("error", [OSError(95, "not supported"), ValueError("no surface"), NotImplementedError("no")])
def test_every_error_of_pyav_leads_to_the_cpu(error: Exception, clip: Path, clip_rgb: torch.Tensor) -> None:
    at_open, midway = StandInCudaBackend(), StandInCudaBackend()
    at_open.failure = error
    with registered(at_open), pytest.warns(UserWarning, match="cannot be opened"):
        assert torch.equal(VideoDecoder(clip, decode_backend="replacement")[4], clip_rgb[4])
    with registered(midway):
        decoder = VideoDecoder(clip, decode_backend="replacement")
        decoder[0]
        midway.contexts[0].error = error
        with pytest.warns(UserWarning, match="rejected a packet"):
            assert torch.equal(decoder[30], clip_rgb[30])
    assert len(midway.cache) == 0  # failed decoders are not used again


def test_decoders_are_used_again_for_streams_of_their_kind(clip: Path, folder: Path) -> None:
    other = media.make("hevc_open_gop", folder)
    backend = StandInCudaBackend()
    with registered(backend):
        for path in (clip, clip, other, clip):
            with VideoDecoder(path, decode_backend="replacement", strict_device=True) as decoder:
                assert largest_difference(decoder[6], VideoDecoder(path)[6]) <= TOLERANCE
    assert len(backend.contexts) == 2  # another size or other parameter sets: another decoder
    assert len(backend.cache) == 2


@pytest.mark.parametrize(("codec", "num_kept"), [("h264", 0), ("vp8", 1)])
def test_decoders_that_would_know_another_stream_are_not_used_again(codec: str, num_kept: int) -> None:
    """Without a record of its parameter sets; a key frame of VP8 has all that there is to know."""
    backend = StandInCudaBackend()
    stream = StreamParameters(codec, None, 64, 64, "yuv420p", 8, b"")
    backend.open(stream, torch.device("cuda", 0)).close()
    assert len(backend.cache) == num_kept


def test_an_interrupted_decoder_is_not_used_again(clip: Path) -> None:
    backend = StandInCudaBackend()
    with registered(backend):
        decoder = VideoDecoder(clip, decode_backend="replacement", strict_device=True)
        decoder[0]
        backend.contexts[0].error = KeyboardInterrupt()
        with pytest.raises(KeyboardInterrupt):
            decoder[30]
        decoder.close()
    assert len(backend.cache) == 0


def test_the_size_that_the_container_states(media_data: Callable[[str], Path]) -> None:
    """The stream is 864 wide, of which 854 are shown; only the container says so."""
    path = media_data("gpmf-parser__karma.mp4")
    with registered(StandInCudaBackend()):
        frame = VideoDecoder(path, decode_backend="replacement", strict_device=True)[3]
    assert largest_difference(frame, VideoDecoder(path)[3]) <= TOLERANCE


def test_open_decoders_end_with_the_interpreter(clip: Path) -> None:
    code = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parents[1] / "shared")!r})
from device_backends import PlaneBackend
from mediatensor.backends import register_backend
from mediatensor.decoders import VideoDecoder
register_backend(PlaneBackend())
decoder = VideoDecoder({str(clip)!r}, decode_backend="planes", strict_device=True)
decoder[0]
"""
    run = run_program(code)
    assert run.stderr == ""


def test_a_picture_is_read_in_the_order_of_streams(clip: Path) -> None:
    backend = StandInCudaBackend()
    with registered(backend):
        decoder = VideoDecoder(clip, decode_backend="replacement", strict_device=True)
        decoder[0]
        assert backend.recording.waits == []  # on the default stream all is in order
        backend.recording.current = "side"
        decoder[1]
    assert backend.recording.waits == [("side", "default"), ("default", "side")]
