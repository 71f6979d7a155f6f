"""Turn audio files into log-mel spectrograms; speed in multiples of real time: ``python -m benchmarks.media.speech``.

Every way decodes a file to 16 kHz mono, cuts it into pieces of 30 s, and computes a spectrogram of each, padded to 30 s
as in Whisper. The real-time factor is the seconds of audio per second of wall clock, or of CPU time of all threads.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import av
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mediatensor.decoders import AudioDecoder, WavDecoder
from mediatensor.transforms import LogMelSpectrogram

from ..shared.machine import machine_stamp, package_versions
from ..shared.options import add_output, make_parser
from ..shared.reports import fact_list, markdown_table, write_report
from ..shared.results import timing_row
from .chart import draw_chart
from .sound_ways import imported

RATE = 16_000
CHUNK_SECONDS = 30
NUM_MELS = 80

#: Yields pieces of at most 30 s as 1-D float32 tensors.
Decode = Callable[[Path], Iterator[Tensor]]
#: Computes the (bands, frames) spectrogram of a piece.
ToMels = Callable[[Tensor], Any]


@dataclass(frozen=True)
class Clip:
    """A file to make.

    Attributes:
        name: Its file name.
        codec: FFmpeg's encoder.
        rate, layout: Stored rate and channel layout.
        bit_rate: Bits per second; 0 for formats without a choice.
    """

    name: str
    codec: str
    rate: int
    layout: str
    bit_rate: int = 0


CLIPS = (
    Clip("wav, 16 kHz mono.wav", "pcm_s16le", RATE, "mono"),
    Clip("flac, 16 kHz mono.flac", "flac", RATE, "mono"),
    Clip("wav, 44.1 kHz stereo.wav", "pcm_s16le", 44_100, "stereo"),
    Clip("mp3, 44.1 kHz stereo.mp3", "libmp3lame", 44_100, "stereo", 128_000),
    Clip("aac, 48 kHz stereo.m4a", "aac", 48_000, "stereo", 128_000),
    Clip("opus, 48 kHz stereo.ogg", "libopus", 48_000, "stereo", 64_000),
)


@dataclass(frozen=True)
class Result:
    """One way with one file.

    Attributes:
        clip, way: Which.
        sound_seconds: Length of the decoded audio.
        decode_wall, decode_cpu: Seconds of each run until the samples were decoded.
        wall, cpu: Seconds of each run until the spectrograms were computed.
        samples_missing: Written samples that were not returned; negative for surplus samples.
        largest_difference: Largest difference of the spectrograms from float64 spectrograms of a plain decode; 0.25 is
            a factor of ten in power.
    """

    clip: str
    way: str
    sound_seconds: float
    decode_wall: tuple[float, ...]
    decode_cpu: tuple[float, ...]
    wall: tuple[float, ...]
    cpu: tuple[float, ...]
    samples_missing: int
    largest_difference: float


def speech(num_seconds: int, rate: int) -> NDArray[np.float32]:
    """Generate (samples, 2) speech-like audio: harmonics under slow formants, with pauses, over quiet noise."""
    period = min(num_seconds, CHUNK_SECONDS)
    t = np.arange(period * rate) / rate
    pitch = 2 * np.pi * np.cumsum(120 + 30 * np.sin(2 * np.pi * 0.7 * t)) / rate
    voice = np.zeros_like(t)
    for harmonic in range(1, 24):
        formant = 0.5 + 0.5 * np.sin(2 * np.pi * (0.3 + 0.11 * harmonic) * t + harmonic)
        voice += formant * np.sin(harmonic * pitch) / harmonic
    voice *= 0.15 * np.clip(np.sin(2 * np.pi * 0.4 * t) + 0.6, 0, 1)
    noise = np.random.default_rng(0).standard_normal((len(t), 2)) * 0.002
    return np.tile((voice[:, None] + noise).astype(np.float32), (-(-num_seconds // period), 1))[: num_seconds * rate]


def write_clip(clip: Clip, folder: Path, num_seconds: int) -> Path:
    """Write the file of a clip, and return its path."""
    path = folder / clip.name
    sound = np.ascontiguousarray(speech(num_seconds, clip.rate).T)
    if clip.layout == "mono":
        sound = sound[:1]
    with av.open(str(path), "w") as container:
        stream: Any = container.add_stream(clip.codec, rate=clip.rate, layout=clip.layout)
        if clip.bit_rate:
            stream.bit_rate = clip.bit_rate
        resampler = av.AudioResampler(stream.format, clip.layout, clip.rate, stream.frame_size or 4096)
        for first in range(0, sound.shape[1], clip.rate):
            part = np.ascontiguousarray(sound[:, first : first + clip.rate])
            frame = av.AudioFrame.from_ndarray(part, "fltp", clip.layout)
            frame.sample_rate, frame.pts = clip.rate, first
            for converted in resampler.resample(frame):
                container.mux(stream.encode(converted))
        for converted in resampler.resample(None):
            container.mux(stream.encode(converted))
        container.mux(stream.encode(None))
    return path


def pieces(samples: Tensor) -> Iterator[Tensor]:
    for first in range(0, len(samples), CHUNK_SECONDS * RATE):
        yield samples[first : first + CHUNK_SECONDS * RATE]


def by_chunks(path: Path) -> Iterator[Tensor]:
    with AudioDecoder(path) as decoder:
        for chunk in decoder.chunks(seconds=CHUNK_SECONDS, sample_rate=RATE, num_channels=1):
            yield chunk.data[0]


def by_wav_decoder(path: Path) -> Iterator[Tensor]:
    with WavDecoder(path) as decoder:
        assert decoder.metadata.duration_seconds is not None
        for start in range(0, int(np.ceil(decoder.metadata.duration_seconds)), CHUNK_SECONDS):
            yield decoder.get_samples_played_in_range(start, start + CHUNK_SECONDS).data[0]


def by_torchcodec(decoder_class: Any, path: Path) -> Iterator[Tensor]:
    yield from pieces(decoder_class(str(path), sample_rate=RATE, num_channels=1).get_all_samples().data[0])


def by_soundfile(soundfile: Any, path: Path) -> Iterator[Tensor]:
    yield from pieces(torch.from_numpy(soundfile.read(path, dtype="float32")[0]))


def padded(samples: NDArray[np.float32]) -> NDArray[np.float32]:
    """Pad a piece with silence to 30 s."""
    return np.pad(samples, (0, CHUNK_SECONDS * RATE - len(samples)))


def by_whisper_extractor(extract: Any, piece: Tensor) -> NDArray[np.float32]:
    mels: NDArray[np.float32] = extract(padded(piece.numpy())[None], "cpu")[0]
    return mels


def ways(clip: Clip) -> dict[str, tuple[Decode, ToMels]]:
    """Return the installed ways by name."""
    ours = LogMelSpectrogram(RATE, num_mels=NUM_MELS, pad_to_seconds=CHUNK_SECONDS)
    found: dict[str, tuple[Decode, ToMels]] = {"mediatensor": (by_chunks, ours)}
    is_plain = clip.rate == RATE and clip.layout == "mono"
    if is_plain and clip.codec.startswith("pcm"):
        found["mediatensor, WavDecoder"] = (by_wav_decoder, ours)
    torchcodec = imported("torchcodec.decoders")
    if torchcodec is not None:
        found["torchcodec, our log-mel"] = (partial(by_torchcodec, torchcodec.AudioDecoder), ours)
    soundfile = imported("soundfile")
    if soundfile is not None and is_plain:  # it does not resample
        found["soundfile, our log-mel"] = (partial(by_soundfile, soundfile), ours)
    transformers = imported("transformers")
    if transformers is not None:
        extractor = transformers.WhisperFeatureExtractor(feature_size=NUM_MELS)
        extract = extractor._np_extract_fbank_features
        found["mediatensor, log-mel of transformers (NumPy)"] = (by_chunks, partial(by_whisper_extractor, extract))
    return found


def plain_decode(clip: Clip, path: Path, num_seconds: int) -> Tensor:
    """Decode a file to 16 kHz mono: all packets in order, without padding, in one call of the resampler."""
    to_floats = av.AudioResampler("fltp", clip.layout, clip.rate)
    with av.open(str(path)) as container:
        parts = [out.to_ndarray() for frame in container.decode(audio=0) for out in to_floats.resample(frame)]
    sound = np.ascontiguousarray(np.concatenate(parts, 1)[:, : num_seconds * clip.rate])
    frame = av.AudioFrame.from_ndarray(sound, "fltp", clip.layout)
    frame.sample_rate = clip.rate
    resampler = av.AudioResampler("flt", "mono", RATE)
    frames = [*resampler.resample(frame), *resampler.resample(None)]
    return torch.from_numpy(np.concatenate([frame.to_ndarray()[0] for frame in frames]))


def reference_mels(piece: Tensor) -> NDArray[np.float64]:
    """Compute the formula in float64, with the filters that the library's tests check."""
    samples = np.pad(padded(piece.numpy()).astype(np.float64), 200, mode="reflect")
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(400) / 400)
    frames = np.lib.stride_tricks.sliding_window_view(samples, 400)[::160][: CHUNK_SECONDS * RATE // 160]
    power = np.abs(np.fft.rfft(frames * window)) ** 2
    filters = LogMelSpectrogram(RATE, num_mels=NUM_MELS).filters.double().numpy()
    levels = np.log10(np.maximum(filters @ power.T, 1e-10))
    mels: NDArray[np.float64] = (np.maximum(levels, levels.max() - 8) + 4) / 4
    return mels


def difference(mels: Sequence[Any], reference: Tensor) -> float:
    """Return the largest difference of the pieces that both have."""
    return max(
        float(np.abs(np.asarray(piece) - reference_mels(expected)).max())
        for piece, expected in zip(mels, pieces(reference), strict=False)
    )


def run_once(path: Path, decode: Decode, to_mels: ToMels) -> tuple[list[float], list[Any], int]:
    """((wall, CPU) after decoding and (wall, CPU) at the end, spectrograms, number of samples)."""
    wall, cpu = time.perf_counter(), time.process_time()
    decoded = list(decode(path))
    middle = [time.perf_counter() - wall, time.process_time() - cpu]
    mels = [to_mels(piece) for piece in decoded]
    return [*middle, time.perf_counter() - wall, time.process_time() - cpu], mels, sum(map(len, decoded))


def measure(clip: Clip, path: Path, num_seconds: int, repeats: int) -> list[Result]:
    """Measure each way; they take turns, in another order each round, after a warm-up whose result is compared."""
    reference = plain_decode(clip, path, num_seconds)
    candidates = ways(clip)
    times: dict[str, list[list[float]]] = {way: [] for way in candidates}
    compared: dict[str, tuple[float, int]] = {}
    for way, (decode, to_mels) in candidates.items():
        _, mels, num_samples = run_once(path, decode, to_mels)
        compared[way] = difference(mels, reference), num_samples
    order = list(candidates)
    for _ in range(repeats):
        for way in order:
            times[way].append(run_once(path, *candidates[way])[0])
        order = order[1:] + order[:1]
    results = []
    for way, runs in times.items():
        decode_wall, decode_cpu, wall, cpu = (tuple(values) for values in zip(*runs, strict=True))
        off, num_samples = compared[way]
        seconds = num_samples / RATE
        missing = num_seconds * RATE - num_samples
        results.append(Result(path.stem, way, seconds, decode_wall, decode_cpu, wall, cpu, missing, off))
    return results


def table(results: Sequence[Result]) -> str:
    lines = []
    for result in results:
        wall, cpu, decode = (
            f"{result.sound_seconds / statistics.median(values):.0f}"
            for values in (result.wall, result.cpu, result.decode_wall)
        )
        line = [result.clip, result.way, wall, cpu, decode]
        lines.append([*line, str(result.samples_missing), f"{result.largest_difference:.1e}"])
    head = ["file", "way", "times real time", "per CPU second", "decoding only", "samples missing"]
    return markdown_table([*head, "largest difference"], lines, 2)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = make_parser("benchmarks.media.speech", __doc__)
    parser.add_argument("--seconds", type=int, default=600, help="length of each file (default: %(default)s)")
    parser.add_argument("--repeats", type=int, default=5, help="timed runs of each way (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=1, help="of torch's operators (default: %(default)s)")
    parser.add_argument("--quick", action="store_true", help="smoke test: 40 s and one run")
    add_output(parser)
    options = parser.parse_args(arguments)
    torch.set_num_threads(options.threads)
    num_seconds, repeats = (40, 1) if options.quick else (options.seconds, options.repeats)
    stamp = (
        machine_stamp()
        | package_versions("torch", "av", "numpy", "torchcodec", "soundfile", "transformers")
        | {"runs": f"{repeats} after a warm-up", "torch threads": str(torch.get_num_threads())}
    )
    with tempfile.TemporaryDirectory() as folder:
        results = [
            result
            for clip in CLIPS
            for result in measure(clip, write_clip(clip, Path(folder), num_seconds), num_seconds, repeats)
        ]
    title = f"{num_seconds} s of sound to log-mel spectrograms ({NUM_MELS} bands, pieces of {CHUNK_SECONDS} s)"
    rows = [timing_row("speech", r.clip, "decode", r.way, r.decode_wall, r.decode_cpu) for r in results]
    rows += [timing_row("speech", r.clip, "decode and log-mel", r.way, r.wall, r.cpu) for r in results]
    rows.sort(key=lambda row: [r.clip for r in results].index(row.clip) * 2 + (row.scenario != "decode"))
    document = {"machine": stamp, "results": [asdict(result) for result in results]}
    text = f"{title}\n\n{fact_list(stamp)}\n\n{table(results)}\n"
    write_report(options.output, "speech", document, text, partial(draw_chart, title, rows))


if __name__ == "__main__":
    main()
