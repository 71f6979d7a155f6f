"""Wrong calls of public functions: the type of the error, and that the message names the argument and the value."""

from __future__ import annotations

import io
import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import mediatensor
from mediatensor import backends, datasets, decoders, distributed, ocr, samplers, transforms
from mediatensor.decoders import (
    AudioDecoder,
    AudioVideoDecoder,
    Demuxer,
    FrameIndex,
    SubtitleDecoder,
    VideoDecoder,
    WavDecoder,
)
from mediatensor.encoders import AudioEncoder, Encoder, VideoEncoder
from mediatensor.errors import (
    InvalidArgumentError,
    MediaTensorError,
    OutOfRangeError,
    SourceNotFoundError,
    SourceTypeError,
)
from mediatensor.isolate import IsolatedWorker
from mediatensor.ocr import models

SOUND = torch.zeros(1, 800)
PICTURES = torch.zeros(2, 3, 16, 16, dtype=torch.uint8)

WAV_ENCODER = AudioEncoder(SOUND, sample_rate=8000)
VIDEO_ENCODER = VideoEncoder(PICTURES, frame_rate=5)
VIDEO = VIDEO_ENCODER.to_tensor("mp4")
WAV = WAV_ENCODER.to_tensor("wav")
SILENCE = mediatensor.AudioSamples(SOUND, 0.0, 0.1, 8000)
SUBTITLES_FILE = b"1\n00:00:01,000 --> 00:00:02,000\nHello\n"
SUBTITLES = SubtitleDecoder(SUBTITLES_FILE)


def refused(call: Callable[[Any], Any], value: Any, error: type[MediaTensorError], *words: str) -> None:
    """Call, and check the type of the error and the words of its message."""
    with pytest.raises(error) as raised:
        call(value)
    assert type(raised.value) is error
    for word in words:
        assert word in str(raised.value)


@pytest.fixture(scope="module")
def decoder(clip: Path) -> VideoDecoder:
    return VideoDecoder(clip)


@pytest.fixture(scope="module")
def wav(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sound") / "silence.wav"
    AudioEncoder(SOUND, sample_rate=8000).to_file(path)
    return path


@pytest.mark.parametrize(
    ("method", "value", "words"),
    [
        ("get_frame_at", "x", ("indices", "'x'", "whole numbers")),
        ("get_frame_at", None, ("indices", "None")),
        ("get_frame_at", 1.5, ("indices", "1.5")),
        ("get_frames_at", 5.5, ("indices", "5.5")),
        ("get_frames_at", [1.5], ("indices", "Long but found Float")),
        ("get_frames_at", "ab", ("indices", "'ab'")),
        ("get_frames_at", np.array(["1"]), ("indices", "str_")),
        ("get_frames_at", np.array([False, True]), ("indices", "dtype bool", "mask")),
        ("get_frames_at", torch.tensor([False, True]), ("indices", "dtype torch.bool", "mask")),
        ("get_frames_at", torch.empty(2, device="meta"), ("indices", "shape (2,)", "'meta'")),
        ("get_frames_at", torch.zeros(2, dtype=torch.complex64), ("indices", "dtype torch.complex64")),
        ("get_frame_played_at", "x", ("seconds", "'x'")),
        ("get_frame_played_at", None, ("seconds", "None")),
        ("get_frame_played_at", [], ("seconds", "[]")),
        ("get_frame_played_at", [0.0, 0.1], ("seconds", "[0.0, 0.1]")),
        ("get_frame_played_at", 10**400, ("seconds", "Couldn't convert timestamps input to a tensor")),
        ("get_frames_played_at", "x", ("seconds", "'x'")),
        ("get_frames_played_at", ["now"], ("seconds", "Couldn't convert timestamps input to a tensor")),
        ("get_all_frames", "x", ("fps", "'x'")),
        ("get_all_frames", math.nan, ("fps", "nan")),
    ],
)
def test_frames(decoder: VideoDecoder, method: str, value: Any, words: tuple[str, ...]) -> None:
    refused(getattr(decoder, method), value, InvalidArgumentError, *words)


@pytest.mark.parametrize("last", [np.array([2**64 - 1], np.uint64), torch.tensor([2**64 - 1], dtype=torch.uint64)])
def test_large_unsigned_indices_are_not_taken_for_negative_ones(decoder: VideoDecoder, last: Any) -> None:
    with pytest.raises(OutOfRangeError, match="18446744073709551615"):
        decoder.get_frames_at(last)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"start_seconds": "a", "stop_seconds": None}, ("start_seconds", "'a'")),
        ({"stop_seconds": None}, ("stop_seconds", "None")),
        ({"stop_seconds": torch.zeros(2)}, ("stop_seconds", "shape (2,)")),
        ({"fps": "x"}, ("fps", "'x'")),
        *[({"fps": fps}, ("fps must be positive", str(fps))) for fps in (0, -5, math.nan, math.inf)],
    ],
)
def test_ranges_of_time(decoder: VideoDecoder, arguments: dict[str, Any], words: tuple[str, ...]) -> None:
    wanted = {"start_seconds": 0, "stop_seconds": 0.1, **arguments}
    refused(lambda given: decoder.get_frames_played_in_range(**given), wanted, InvalidArgumentError, *words)


@pytest.mark.parametrize("value", ["a", 1.5, math.nan, [], {}])
@pytest.mark.parametrize("name", ["start", "stop", "step"])
def test_bounds_of_slices(decoder: VideoDecoder, name: str, value: Any) -> None:
    bounds = {"start": 0, "stop": 2, "step": 1, name: value}
    words = (name, str(value))
    refused(lambda given: decoder.get_frames_in_range(**given), bounds, InvalidArgumentError, *words)
    refused(lambda given: decoder[slice(*given.values())], bounds, InvalidArgumentError, *words)


@pytest.mark.parametrize("bound", [np.int64(2), torch.tensor(2), True])
def test_bounds_of_slices_may_be_whole_numbers_of_any_library(decoder: VideoDecoder, bound: Any) -> None:
    assert len(decoder[:bound]) == int(bound)


@pytest.mark.parametrize("key", ["x", 1.5, None, [0], (0, 1)])
def test_keys_are_of_types_as_those_of_sequences(clip: Path, decoder: VideoDecoder, key: Any) -> None:
    # Python's own type, which every __getitem__ raises.
    for sequence in (decoder, datasets.VideoClips([clip])):
        with pytest.raises(TypeError, match=f"Unsupported key type: <class '{type(key).__name__}'>"):
            sequence[key]


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [
        *[(kind, "stream_index", value) for kind in (VideoDecoder, AudioDecoder) for value in ("x", 1.5, [])],
        (AudioVideoDecoder, "video_stream_index", "x"),
        (VideoDecoder, "num_ffmpeg_threads", 10**30),
        (VideoDecoder, "device", 10**30),
        (VideoDecoder, "frame_index", 5),
        (AudioDecoder, "num_channels", True),
        (AudioDecoder, "sample_rate", "16000"),
    ],
)
def test_arguments_of_decoders(clip: Path, wav: Path, kind: Any, name: str, value: Any) -> None:
    source = wav if kind is AudioDecoder else clip
    word = name.removeprefix("video_")
    refused(lambda given: kind(source, **{name: given}), value, InvalidArgumentError, word, str(value)[:20])


@pytest.mark.parametrize("kind", [VideoDecoder, AudioDecoder, AudioVideoDecoder, WavDecoder, SubtitleDecoder])
@pytest.mark.parametrize("source", [5, None, ["a.mp4"], 1.5])
def test_sources(kind: Any, source: Any) -> None:
    refused(kind, source, SourceTypeError, type(source).__name__)


@pytest.mark.parametrize("kind", [AudioDecoder, WavDecoder])
def test_ranges_of_sound(wav: Path, kind: Any) -> None:
    with kind(wav) as sound:
        for value in ("x", math.nan, [], 10**400):
            refused(sound.get_samples_played_in_range, value, InvalidArgumentError, "start", str(value)[:20])
        for value in (5, None, "ab"):
            refused(sound.get_samples_played_in_ranges, value, InvalidArgumentError, "ranges", str(value))
        for value in (np.array(1.5), torch.tensor(1.5)):
            refused(sound.get_samples_played_in_ranges, value, InvalidArgumentError, "ranges", "shape ()")
        refused(sound.get_samples_played_in_ranges, [("0", 1)], InvalidArgumentError, "ranges", "('0', 1)")
        # Numbers of other libraries are accepted.
        samples = sound.get_samples_played_in_range(np.float32(0.05), torch.tensor(0.1))
        assert samples.data.shape == (1, 400)
        with pytest.raises(IndexError, match=r"1e\+30"):
            sound.get_samples_played_in_range(10**30)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[("seconds", value) for value in ("x", math.inf, 0.0, -1.0, math.nan)],
        *[("overlap_seconds", value) for value in (None, 30.0, -0.1)],
    ],
)
def test_chunks(wav: Path, name: str, value: Any) -> None:
    with AudioDecoder(wav) as sound:
        refused(lambda given: sound.chunks(**{name: given}), value, InvalidArgumentError, name, str(value))


@pytest.mark.parametrize("name", ["clips_at_random_indices", "clips_at_regular_timestamps"])
@pytest.mark.parametrize("given", ["clip.mp4", 5, None, Path("clip.mp4"), [1]])
def test_samplers_want_a_decoder(name: str, given: Any) -> None:
    options = {"seconds_between_clip_starts": 1.0} if "regular_time" in name else {}
    sampler = partial(getattr(samplers, name), **options)
    refused(sampler, given, SourceTypeError, "decoder must be a VideoDecoder", f"(got {given!r})")


@pytest.mark.parametrize("given", ["sound.wav", 5, None])
def test_samplers_of_sound_want_a_decoder(given: Any) -> None:
    sampler = partial(samplers.audio_clips_at_random_timestamps, seconds_per_clip=1.0)
    refused(sampler, given, SourceTypeError, "decoder must be an AudioDecoder", f"(got {given!r})")


def set_num_workers(clip: Path, value: Any) -> None:
    datasets.DataLoader(datasets.VideoClips([clip]), num_workers=value)


@pytest.mark.parametrize("value", [-2, "2", 1.5, None])
def test_num_workers(clip: Path, value: Any) -> None:
    refused(partial(set_num_workers, clip), value, InvalidArgumentError, "num_workers", repr(value))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("batch_size", "4"),
        ("collate_fn", None),
        ("seed", 0.5),
        ("bucket_by", 5),
        ("timeout", -1),
        ("prefetch_factor", 0),
        ("rank", 0),
    ],
)
def test_loaders(clip: Path, name: str, value: Any) -> None:
    dataset = datasets.VideoClips([clip])
    refused(lambda given: datasets.DataLoader(dataset, **{name: given}), value, InvalidArgumentError, name, str(value))


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [
        (datasets.VideoClips, "num_frames_per_clip", 0),
        (datasets.VideoClips, "num_frames_per_clip", "16"),
        (datasets.VideoClips, "num_indices_between_frames", -1),
        (datasets.VideoClips, "sampler", 5),
        (datasets.VideoClips, "transform", "resize"),
        (datasets.VideoClips, "label", "name"),
        (datasets.VideoClips, "decoder_options", "cpu"),
        (datasets.VideoClips, "decoder_options", {"transform": 5}),
        (datasets.VideoAudioClips, "decoder_options", {"video": 5}),
        (datasets.AudioClips, "seconds_per_clip", 0),
        (datasets.AudioClips, "sample_rate", -1),
        (datasets.AudioClips, "transform", 5),
        (datasets.VideoAudioClips, "fps", "30"),
        (datasets.VideoAudioClips, "num_clips", 0),
        (datasets.VideoAudioClips, "policy", "wrap"),
        (datasets.VideoAudioClips, "audio_transform", 5),
        (datasets.DocumentPages, "pdf_options", 5),
        (datasets.DocumentPages, "transform", 5),
    ],
)
def test_datasets_refuse_at_once(clip: Path, kind: Any, name: str, value: Any) -> None:
    # Raised at construction: when rows are read, an error policy would skip one file after another.
    options = {"on_error": "skip", name: value}
    words = name.split("_")[0], str(value).strip("{}").split(":")[0]
    refused(lambda given: kind([clip], **given), options, InvalidArgumentError, *words)


@pytest.mark.parametrize("value", ["x", -1, None, math.nan, 10**30])
def test_epochs(clip: Path, value: Any) -> None:
    dataset = datasets.VideoClips([clip])
    for call in (dataset.set_epoch, datasets.DataLoader(dataset).set_epoch, datasets.RowBatches(dataset, 1).set_epoch):
        refused(call, value, InvalidArgumentError, "epoch", str(value)[:20])


@pytest.mark.parametrize("call", [datasets.stack, datasets.ragged, datasets.pad])
@pytest.mark.parametrize("samples", [5, "ab", [torch.zeros(3)]])
def test_collation(call: Callable[[Any], Any], samples: Any) -> None:
    refused(call, samples, InvalidArgumentError, "samples", "Tensor" if isinstance(samples, list) else str(samples))


WRONG_TIMES = [0, "30", math.nan, math.inf]

# (call, words of each message, rejected arguments)
CALLS: list[tuple[Callable[[Any], Any], str, list[Any]]] = [
    (mediatensor.set_num_threads, "num_threads must be a positive", [0, -2, 1.5, 10**30]),
    (mediatensor.set_frame_cache_bytes, "num_bytes", [-1, 1.5, "1", True, math.inf]),
    (mediatensor.set_index_cache, "a", ["a\0b"]),
    (lambda kind: datasets.as_items(["a.mp4"], kind=kind), "kind", ["film", []]),
    (lambda kind: datasets.TarItems("a.tar", kind=kind), "kind", ["film"]),
    (lambda recipe: datasets.MediaDataset([datasets.Item("a.mp4")], recipe), "recipe", ["video"]),
    (lambda loader: datasets.ToDevice(loader, "cpu"), "loader", [5]),
    (lambda number: distributed.ClipDecoder(num_frames_per_clip=number), "num_frames_per_clip", [0, "8"]),
    (lambda shape: distributed.ClipDecoder(clip_shape=shape), "clip_shape", [5]),
    (lambda names: distributed.ClipDecoder(used_columns=names), "used_columns", ["label"]),
    (lambda seconds: distributed.TextReader(every_seconds=seconds), "every_seconds", ["2"]),
    (distributed.clip_rows, "path", [[5]]),
    (backends.get_backend, "backend", [[], "x"]),
    (lambda name: VideoDecoder(VIDEO, decode_backend=name), "decode_backend", [[], "x", 5]),
    (lambda name: decoders.set_cuda_backend(name).__enter__(), "Supported values are 'nvdec' and 'ffmpeg'", [[], "x"]),
    (decoders.set_nvdec_cache_capacity, "must be non-negative", [-1, 2.5, "many", True]),
    (lambda curve: VideoDecoder(b"", tone_mapping=curve), "bt2390, hable", ["reinhard", "BT2390", True, 203]),
    (lambda seconds: Demuxer(VIDEO).seek(seconds), "seconds must be a", [math.nan, math.inf, "a", None]),
    (SUBTITLES.get_subtitles_played_at, "seconds", [math.nan, math.inf, "1"]),
    (SUBTITLES.get_subtitles_played_in_range, "seconds", [math.nan, math.inf, "1"]),
    (lambda stop: SUBTITLES.get_subtitles_played_in_range(0.0, stop), "seconds", [math.nan, math.inf, "1"]),
    (lambda value: AudioEncoder(torch.tensor([[0.0, value]]), sample_rate=8000), "sample 1 of channel 0", [math.nan]),
    (lambda value: AudioEncoder(torch.tensor([[0.0, value]]), sample_rate=8000), "samples", [-math.inf]),
    (lambda rate: AudioEncoder(SOUND, sample_rate=rate), "sample_rate", [10**30, "8"]),
    (lambda count: WAV_ENCODER.to_tensor("wav", num_channels=count), "num_channels", [10**30]),
    (lambda count: WAV_ENCODER.to_tensor("wav", num_channels=count), "channels", [10**6]),
    (lambda codec: Encoder().add_video(height=16, width=16, frame_rate=5, codec=codec), "codec", [5]),
    (lambda height: Encoder().add_video(height=height, width=16, frame_rate=5), "height = ", [0, 1.5]),
    (lambda width: Encoder().add_video(height=16, width=width, frame_rate=5), "width = ", [0, 1.5]),
    (lambda rate: Encoder().add_video(height=16, width=16, frame_rate=rate), "frame_rate = ", [-1, "fast"]),
    (lambda device: Encoder().add_video(height=16, width=16, frame_rate=5, device=device), "device", ["cuda:99"]),
    (lambda name: VIDEO_ENCODER.to_file_like(io.BytesIO(), "mp4", pixel_format=name), "pixel_format", [5]),
    (lambda data: mediatensor.FrameBatch(data, [0.0], [0.1]), "data", ["x", np.zeros((1, 3, 4, 4))]),  # type: ignore[arg-type]
    (lambda seconds: mediatensor.FrameBatch(PICTURES, seconds, [0.1, 0.1]), "pts_seconds", ["x", [None, 0]]),  # type: ignore[arg-type]
    (lambda shape: mediatensor.FrameBatch(PICTURES, torch.zeros(shape), [0.1, 0.1]), "leading", [(3,), (), (2, 1)]),
    (lambda shape: mediatensor.FrameBatch(PICTURES, [0.0, 0.1], torch.zeros(shape)), "leading", [(3,), (), (2, 1)]),
    (lambda shape: mediatensor.FrameBatch(torch.zeros(shape), [0.0], [0.1]), "at least 3-dimensional", [(3, 2)]),
    (lambda shape: mediatensor.Frame(torch.zeros(shape), 0.0, 0.1), "be 3-dimensional", [(2, 2), (1, 3, 2, 2)]),
    (lambda shape: mediatensor.AudioSamples(torch.zeros(shape), 0.0, 0.1, 8000), "be 2-dimensional", [(10,)]),
    (
        lambda shape: mediatensor.AudioSamplesBatch(torch.zeros(shape), [0], [1], 8, [5]),
        "be 3-dimensional",
        [(2, 5), (1, 1, 2, 5)],
    ),
    (lambda rate: mediatensor.AudioSamples(SOUND, 0.0, 0.1, rate), "sample_rate", [0, 1.5]),
    (lambda count: AudioDecoder(WAV, num_channels=count).get_all_samples(), "channels", [0, -1, 15, 10**6]),
    (lambda rate: AudioDecoder(WAV, sample_rate=rate).get_all_samples(), "sample", [0, -1, 10**9]),
    (lambda number: AudioDecoder(WAV, num_ffmpeg_threads=number), "num_ffmpeg_threads", [-1]),
    (lambda number: transforms.LogMelSpectrogram(num_mels=number), "num_mels", [0, "80", 8.5]),
    (lambda number: transforms.LogMelSpectrogram(n_fft=number), "n_fft", [0]),
    (lambda number: transforms.LogMelSpectrogram(n_fft=number), "even", [401]),
    (lambda number: transforms.LogMelSpectrogram(hop_length=number), "hop_length", [-1]),
    (lambda number: transforms.LogMelSpectrogram(sample_rate=number), "sample_rate", [True]),
    (lambda time: transforms.LogMelSpectrogram(pad_to_seconds=time), "pad_to_seconds", [True, 1e300, *WRONG_TIMES]),
    (lambda value: samplers.speech_segments(SILENCE, threshold=value), "threshold", [0, 1, "much"]),
    (lambda time: samplers.speech_segments(SILENCE, min_speech_seconds=time), "min_speech_seconds", [-1]),
    (lambda time: samplers.speech_segments(SILENCE, min_pause_seconds=time), "min_pause_seconds", [math.nan]),
    (lambda time: samplers.speech_segments(SILENCE, pad_seconds=time), "pad_seconds", [math.inf]),
    (lambda value: samplers.find_scenes(VideoDecoder(VIDEO), threshold=value), "threshold", [-1.0]),
    (lambda value: samplers.find_scenes(VideoDecoder(VIDEO), ratio=value), "ratio", [math.nan]),
    (lambda number: samplers.find_scenes(VideoDecoder(VIDEO), min_frames=number), "min_frames", [0, 1.5]),
    (lambda time: samplers.find_scenes(VideoDecoder(VIDEO), min_seconds=time), "min_seconds", ["1"]),
    (lambda time: IsolatedWorker(timeout_seconds=time), "timeout_seconds must be", [*WRONG_TIMES, [1]]),
    (lambda number: IsolatedWorker(max_memory_bytes=number), "max_memory_bytes must be", [1, 1.5e9, "4 GB", True]),
    (lambda number: IsolatedWorker(num_processes=number), "num_processes must be", [0, None, 1.5]),
    (lambda number: IsolatedWorker(max_calls=number), "max_calls must be", [0, "1"]),
    (lambda number: transforms.Pad(1, fill=number), "fill", [10**400, True]),
    (lambda fill: transforms.Letterbox((5, 5), fill=fill), "finite", [math.nan, "black", (), (1, math.inf), None]),
    (lambda shape: transforms.Resize((5, 5))(torch.zeros(shape)), "channels-first", [(48, 64, 3), (2, 5, 48, 64, 4)]),
    (lambda shape: transforms.Resize((5, 5))(torch.zeros(shape)), "row and column", [(3, 0, 4), (2, 4, 4, 0)]),
    (lambda number: transforms.Pad(1, fill=[number]), "fill", [10**400, True, "1"]),
    (lambda padding: transforms.functional.pad(PICTURES, padding), "padding must be", [-1, (1, -2), (1, 2, 3), ()]),
    (lambda padding: transforms.functional.pad(PICTURES, padding), "padding must be", [1.5, "2", None, True]),
    (lambda fill: transforms.functional.pad(PICTURES, 1, fill), "fill", [256, -1, 0.5, math.nan, "white", ()]),
    (lambda fill: transforms.functional.pad(PICTURES, 1, fill), "fill", [(1.0, 2.0), (1.0, 2.0, 3.0, 4.0)]),
    (lambda dtype: transforms.functional.to_float(PICTURES, dtype), "float dtype", [torch.uint8, "float32", None]),
    (lambda scale: transforms.RandomResizedCrop((5, 7), scale), "scale", [(0.5, 0.2), (-0.1, 1.0), (0.0, 0.0)]),
    (lambda scale: transforms.RandomResizedCrop((5, 7), scale), "scale", [(0.1, math.inf), 0.5, "01"]),
    (lambda ratio: transforms.RandomResizedCrop((5, 7), ratio=ratio), "ratio", [(0.0, 1.0), (2.0, 1.0)]),
    (lambda ratio: transforms.RandomResizedCrop((5, 7), ratio=ratio), "ratio", [(1.0, math.nan), (1.0, 1.0, 1.0)]),
    (lambda number: decoders.decode_avif(b"", num_threads=number), "num_threads must be a positive", [0, -1, 1.5]),
    (lambda name: SubtitleDecoder(SUBTITLES_FILE, encoding=name), "encoding", ["utf-16", "cp037", "no-such", "utf-7"]),
    (lambda text: ocr.io.Document([]).render(page_break=text), "page_break", [5]),
    (models.crop_orientation_predictor, "arch", [5]),
]


@pytest.mark.parametrize(("call", "word", "value"), [(*case, value) for *case, values in CALLS for value in values])
def test_calls(call: Callable[[Any], Any], word: str, value: Any) -> None:
    shown = "shape" if isinstance(value, np.ndarray) else str(value[0] if isinstance(value, list) and value else value)
    refused(call, value, InvalidArgumentError, word, shown.partition("\0")[0][:20])


@pytest.mark.parametrize(
    ("call", "value", "error", "word", "shown"),
    [
        (mediatensor.set_index_cache, 5, SourceTypeError, "folder", "5"),
        (FrameIndex.load, True, SourceTypeError, "path", "True"),
        (FrameIndex.load, None, SourceTypeError, "path", "None"),
        (datasets.TarItems, 5, SourceTypeError, "shards", "5"),
        (datasets.TarItems, [5], SourceTypeError, "shard", "5"),
        (distributed.clip_rows, "videos", SourceNotFoundError, "folder", "videos"),
        (distributed.clip_rows, 5, SourceTypeError, "paths", "5"),
    ],
)
def test_other_sources(
    call: Callable[[Any], Any], value: Any, error: type[MediaTensorError], word: str, shown: str
) -> None:
    refused(call, value, error, word, shown)


def reader_that_ignores(region: tuple[float, ...]) -> object:
    small = {"det_arch": "db_mobilenet_v3_large", "reco_arch": "crnn_mobilenet_v3_small"}
    return ocr.ocr_predictor(**small, ignore_regions=[region])


@pytest.mark.parametrize("region", [(0.5, 0.1, 0.2, 0.9), (0.1, 0.9, 0.5, 0.2)])
def test_regions_are_not_reversed(region: tuple[float, ...]) -> None:
    refused(reader_that_ignores, region, InvalidArgumentError, "ignore_regions")


def test_regions_may_have_no_area() -> None:
    reader_that_ignores((0.2, 0.1, 0.2, 0.9))


def test_a_message_does_not_repeat_a_whole_file(clip: Path, decoder: VideoDecoder) -> None:
    with pytest.raises(InvalidArgumentError) as raised:
        decoder.get_frames_played_at(clip.read_bytes())  # type: ignore[arg-type]
    assert len(str(raised.value)) < 500


def test_functions_of_images_take_the_tensor_by_name() -> None:
    assert transforms.functional.center_crop(images=PICTURES, size=(8, 8)).shape == (2, 3, 8, 8)


def test_bit_rates_may_be_whole_numbers_of_any_library() -> None:
    encoder = AudioEncoder(torch.rand(1, 8_000) - 0.5, sample_rate=8_000)
    file = encoder.to_tensor("mp3", bit_rate=np.int64(32_000))  # type: ignore[arg-type]
    assert torch.equal(file, encoder.to_tensor("mp3", bit_rate=32_000))


@pytest.mark.parametrize("value", [True, np.True_])
@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda _, value: IsolatedWorker(timeout_seconds=value), "timeout_seconds"),
        (lambda _, value: datasets.check_dataset(["a.mp4"], timeout_seconds=value), "timeout_seconds"),
        (lambda decoder, value: decoder.get_frame_played_at(value), "seconds"),
        (lambda decoder, value: decoder.get_frames_played_in_range(0, value), "stop_seconds"),
        (lambda decoder, value: decoder.get_frames_played_in_range(0, 1, fps=value), "fps"),
        (lambda decoder, value: samplers.find_scenes(decoder, min_seconds=value), "min_seconds"),
        (
            lambda decoder, value: samplers.clips_at_regular_timestamps(decoder, seconds_between_clip_starts=value),
            "seconds_between_clip_starts",
        ),
        (lambda _, value: AudioDecoder(WAV).get_samples_played_in_range(value), "start"),
        (lambda decoder, value: decoder.get_frames_played_at(torch.tensor([bool(value)])), "seconds"),
        (lambda _, value: ocr.io.read_pdf(b"%PDF-1.7", timeout_seconds=value), "timeout_seconds"),
        (lambda _, value: VIDEO_ENCODER.to_tensor("mp4", crf=value), "crf"),
    ],
)
def test_a_bool_is_not_a_number(
    decoder: VideoDecoder, call: Callable[[VideoDecoder, Any], Any], name: str, value: Any
) -> None:
    refused(partial(call, decoder), value, InvalidArgumentError, name, "number")
