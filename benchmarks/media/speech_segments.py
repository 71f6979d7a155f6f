"""Measure accuracy and speed of `speech_segments` on generated talks with known pauses.

    python -m benchmarks.media.speech_segments

espeak-ng speaks sentences in several languages, with male and female voices and pauses of known lengths. A sentence
starts and ends where its loudness crosses 45 dB below its peak. Noise and music are computed by formulas, and mixed in
at a ratio to the mean power of the sentences. Results are compared with the truth in frames of 10 ms.
"""

from __future__ import annotations

import importlib
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from mediatensor import AudioSamples
from mediatensor.decoders import AudioDecoder
from mediatensor.encoders import AudioEncoder
from mediatensor.samplers import speech_segments

from ..shared.machine import machine_stamp, package_versions
from ..shared.options import add_output, check_counts, make_parser
from ..shared.reports import fact_list, markdown_table, write_report

RATE = 16_000
FRAME = RATE // 100
OURS = "mediatensor"
# Decibels below the loudest frame of a sentence at which it starts and ends.
_EDGE_LEVEL = 45
# An edge that is further away than this counts as missed, in seconds.
_MAX_EDGE_ERROR = 0.5

Samples = NDArray[np.float64]
Spans = list[tuple[float, float]]
Way = Callable[[AudioSamples], Spans]

#: Voices of espeak-ng, and the sentences that they speak.
SENTENCES = {
    "en-us": ("the train leaves at nine", "put the box on the table", "we will see each other tomorrow", "yes"),
    "de": ("der Zug ist heute zu spät", "stell die Kiste auf den Tisch", "wir sehen uns morgen wieder", "ja"),
    "fr": ("le train part à neuf heures", "pose la caisse sur la table", "nous verrons bien demain", "oui"),
    "es": ("el tren sale a las nueve", "pon la caja sobre la mesa", "nos vemos mañana por la tarde", "claro"),
    "ru": ("поезд уходит утром", "поставь коробку на стол", "мы увидимся завтра вечером", "да"),
    "pl": ("pociąg odjeżdża rano", "postaw pudełko na stole", "zobaczymy się jutro wieczorem", "tak"),
    "hi": ("गाड़ी सुबह निकलती है", "डिब्बा मेज़ पर रखो", "हम कल फिर मिलेंगे", "हाँ"),
    "cmn": ("火车早上九点出发", "把箱子放在桌子上", "我们明天晚上再见", "好的"),
}
VARIANTS = ("+m3", "+f2")
PAUSES = (0.2, 0.4, 0.7, 1.2, 2.5)


@dataclass(frozen=True)
class Talk:
    """Speech with known pauses: samples (samples,) at 16 kHz, and the start and end of each sentence in seconds."""

    samples: Samples
    spans: Spans

    @property
    def power(self) -> float:
        """Mean power of the sentences, without the pauses."""
        return float(np.mean(np.concatenate([self.samples[int(a * RATE) : int(b * RATE)] for a, b in self.spans]) ** 2))


@dataclass(frozen=True)
class Score:
    """The result of one method on one kind of audio.

    Attributes:
        sound: Name of the kind of audio.
        way: Name of the method.
        precision, recall, f1: Of frames; ``None`` if the audio has no speech.
        start_error, end_error: Median of (found - true) edges in milliseconds; negative if edges are found too early.
        edge_error_p95: 95th percentile of the absolute error in milliseconds.
        edges_missed: Share of the true edges without a found edge within half a second.
        false_per_minute: Seconds of false detections for each minute without speech.
    """

    sound: str
    way: str
    precision: float | None
    recall: float | None
    f1: float | None
    start_error: float | None
    end_error: float | None
    edge_error_p95: float | None
    edges_missed: float | None
    false_per_minute: float


# Sounds


def speak(voice: str, text: str) -> Samples:
    """Return a sentence at 16 kHz, cut to where it is audible."""
    command = ["espeak-ng", "-v", voice, "-s", "150", "--stdout", text]
    wav = subprocess.run(command, capture_output=True, check=True, timeout=60).stdout
    decoder = AudioDecoder(wav, sample_rate=RATE, num_channels=1)
    samples = decoder.get_all_samples().data[0].double().numpy()
    levels = np.array([np.abs(samples[first : first + FRAME]).max() for first in range(0, len(samples), FRAME)])
    audible = np.flatnonzero(levels > levels.max() * 10 ** (-_EDGE_LEVEL / 20))
    return np.asarray(samples[audible[0] * FRAME : (audible[-1] + 1) * FRAME])


def make_talk(voices: Sequence[str], num_sentences: int) -> Talk:
    random = np.random.default_rng(0)
    parts: list[Samples] = [np.zeros(RATE)]
    spans: Spans = []
    position = RATE
    for voice in voices:
        texts = SENTENCES[voice.partition("+")[0]]
        for number in range(num_sentences):
            sentence = speak(voice, texts[number % len(texts)])
            sentence = sentence * (0.05 / np.sqrt(np.mean(sentence**2)))
            pause = np.zeros(int(random.choice(PAUSES) * RATE))
            spans.append((position / RATE, (position + len(sentence)) / RATE))
            parts += [sentence, pause]
            position += len(sentence) + len(pause)
    return Talk(np.concatenate(parts), spans)


def white_noise(length: int, seed: int = 1) -> Samples:
    return np.random.default_rng(seed).standard_normal(length)


def pink_noise(length: int, seed: int = 2) -> Samples:
    """Noise whose power falls with the frequency."""
    spectrum = np.fft.rfft(np.random.default_rng(seed).standard_normal(length))
    noise = np.fft.irfft(spectrum / np.sqrt(np.maximum(np.arange(len(spectrum)), 1)), length)
    return np.asarray(noise / noise.std())


def music(length: int, seed: int = 3) -> Samples:
    """Plucked chords, a bass and drums of noise, 120 beats a minute."""
    random = np.random.default_rng(seed)
    sound = np.zeros(length + RATE)
    t = np.arange(RATE) / RATE
    for beat, first in enumerate(range(0, length, RATE // 2)):
        root = 110 * 2 ** ([0, 5, 7, 3][beat // 4 % 4] / 12)
        for step in (-12, 0, 4 if beat // 16 % 2 else 3, 7, 12):
            pitch = root * 2 ** (step / 12)
            note = sum(np.sin(2 * np.pi * k * pitch * t) / k**1.5 for k in range(1, 7))
            sound[first : first + RATE] += note * np.exp(-3 * t) * random.uniform(0.5, 1)
        drum = random.standard_normal(RATE) * np.exp(-(40 if beat % 2 else 15) * t)
        sound[first : first + RATE] += drum
    sound = sound[:length]
    return np.asarray(sound / sound.std())


def mixed(talk: Talk, noise: Samples, decibels: float) -> Samples:
    """Return the talk with noise of unit power, ``decibels`` below the power of the sentences."""
    return talk.samples + noise * np.sqrt(talk.power * 10 ** (-decibels / 10))


def sounds(talk: Talk) -> Iterator[tuple[str, Samples, Spans]]:
    """Yield a name, the samples, and the true spans of each kind of audio."""
    length = len(talk.samples)
    yield "clean", talk.samples, talk.spans
    yield "clean, 40 dB quieter", talk.samples / 100, talk.spans
    for name, make in (("white noise", white_noise), ("pink noise", pink_noise), ("music", music)):
        for decibels in (20, 10, 5):
            yield f"{name}, {decibels} dB", mixed(talk, make(length), decibels), talk.spans
    yield "silence", np.zeros(length), []
    for name, make in (("white noise", white_noise), ("pink noise", pink_noise), ("music", music)):
        yield f"{name} alone", 0.05 * make(length), []


# Ways


def by_mediatensor(samples: AudioSamples, **options: float) -> Spans:
    return [(segment.start_seconds, segment.end_seconds) for segment in speech_segments(samples, **options)]


def by_loudness(samples: AudioSamples) -> Spans:
    """Find speech without a network: frames 9 dB above the quietest tenth, smoothed over 0.1 s."""
    sound = samples.data[0].double().numpy()
    power = (sound[: len(sound) // FRAME * FRAME].reshape(-1, FRAME) ** 2).mean(1)
    smooth = np.convolve(power, np.ones(10) / 10, "same")
    return spans_of(smooth > max(np.quantile(smooth, 0.1) * 10**0.9, 1e-8))


def ways() -> dict[str, Way]:
    """Return the methods by name: ours, the loudness baseline, and silero-vad if it is installed."""
    found: dict[str, Way] = {OURS: by_mediatensor, "loudness": by_loudness}
    try:
        silero = importlib.import_module("silero_vad")
        model = silero.load_silero_vad(onnx=True)
    except ImportError:
        return found

    def by_silero(samples: AudioSamples) -> Spans:
        spans = silero.get_speech_timestamps(samples.data[0], model)
        return [(span["start"] / RATE, span["end"] / RATE) for span in spans]

    return {**found, "silero-vad": by_silero}


# Scores


def frames_of(spans: Spans, num_frames: int) -> NDArray[np.bool_]:
    """Return for each frame whether its middle is in a span."""
    middles = (np.arange(num_frames) + 0.5) * FRAME / RATE
    inside = np.zeros(num_frames, bool)
    for start, end in spans:
        inside |= (start <= middles) & (middles < end)
    return inside


def spans_of(frames: NDArray[np.bool_]) -> Spans:
    edges = np.flatnonzero(np.diff(np.concatenate([[0], frames.astype(int), [0]]))).reshape(-1, 2)
    return [(first * FRAME / RATE, last * FRAME / RATE) for first, last in edges.tolist()]


def score(sound: str, way: str, found: Spans, truth: Spans, num_samples: int) -> Score:
    """Compare found spans with the true ones.

    >>> score("", "", [(0.0, 2.0)], [(0.0, 1.0)], 4 * RATE).precision
    0.5
    """
    num_frames = num_samples // FRAME
    is_found, is_true = frames_of(found, num_frames), frames_of(truth, num_frames)
    num_right = int((is_found & is_true).sum())
    false_per_minute = 60 * float((is_found & ~is_true).sum()) / max(1, int((~is_true).sum()))
    if not truth:
        return Score(sound, way, None, None, None, None, None, None, None, false_per_minute)
    precision, recall = num_right / max(1, int(is_found.sum())), num_right / int(is_true.sum())
    errors = [nearest([span[side] for span in found], [span[side] for span in truth]) for side in (0, 1)]
    near = [[error for error in side if abs(error) <= _MAX_EDGE_ERROR] for side in errors]
    start_error, end_error = (1000 * statistics.median(side) if side else None for side in near)
    all_near = np.abs(np.array(near[0] + near[1])) * 1000
    return Score(
        sound,
        way,
        precision,
        recall,
        2 * precision * recall / max(1e-9, precision + recall),
        start_error,
        end_error,
        float(np.quantile(all_near, 0.95)) if len(all_near) else None,
        1 - len(all_near) / (2 * len(truth)),
        false_per_minute,
    )


def nearest(found: Sequence[float], truth: Sequence[float]) -> list[float]:
    """Return, for each true edge, the signed distance to the nearest found edge."""
    if not found:
        return [float("inf")] * len(truth)
    return [min((edge - true for edge in found), key=abs) for true in truth]


def samples_at_rate(samples: Samples) -> AudioSamples:
    data = torch.from_numpy(samples.astype(np.float32))[None]
    return AudioSamples(data, 0.0, len(samples) / RATE, RATE)


# Speed


def measure_speed(talk: Talk, seconds: int, repeats: int, folder: Path) -> list[dict[str, Any]]:
    """Return the CPU time of `speech_segments` for files of several formats, decoding included."""
    sound = np.tile(mixed(talk, pink_noise(len(talk.samples)), 20), -(-seconds * RATE // len(talk.samples)))
    mono = torch.from_numpy(sound[: seconds * RATE].astype(np.float32))[None]
    lines = []
    for name, rate, num_channels in (("wav", RATE, 1), ("flac", 48_000, 2), ("mp3", 44_100, 2), ("m4a", 48_000, 2)):
        path = folder / f"talk.{name}"
        stereo = mono.expand(num_channels, -1).contiguous()
        AudioEncoder(stereo, sample_rate=RATE).to_file(path, sample_rate=rate)
        times = []
        for _ in range(repeats + 1):
            start = time.process_time()
            with AudioDecoder(path, num_ffmpeg_threads=1) as decoder:
                speech_segments(decoder)
            times.append(time.process_time() - start)
        cpu = statistics.median(times[1:])
        file = f"{name}, {rate // 1000} kHz, {'mono' if num_channels == 1 else 'stereo'}"
        lines.append({"file": file, "cpu_seconds_per_hour": 3600 * cpu / seconds, "times_real_time": seconds / cpu})
    return lines


# Report


def score_table(scores: Sequence[Score]) -> str:
    def number(value: float | None, digits: int = 0) -> str:
        return "" if value is None else f"{value:.{digits}f}"

    lines = [
        [
            score.sound,
            score.way,
            number(score.precision, 3),
            number(score.recall, 3),
            number(score.f1, 3),
            number(score.start_error),
            number(score.end_error),
            number(score.edge_error_p95),
            number(None if score.edges_missed is None else 100 * score.edges_missed, 1),
            number(score.false_per_minute, 2),
        ]
        for score in scores
    ]
    head = ["audio", "way", "precision", "recall", "F1", "start error, ms", "end error, ms", "95 % of edges within, ms"]
    return markdown_table([*head, "edges missed, %", "false seconds a minute of pauses"], lines, 2)


def option_table(talk: Talk, num_sounds: int | None) -> tuple[str, list[dict[str, Any]]]:
    """Return a table of the F1 for other values of each option, with all others at their defaults."""
    values = {
        "threshold": (0.3, 0.4, 0.5, 0.6, 0.7),
        "min_speech_seconds": (0.0, 0.1, 0.25, 0.5),
        "min_pause_seconds": (0.03, 0.1, 0.2, 0.3, 0.5),
        "pad_seconds": (0.0, 0.03, 0.06, 0.1, 0.2),
    }
    cases = list(sounds(talk))[:num_sounds]
    rows = []
    for option, given in values.items():
        for value in given:
            all_scores = [
                score(name, OURS, by_mediatensor(samples_at_rate(sound), **{option: value}), truth, len(sound))
                for name, sound, truth in cases
            ]
            with_speech = [one for one in all_scores if one.f1 is not None]
            rows.append(
                {
                    "option": option,
                    "value": value,
                    "f1": statistics.mean(one.f1 for one in with_speech if one.f1 is not None),
                    "edges_missed": statistics.mean(one.edges_missed or 0.0 for one in with_speech),
                    "false_per_minute": statistics.mean(one.false_per_minute for one in all_scores),
                }
            )
    lines = [
        [row["option"], str(row["value"]), *(f"{row[name]:.3f}" for name in ("f1", "edges_missed", "false_per_minute"))]
        for row in rows
    ]
    head = ["option", "value", "mean F1", "share of edges missed", "false seconds a minute of pauses"]
    return markdown_table(head, lines, 1), rows


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line, measure, report."""
    parser = make_parser("benchmarks.media.speech_segments", __doc__)
    parser.add_argument("--sentences", type=int, default=8, help="of each voice (default: %(default)s)")
    parser.add_argument("--seconds", type=int, default=1800, help="length of the timed files (default: %(default)s)")
    parser.add_argument("--repeats", type=int, default=3, help="timed runs of each file (default: %(default)s)")
    parser.add_argument("--quick", action="store_true", help="smoke test: one language, short files and one run")
    add_output(parser)
    options = parser.parse_args(arguments)
    check_counts(parser, options, "sentences", "seconds", "repeats")
    if shutil.which("espeak-ng") is None:
        parser.error("espeak-ng is not installed; Debian's package espeak-ng provides it")
    all_ways = ways()  # silero-vad sets the number of torch's threads when it is imported
    torch.set_num_threads(1)
    voices = [f"{language}{variant}" for language in SENTENCES for variant in VARIANTS]
    if options.quick:
        voices, options.sentences, options.seconds, options.repeats = voices[:2], 2, 20, 1
    talk = make_talk(voices, options.sentences)
    scores = [
        score(name, way, find(samples_at_rate(sound)), truth, len(sound))
        for name, sound, truth in sounds(talk)
        for way, find in all_ways.items()
    ]
    options_text, option_rows = option_table(talk, 2 if options.quick else None)
    with tempfile.TemporaryDirectory() as folder:
        speed = measure_speed(talk, options.seconds, options.repeats, Path(folder))
    speed_lines = [
        [line["file"], f"{line['cpu_seconds_per_hour']:.1f}", f"{line['times_real_time']:.0f}"] for line in speed
    ]
    version = subprocess.run(["espeak-ng", "--version"], capture_output=True, text=True, check=True).stdout
    stamp = machine_stamp() | package_versions("torch", "av", "numpy", "silero-vad")
    stamp |= {
        "voices": f"{version.partition('  ')[0].strip()}: {', '.join(voices)}",
        "audio": f"{len(talk.spans)} sentences in {len(talk.samples) / RATE:.0f} s, pauses of {PAUSES} s",
        "runs": f"{options.repeats} after a warm-up, one thread, files of {options.seconds} s",
    }
    text = "\n\n".join(
        [
            "Finding speech",
            fact_list(stamp),
            score_table(scores),
            "Options, one changed at a time; means of all kinds of audio:",
            options_text,
            "Speed of `speech_segments`, decoding included:",
            markdown_table(["file", "CPU seconds an hour of audio", "seconds of audio a CPU second"], speed_lines),
        ]
    )
    document = {"machine": stamp, "scores": [asdict(one) for one in scores], "options": option_rows, "speed": speed}
    write_report(options.output, "speech_segments", document, f"{text}\n", partial(draw_scores, scores))


def draw_scores(scores: Sequence[Score], path: Path) -> None:
    """Draw the F1 of each way as bars, by kind of audio."""
    figure_module = importlib.import_module("matplotlib.figure")
    sounds_with_speech = list(dict.fromkeys(one.sound for one in scores if one.f1 is not None))
    all_ways = list(dict.fromkeys(one.way for one in scores))
    figure = figure_module.Figure(figsize=(9, 4.5), layout="constrained")
    axes = figure.subplots()
    for number, way in enumerate(all_ways):
        values = [one.f1 for one in scores if one.way == way and one.f1 is not None]
        places = np.arange(len(values)) + (number - (len(all_ways) - 1) / 2) * 0.8 / len(all_ways)
        axes.bar(places, values, 0.8 / len(all_ways), label=way)
    axes.set(ylabel="F1 of frames", ylim=(0, 1), title="Finding speech")
    axes.set_xticks(range(len(sounds_with_speech)), sounds_with_speech, rotation=35, ha="right")
    axes.legend(loc="lower left")
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    main()
