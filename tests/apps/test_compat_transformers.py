"""`mediatensor.compat.transformers` compared with recorded calls, and within transformers if it is installed."""

from __future__ import annotations

import base64
import io
import json
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
import torch

from decord_calls import CLIP, FOLDER, LATE, UNEVEN
from mediatensor.compat import transformers as ours
from mediatensor.decoders import AudioDecoder, VideoDecoder
from mediatensor.errors import (
    InvalidArgumentError,
    IsolatedWorkerError,
    OpenError,
    OutOfRangeError,
    SourceNotFoundError,
    SourceTypeError,
)
from transformers_calls import CALLS, outcome, tone

RECORDED: dict[str, Any] = json.loads((FOLDER / "transformers.json").read_text(encoding="utf-8"))
# Only decord counts frames: PyAV reads their number from the header, which Matroska lacks, and OpenCV estimates it.
GUESSED = [name for name in CALLS if name.endswith("uneven") and not name.startswith("decord")]


@pytest.mark.parametrize("name", CALLS)
def test_results_match_transformers(name: str) -> None:
    found, expected = outcome(CALLS[name], ours), RECORDED[name]
    if name in GUESSED:
        backend, _, rest = name.partition(": ")
        expected = json.loads(json.dumps(RECORDED[f"decord: {rest}"]).replace('"decord"', f'"{backend}"'))
    assert found.keys() == expected.keys()
    assert found.get("metadata") == expected.get("metadata")
    if "frames" in expected:
        assert found["frames"]["shape"] == expected["frames"]["shape"]
        assert found["frames"]["dtype"] == expected["frames"]["dtype"]
        # Tolerance for another FFmpeg version; neighbouring frames differ by more.
        assert np.allclose(found["frames"]["means"], expected["frames"]["means"], atol=0.5)
    elif "samples" in expected:
        assert found["count"] == expected["count"]
        # Tolerance for another resampler, which differs most at the ends.
        within, where = (1e-5, slice(None)) if name.endswith(" 8000 Hz") else (4e-3, slice(8, -8))
        assert np.allclose(found["samples"][where], expected["samples"][where], atol=within)
    else:
        assert found == expected


@pytest.mark.parametrize("path", [CLIP, LATE])
def test_frames_equal_pyavs(path: str) -> None:
    with av.open(path) as container:
        truth = np.stack([frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)])
    frames, metadata = ours.load_video(path, backend="pyav", fps=10)
    assert metadata.frames_indices.tolist() == [i * 30 // 12 for i in range(12)]
    assert np.array_equal(frames, truth[metadata.frames_indices])
    tensor, metadata = ours.load_video(path, sample_indices_fn=lambda metadata, **_: torch.tensor([5, 5, 0, 29]))
    assert torch.equal(tensor, torch.from_numpy(truth[[5, 5, 0, 29]]).permute(0, 3, 1, 2))
    assert metadata.frames_indices.tolist() == [5, 5, 0, 29]


def test_rate_and_duration_match_the_content() -> None:
    metadata = ours.load_video(UNEVEN)[1]
    decoder = VideoDecoder(UNEVEN)
    assert (metadata.fps, metadata.duration) == (decoder.metadata.average_fps, decoder.metadata.duration_seconds)
    assert metadata.fps < 25  # of the header


def test_sources() -> None:
    frames = ours.load_video(CLIP)[0]
    data = Path(CLIP).read_bytes()
    for source in (Path(CLIP), data, bytearray(data), io.BytesIO(data)):
        assert torch.equal(ours.load_video(source)[0], frames)
    for given in (np.zeros((2, 4, 4, 3), np.uint8), frames, list(frames)):
        same, metadata = ours.load_video(given)
        assert same is given
        assert metadata == [None] * len(given)
    sound = AudioDecoder(CLIP, sample_rate=16_000, num_channels=1).get_all_samples().data[0].numpy()
    assert np.array_equal(ours.load_audio(CLIP), sound)
    assert np.array_equal(ours.load_audio(data), sound)
    assert np.array_equal(ours.load_audio(sound), sound)
    assert np.array_equal(ours.load_audio(base64.encodebytes(data).decode()), sound)  # lines of 76 characters
    # torchcodec mixes channels like FFmpeg; soundfile computes their mean.
    mixed, mean = (ours.load_audio(tone(), 8000, backend=name) for name in ("torchcodec", "soundfile"))
    assert np.allclose(mixed, mean * 2**0.5, atol=1e-4)


def test_arguments_reach_the_function_that_chooses() -> None:
    seen: dict[str, Any] = {}

    def choose(metadata: Any, **options: Any) -> list[int]:
        seen.update(options, total=metadata["total_num_frames"])
        return [metadata.total_num_frames - 1]

    ours.load_video(CLIP, 4, 2, "pyav", choose, device="cpu", extra=7)
    assert seen == {"device": "cpu", "extra": 7, "total": 30}


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"num_frames": 0}, InvalidArgumentError),
        ({"num_frames": 2.5}, InvalidArgumentError),
        ({"fps": -1}, InvalidArgumentError),
        ({"fps": float("nan")}, InvalidArgumentError),
        ({"backend": "vhs"}, InvalidArgumentError),
        ({"timeout_seconds": 0}, InvalidArgumentError),
        ({"sample_indices_fn": 3}, InvalidArgumentError),
        ({"sample_indices_fn": lambda metadata, **_: [0.5]}, InvalidArgumentError),
        ({"sample_indices_fn": lambda metadata, **_: "all"}, InvalidArgumentError),
        ({"sample_indices_fn": lambda metadata, **_: [30]}, OutOfRangeError),
    ],
)
def test_arguments_that_are_not_accepted(arguments: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        ours.load_video(CLIP, **arguments)


def test_files_that_are_not_accepted() -> None:
    for source, error in (
        ("nothing.mp4", SourceNotFoundError),
        (b"no video", OpenError),
        (7, SourceTypeError),
        (io.StringIO("text"), SourceTypeError),
    ):
        with pytest.raises(error):
            ours.load_video(source)
    for source, error in (("no base64 at all", SourceNotFoundError), (7, InvalidArgumentError), (b"no", OpenError)):
        with pytest.raises(error):
            ours.load_audio(source)
    with pytest.raises(InvalidArgumentError, match="sampling_rate"):
        ours.load_audio(CLIP, sampling_rate=0)


@pytest.mark.usefixtures("forked_processes")
def test_a_time_limit_changes_nothing_else() -> None:
    frames, metadata = ours.load_video(io.BytesIO(Path(CLIP).read_bytes()), fps=5, backend="pyav", timeout_seconds=60)
    here, expected = ours.load_video(CLIP, fps=5, backend="pyav")
    assert np.array_equal(frames, here)
    assert {**metadata, "frames_indices": 0} == {**expected, "frames_indices": 0}


@pytest.mark.usefixtures("forked_processes")
def test_a_call_that_takes_too_long_ends() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:  # accepts connections, but never answers
        url = f"http://127.0.0.1:{server.getsockname()[1]}/video.mp4"
        with pytest.raises(IsolatedWorkerError) as caught:
            ours.load_video(url, timeout_seconds=0.2)
    assert caught.value.reason == "timeout"


def test_without_transformers_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers.video_utils", None)
    with pytest.raises(ImportError, match="pip install -U transformers"):
        ours.register()
    with pytest.raises(InvalidArgumentError, match="in_place_of"):
        ours.register(in_place_of=["vhs"])
    with pytest.raises(InvalidArgumentError, match="timeout_seconds"):
        ours.register(timeout_seconds=-1)


# Within transformers


@pytest.fixture
def transformers() -> Iterator[Any]:
    reason = "needs transformers and torchvision, which are too heavy for the extra test"
    pytest.importorskip("torchvision", reason=reason)
    yield pytest.importorskip("transformers", reason=reason)
    ours.unregister()


def test_the_backend_and_its_end(transformers: Any) -> None:
    from transformers import video_utils

    before, decoders = video_utils.load_video, dict(video_utils.VIDEO_DECODERS)
    truth, expected = before(CLIP, fps=5, backend="pyav")
    ours.register(in_place_of=["decord"])
    ours.register(in_place_of=["torchcodec"])
    frames, metadata = video_utils.load_video(CLIP, fps=5, backend="mediatensor")
    assert np.array_equal(frames.permute(0, 2, 3, 1).numpy(), truth)
    assert type(metadata) is video_utils.VideoMetadata
    assert metadata.frames_indices.tolist() == expected.frames_indices.tolist()
    assert np.array_equal(before(CLIP, fps=5, backend="mediatensor")[0], frames)  # as it was imported before
    frames, metadata = video_utils.load_video(CLIP, fps=5, backend="torchcodec")
    assert metadata.video_backend == "torchcodec"
    assert torch.equal(frames, torch.from_numpy(truth).permute(0, 3, 1, 2))
    ours.unregister()
    assert video_utils.load_video is before
    assert decoders == video_utils.VIDEO_DECODERS


def test_a_processor_returns_the_same_pixels_as_with_pyav(transformers: Any) -> None:
    from transformers import LlavaOnevisionVideoProcessor, Qwen2VLVideoProcessor, video_utils

    ours.register()
    for kind, options in ((Qwen2VLVideoProcessor, {"cap_pixels_per_frame": True}), (LlavaOnevisionVideoProcessor, {})):
        processor = kind()
        given = {**options, "do_sample_frames": True, "fps": 5, "return_tensors": "pt", "return_metadata": True}
        found = processor(videos=[CLIP, LATE], **given)
        whole = [video_utils.load_video(path, backend="pyav") for path in (CLIP, LATE)]
        truth = processor(videos=[video for video, _ in whole], video_metadata=[data for _, data in whole], **given)
        assert torch.equal(found["pixel_values_videos"], truth["pixel_values_videos"])
        for one, other in zip(found["video_metadata"], truth["video_metadata"], strict=True):
            assert list(one.frames_indices) == list(other.frames_indices)
            assert one.timestamps == other.timestamps


def test_a_chat_template(transformers: Any) -> None:
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast, Qwen2VLImageProcessor, Qwen2VLProcessor, Qwen2VLVideoProcessor

    words = ["[UNK]", "what", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"]
    table = Tokenizer(models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=table, unk_token="[UNK]", pad_token="[UNK]", additional_special_tokens=words[2:]
    )
    template = "{% for part in messages[0].content %}{% if part.type == 'video' %}<|video_pad|>{% endif %}{% endfor %}"
    processor = Qwen2VLProcessor(
        Qwen2VLImageProcessor(), tokenizer, Qwen2VLVideoProcessor(cap_pixels_per_frame=True), chat_template=template
    )
    ours.register(timeout_seconds=60)
    messages = [{"role": "user", "content": [{"type": "video", "path": CLIP}, {"type": "text", "text": "what"}]}]
    options = {"tokenize": True, "return_dict": True, "return_tensors": "pt"}
    found = processor.apply_chat_template(messages, **options, processor_kwargs={"do_sample_frames": True, "fps": 5})
    truth = processor.video_processor(videos=[CLIP], do_sample_frames=True, fps=5, return_tensors="pt")
    assert torch.equal(found["pixel_values_videos"], truth["pixel_values_videos"])


def test_sound_of_a_feature_extractor(transformers: Any) -> None:
    from transformers import WhisperFeatureExtractor, audio_utils

    ours.register()
    truth = AudioDecoder(CLIP, sample_rate=16_000, num_channels=1).get_all_samples().data[0].numpy()
    assert np.array_equal(audio_utils.load_audio(CLIP), truth)
    assert np.array_equal(WhisperFeatureExtractor(feature_size=8, chunk_length=1).fetch_audio(CLIP), truth)
    ours.register(in_processors=False)
    with pytest.raises((RuntimeError, ImportError)):  # an MP4 without torchcodec
        audio_utils.load_audio(CLIP, backend="soundfile")
