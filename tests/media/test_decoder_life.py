"""The life of decoders: closing, copying, other processes, other threads."""

from __future__ import annotations

import copy
import gc
import io
import multiprocessing
import os
import pickle
import sys
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

import media_audio
from file_sources import SOURCES
from forked import run_program
from media_surgery import with_data
from media_writing import ClipSpec, Packets, write_clip, x264
from mediatensor._engine.pyav.reading import VideoReader
from mediatensor._engine.sources.source import make_source
from mediatensor.decoders import AudioDecoder, VideoDecoder, WavDecoder
from mediatensor.errors import ClosedError, MediaTensorError, StreamError
from places import in_child, needs_fork, needs_proc, num_open_files
from wav_files import noise, wav

START_METHODS = multiprocessing.get_all_start_methods()
NUMBERS = [20, 3, 3, 29, 0, 11]


@dataclass(frozen=True)
class Kind:
    """A kind of decoder: its file, how to open a source, and the parts of the file by number."""

    path: Path
    open: Callable[..., Any]
    part: Callable[[Any, int], Tensor]
    parts: Sequence[Tensor]


def frame(decoder: VideoDecoder, number: int) -> Tensor:
    return decoder[number]


def quarter_second(decoder: AudioDecoder | WavDecoder, number: int) -> Tensor:
    return decoder.get_samples_played_in_range(number / 20, number / 20 + 0.25).data


# Audio of every way to seek, half of it resampled.
_RESAMPLED = {"sample_rate": 16_000, "num_channels": 1}
_SOUNDS: dict[str, dict[str, Any]] = {
    "flac": {}, "mp3_vbr": _RESAMPLED, "aac_m4a": {}, "opus_ogg": _RESAMPLED, "pcm_s16_wav": _RESAMPLED
}  # fmt: skip
_VIDEOS = {"video": 1, "video with threads": 4}


@pytest.fixture(scope="module", params=[*_VIDEOS, *_SOUNDS, "wav"])
def kind(request: pytest.FixtureRequest, clip: Path, clip_rgb: Tensor, sound_folder: Path, folder: Path) -> Kind:
    name = request.param
    if name in _VIDEOS:
        opener = partial(VideoDecoder, dimension_order="NHWC", num_ffmpeg_threads=_VIDEOS[name])
        return Kind(clip, opener, frame, clip_rgb.permute(0, 2, 3, 1))
    if name == "wav":
        path = folder / "sound.wav"
        path.write_bytes(wav("pcm_s16le", noise(16_000, 2)))
        whole = WavDecoder(path).get_all_samples().data
        return Kind(path, WavDecoder, quarter_second, [whole[:, 400 * i : 400 * i + 2000] for i in range(30)])
    path = media_audio.make(name, sound_folder)
    opener = partial(AudioDecoder, **_SOUNDS[name])
    return Kind(path, opener, quarter_second, [quarter_second(opener(path), number) for number in range(30)])


class Parts(Dataset[Tensor]):
    """A dataset with one decoder, as users write it."""

    def __init__(self, kind: Kind, decoder: Any, numbers: Sequence[int] = NUMBERS) -> None:
        self.part = kind.part
        self.decoder = decoder
        self.numbers = numbers

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, i: int) -> Tensor:
        return self.part(self.decoder, self.numbers[i])


def assert_loaded(loader: DataLoader[Tensor], kind: Kind, numbers: Sequence[int] = NUMBERS) -> None:
    for number, part in zip(numbers, loader, strict=True):
        assert torch.equal(part, kind.parts[number])


# Calls that need the file, of the kinds of decoders that have them.
_CALLS: dict[str, tuple[Any, ...]] = {
    "get_all_frames": (),
    "get_all_samples": (),
    "get_samples_played_in_ranges": ([(0.0, 0.1)],),
    "chunks": (),
}


@pytest.mark.parametrize("source", ["path", "bytes"])
def test_close_and_with(source: str, kind: Kind) -> None:
    with kind.open(SOURCES[source](kind.path)) as decoder:
        assert torch.equal(kind.part(decoder, 3), kind.parts[3])
        metadata = decoder.metadata
    with pytest.raises(ClosedError, match="closed"):
        kind.part(decoder, 3)
    for name, arguments in _CALLS.items():
        if hasattr(decoder, name):
            with pytest.raises(ClosedError):
                list(getattr(decoder, name)(*arguments))
    assert decoder.metadata == metadata, "known values stay readable"
    decoder.close()


@needs_proc
def test_files_are_released_by_close_by_collection_and_by_errors(kind: Kind, tmp_path: Path) -> None:
    broken = tmp_path / kind.path.name
    broken.write_bytes(kind.path.read_bytes()[:40])
    gc.collect()  # what other tests left
    before = num_open_files()
    decoder = kind.open(kind.path)
    kind.part(decoder, 3)
    assert num_open_files() > before
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        decoder.close()
    assert num_open_files() == before
    assert not caught, "closed, not left to collection"
    decoder = kind.open(kind.path)
    kind.part(decoder, 3)
    del decoder
    for _ in range(5):
        with pytest.raises(MediaTensorError):
            kind.open(broken)
        if kind.open is not WavDecoder:
            with pytest.raises(StreamError):
                kind.open(kind.path, stream_index=7)
    gc.collect()
    assert num_open_files() == before


def test_iteration_gives_every_frame_also_while_seeking_elsewhere(clip: Path, clip_rgb: Tensor) -> None:
    decoder = VideoDecoder(clip)
    decoder[17]
    seen = []
    for frame in decoder:
        seen.append(frame)
        decoder[len(decoder) - 1 - len(seen) // 2]
    assert torch.equal(torch.stack(seen), clip_rgb)


@pytest.mark.parametrize("source", ["path", "bytes"])
@pytest.mark.parametrize("used", [False, True])
@pytest.mark.parametrize("through", [copy.copy, copy.deepcopy, lambda decoder: pickle.loads(pickle.dumps(decoder))])
def test_copies_decode_the_same(through: Any, used: bool, source: str, kind: Kind) -> None:
    decoder = kind.open(SOURCES[source](kind.path))
    if used:
        kind.part(decoder, 9)
    other = through(decoder)
    for number in NUMBERS:
        assert torch.equal(kind.part(other, number), kind.parts[number])
    assert other.metadata == decoder.metadata
    other.close()
    assert torch.equal(kind.part(decoder, 4), kind.parts[4]), "a copy has its own handles"


def test_random_crops_survive_pickling(clip: Path) -> None:
    from mediatensor.transforms import RandomCrop

    decoder = VideoDecoder(clip, transforms=[RandomCrop((8, 8))])
    assert torch.equal(pickle.loads(pickle.dumps(decoder))[5], decoder[5])


def test_an_open_file_cannot_be_pickled_but_memory_can(clip: Path, clip_rgb: Tensor) -> None:
    decoder = VideoDecoder(io.BytesIO(clip.read_bytes()))
    assert torch.equal(pickle.loads(pickle.dumps(decoder))[2], clip_rgb[2])
    with clip.open("rb") as file, pytest.raises(TypeError, match="pickle"):
        pickle.dumps(VideoDecoder(file))


# A fork copies threads and open handles. A spawned process imports everything first, which takes long. So fewer cases
# spawn, and with one process.
_ALWAYS = [("video", "fork"), ("video with threads", "fork"), ("video with threads", "spawn")]
_ALWAYS += [("mp3_vbr", "fork"), ("wav", "fork")]
_RARELY = [("video", "forkserver"), ("mp3_vbr", "spawn"), ("wav", "spawn")]


@pytest.mark.parametrize(
    ("kind", "method"),
    [case for case in _ALWAYS if case[1] in START_METHODS]
    + [pytest.param(*case, marks=pytest.mark.slow) for case in _RARELY if case[1] in START_METHODS],
    indirect=["kind"],
)
def test_dataloader_workers(method: str, kind: Kind) -> None:
    decoder = kind.open(kind.path)
    kind.part(decoder, 13)  # so that a fork meets open handles and codec threads
    num_workers = 2 if method == "fork" else 1
    loader = DataLoader(
        Parts(kind, decoder), batch_size=None, num_workers=num_workers, multiprocessing_context=method, timeout=120
    )
    assert_loaded(loader, kind)
    assert torch.equal(kind.part(decoder, 14), kind.parts[14]), "the parent's handles still work"


@needs_fork
@pytest.mark.parametrize("kind", ["video", "flac", "wav"], indirect=True)
@pytest.mark.parametrize("source", ["buffered file", "bytesio"])
def test_file_objects_after_a_fork(source: str, kind: Kind) -> None:
    decoder = kind.open(SOURCES[source](kind.path))
    kind.part(decoder, 13)
    parts = Parts(kind, decoder, NUMBERS * 5)
    loader = DataLoader(parts, batch_size=None, num_workers=3, multiprocessing_context="fork", timeout=120)
    assert_loaded(loader, kind, parts.numbers)
    assert torch.equal(kind.part(decoder, 14), kind.parts[14])


@needs_fork
@pytest.mark.parametrize("kind", ["video"], indirect=True)
def test_a_fork_while_another_thread_decodes(kind: Kind) -> None:
    decoder = kind.open(kind.path)
    with ThreadPoolExecutor(1) as executor:
        busy = executor.submit(lambda: [decoder[i % 40] for i in range(60)])
        parts = Parts(kind, decoder)
        assert_loaded(
            DataLoader(parts, batch_size=None, num_workers=2, multiprocessing_context="fork", timeout=20), kind
        )
        assert torch.equal(busy.result()[5], kind.parts[5])


@pytest.mark.parametrize("source", ["path", "bytes", "bytesio", "short reads"])
def test_threads_share_a_decoder(source: str, kind: Kind) -> None:
    numbers = (torch.randperm(120, generator=torch.Generator().manual_seed(0)) % 30).tolist()
    with kind.open(SOURCES[source](kind.path)) as decoder, ThreadPoolExecutor(8) as executor:
        parts = list(executor.map(partial(kind.part, decoder), numbers))
    for number, part in zip(numbers, parts, strict=True):
        assert torch.equal(part, kind.parts[number])


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="counts threads through /proc")
def test_a_worker_uses_one_codec_thread(clip: Path) -> None:
    ((before, after),) = DataLoader([clip], collate_fn=threads_around_decoding, num_workers=1, timeout=120)
    assert after == before


def threads_around_decoding(paths: list[Path]) -> tuple[int, int]:
    """Return the number of threads before and after decoding with the default number of codec threads."""
    before = len(os.listdir("/proc/self/task"))
    with VideoDecoder(paths[0]) as decoder:
        decoder.get_all_frames()
        return before, len(os.listdir("/proc/self/task"))


# The application makes PyAV forward FFmpeg's log to Python, for which a codec's threads need the interpreter's lock.
# Freeing the codec waits for these threads. The program ends with an open decoder, and with threads that log.
_LOGGING_PROGRAM = """
import faulthandler, gc, io, logging, sys
faulthandler.dump_traceback_later(150, exit=True)
import av, torch
from mediatensor.decoders import AudioDecoder, VideoDecoder
from mediatensor.encoders import Encoder
from mediatensor.errors import MediaTensorError

av.logging.set_level(av.logging.TRACE)
logged = []
logging.getLogger("libav").setLevel(1)
class Counting(logging.Handler):
    def emit(self, record):
        logged.append(record.name)
logging.getLogger().addHandler(Counting())

def used(path, mode):
    decoder = VideoDecoder(path, seek_mode=mode, num_ffmpeg_threads=4)
    for i in (3, 30, 5):
        try:
            decoder[i]
        except MediaTensorError:
            pass
    return decoder

def heard(path):
    decoder = AudioDecoder(path, num_ffmpeg_threads=4)
    for start in (0.0, 1.5, 0.5):
        try:
            decoder.get_samples_played_in_range(start, start + 0.3)
        except MediaTensorError:
            pass
    return decoder

for _ in range(3):
    for mode in ("approximate", "exact"):
        used(sys.argv[1], mode).close()
        used(sys.argv[1], mode)
        decoder = used(sys.argv[1], mode)
        decoder.itself = decoder
        del decoder
        gc.collect()
    heard(sys.argv[2]).close()
assert any("h264" in name for name in logged), "codecs had nothing to say"

encoder = Encoder()
video = encoder.add_video(height=64, width=64, frame_rate=25, codec="libx264")
encoder.open_file_like(io.BytesIO(), format="matroska")
logged.clear()
video.add_frames(torch.randint(0, 256, (120, 3, 64, 64), dtype=torch.uint8))
del encoder, video
assert not any("x264" in name for name in logged), "an encoder that is given up cannot wait for its threads"

kept = used(sys.argv[1], "approximate")
print("done")
"""


def _damage_ends(packets: Packets) -> Packets:
    """Damage the last slices of most pictures, so that codecs log after they have worked for a while."""
    for number, packet in enumerate(packets[3:], start=3):
        data = bytearray(bytes(packet))
        if len(data) > 200:
            data[-60:-40] = bytes((number * 37 + 11 * i) % 256 for i in range(20))
        packets[number] = with_data(packet, bytes(data))
    return packets


@needs_fork
def test_forked_child_may_drop_parents_decoders(clip: Path, tmp_path: Path) -> None:
    reader = VideoReader(make_source(clip), None, 4)
    for _ in range(8):
        reader.decode(reader.read_packet())

    def drop() -> None:
        nonlocal reader
        del reader
        gc.collect()

    in_child(tmp_path, drop)  # which must not wait for threads that it does not have
    reader.close()


def test_application_logging_does_not_block_closing(tmp_path: Path) -> None:
    clip = tmp_path / "clip.mp4"
    spec = ClipSpec("damage", options=x264("slices=8", crf="20"), size=(640, 368), rewrite=_damage_ends)
    write_clip(spec, clip)
    sound = media_audio.make("flac", tmp_path)
    done = run_program(_LOGGING_PROGRAM, str(clip), str(sound))
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr[-3000:]


# The exception, whose traceback has the reader that failed to open, lives until the modules are gone.
_KEPT_FAILURE = """
import sys
from mediatensor.decoders import VideoDecoder
try:
    VideoDecoder(b"not a video")
except ValueError as error:
    sys.excepthook = lambda *_, error=error: None
"""


def test_failure_to_open_that_is_kept_until_the_exit_is_silent() -> None:
    run = run_program(_KEPT_FAILURE)
    assert (run.returncode, run.stderr) == (0, "")
