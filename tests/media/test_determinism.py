"""The same request has the same result, in repeated runs and with any number of threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from mediatensor import set_num_threads
from mediatensor.decoders import AudioDecoder, VideoDecoder
from mediatensor.encoders import AudioEncoder, JpegEncoder, PngEncoder, VideoEncoder
from ocr_reading import reader, text_page, words_of

INDICES = [31, 2, 17, 18, 39, 0, 17]


def test_frames_with_any_budget_of_threads(clip: Path, clip_rgb: torch.Tensor, own_limits: None) -> None:
    for budget in (1, 2, 7):
        set_num_threads(budget)
        with VideoDecoder(clip) as decoder, ThreadPoolExecutor(3) as pool:
            batches = list(pool.map(lambda _, open=decoder: open.get_frames_at(INDICES).data, range(6)))
        assert all(torch.equal(batch, clip_rgb[INDICES]) for batch in batches)


def test_sound(tmp_path: Path) -> None:
    sound = torch.rand(2, 40_000, generator=torch.Generator().manual_seed(0)) - 0.5
    for kind in ("mp3", "flac"):
        path = tmp_path / f"sound.{kind}"
        AudioEncoder(sound, sample_rate=16_000).to_file(path)
        found = [
            AudioDecoder(path, num_ffmpeg_threads=count, sample_rate=rate).get_all_samples().data
            for rate in (16_000, 11_025)
            for count in (None, 1, 4, 1)
        ]
        assert all(torch.equal(found[0], one) for one in found[:4])
        assert all(torch.equal(found[4], one) for one in found[4:])


def test_encoders() -> None:
    frames = torch.randint(0, 256, (12, 3, 64, 64), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    for make in (
        lambda: VideoEncoder(frames, frame_rate=25).to_tensor("mp4"),
        lambda: PngEncoder(frames[0]).to_tensor(),
        lambda: JpegEncoder(frames[0]).to_tensor(),
    ):
        assert torch.equal(make(), make())


def test_words(request: pytest.FixtureRequest) -> None:
    """Torch's threads divide sums, so scores may differ by rounding. Words and their order must not differ."""
    request.addfinalizer(partial(torch.set_num_threads, torch.get_num_threads()))
    predictor, page = reader(), text_page("Invoice 2041").image
    read: list[list[Any]] = []
    for count in (1, 2, 1):
        torch.set_num_threads(count)
        read.append(words_of(predictor([page])))
    for again in read[1:]:
        assert [word.value for word in again] == [word.value for word in read[0]]
        assert [word.geometry for word in again] == [word.geometry for word in read[0]]
        assert [word.confidence for word in again] == pytest.approx([word.confidence for word in read[0]], abs=1e-5)
    assert [word.confidence for word in read[2]] == [word.confidence for word in read[0]]
