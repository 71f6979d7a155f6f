"""Pictures, encoders, frames and transforms with tensors that are not on the CPU, and with another default dtype."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from fake_device import crossings
from images import encoded, picture
from mediatensor import decoders
from mediatensor._engine.common.devices import checked_device, on_device
from mediatensor.cli import main
from mediatensor.encoders import AudioEncoder, Encoder, JpegEncoder, PngEncoder, VideoEncoder
from mediatensor.errors import DeviceError, InvalidArgumentError
from mediatensor.frames import AudioSamples, AudioSamplesBatch, AudioVideoClip, Frame, FrameBatch, ReplacedFrame
from mediatensor.ocr import models
from mediatensor.samplers import audio_clips_at_regular_timestamps
from mediatensor.transforms import (
    CenterCrop,
    LogMelSpectrogram,
    Normalize,
    Pad,
    RandomCrop,
    RandomHorizontalFlip,
    RandomResizedCrop,
    Resize,
    ToFloat,
    functional,
)


@pytest.fixture
def default_device(fake_device: torch.device) -> Iterator[torch.device]:
    """The device, as torch's default."""
    torch.set_default_device(fake_device)
    yield fake_device
    torch.set_default_device("cpu")


def frames_on(device: torch.device | str, num_frames: int = 12, height: int = 64, width: int = 96) -> Tensor:
    """Frames as a decoder gives them, (N, 3, H, W) over channels-last memory."""
    random = torch.Generator().manual_seed(1)
    small = torch.rand(num_frames, 3, height // 16, width // 16, generator=random, device="cpu") * 255
    smooth = torch.nn.functional.interpolate(small, (height, width), mode="bilinear").to(torch.uint8)
    return smooth.movedim(1, -1).contiguous().to(device).movedim(-1, 1)


# --- devices


@pytest.mark.parametrize("device", ["abacus", "cuda:99", 3.5, "fake:7", "cpu:x", "meta"])
def test_a_device_that_is_not_there(fake_device: torch.device, device: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="Unsupported device") as raised:
        checked_device(device)
    assert str(device) in str(raised.value)
    assert "that torch has on this machine, such as cpu" in str(raised.value)
    assert "mkldnn" not in str(raised.value)  # torch lists kinds of devices that this machine does not have
    assert "\n" not in str(raised.value)


def test_cuda_device_beyond_the_last_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    for count, words in ((1, "1 CUDA device"), (2, "2 CUDA devices")):
        monkeypatch.setattr(torch.cuda, "device_count", lambda count=count: count)
        with pytest.raises(InvalidArgumentError, match=rf"device: cuda:{count}\..*finds {words},"):
            decoders.decode_png(encoded(picture(), "png"), device=f"cuda:{count}")
        assert checked_device(f"cuda:{count - 1}").index == count - 1


def test_copies_are_waited_for_where_they_read_memory_too_late(monkeypatch: pytest.MonkeyPatch) -> None:
    waits = []
    monkeypatch.setattr(Tensor, "to", lambda self, device, non_blocking: waits.append(not non_blocking))
    for name in ("cuda", "xpu", "mps"):
        on_device(torch.ones(2), torch.device(name))
    assert waits == [False, False, True]


def test_cuda_in_a_forked_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "_is_in_bad_fork", lambda: True)
    for use in (checked_device, lambda device: decoders.decode_png(b"", device=device)):
        with pytest.raises(DeviceError, match=r"'cuda:0' cannot be used .* num_workers=0.*ToDevice"):
            use("cuda:0")
    assert checked_device("cpu") == torch.device("cpu")


def test_the_command_says_that_a_device_is_not_there_before_it_loads_models(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(models, "ocr_predictor", lambda **_: pytest.fail("models were loaded"))
    page = encode_page(tmp_path)
    assert main(["ocr", page, "-o", str(tmp_path / "out"), "--device", "cuda:99"]) == 2
    assert "--device cuda:99 cannot be used: Unsupported device: cuda:99" in capsys.readouterr().err


def test_the_command_says_that_a_device_has_no_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], fake_device: torch.device
) -> None:
    placed = []

    def to(device: torch.device) -> None:
        placed.append(device)
        raise RuntimeError("out of memory\nand more")

    monkeypatch.setattr(models, "ocr_predictor", lambda **_: SimpleNamespace(to=to))
    page = encode_page(tmp_path)
    assert main(["ocr", page, "-o", str(tmp_path / "out"), "--device", "fake:0"]) == 2
    assert capsys.readouterr().err.endswith("--device fake:0 cannot be used: out of memory\n")
    assert placed == [fake_device]


def encode_page(folder: Path) -> str:
    path = folder / "page.png"
    PngEncoder(torch.full((3, 8, 8), 255, dtype=torch.uint8)).to_file(path)
    return str(path)


# --- pictures


@pytest.mark.parametrize("kind", ["jpeg", "png", "webp", "gif"])
def test_pictures_come_out_on_the_device(fake_device: torch.device, kind: str) -> None:
    file = encoded(picture(), kind)
    decode = getattr(decoders, f"decode_{kind}")
    for device in (fake_device, "fake:1"):
        with crossings() as seen:
            image = decode(file, device=device)
        assert (image.device, image.is_contiguous()) == (torch.device(device), True)
        assert (len(seen.uploads), seen.uploaded_bytes) == (1, image.nbytes), seen
        assert (seen.num_waits, seen.blocking_uploads) == (0, []), seen
        assert torch.equal(image.cpu(), decode(file))
        assert decoders.decode_image(file, device=device).device == torch.device(device)


def test_lists_of_pictures_come_out_on_the_device(fake_device: torch.device) -> None:
    files = [encoded(picture(height), "jpeg") for height in (5, 6, 7)]
    images = decoders.decode_jpeg(files, device=fake_device)
    assert [tuple(image.shape) for image in images] == [(3, height, 37) for height in (5, 6, 7)]
    for image, file in zip(images, files, strict=True):
        assert image.device == fake_device
        assert torch.equal(image.cpu(), decoders.decode_jpeg(file))


def test_pictures_are_on_the_cpu_unless_the_default_device_is_asked_for(default_device: torch.device) -> None:
    file = encoded(picture(), "png")
    assert decoders.decode_png(file).device.type == "cpu"
    assert decoders.decode_png(file, device=None).device == default_device
    for encoder in (PngEncoder, JpegEncoder):
        again = encoder(decoders.decode_png(file, device=None)).to_tensor()
        assert again.device.type == "cpu"


def test_pictures_go_to_cuda_from_page_locked_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is pinned where it is decoded, and its copy put into the stream of the caller, without waiting."""
    calls: list[tuple[Any, ...]] = []

    def pin_memory(tensor: Tensor) -> Tensor:
        calls.append(("pin",))
        return tensor

    def to(tensor: Tensor, device: torch.device, *, non_blocking: bool) -> Tensor:
        calls.append(("to", str(device), non_blocking))
        return tensor

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(Tensor, "pin_memory", pin_memory)
    monkeypatch.setattr(Tensor, "to", to)
    decoders.decode_png([encoded(picture(), "png")] * 2, device="cuda:1")
    assert calls == [("pin",), ("pin",), ("to", "cuda:1", True), ("to", "cuda:1", True)]


# --- encoders


def test_frames_of_a_device_are_encoded(fake_device: torch.device, tmp_path: Path) -> None:
    frames = frames_on(fake_device)
    with crossings() as seen:
        file = VideoEncoder(frames, frame_rate=25).to_tensor("mp4", codec="mpeg4")
    assert (len(seen.downloads), seen.downloaded_bytes) == (1, frames.nbytes), seen
    assert seen.num_waits == 1, seen
    assert torch.equal(file, VideoEncoder(frames.cpu(), frame_rate=25).to_tensor("mp4", codec="mpeg4"))
    batch = FrameBatch(frames, torch.arange(12) / 25, torch.full((12,), 1 / 25))
    VideoEncoder(batch).to_file(tmp_path / "clip.mp4", codec="mpeg4")
    assert len(decoders.VideoDecoder(tmp_path / "clip.mp4")) == 12


def test_many_frames_of_a_device_are_copied_in_pieces(
    fake_device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    frames = frames_on(fake_device)
    whole = VideoEncoder(frames, frame_rate=25).to_tensor("mp4", codec="mpeg4")
    for frames_at_a_time, num_copies in ((5, 3), (0.5, 12)):
        limit = int(frames[0].nbytes * frames_at_a_time)
        monkeypatch.setattr("mediatensor.encoders._encoder.MAX_COPY_BYTES", limit)
        with crossings() as seen:
            assert torch.equal(VideoEncoder(frames, frame_rate=25).to_tensor("mp4", codec="mpeg4"), whole)
        assert (len(seen.downloads), seen.downloaded_bytes) == (num_copies, frames.nbytes), seen


def test_streams_take_frames_and_samples_of_any_device(fake_device: torch.device) -> None:
    frames, samples = frames_on("cpu"), torch.rand(2, 4800) - 0.5

    def file(frames_device: Any, samples_device: Any, **options: Any) -> bytes:
        encoder, file = Encoder(), io.BytesIO()
        video = encoder.add_video(height=64, width=96, frame_rate=25, codec="mpeg4", **options)
        audio = encoder.add_audio(sample_rate=48_000, num_channels=2, codec="flac")
        with encoder.open_file_like(file, format="mkv"):
            video.add_frames(frames.to(frames_device))
            audio.add_samples(AudioSamples(samples.to(samples_device), 0.0, 0.1, 48_000))
            video.add_frames(frames)
            audio.add_samples(samples.to(samples_device))
        return file.getvalue()

    def decoded(data: bytes) -> tuple[Tensor, Tensor]:
        return decoders.VideoDecoder(data)[:], decoders.AudioDecoder(data).get_all_samples().data

    pictures, sound = decoded(file("cpu", "cpu"))
    assert len(pictures) == 24
    for options in ({"device": fake_device}, {"device": "cpu"}, {}):
        again, same_sound = decoded(file(fake_device, "fake:1", **options))
        assert torch.equal(again, pictures)
        assert torch.equal(same_sound, sound)


def test_sound_of_a_device_is_encoded(fake_device: torch.device) -> None:
    samples = torch.rand(2, 800) - 0.5
    with crossings() as seen:
        file = AudioEncoder(samples.to(fake_device), sample_rate=8000).to_tensor("wav")
    assert (len(seen.downloads), seen.num_waits) == (1, 1), seen
    assert torch.equal(file, AudioEncoder(samples, sample_rate=8000).to_tensor("wav"))


@pytest.mark.parametrize("encoder", [PngEncoder, JpegEncoder])
def test_pictures_of_a_device_are_encoded(fake_device: torch.device, encoder: Callable[[Tensor], Any]) -> None:
    frame = frames_on(fake_device)[3]
    with crossings() as seen:
        encoding = encoder(frame)
        file = encoding.to_tensor()
        assert torch.equal(encoding.to_tensor(), file)
    assert (len(seen.downloads), seen.downloaded_bytes) == (1, frame.nbytes), seen
    assert torch.equal(file, encoder(frame.cpu()).to_tensor())


# --- frames


def batch_on(device: torch.device | str) -> FrameBatch:
    return FrameBatch(
        frames_on(device, 6, 16, 16),
        torch.arange(6, device="cpu") / 10,
        [0.1] * 6,
        replaced=(ReplacedFrame(7, "cut", 4, 6),),
    )


@pytest.mark.parametrize("where", ["data and index", "data", "index"])
@pytest.mark.parametrize(
    "index",
    [
        torch.tensor([4, 0]),
        torch.tensor([True, False, False, False, True, False]),
        torch.tensor(4),
        [0, 4],
        slice(3, None),
        (slice(None, None, 2),),
        (torch.tensor([4]),),
    ],
    ids=str,
)
def test_a_batch_is_indexed_alike_on_any_device(fake_device: torch.device, where: str, index: Any) -> None:
    def moved(index: Any) -> Any:
        if isinstance(index, tuple):
            return tuple(moved(one) for one in index)
        return index.to(fake_device) if isinstance(index, Tensor) else index

    expected = batch_on("cpu")[index]
    batch = batch_on(fake_device if "data" in where else "cpu")
    found = batch[moved(index) if "index" in where else index]
    assert found.data.device == batch.data.device
    assert torch.equal(found.data.cpu(), expected.data)
    assert torch.equal(found.pts_seconds, expected.pts_seconds)
    assert found.replaced == expected.replaced


def test_an_index_on_the_device_is_waited_for_once(fake_device: torch.device) -> None:
    index = torch.tensor([4, 0], device=fake_device)
    batch = FrameBatch(frames_on(fake_device, 6, 16, 16), [0.0] * 6, [0.1] * 6)
    with crossings() as seen:
        assert len(batch[index]) == 2
    assert (seen.num_waits, seen.downloaded_bytes, seen.uploads) == (1, index.nbytes, []), seen


def test_times_stay_on_the_cpu(default_device: torch.device) -> None:
    batch = batch_on(default_device)
    sound = AudioSamplesBatch(torch.zeros(2, 1, 8), [0.0, 0.5], torch.tensor([0.5, 0.5]), 16, [8, 7])
    assert batch.data.device == sound.data.device == default_device
    with crossings() as seen:
        assert batch[3:].replaced[0].position == 1
    assert seen.num_waits == 0, seen
    for one in (batch, batch[1:3], batch[torch.tensor([4, 0])], batch[torch.tensor(2)], next(iter(batch)), sound):
        assert one.pts_seconds.device.type == one.duration_seconds.device.type == "cpu"
    assert batch[torch.tensor([0, 4])].replaced[0].position == 1
    assert sound[torch.tensor([True, False])].num_valid_samples.tolist() == [8]
    assert sound[torch.tensor(1)].pts_seconds == 0.5


def test_everything_that_is_decoded_can_be_moved(fake_device: torch.device) -> None:
    frames, samples = batch_on("cpu"), AudioSamples(torch.zeros(1, 8), 0.0, 0.5, 16)
    frame = Frame(frames.data[0], 0.5, 0.1, replaced=frames.replaced)
    clip = AudioVideoClip(frames, samples, ((1, 2),)).to(fake_device)
    assert clip.frames.data.device == clip.samples.data.device == fake_device
    assert clip.silent_spans == ((1, 2),)
    moved = frame.to(fake_device, torch.float32)
    assert (moved.data.device, moved.data.dtype) == (fake_device, torch.float32)
    assert (moved.pts_seconds, moved.duration_seconds, moved.replaced) == (0.5, 0.1, frame.replaced)
    # Loaders that pin memory do not move tensors on a device.
    for there in (moved, clip.frames, clip.samples, clip):
        pinned = there.pin_memory()
        data = pinned.frames.data if isinstance(pinned, AudioVideoClip) else pinned.data
        assert data.device == fake_device


# --- transforms

TRANSFORMS = {
    "resize": Resize((20, 30)),
    "crop": CenterCrop((9, 11)),
    "random crop": RandomCrop((9, 11)),
    "random resized crop": RandomResizedCrop((20, 30)),
    "flip": RandomHorizontalFlip(),
    "pad": Pad((1, 2), (3, 4, 5)),
    "normalize": torch.nn.Sequential(ToFloat(), Normalize((0.1, 0.2, 0.3), (0.4, 0.5, 0.6))),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms_do_on_a_device_what_they_do_on_the_cpu(default_device: torch.device, name: str) -> None:
    transform, clips = TRANSFORMS[name], frames_on("cpu", 12).unflatten(0, (3, 4))
    torch.manual_seed(3)
    expected = transform(clips)
    times = torch.zeros(3, 4)
    batch = FrameBatch(clips.to(default_device), times, times)
    torch.manual_seed(3)
    with crossings() as seen:
        result = transform({"video": batch})["video"]
    assert result.data.device == default_device
    # Nothing is waited for, and nothing uploaded but a number for each channel.
    assert (seen.num_waits, seen.blocking_uploads) == (0, []), seen
    assert seen.uploaded_bytes <= 2 * 3 * 4, seen
    largest = (result.data.cpu().float() - expected.float()).abs().max()
    assert largest <= (1 if name.endswith(("resize", "resized crop")) else 0)  # uint8 has a kernel only on the CPU


@pytest.mark.parametrize("dtype", [torch.uint8, torch.uint16, torch.float16, torch.float32])
def test_functions_keep_device_and_dtype(fake_device: torch.device, dtype: torch.dtype) -> None:
    images = frames_on("cpu", 2).to(dtype)
    for function in (
        lambda images: functional.resized_crop(images, 3, 4, 20, 30, (8, 9)),
        lambda images: functional.pad(images, 2, 7),
        functional.horizontal_flip,
        lambda images: functional.normalize(functional.to_float(images), [0.5] * 3, [0.25] * 3),
    ):
        result, expected = function(images.to(fake_device)), function(images)
        assert (result.device, result.dtype) == (fake_device, expected.dtype)
        assert (result.cpu().double() - expected.double()).abs().max() <= 1


def test_spectrograms_on_a_device(default_device: torch.device) -> None:
    samples = torch.rand(2, 16_000, device="cpu") - 0.5
    spectrogram = LogMelSpectrogram()
    assert spectrogram.window.device.type == spectrogram.filters.device.type == "cpu"
    expected = spectrogram(samples)
    on_device = LogMelSpectrogram().to(default_device)
    moved = AudioSamples(samples.to(default_device), 0.0, 1.0, 16_000)
    with crossings() as seen:
        result = on_device(moved)
    assert (seen.num_waits, seen.uploads) == (0, []), seen
    torch.testing.assert_close(result.cpu(), expected)


# --- the default dtype


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_audio_is_float32_whatever_the_default_dtype(dtype: torch.dtype) -> None:
    chirp = torch.linspace(0, 200, 8_000, dtype=torch.float32).square().sin()[None]
    wav = AudioEncoder(chirp, sample_rate=16_000).to_tensor("wav")
    expected = compute_audio(wav, chirp)
    default = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        found = compute_audio(wav, chirp)
    finally:
        torch.set_default_dtype(default)
    for name, data in found.items():
        assert data.dtype == torch.float32, name
        assert torch.equal(data, expected[name]), name


def compute_audio(wav: Tensor, chirp: Tensor) -> dict[str, Tensor]:
    decoder, converter = decoders.AudioDecoder(wav), decoders.AudioConverter()
    with decoders.Demuxer(wav, streams="audio") as demuxer:
        converter.convert(demuxer.streams[0].make_decoder().decode(next(demuxer))[0])
    return {
        "an empty range": decoder.get_samples_played_in_range(0.25, 0.25).data,
        "the end of a conversion": converter.drain().data,
        "clips": audio_clips_at_regular_timestamps(
            decoder, seconds_between_clip_starts=0.2, seconds_per_clip=0.1, sampling_range_end=0.5
        ).data,
        "a spectrogram": LogMelSpectrogram()(chirp),
    }
