"""Codecs that remember more than a lead-in brings back: a range is what a decode from the beginning has there."""

from __future__ import annotations

import io
import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import av
import numpy as np
import pytest

import media_audio
from audio_exactness import Truth, assert_range
from audio_oracles import linear_decode_samples
from media_audio import SOUND_CLIPS
from media_audio_surgery import adts_frames, adts_with_prediction

_MAIN, _LTP = 0, 3
_NUM_SECONDS = 6


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return media_audio.sound_folder(tmp_path_factory)


def assert_ranges(truth: Truth) -> None:
    """Ranges in odd order, from a decoder that was used and from new ones, are parts of the linear decode."""
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
        # Frames without headers are all of one kind.
        *itertools.product(("later",), ("adts", "mpegts")),
    ],
)
def test_aac_that_is_predicted(name: str, container: str, folder: Path) -> None:
    """Main and LTP, told of by the container or by the header of each frame, from the first on or from midway."""
    bare = replace(SOUND_CLIPS["aac_adts"], num_channels=1, num_samples=44100 * _NUM_SECONDS)
    data = _KINDS[name](media_audio.make_as(bare, "aac_mono_to_predict", folder).read_bytes())
    path = folder / f"predicted_{name}.{container}"
    if container == "adts":
        path.write_bytes(data)
    else:
        with av.open(io.BytesIO(data)) as source, av.open(str(path), "w", format=container) as output:
            stream = output.add_stream_from_template(source.streams.audio[0])
            for packet in source.demux(source.streams.audio[0]):
                if packet.size:
                    packet.stream = stream
                    output.mux(packet)
    assert_ranges(Truth(path, linear_decode_samples(path)))
