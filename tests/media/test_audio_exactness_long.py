"""A second near the end of a long file is exact to the sample, and earlier data are not read."""

from __future__ import annotations

import functools
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from test_bytes_read import CountingFile

import media_audio
import sound
from audio_oracles import linear_decode_samples
from media_audio_surgery import flac_with_seek_table
from media_audio_writing import SoundSpec
from mediatensor.decoders import AudioDecoder

_RATE, _BODY_SECONDS, _REPEATS = 16000, 120, 10


def _draw(rate: int, num_channels: int, num_samples: int) -> Any:
    return np.stack([sound.staircase(rate, num_samples)] * num_channels)


def _body(codec: str, container: str, **changes: Any) -> SoundSpec:
    return SoundSpec(
        "",
        codec,
        container,
        rate=_RATE,
        num_channels=1,
        num_samples=_BODY_SECONDS * _RATE,
        draw=_draw,
        **changes,
    )


@dataclass(frozen=True)
class LongSpec:
    """A long file: the packets of a shorter one, repeated, with increasing times."""

    body: str  # the repeated part, one of `BODIES`
    frame: int  # samples in a packet, at the decoder's rate
    container: str
    share: float  # how much of the file may be read for a second near the end; 1 if there is no index
    extension: str = ""  # if it is not the name of the container
    rate: int = _RATE  # of the decoder
    ahead: int = 0  # by how many samples the body is ahead, because its decoder knows more of the encoder's delay
    muxer_options: tuple[tuple[str, str], ...] = ()


BODIES: dict[str, SoundSpec] = {
    "lame": _body("libmp3lame", "mp3", options={"b": "48k"}),
    "lame_vbr": _body("libmp3lame", "mp3", options={"flags": "+qscale", "global_quality": str(6 * 118)}),
    "aac": _body("aac", "ipod", extension="m4a", options={"b": "32k"}),
    "opus": _body("libopus", "ogg", sample_fmt="flt", options={"b": "24k"}),
    "pcm": _body("pcm_s16le", "wav", sample_fmt="s16"),
}

LONG: dict[str, LongSpec] = {
    "mp3_cbr": LongSpec("lame", 576, "mp3", 0.1, ahead=-576),
    "mp3_cbr_no_header": LongSpec("lame", 576, "mp3", 0.1, ahead=-1105, muxer_options=(("write_xing", "0"),)),
    "mp3_vbr_no_header": LongSpec("lame_vbr", 576, "mp3", 1.0, ahead=-1105, muxer_options=(("write_xing", "0"),)),
    "mp3_vbr": LongSpec("lame_vbr", 576, "mp3", 1.0, ahead=-576),
    "aac_m4a": LongSpec("aac", 1024, ahead=-1024, container="ipod", share=0.1, extension="m4a"),
    "aac_adts": LongSpec("aac", 1024, ahead=-1024, container="adts", share=1.0, extension="aac"),
    "aac_ts": LongSpec("aac", 1024, ahead=-1024, container="mpegts", share=1.0, extension="ts"),
    "aac_mkv": LongSpec("aac", 1024, ahead=-1024, container="matroska", share=0.1, extension="mkv"),
    "opus_ogg": LongSpec("opus", 960, "ogg", 0.1, rate=48000),
    "opus_webm": LongSpec("opus", 960, "webm", 0.1, rate=48000),
    "pcm_wav": LongSpec("pcm", 1024, "wav", 0.05),
}


def write_long(spec: LongSpec, path: Path) -> Path:
    """Write the long file. Return the path of its body."""
    body = media_audio.make_as(BODIES[spec.body], f"body_{spec.body}", path.parent)
    with (
        av.open(str(body)) as source,
        av.open(
            str(path), "w", format=spec.container, options={"fflags": "bitexact", **dict(spec.muxer_options)}
        ) as output,
    ):
        template = source.streams.audio[0]
        packets = [packet for packet in source.demux(template) if packet.size]
        stream = output.add_stream_from_template(template)
        time_base = Fraction(1, spec.rate)
        for repeat in range(_REPEATS):
            for number, packet in enumerate(packets):
                copy = av.Packet(bytes(packet))
                copy.pts = copy.dts = (repeat * len(packets) + number) * spec.frame
                copy.duration, copy.time_base, copy.is_keyframe, copy.stream = spec.frame, time_base, True, stream
                output.mux(copy)
    return body


@pytest.fixture(scope="module")
def long_file(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("long")

    def make(name: str) -> tuple[Path, Path]:
        spec = LONG[name]
        path = folder / f"{name}.{spec.extension or spec.container}"
        return path, write_long(spec, path)

    yield make
    shutil.rmtree(folder)


decode_body = functools.cache(linear_decode_samples)


def where_in_body(long_piece: Any, body: Any, near: int) -> int:
    """Return the sample of the body at which a piece of the long file begins."""
    start = max(0, near - 8000)
    window = body[start : near + len(long_piece) + 8000]
    return start + sound.delay_of(window, long_piece, len(window) - 1)


@pytest.mark.parametrize("name", list(LONG))
def test_a_second_near_the_end(name: str, long_file: Callable[[str], tuple[Path, Path]]) -> None:
    spec = LONG[name]
    path, body_path = long_file(name)
    body = decode_body(body_path)
    with av.open(str(body_path)) as container:
        num_packets = sum(packet.size > 0 for packet in container.demux(audio=0))
    period = num_packets * spec.frame
    with AudioDecoder(path) as decoder:
        begin = decoder.get_samples_played_in_range(0.0, 0.5).pts_seconds
    file = CountingFile(path)
    for repeat, second in ((_REPEATS - 1, 100.4), (_REPEATS // 2, 20.2)):
        file.num_read = 0
        with AudioDecoder(file) as decoder:
            rate = decoder.metadata.sample_rate or 0
            first = repeat * period + round(second * rate)
            got = decoder.get_samples_played_in_range(begin + first / rate, begin + (first + rate) / rate)
        assert rate == spec.rate
        data = got.data.numpy()
        assert data.shape == (1, rate)
        at = round(second * rate) + spec.ahead
        found = where_in_body(data[0], body.data[0], at)
        assert found == at, f"off by {found - at} samples"
        assert sound.snr_db(body.data[:, at : at + rate], data) > 40
        assert file.num_read <= spec.share * path.stat().st_size + 200_000


@pytest.mark.slow
def test_long_flac_with_a_seek_table(tmp_path: Path) -> None:
    spec = SoundSpec(
        "", "flac", "flac", rate=8000, num_channels=1, num_samples=900 * 8000, draw=_draw, sample_fmt="s16",
        options={"frame_size": "4096", "compression_level": "0"}, patch=lambda data: flac_with_seek_table(data, 10.0),
    )  # fmt: skip
    path = media_audio.make_as(spec, "quarter_of_an_hour", tmp_path)
    file = CountingFile(path)
    with AudioDecoder(file) as decoder:
        data = decoder.get_samples_played_in_range(850.0, 851.0).data.numpy()[0]
    low, high = sound.staircase_tones(850)
    assert sound.sine_fit(data, low, 8000)[0] == pytest.approx(0.3, rel=0.02)
    assert sound.sine_fit(data, high, 8000)[0] == pytest.approx(0.15, rel=0.02)
    assert file.num_read < 0.1 * path.stat().st_size + 200_000
