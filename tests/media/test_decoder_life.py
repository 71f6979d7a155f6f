"""The life of a decoder: closing, copying, other processes, other threads."""

from __future__ import annotations

import copy
import gc
import io
import multiprocessing
import os
import pickle
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, Dataset

import media_audio
from forked import run_program
from media_surgery import with_data
from media_writing import ClipSpec, Packets, write_clip, x264
from mediatensor._engine.pyav.reading import VideoReader
from mediatensor._engine.sources.source import make_source
from mediatensor.decoders import VideoDecoder
from mediatensor.errors import ClosedError
from places import in_child, needs_fork, needs_proc, num_open_files

START_METHODS = [m for m in ("fork", "forkserver", "spawn") if m in multiprocessing.get_all_start_methods()]
INDICES = [20, 3, 3, 29, 0, 11]


class Frames(Dataset[torch.Tensor]):
    """A dataset with one decoder, as users write it."""

    def __init__(self, decoder: VideoDecoder, indices: list[int]) -> None:
        self.decoder = decoder
        self.indices = indices

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, i: int) -> torch.Tensor:
        return self.decoder[self.indices[i]]


def test_close_and_with(clip: Path) -> None:
    with VideoDecoder(clip) as decoder:
        num_frames = len(decoder)
        decoder[0]
    with pytest.raises(ClosedError, match="closed"):
        decoder[0]
    assert len(decoder) == num_frames, "known values stay readable"
    decoder.close()


@needs_proc
def test_files_are_released_by_close_and_by_collection(clip: Path) -> None:
    gc.collect()  # what other tests left
    before = num_open_files()
    decoder = VideoDecoder(clip)
    decoder[0]
    assert num_open_files() > before
    decoder.close()
    assert num_open_files() == before
    decoder = VideoDecoder(clip)
    decoder[0]
    del decoder
    gc.collect()
    assert num_open_files() == before


@needs_proc
def test_errors_leak_no_files(tmp_path: Path, clip: Path) -> None:
    broken = tmp_path / "broken.mp4"
    broken.write_bytes(clip.read_bytes()[:2000])
    gc.collect()  # what other tests left
    before = num_open_files()
    for _ in range(5):
        with pytest.raises(ValueError, match="open"):
            VideoDecoder(broken)
        with pytest.raises(ValueError, match="stream"):
            VideoDecoder(clip, stream_index=7)
    gc.collect()
    assert num_open_files() == before


def test_iteration_gives_every_frame_also_while_seeking_elsewhere(clip: Path, clip_rgb: torch.Tensor) -> None:
    decoder = VideoDecoder(clip)
    decoder[17]
    seen = []
    for frame in decoder:
        seen.append(frame)
        decoder[len(decoder) - 1 - len(seen) // 2]
    assert torch.equal(torch.stack(seen), clip_rgb)


@pytest.mark.parametrize("used", [False, True])
@pytest.mark.parametrize("through", [copy.copy, copy.deepcopy, lambda decoder: pickle.loads(pickle.dumps(decoder))])
def test_copies_decode_the_same(through: Any, used: bool, clip: Path, clip_rgb: torch.Tensor) -> None:
    decoder = VideoDecoder(clip, dimension_order="NHWC")
    if used:
        decoder[9]
    other = through(decoder)
    assert torch.equal(other.get_frames_at(INDICES).data, clip_rgb[INDICES].permute(0, 2, 3, 1))
    other.close()
    assert torch.equal(decoder[4], clip_rgb[4].permute(1, 2, 0)), "a copy has its own handles"


def test_random_crops_survive_pickling(clip: Path) -> None:
    from mediatensor.transforms import RandomCrop

    decoder = VideoDecoder(clip, transforms=[RandomCrop((8, 8))])
    assert torch.equal(pickle.loads(pickle.dumps(decoder))[5], decoder[5])


def test_an_open_file_cannot_be_pickled_but_memory_can(clip: Path, clip_rgb: torch.Tensor) -> None:
    decoder = VideoDecoder(io.BytesIO(clip.read_bytes()))
    assert torch.equal(pickle.loads(pickle.dumps(decoder))[2], clip_rgb[2])
    with clip.open("rb") as file, pytest.raises(TypeError, match="pickle"):
        pickle.dumps(VideoDecoder(file))


# A fork copies threads and open handles. A spawned process imports everything first, which takes long. So fewer cases
# spawn.
@pytest.mark.parametrize(
    ("method", "num_ffmpeg_threads", "num_workers"),
    [
        pytest.param(
            method, num_ffmpeg_threads, num_workers, marks=[pytest.mark.slow] if method == "forkserver" else []
        )
        for method, num_ffmpeg_threads, num_workers in (
            ("fork", 1, 2),
            ("fork", 4, 2),
            ("forkserver", 1, 1),
            ("spawn", 4, 1),
        )
        if method in START_METHODS
    ],
)
def test_dataloader_workers(
    method: str, num_ffmpeg_threads: int, num_workers: int, clip: Path, clip_rgb: torch.Tensor
) -> None:
    decoder = VideoDecoder(clip, num_ffmpeg_threads=num_ffmpeg_threads)
    decoder[13]  # so that a fork meets open handles and codec threads
    loader = DataLoader(
        Frames(decoder, INDICES), batch_size=2, num_workers=num_workers, multiprocessing_context=method, timeout=120
    )
    assert torch.equal(torch.cat(list(loader)), clip_rgb[INDICES])
    assert torch.equal(decoder[14], clip_rgb[14]), "the parent's handles still work"


@pytest.mark.skipif("fork" not in START_METHODS, reason="no fork here")
@pytest.mark.parametrize("kind", ["buffered", "memory"])
def test_file_objects_after_a_fork(kind: str, clip: Path, clip_rgb: torch.Tensor) -> None:
    with clip.open("rb") if kind == "buffered" else io.BytesIO(clip.read_bytes()) as file:
        decoder = VideoDecoder(file)
        decoder[13]
        loader = DataLoader(Frames(decoder, INDICES * 5), num_workers=3, multiprocessing_context="fork", timeout=120)
        assert torch.equal(torch.cat(list(loader)), clip_rgb[INDICES * 5])
        assert torch.equal(decoder[14], clip_rgb[14])


@pytest.mark.skipif("fork" not in START_METHODS, reason="no fork here")
def test_a_fork_while_another_thread_decodes(clip: Path, clip_rgb: torch.Tensor) -> None:
    decoder = VideoDecoder(clip)
    with ThreadPoolExecutor(1) as executor:
        busy = executor.submit(lambda: [decoder[i % len(clip_rgb)] for i in range(60)])
        loader = DataLoader(Frames(decoder, INDICES), num_workers=2, multiprocessing_context="fork", timeout=20)
        assert torch.equal(torch.cat(list(loader)), clip_rgb[INDICES])
        assert torch.equal(busy.result()[5], clip_rgb[5])


@pytest.mark.parametrize("wrap", [str, lambda path: io.BytesIO(path.read_bytes())], ids=["path", "file object"])
def test_threads_share_a_decoder(wrap: Any, clip: Path, clip_rgb: torch.Tensor) -> None:
    decoder = VideoDecoder(wrap(clip))
    order = torch.randperm(len(clip_rgb) * 4, generator=torch.Generator().manual_seed(0)) % len(clip_rgb)
    with ThreadPoolExecutor(4) as executor:
        frames = list(executor.map(decoder.__getitem__, order.tolist()))
    assert torch.equal(torch.stack(frames), clip_rgb[order])


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
