"""Repeat everything that the library does, in random order, while the process is watched.

A round does each of `WORKS` once. Some rounds also spawn a process, and work in an isolated one. After each round, the
resources of the process are recorded, including its children and leftover files.
"""

from __future__ import annotations

import ctypes
import gc
import multiprocessing
import os
import random
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from mediatensor.datasets import DataLoader, VideoClips
from mediatensor.decoders import AudioDecoder, FrameIndex, VideoDecoder, WavDecoder, decode_image
from mediatensor.encoders import AudioEncoder, JpegEncoder, PngEncoder, VideoEncoder
from mediatensor.errors import MediaTensorError
from mediatensor.isolate import IsolatedWorker
from mediatensor.samplers import clips_at_random_indices
from mediatensor.transforms import Resize

from ..shared.processes import FullUsage, full_usage, wait_for_children
from .soak_files import write_files

_NUM_FILES = 24
_ROUNDS_BETWEEN_PROCESSES = 8
_M_ARENA_MAX = -8  # of <malloc.h>
_WORDS = ("Invoice 2041", "Total due: 1,250.00")


@dataclass
class Bench:
    """Data shared by the works.

    Attributes:
        good: Valid videos.
        all_files: Copies of these, a third of them broken.
        sound: A file with a minute of audio, and a WAV file of it.
        folder: Folder for output; everything in it is deleted again.
        chance: Source of random choices.
        read_text: Reads a page; ``None`` where OCR's weights are not installed.
        counts: Number of runs of each work.
    """

    good: Sequence[Path]
    all_files: Sequence[Path]
    sound: tuple[Path, Path]
    folder: Path
    chance: random.Random
    read_text: Callable[[], object] | None
    counts: Counter[str] = field(default_factory=Counter)

    def video(self) -> Path:
        """Return a random valid video."""
        return self.chance.choice(self.good)

    @property
    def output(self) -> str:
        """Return the start of an output path."""
        return str(self.folder / "output")


@dataclass
class Mixed:
    """The record of the mixed workload, see `benchmarks.apps.soak.Part`."""

    usages: list[tuple[int, FullUsage]] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0


def work_for(minutes: float, good: Sequence[Path], folder: Path, say: Callable[[str], None]) -> Mixed:
    """Repeat rounds of all works for some minutes, at least three rounds.

    Args:
        minutes: Duration.
        good: Videos.
        folder: An empty folder, also used for temporary files during the run.
        say: Receives a line about every minute.
    """
    _share_one_heap()
    files, _ = write_files(good, _made(folder / "files"), _NUM_FILES)
    temporary, written = _made(folder / "temporary"), _made(folder / "written")
    bench = Bench(good, files, _sounds(folder), written, random.Random(0), _text_reader())
    mixed = Mixed()
    begin = said = time.perf_counter()
    usual = tempfile.tempdir
    tempfile.tempdir = str(temporary)
    try:
        while len(mixed.usages) < 3 or time.perf_counter() - begin < 60 * minutes:
            number = len(mixed.usages)
            _round(bench, number)
            mixed.usages.append((number, full_usage((temporary, written))))
            if time.perf_counter() - said > 60:
                said = time.perf_counter()
                say(f"{(said - begin) / 60:.0f} min, {number + 1} rounds: {mixed.usages[-1][1]}")
    finally:
        tempfile.tempdir = usual
    mixed.seconds = time.perf_counter() - begin
    mixed.counts = {"rounds": len(mixed.usages), **bench.counts}
    return mixed


def _share_one_heap() -> None:
    """Limit glibc to one heap; by default it adds heaps for new threads, and RSS rises until these are full."""
    with suppress(OSError, AttributeError):  # another C library
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)


def _round(bench: Bench, number: int) -> None:
    works = list(WORKS)
    if number % _ROUNDS_BETWEEN_PROCESSES == 0:
        works += OCCASIONAL
    bench.chance.shuffle(works)
    for work in works:
        work(bench)
        bench.counts[work.__name__.strip("_").replace("_", " ")] += 1
    gc.collect()
    wait_for_children()


# Works


def _random_frames(bench: Bench) -> None:
    for _ in range(8):
        with VideoDecoder(bench.video(), transforms=[Resize((24, 32))]) as decoder:
            decoder.get_frames_at([bench.chance.randrange(len(decoder)) for _ in range(6)])
            decoder.get_frames_played_at([0.1, 0.3])


def _decoders_that_are_dropped(bench: Bench) -> None:
    for _ in range(8):
        next(iter(VideoDecoder(bench.video())))


def _clips(bench: Bench) -> None:
    with VideoDecoder(bench.video()) as decoder:
        clips_at_random_indices(decoder, num_clips=3, num_frames_per_clip=4)


def _saved_indexes(bench: Bench) -> None:
    with VideoDecoder(bench.video()) as decoder:
        decoder.frame_index.save(bench.output)
    with VideoDecoder(bench.video(), seek_mode="approximate") as decoder:
        decoder[0]
    len(FrameIndex.load(bench.output))
    os.unlink(bench.output)


def _sound(bench: Bench) -> None:
    compressed, plain = bench.sound
    start = bench.chance.uniform(0, 5)
    with AudioDecoder(compressed, sample_rate=16_000) as decoder:
        decoder.get_samples_played_in_range(start, start + 2)
    with WavDecoder(plain) as decoder:
        decoder.get_samples_played_in_range(start, start + 2)


def _images(bench: Bench) -> None:
    image = torch.randint(0, 256, (3, 60, 80), dtype=torch.uint8)
    for encoder in (PngEncoder(image), JpegEncoder(image)):
        encoder.to_file(bench.output)
        decode_image(Path(bench.output))
    os.unlink(bench.output)


def _videos_written(bench: Bench) -> None:
    frames = torch.randint(0, 256, (20, 3, 48, 64), dtype=torch.uint8)
    path = f"{bench.output}.mp4"
    VideoEncoder(frames, frame_rate=25).to_file(path)
    with VideoDecoder(path) as decoder:
        decoder[-1]
    os.unlink(path)


def _text(bench: Bench) -> None:
    if bench.read_text is not None:
        bench.read_text()


def _epoch_with_workers(bench: Bench) -> None:
    dataset = VideoClips(list(bench.all_files), num_frames_per_clip=4, on_error="skip", max_consecutive_failures=50)
    for _ in DataLoader(dataset, 4, shuffle=True, num_workers=2):
        pass


def _half_an_epoch_with_workers(bench: Bench) -> None:
    dataset = VideoClips(list(bench.good), num_frames_per_clip=4, rows_per_file=4)
    batches = iter(DataLoader(dataset, 2, num_workers=1))
    next(batches)


def _broken_files(bench: Bench) -> None:
    kinds: tuple[Callable[[Path], Any], ...] = (_last_frame, _whole_sound, WavDecoder, decode_image)
    for path in bench.all_files:
        for open_it in kinds:
            with suppress(MediaTensorError):
                open_it(path)


def _writing_that_fails(bench: Bench) -> None:
    frames = torch.randint(0, 256, (4, 3, 48, 64), dtype=torch.uint8)
    for call in (
        partial(VideoEncoder(frames, frame_rate=25).to_file, "/dev/full"),
        partial(VideoEncoder(frames, frame_rate=25).to_file, f"{bench.output}.mp4", codec="no-such-codec"),
        partial(PngEncoder(frames[0]).to_file, str(bench.folder / "none" / "there.png")),
    ):
        with suppress(MediaTensorError):
            call()


def _threads(bench: Bench) -> None:
    with VideoDecoder(bench.video()) as decoder, ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda number: decoder[number % len(decoder)], range(0, 60, 7)))


def _forks(bench: Bench) -> None:
    with VideoDecoder(bench.video()) as decoder:
        decoder[3]
        for _ in range(3):
            process = os.fork()
            if process == 0:
                status = 1
                try:
                    decoder[5]
                    status = 0
                finally:
                    os._exit(status)
            _, status = os.waitpid(process, 0)
            if status:
                raise RuntimeError("a forked child could not decode")


def _spawned_process(bench: Bench) -> None:
    process = multiprocessing.get_context("spawn").Process(target=_last_frame, args=(bench.video(),))
    process.start()
    process.join()
    if process.exitcode:
        raise RuntimeError("a spawned process could not decode")
    process.close()


def _isolated_process(bench: Bench) -> None:
    with IsolatedWorker() as worker:
        worker.run(_last_frame, bench.video())
        with suppress(MediaTensorError):
            worker.run(_last_frame, bench.all_files[1])


#: Works of every round.
WORKS: tuple[Callable[[Bench], None], ...] = (
    _random_frames,
    _decoders_that_are_dropped,
    _clips,
    _saved_indexes,
    _sound,
    _images,
    _videos_written,
    _text,
    _epoch_with_workers,
    _half_an_epoch_with_workers,
    _broken_files,
    _writing_that_fails,
    _threads,
    _forks,
)
#: Works that start a new Python process, which takes some seconds.
OCCASIONAL: tuple[Callable[[Bench], None], ...] = (_spawned_process, _isolated_process)


def _last_frame(path: Path) -> torch.Tensor:
    with VideoDecoder(path) as decoder:
        return decoder[-1]


def _whole_sound(path: Path) -> torch.Tensor:
    with AudioDecoder(path) as decoder:
        return decoder.get_all_samples().data


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def _sounds(folder: Path) -> tuple[Path, Path]:
    samples = torch.rand(1, 10 * 16_000, generator=torch.Generator().manual_seed(0)) - 0.5
    paths = folder / "sound.mp3", folder / "sound.wav"
    for path in paths:
        AudioEncoder(samples, sample_rate=16_000).to_file(path)
    return paths


def _text_reader() -> Callable[[], object] | None:
    from PIL import Image, ImageDraw, ImageFont

    from mediatensor.ocr.io import DocumentFile
    from mediatensor.ocr.models import ocr_predictor

    try:
        predictor = ocr_predictor(pretrained=True, shorter_side=192)
    except MediaTensorError:
        return None
    sheet = Image.new("RGB", (260, 90), "white")
    for line, words in enumerate(_WORDS):
        ImageDraw.Draw(sheet).text((20, 15 + 30 * line), words, "black", ImageFont.load_default(20))
    page = np.asarray(sheet)

    def read() -> None:
        document = predictor([page])
        if "2041" not in document.render():
            raise RuntimeError(f"other words were read: {document.render()!r}")
        predictor(DocumentFile.from_pdf(document.export_as_pdf(), dpi=72))

    return read
