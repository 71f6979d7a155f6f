"""How `media_audio` writes sound into files with PyAV."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
from numpy.typing import NDArray

import sound
from media_writing import Packets, assign, mux_in_order, open_output

_LAYOUTS = {1: "mono", 2: "stereo", 6: "5.1", 8: "7.1"}


@dataclass(frozen=True)
class SoundSpec:
    """Description of an audio clip: its format, its properties, and the guarantees of a decoder.

    Attributes:
        special: Why the clip is there, in words.
        num_channels: 1, 2, 6 or 8.
        layout: Channel layout; by default the usual one for their number.
        sample_fmt: Sample format that is encoded; by default the first that the encoder takes.
        num_bits: Significant bits of a sample, where they are fewer than the format has.
        num_samples: How many are encoded; by default two seconds and a bit, which no frame size divides.
        start: Time of the first sample in samples.
        draw: Draws the signal (channels, samples) from (rate, channels, samples).
        configure: Sets attributes of the stream before encoding.
        rewrite: Changes, drops or joins packets before they are muxed.
        patch: Changes the bytes of the finished file.
        build: Writes the file instead of `write_sound`.
        is_lossless: The decoder returns exactly the encoded samples.
        decoded_rate: Rate of the decoder, if it differs from the encoder's.
        delay: Samples in front that come out with the sound, because the file does not say that they are the
            encoder's delay; negative where the decoder swallows some.
        shift: Samples by which the sound is late beyond that, in a stream of the right length.
        excess: Why more samples come out than were encoded; "" if the file states its padding.
        program_delay: Samples in front that FFmpeg 5.1 leaves in and FFmpeg 8 does not.
        program_snr_db: How near FFmpeg 5.1 comes to FFmpeg 8; ``None`` for bit for bit.
        no_program: Why the ``ffmpeg`` program cannot be compared with.
        range_snr_db: How near a range is to the same samples of a whole decode, where it need not be equal, because
            the codec's state reaches back further than a decoder can go, or is drawn at random.
        is_damaged: Packets fail.
        video: Length in seconds of an additional video stream, 0 for none.
    """

    special: str
    codec: str
    container: str
    extension: str = ""
    rate: int = 44100
    num_channels: int = 2
    layout: str = ""
    sample_fmt: str = ""
    num_bits: int = 0
    options: dict[str, str] = field(default_factory=dict)
    muxer_options: dict[str, str] = field(default_factory=dict)
    num_samples: int = 0
    start: int = 0
    draw: Callable[[int, int, int], NDArray[np.float64]] = sound.programme
    configure: Callable[[Any], None] | None = None
    rewrite: Callable[[Packets], Packets] | None = None
    patch: Callable[[bytes], bytes] | None = None
    build: Callable[[SoundSpec, Path], None] | None = None
    is_lossless: bool = False
    decoded_rate: int = 0
    delay: int = 0
    shift: int = 0
    excess: str = ""
    program_delay: int = 0
    program_snr_db: float | None = None
    no_program: str = ""
    range_snr_db: float | None = None
    is_damaged: bool = False
    video: float = 0.0

    @property
    def length(self) -> int:
        """How many samples are encoded."""
        return self.num_samples or 2 * self.rate + 1237

    @property
    def decoded_length(self) -> int:
        """How many samples of the signal a decoder owes, at its rate."""
        return self.length * (self.decoded_rate or self.rate) // self.rate

    def signal(self) -> NDArray[np.float64]:
        """The encoded signal before rounding: float64 (channels, samples)."""
        return self.draw(self.rate, self.num_channels, self.length)


def quantised(signal: NDArray[np.float64], sample_fmt: str, num_bits: int = 0) -> NDArray[Any]:
    """A signal in [-1, 1) in a sample format; of integers only the upper ``num_bits`` are used.

    >>> quantised(np.array([[-1.0, 0.5]]), "s16p").tolist(), quantised(np.array([[-1.0, 0.5]]), "u8").tolist()
    ([[-32768, 16384]], [[0, 192]])
    """
    name = sample_fmt.removesuffix("p")
    if name in ("flt", "dbl"):
        return signal.astype(np.float32 if name == "flt" else np.float64)
    size = {"u8": 8, "s16": 16, "s32": 32}[name]
    bits = num_bits or size
    limit = 2 ** (bits - 1)
    levels = np.clip(np.round(signal * limit), -limit, limit - 1).astype(np.int64) << (size - bits)
    if name == "u8":
        return np.asarray(levels + 128, np.uint8)
    return np.asarray(levels, np.int16 if name == "s16" else np.int32)


def as_float(samples: NDArray[Any]) -> NDArray[np.float32]:
    """Samples of any format as float32 in [-1, 1]."""
    if samples.dtype == np.uint8:
        return ((samples.astype(np.float32) - 128) / 128).astype(np.float32)
    if samples.dtype.kind == "i":
        return (samples.astype(np.float64) / 2.0 ** (8 * samples.dtype.itemsize - 1)).astype(np.float32)
    return samples.astype(np.float32)


def sample_format(spec: SoundSpec) -> str:
    if spec.sample_fmt:
        return spec.sample_fmt
    formats = av.Codec(spec.codec, "w").audio_formats
    assert formats, f"{spec.codec} lists no sample formats"
    return formats[0].name


def encoded_samples(spec: SoundSpec) -> NDArray[Any]:
    """The samples (channels, samples) that the encoder is given, in its format."""
    return quantised(spec.signal(), sample_format(spec), spec.num_bits)


def add_stream(container: Any, spec: SoundSpec) -> Any:
    stream = container.add_stream(spec.codec, rate=spec.rate, options={"strict": "-2", **spec.options})
    stream.layout = spec.layout or _LAYOUTS[spec.num_channels]
    stream.format = sample_format(spec)
    if spec.configure is not None:
        spec.configure(stream)
    return stream


def drawn_frames(spec: SoundSpec, layout: str) -> Iterator[Any]:
    """The signal in frames of uneven sizes, which encoders regroup."""
    samples, name = encoded_samples(spec), sample_format(spec).removesuffix("p")
    for at in range(0, samples.shape[1], 4999):
        piece = np.ascontiguousarray(samples[:, at : at + 4999])
        # Packed, whatever the encoder takes: PyAV 18 cannot fill a planar frame of eight channels.
        packed = np.ascontiguousarray(piece.T).reshape(1, -1)
        frame = av.AudioFrame.from_ndarray(packed, format=name, layout=layout)
        frame.sample_rate, frame.pts, frame.time_base = spec.rate, spec.start + at, Fraction(1, spec.rate)
        yield frame


def encode(stream: Any, spec: SoundSpec) -> Packets:
    packets: Packets = []
    for frame in drawn_frames(spec, stream.layout.name):
        packets += stream.encode(frame)
    packets += stream.encode(None)
    return packets if spec.rewrite is None else spec.rewrite(packets)


def encode_pictures(stream: Any, seconds: float) -> Packets:
    """Grey pictures, ten a second."""
    packets: Packets = []
    for number in range(int(10 * seconds)):
        frame = av.VideoFrame.from_ndarray(np.full((32, 32, 3), 8 * number % 256, np.uint8), format="rgb24")
        frame.pts, frame.time_base = number, Fraction(1, 10)
        packets += stream.encode(frame.reformat(format="yuv420p"))
    return [*packets, *stream.encode(None)]


def add_pictures(container: Any) -> Any:
    stream = container.add_stream("mpeg4", rate=10)
    stream.width, stream.height, stream.pix_fmt = 32, 32, "yuv420p"
    stream.codec_context.thread_count = 1
    return stream


def write_sound(spec: SoundSpec, path: Path) -> None:
    """Write a clip of one audio stream, with video if described."""
    with open_output(spec, path) as output:
        pictures = add_pictures(output) if spec.video else None
        stream = add_stream(output, spec)
        packets = assign(encode(stream, spec), stream)
        if pictures is None:
            output.mux(packets)
        else:
            mux_in_order(output, packets + encode_pictures(pictures, spec.video))
    if spec.patch is not None:
        path.write_bytes(spec.patch(path.read_bytes()))
