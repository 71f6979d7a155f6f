"""Read files of each kind as a program does, and check the outcomes."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

import media
from mediatensor.decoders import (
    AudioDecoder,
    FrameIndex,
    SubtitleDecoder,
    VideoDecoder,
    WavDecoder,
    decode_image,
    get_container_metadata,
)
from mediatensor.ocr.io import DocumentFile
from mediatensor.ocr.models._networks.onnx import fill_layers, read_onnx
from mediatensor.ocr.models.utils import load_pretrained_params

from .answers import Answers, WrongAnswerError, digest
from .reading_calls import read_calls
from .reading_command import read_by_command
from .reading_datasets import read_rows, read_state, read_tar
from .reading_exports import read_exports
from .reading_video import read_video, source_of

__all__ = ["READERS"]

# A file may state a duration of years; programs request less.
_MAX_SECONDS = 30.0
_MAX_PAGES = 4
_MAX_SUBTITLES = 1000
_SIZE_OF_PAGES = 1 << 22


def read_audio(answers: Answers, rng: random.Random, path: Path, folder: Path) -> None:
    source = source_of(rng, path)
    answers.ask("container", lambda: get_container_metadata(source))
    form = rng.choice(({}, {}, {"sample_rate": 16_000}, {"num_channels": 1}))
    decoder = answers.ask("open", lambda: AudioDecoder(source, **form))
    if decoder is None:
        return
    with decoder:
        answers.lines.append(repr(decoder.metadata))
        _read_sound(answers, rng, decoder, decoder.metadata.duration_seconds)


def read_wav(answers: Answers, rng: random.Random, path: Path, folder: Path) -> None:
    source = source_of(rng, path)
    decoder = answers.ask("open", lambda: WavDecoder(source))
    if decoder is not None:
        with decoder:
            whole = _read_sound(answers, rng, decoder, decoder.metadata.duration_seconds)
            _check_ranges(decoder, whole)
    read_audio(answers, rng, path, folder)


def _read_sound(answers: Answers, rng: random.Random, decoder: Any, duration: float | None) -> Any:
    seconds = min(duration or 0.0, _MAX_SECONDS)
    start = rng.random() * seconds
    answers.ask("range", lambda: decoder.get_samples_played_in_range(start, start + 0.1))
    answers.ask("begin", lambda: decoder.get_samples_played_in_range(-1.0, 0.05))
    answers.ask("end", lambda: decoder.get_samples_played_in_range(max(0.0, (duration or 0.0) - 0.05), duration))
    answers.ask("far", lambda: decoder.get_samples_played_in_range(1e9, 1e9 + 1))
    ranges = [(0.0, 0.01), (start, start + 0.02)]
    answers.ask("ranges", lambda: [digest(one) for one in decoder.get_samples_played_in_ranges(ranges)])
    if (duration or 0.0) > _MAX_SECONDS:
        return None
    return answers.ask("whole", decoder.get_all_samples)


def _check_ranges(decoder: WavDecoder, whole: Any) -> None:
    if whole is None or whole.data.shape[1] < 8:
        return
    first, last = whole.data.shape[1] // 3, whole.data.shape[1] // 2
    part = decoder.get_samples_played_in_range(first / whole.sample_rate, last / whole.sample_rate).data
    if not torch.equal(part.nan_to_num(7), whole.data[:, first:last].nan_to_num(7)):
        raise WrongAnswerError(f"samples {first} to {last} of a WAV file differ from the whole")


def read_image(answers: Answers, rng: random.Random, path: Path, folder: Path) -> None:
    source = source_of(rng, path)
    for mode in ("UNCHANGED", rng.choice(("RGB", "GRAY", "RGB_ALPHA"))):
        answers.ask(mode, partial(decode_image, source, mode=mode, output_dtype="auto"))
    answers.ask("small", lambda: decode_image(source, max_pixels=100))


def read_still(answers: Answers, rng: random.Random, path: Path, folder: Path) -> None:
    read_image(answers, rng, path, folder)
    data = path.read_bytes()
    pages = answers.ask("pages", lambda: DocumentFile.from_images([data, path], max_pixels=_SIZE_OF_PAGES))
    for number in range(0 if pages is None else len(pages)):
        answers.ask(f"page {number}", partial(pages.__getitem__, number))


def read_document(answers: Answers, rng: random.Random, path: Path, folder: Path) -> None:
    data = path.read_bytes()
    is_pdf = path.suffix == ".pdf" or data[:5] == b"%PDF-"
    options: dict[str, Any] = {"max_pixels": _SIZE_OF_PAGES}
    read = DocumentFile.from_pdf if is_pdf else DocumentFile.from_images
    source = path if rng.random() < 0.5 else data
    pages = answers.ask("open", lambda: read(source, **options))
    if pages is None:
        return
    for number in range(min(len(pages), _MAX_PAGES)):
        answers.ask(f"page {number}", partial(pages.__getitem__, number))
        if is_pdf:
            answers.ask(f"text {number}", partial(_text_layer, pages, number))


def _text_layer(pages: Any, number: int) -> str:
    return repr(pages.text_layer(number))


def read_subtitle(answers: Answers, rng: random.Random, path: Path, folder: Path) -> None:
    source = source_of(rng, path)
    container = answers.ask("container", lambda: get_container_metadata(source))
    streams = [None] if container is None else [None, *range(min(6, len(container.streams)))]
    for stream in streams:
        decoder = answers.ask(f"open {stream}", partial(SubtitleDecoder, source, stream_index=stream))
        if decoder is None:
            continue
        with decoder:
            found = answers.ask("all", decoder.get_all_subtitles) or []
            for subtitle in found[:_MAX_SUBTITLES]:
                if subtitle.text != subtitle.text.encode("utf-8", "strict").decode():
                    raise WrongAnswerError("a subtitle is not text")
            answers.ask("played", partial(decoder.get_subtitles_played_in_range, 0.5, 2.0))


def read_index(answers: Answers, rng: random.Random, path: Path, folder: Path) -> None:
    index = answers.ask("load", lambda: FrameIndex.load(path))
    if index is None:
        return
    for name in ("pts_seconds", "duration_seconds", "key_frame_indices"):
        answers.ask(name, partial(getattr, index, name))
    clip = media.make("h264_b_pyramid", folder)
    decoder = answers.ask("use", lambda: VideoDecoder(clip, frame_index=path))
    if decoder is not None:
        # Frames of a stranger's index may be other frames; that is said in SECURITY.md.
        with decoder:
            answers.ask("first", lambda: decoder[0])
            answers.ask("some", lambda: decoder[rng.randrange(max(1, len(decoder)))])
            answers.ask("time", lambda: decoder.get_frame_played_at(0.3))


def read_mappings(answers: Answers, rng: random.Random, path: Path, folder: Path) -> None:
    clip = media.make("h264_b_pyramid", folder)
    data = path.read_bytes()
    decoder = answers.ask("open", lambda: VideoDecoder(clip, custom_frame_mappings=data))
    if decoder is not None:
        with decoder:
            answers.ask("len", lambda: len(decoder))
            answers.ask("first", lambda: decoder[0])
            answers.ask("last", lambda: decoder[-1])
            answers.ask("some", lambda: decoder[rng.randrange(max(1, len(decoder)))])


def read_weights(answers: Answers, rng: random.Random, path: Path, folder: Path) -> None:
    torch.manual_seed(0)
    if path.suffix == ".onnx":
        graph = answers.ask("onnx", lambda: read_onnx(path))
        if graph is not None:
            layers = [nn.Conv2d(3, 4, 3), nn.Linear(4, 2)]
            answers.ask("fill", lambda: fill_layers(layers, graph))
            answers.lines += [repr(digest(value)) for layer in layers for value in layer.state_dict().values()]
        return
    model = nn.Linear(4, 3)
    answers.ask("torch", lambda: load_pretrained_params(model, path))
    answers.lines += [repr(digest(value)) for value in model.state_dict().values()]


Reader = Callable[[Answers, random.Random, Path, Path], None]

#: Readers by kind. Each makes the calls of a program; ``folder`` has intact files that accompany the damaged one.
READERS: Mapping[str, Reader] = {
    "video": read_video,
    "audio": read_audio,
    "wav": read_wav,
    "image": read_image,
    "document": read_document,
    "subtitle": read_subtitle,
    "index": read_index,
    "mappings": read_mappings,
    "weights": read_weights,
    "tar": read_tar,
    "exports": read_exports,
    "still": read_still,
    "rows": read_rows,
    "state": read_state,
    "calls": read_calls,
    "command": read_by_command,
}
