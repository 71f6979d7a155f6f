"""A range equals a decode from the beginning for codecs whose memory is longer than any pre-roll."""

from __future__ import annotations

import io
import itertools
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from numpy.typing import NDArray

import media_audio
import sound
from audio_exactness import Truth, assert_range
from audio_oracles import linear_decode_samples
from media_audio import SOUND_CLIPS
from media_audio_surgery import adts_frames, adts_with_prediction, speex_ogg
from media_writing import copy_stream

_MAIN, _LTP = 0, 3
_NUM_SECONDS = 6


def assert_ranges(truth: Truth) -> None:
    """Check that ranges, from a used decoder and from new decoders, are parts of the linear decode."""
    with truth.open() as used:
        assert np.array_equal(used.get_all_samples().data.numpy(), truth.linear.data)
        for part in (0.8, 0.3, 0.5, 0.95, 0.1):
            start = truth.seconds(part * truth.num_samples)
            assert_range(truth, used.get_samples_played_in_range(start, start + 0.2), start, start + 0.2)
            with truth.open() as fresh:
                assert_range(truth, fresh.get_samples_played_in_range(start, start + 0.2), start, start + 0.2)


def _all(profile: int) -> Callable[[bytes], bytes]:
    return lambda data: adts_with_prediction(data, profile)


def _second_half(data: bytes) -> bytes:
    return adts_with_prediction(data, _MAIN, first_frame=len(adts_frames(data)) // 2)


_KINDS: dict[str, Callable[[bytes], bytes]] = {"main": _all(_MAIN), "ltp": _all(_LTP), "later": _second_half}


@pytest.mark.parametrize(
    ("name", "container"),
    [
        *itertools.product(("main", "ltp"), ("adts", "ipod", "matroska", "mpegts")),
        # Without frame headers, all frames have one profile.
        *itertools.product(("later",), ("adts", "mpegts")),
    ],
)
def test_aac_that_is_predicted(name: str, container: str, sound_folder: Path) -> None:
    """The profiles Main and LTP can be signalled by the container or by frame headers, and can start midway."""
    bare = replace(SOUND_CLIPS["aac_adts"], num_channels=1, num_samples=44100 * _NUM_SECONDS)
    data = _KINDS[name](media_audio.make_as(bare, "aac_mono_to_predict", sound_folder).read_bytes())
    path = sound_folder / f"predicted_{name}.{container}"
    if container == "adts":
        path.write_bytes(data)
    else:
        with av.open(io.BytesIO(data)) as source, av.open(str(path), "w", format=container) as output:
            output.mux(copy_stream(source.streams.audio[0], output))
    assert_ranges(Truth(path, linear_decode_samples(path)))


def _note(rate: int, num_channels: int, num_samples: int) -> NDArray[np.float64]:
    return np.stack([sound.sine(440.0 * (1 + channel), rate, num_samples) for channel in range(num_channels)])


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("narrow", {"num_channels": 1, "options": {"application": "voip", "b": "6k"}}),
        ("wide", {"num_channels": 2, "options": {"application": "voip", "b": "24k"}}),
        (
            "many",  # streams of one channel each, whose first bytes show how much they remember
            {
                "num_channels": 4,
                "layout": "4.0",
                "options": {"application": "voip", "b": "24k", "mapping_family": "255"},
            },
        ),
        ("changing", {"num_channels": 3, "layout": "2.1", "options": {"b": "64k", "mapping_family": "255"}}),
    ],
)
@pytest.mark.parametrize("container", ["matroska", "ogg"])
def test_opus_of_a_steady_note(name: str, changes: dict[str, Any], container: str, sound_folder: Path) -> None:
    """Speech frames repeat earlier ones. After half a second of pre-roll, a range was only 6 dB like the whole."""
    spec = replace(SOUND_CLIPS["opus_mkv"], container=container, num_samples=48000 * 14, draw=_note, **changes)
    path = media_audio.make_as(spec, f"opus_note_{name}_{container}", sound_folder)
    truth = Truth(path, linear_decode_samples(path), range_snr_db=80.0)
    with truth.open() as decoder:
        for part in (0.95, 0.83, 0.1, 0.5):
            start = truth.seconds(part * truth.num_samples)
            assert_range(truth, decoder.get_samples_played_in_range(start, start + 0.2), start, start + 0.2)


def test_speex(sound_folder: Path) -> None:
    """The decoder uses random numbers. Time moves back at the last page, which must not affect later samples."""
    path = sound_folder / "speex.ogg"
    path.write_bytes(speex_ogg(12, seed=1))
    assert_ranges(Truth(path, linear_decode_samples(path)))


@pytest.mark.parametrize("rate", [8000, 16000, 32000])
def test_speex_of_an_encoder(rate: int, sound_folder: Path, ffmpeg_program: str) -> None:
    path = sound_folder / f"speex_{rate}.mka"
    tone = f"aevalsrc=0.3*sin(880*PI*t*(1+0.1*t))|0.2*sin(500*PI*t):d=12:s={rate}"
    command = [ffmpeg_program, "-v", "error", "-f", "lavfi", "-i", tone, "-c:a", "libspeex", str(path)]
    if subprocess.run(command, check=False, timeout=60).returncode:
        pytest.skip("this program has no encoder of Speex")
    assert_ranges(Truth(path, linear_decode_samples(path)))
