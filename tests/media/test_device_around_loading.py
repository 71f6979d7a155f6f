"""Sound, samplers, datasets and columns where frames come out on a device, or torch's default device is another."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import media
from device_backends import largest_difference
from fake_device import crossings
from mediatensor.datasets import (
    AudioClips,
    Batch,
    DataLoader,
    StallMeter,
    ToDevice,
    VideoAudioClips,
    VideoClips,
    ragged,
)
from mediatensor.datasets._batches.to_device import CopyAhead
from mediatensor.decoders import AudioDecoder, AudioVideoDecoder, VideoDecoder, WavDecoder
from mediatensor.distributed import ClipDecoder, TextReader
from mediatensor.encoders import AudioEncoder
from mediatensor.errors import DeviceError, InvalidArgumentError
from mediatensor.frames import AudioSamples, FrameBatch
from mediatensor.samplers import (
    audio_clips_at_random_timestamps,
    clips_at_random_indices,
    clips_at_random_timestamps,
    clips_at_regular_indices,
    clips_at_regular_timestamps,
)
from mediatensor.transforms import CenterCrop, Normalize, RandomCrop, ToFloat

CPU = torch.device("cpu")
# The largest difference of colours on a device, in levels of 255.
TOLERANCE = 2


@pytest.fixture(scope="module")
def video(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clip with sound."""
    return media.make("audio_beside_video", tmp_path_factory.mktemp("video"))


@pytest.fixture(scope="module")
def wav() -> bytes:
    random = torch.Generator().manual_seed(0)
    return bytes(AudioEncoder(torch.rand(2, 8000, generator=random) - 0.5, sample_rate=8000).to_tensor("wav").numpy())


# --- sound


def all_sound(decoder: AudioDecoder | WavDecoder) -> list[AudioSamples]:
    ranges = [(0.1, 0.3), (0.2, 0.2), (0.25, 0.5)]
    found = [decoder.get_all_samples(), decoder.get_samples_played_in_range(0.1, 0.1)]
    found += decoder.get_samples_played_in_ranges(ranges)
    if isinstance(decoder, AudioDecoder):
        found += decoder.chunks(0.3, 0.1, pad_last=True)
    return found


@pytest.mark.parametrize("make", [AudioDecoder, partial(AudioDecoder, sample_rate=16_000, num_channels=1), WavDecoder])
def test_sound_stays_on_the_cpu(fake_device: torch.device, wav: bytes, make: Callable[[bytes], Any]) -> None:
    expected = all_sound(make(wav))
    with fake_device:
        found = all_sound(make(wav))
    for one, other in zip(found, expected, strict=True):
        assert one.data.device == CPU
        assert torch.equal(one.data, other.data)


def test_clips_of_sound_stay_on_the_cpu(fake_device: torch.device, wav: bytes) -> None:
    clips = []
    for device in (CPU, fake_device):
        torch.manual_seed(0)
        with device:
            clips.append(
                audio_clips_at_random_timestamps(
                    AudioDecoder(wav), num_clips=3, seconds_per_clip=0.4, sampling_range_end=0.9, policy="wrap"
                )
            )
    assert clips[1].data.device == clips[1].pts_seconds.device == CPU
    assert torch.equal(clips[0].data, clips[1].data)
    assert torch.equal(clips[0].num_valid_samples, clips[1].num_valid_samples)


# --- sound and pictures


@pytest.mark.parametrize("is_default", [False, True])
def test_frames_are_on_the_device_and_their_sound_is_not(
    fake_device: torch.device, video: Path, is_default: bool
) -> None:
    ranges = [(0.0, 0.4), (0.3, None)]
    expected = AudioVideoDecoder(video).get_played_in_ranges(ranges)
    with fake_device if is_default else CPU:
        decoder = AudioVideoDecoder(video, **{} if is_default else {"device": fake_device, "decode_backend": "cpu"})
        clips = decoder.get_played_in_ranges(ranges)
    for clip, other in zip(clips, expected, strict=True):
        assert clip.frames.data.device == fake_device
        assert clip.samples.data.device == clip.frames.pts_seconds.device == CPU
        assert torch.equal(clip.samples.data, other.samples.data)
        assert torch.equal(clip.frames.pts_seconds, other.frames.pts_seconds)
        assert largest_difference(clip.frames.data, other.frames.data) <= TOLERANCE
        assert clip.silent_spans == other.silent_spans


def test_options_of_devices_reach_the_video_decoder(video: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {}
    initialize = VideoDecoder.__init__

    def noted(decoder: VideoDecoder, source: Any, **options: Any) -> None:
        given.update(options)
        initialize(decoder, source)

    monkeypatch.setattr(VideoDecoder, "__init__", noted)
    AudioVideoDecoder(video, device="cpu", decode_backend="cpu", strict_device=True)
    assert (given["device"], given["decode_backend"], given["strict_device"]) == ("cpu", "cpu", True)
    monkeypatch.undo()
    with pytest.raises(InvalidArgumentError, match="abacus"):
        AudioVideoDecoder(video, decode_backend="abacus")


# --- samplers

SAMPLERS: dict[str, Callable[[Any], FrameBatch]] = {
    "random indices": partial(clips_at_random_indices, num_clips=3, num_frames_per_clip=4, policy="wrap"),
    "regular indices": partial(clips_at_regular_indices, num_clips=3, num_frames_per_clip=4),
    "random times": partial(clips_at_random_timestamps, num_clips=3, num_frames_per_clip=4, sampling_range_end=0.8),
    "regular times": partial(clips_at_regular_timestamps, seconds_between_clip_starts=0.2, num_frames_per_clip=2),
}


@pytest.mark.parametrize("name", SAMPLERS)
@pytest.mark.parametrize("is_default", [False, True])
def test_samplers_give_the_same_clips_on_any_device(
    fake_device: torch.device, clip: Path, name: str, is_default: bool
) -> None:
    torch.manual_seed(5)
    expected = SAMPLERS[name](VideoDecoder(clip))
    decoder = VideoDecoder(clip, device=fake_device)
    torch.manual_seed(5)
    with fake_device if is_default else CPU, crossings() as seen:
        clips = SAMPLERS[name](decoder)
    assert (seen.num_waits, seen.downloads) == (0, []), seen
    assert clips.data.device == fake_device
    assert torch.equal(clips.pts_seconds, expected.pts_seconds)
    assert largest_difference(clips.data, expected.data) <= TOLERANCE


@pytest.mark.parametrize("seek_mode", ["exact", "approximate"])
def test_indices_and_times_may_be_on_the_device(fake_device: torch.device, clip: Path, seek_mode: Any) -> None:
    indices, times = [5, 2], [0.21, 0.1]
    plain = VideoDecoder(clip, seek_mode=seek_mode)
    expected = plain.get_frames_at(indices), plain.get_frames_played_at(times)
    with fake_device:
        decoder = VideoDecoder(clip, seek_mode=seek_mode)
        for wrapped in (list, torch.tensor):
            found = decoder.get_frames_at(wrapped(indices)), decoder.get_frames_played_at(wrapped(times))
            for one, other in zip(found, expected, strict=True):
                assert (one.data.device, one.pts_seconds.device) == (fake_device, CPU)
                assert torch.equal(one.pts_seconds, other.pts_seconds)
                assert torch.equal(one.duration_seconds, other.duration_seconds)
                assert largest_difference(one.data, other.data) <= TOLERANCE
        with crossings() as seen:
            decoder.get_frames_played_at(times)
        assert seen.num_waits == 0, seen
        if seek_mode == "exact":
            index = decoder.frame_index
            sizes_unknown = replace(index, key_frame_bytes=np.full_like(index.key_frame_bytes, -1))
            assert index.gop_bytes.device == sizes_unknown.gop_bytes.device == CPU


def test_transforms_of_a_decoder_draw_the_same_window_on_any_device(fake_device: torch.device, clip: Path) -> None:
    for draw in range(3):
        frames = []
        for device in (CPU, fake_device):
            torch.manual_seed(draw)
            with device:
                frames.append(VideoDecoder(clip, transforms=[CenterCrop((40, 60)), RandomCrop((16, 24))])[2:4])
        assert frames[1].device == fake_device
        assert largest_difference(frames[1], frames[0]) <= TOLERANCE


# --- datasets


def test_a_dataset_reads_on_the_cpu_whatever_the_default_device_is(fake_device: torch.device, video: Path) -> None:
    def batches() -> list[Batch]:
        options: dict[str, Any] = {"decoder_options": {"transforms": [RandomCrop((16, 16))]}, "rows_per_file": 2}
        clips = VideoClips([video], num_frames_per_clip=2, **options)
        with_sound = VideoAudioClips([video], seconds_per_clip=0.3, fps=10, **options)
        sound = AudioClips([video], seconds_per_clip=0.2, rows_per_file=2)
        return [batch for dataset in (clips, with_sound, sound) for batch in DataLoader(dataset, 2, shuffle=True)]

    expected = batches()
    with fake_device:
        found = batches()
        assert Batch().row.device == Batch().effective_fps.device == CPU
    for batch, other in zip(found, expected, strict=True):
        for name in ("frames", "audio"):
            if getattr(other, name) is not None:
                assert getattr(batch, name).data.device == CPU
                assert torch.equal(getattr(batch, name).data, getattr(other, name).data)
        assert torch.equal(batch.row, other.row)


def test_a_dataset_decodes_for_a_device_if_asked_to(fake_device: torch.device, video: Path) -> None:
    def batches(collate_fn: Any = None, **options: Any) -> list[Batch]:
        dataset = VideoClips([video], num_frames_per_clip=3, rows_per_file=4, decoder_options=options)
        loader = DataLoader(dataset, 2, shuffle=True, **{} if collate_fn is None else {"collate_fn": collate_fn})
        with crossings() as seen:
            found = list(loader)
        assert (seen.num_waits, seen.downloads) == (0, []), seen
        return found

    expected, found = batches(), batches(device=fake_device)
    for batch, other in zip(found, expected, strict=True):
        assert isinstance(batch.frames, FrameBatch)
        assert isinstance(other.frames, FrameBatch)
        assert batch.frames.data.device == fake_device
        assert batch.row.device == batch.frame_indices.device == CPU
        assert torch.equal(batch.row, other.row)
        assert torch.equal(batch.frame_indices, other.frame_indices)
        assert largest_difference(batch.frames.data, other.frames.data) <= TOLERANCE
        # A loader with pin_memory=True asks for this.
        assert batch.pin_memory().frames.data.device == fake_device
    (first, _) = batches(ragged, device=fake_device)
    assert [frames.data.device for frames in first.frames] == [fake_device] * 2
    clips = VideoAudioClips([video], seconds_per_clip=0.2, num_clips=2, fps=10, keep_clip_dimension=True,
                            decoder_options={"device": fake_device})  # fmt: skip
    sample = clips[0]
    assert sample.frames.data.device == fake_device
    assert sample.audio.data.device == CPU


@pytest.mark.parametrize("on_error", ["raise", "skip", "replace"])
def test_a_forked_process_that_cannot_use_the_device_says_so_whatever_the_policy(
    video: Path, monkeypatch: pytest.MonkeyPatch, on_error: str
) -> None:
    monkeypatch.setattr(torch.cuda, "_is_in_bad_fork", lambda: True)
    dataset = VideoClips([video] * 3, on_error=on_error, decoder_options={"device": "cuda"})
    with pytest.raises(DeviceError, match="spawn"):
        dataset[0]


def test_batches_are_moved_to_the_device(fake_device: torch.device, video: Path) -> None:
    loader = DataLoader(VideoClips([video], num_frames_per_clip=3, rows_per_file=4), 2, shuffle=True)
    normalize = torch.nn.Sequential(ToFloat(), Normalize((0.1, 0.2, 0.3), (0.4, 0.5, 0.6)))
    expected = [normalize(batch.frames.data) for batch in loader]
    loader.set_epoch(0)
    for device in (fake_device, "fake:1"):
        loader.set_epoch(0)
        with fake_device, crossings() as seen:
            batches = list(ToDevice(loader, device, normalize))
        assert (seen.num_waits, seen.downloads) == (0, []), seen
        # The frames, the labels if there are any, and mean and deviation: nothing is moved twice.
        assert sum(upload.num_bytes > 1000 for upload in seen.uploads) == len(batches), seen
        for batch, pixels in zip(batches, expected, strict=True):
            assert batch.frames.data.device == torch.device(device)
            assert batch.frames.pts_seconds.device == batch.row.device == CPU
            assert torch.equal(batch.frames.data.cpu(), pixels)


def test_batches_that_are_on_the_device_stay(fake_device: torch.device, video: Path) -> None:
    dataset = VideoClips([video], num_frames_per_clip=3, rows_per_file=4, decoder_options={"device": fake_device})
    with crossings() as seen:
        moved = list(ToDevice(DataLoader(dataset, 2), fake_device))
    assert seen.downloads == []
    assert [batch.frames.data.device for batch in moved] == [fake_device] * 2


def test_copies_ahead_pin_only_what_is_on_the_cpu(fake_device: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch with frames from a decoder on the device, and the rest from the CPU; torch cannot pin the former."""
    pinned: list[Tensor] = []
    monkeypatch.setattr(Tensor, "pin_memory", lambda self: pinned.append(self) or self)
    monkeypatch.setattr(Tensor, "record_stream", lambda self, stream: None)

    @contextmanager
    def entered(stream: Any) -> Iterator[None]:
        yield

    stream = SimpleNamespace(wait_event=lambda event: None)
    cuda = SimpleNamespace(
        Stream=lambda device: stream,
        Event=lambda: SimpleNamespace(record=lambda stream: None),
        stream=entered,
        current_stream=lambda device: stream,
    )
    copies = CopyAhead(fake_device, cuda)
    there = torch.ones(2, 3, 4, 4, device=fake_device)
    batch = Batch(frames=FrameBatch(there, [0.0] * 2, [1.0] * 2), label=torch.arange(2), images=[there])
    given = {"batch": batch, "tensor": there, "others": [torch.arange(3)]}
    with crossings() as seen:
        moved = copies.complete(copies.begin(given))
    assert [tensor.tolist() for tensor in pinned] == [[0, 1], [0, 1, 2]]
    assert (seen.blocking_uploads, seen.num_waits, len(seen.uploads)) == ([], 0, 2), seen
    assert moved["tensor"] is there
    assert moved["batch"].label.device == moved["others"][0].device == fake_device


def test_a_meter_waits_for_the_device(fake_device: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    meter = StallMeter(device=fake_device)
    with crossings() as seen:
        list(meter.watch([1, 2, 3]))
    assert [wait.operation for wait in seen.waits] == ["synchronize"] * 4
    with pytest.raises(InvalidArgumentError, match="Unsupported device: cuda:99"):
        StallMeter(device="cuda:99")
    monkeypatch.delattr(type(torch.get_device_module(fake_device)), "synchronize")
    with pytest.raises(InvalidArgumentError, match="can synchronize with"):
        StallMeter(device=fake_device)


# --- columns


def test_columns_of_clips_are_arrays(fake_device: torch.device, video: Path) -> None:
    options = {"num_frames_per_clip": 2, "clip_shape": None}
    expected = ClipDecoder(**options)({"path": [str(video)]})
    found = ClipDecoder(**options, decoder_options={"device": fake_device})({"path": [str(video)]})
    assert found["error"].tolist() == [""]
    assert isinstance(found["frames"][0], np.ndarray)
    clips = [torch.from_numpy(columns["frames"][0]) for columns in (found, expected)]
    assert largest_difference(*clips) <= TOLERANCE


class CountingPages:
    """A predictor that records its inputs."""

    def __init__(self) -> None:
        self.pages: list[Any] = []
        self.device: Any = None

    def to(self, device: Any) -> CountingPages:
        self.device = device
        return self

    def __call__(self, pages: list[Any]) -> Any:
        self.pages += pages
        page = SimpleNamespace(error=None, blocks=[], render=lambda: "")
        return SimpleNamespace(pages=[page])


def test_text_is_read_from_frames_of_a_device(fake_device: torch.device, video: Path) -> None:
    predictor = CountingPages()
    options: dict[str, Any] = {"every_seconds": 0.2, "make_predictor": lambda: predictor}
    read = TextReader(**options, device=str(fake_device), decoder_options={"device": fake_device})
    with crossings() as seen:
        assert read({"path": [str(video)]})["error"].tolist() == [""]
    assert predictor.device == fake_device
    assert len(predictor.pages) > 4
    assert all(isinstance(page, np.ndarray) for page in predictor.pages)
    # Four frames at a time.
    assert len(seen.downloads) == -(-len(predictor.pages) // 4), seen
    with pytest.raises(InvalidArgumentError, match="Unsupported device: abacus"):
        TextReader(**options, device="abacus")({"path": [str(video)]})
