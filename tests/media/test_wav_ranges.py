"""Time ranges: exactly these samples of the whole, without gaps or overlaps, and without reading other bytes."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from file_sources import BareFile
from mediatensor.decoders import AudioDecoder, WavDecoder
from mediatensor.errors import InvalidArgumentError, OutOfRangeError, StreamError
from wav_files import CODECS, chunk, fmt, noise, riff, wav

RATE = 8000
NUM_SAMPLES = 2003
DECODERS = {codec: WavDecoder(wav(codec, noise(NUM_SAMPLES, 2))) for codec in CODECS}
END = NUM_SAMPLES / RATE


@given(
    codec=st.sampled_from(list(CODECS)),
    cuts=st.lists(st.floats(0, END - 0.6 / RATE) | st.integers(0, 2 * NUM_SAMPLES - 2).map(lambda k: k / 2 / RATE)),
    before=st.floats(-1e9, 0),
    after=st.floats(END, 1e9) | st.none(),
)
def test_ranges_that_meet_are_the_whole(codec: str, cuts: list[float], before: float, after: float | None) -> None:
    decoder = DECODERS[codec]
    edges: list[Any] = [before, *sorted(cuts), after]
    parts = decoder.get_samples_played_in_ranges(list(pairwise(edges)))
    assert torch.equal(torch.cat([part.data for part in parts], 1), decoder.get_all_samples().data)


@given(start=st.floats(0, END - 0.6 / RATE), stop=st.floats(0, 2 * END))
def test_a_range_is_a_slice_of_the_whole(start: float, stop: float) -> None:
    start, stop = min(start, stop), max(start, stop)
    decoder = DECODERS["pcm_s24le"]
    part = decoder.get_samples_played_in_range(start, stop)
    first = int(np.floor(start * RATE + 0.5))
    last = min(int(np.floor(stop * RATE + 0.5)), NUM_SAMPLES)
    assert torch.equal(part.data, decoder.get_all_samples().data[:, first:last])
    assert part.pts_seconds == start
    assert part.duration_seconds == max(0, last - first) / RATE


def test_ranges_start_and_stop_at_nearest_samples() -> None:
    decoder = DECODERS["pcm_s16le"]
    whole = decoder.get_all_samples().data
    assert torch.equal(decoder.get_samples_played_in_range(-5.0).data, whole)
    assert decoder.get_samples_played_in_range(-5.0).pts_seconds == 0.0
    assert torch.equal(decoder.get_samples_played_in_range(0.1, 99).data, whole[:, 800:])
    for time in (0.0, 0.1, END, 99.0, -1.0):
        empty = decoder.get_samples_played_in_range(time, time)
        assert (empty.data.shape, empty.duration_seconds) == ((2, 0), 0.0)
    assert decoder.get_samples_played_in_range(-2.0, -1.0).data.shape == (2, 0)


@pytest.mark.parametrize("start", [END, END - 0.1 / RATE, END + 1e-9, 10.0, 1e300])
def test_start_after_the_end_is_refused(start: float) -> None:
    with pytest.raises(OutOfRangeError, match="start_seconds is too high"):
        DECODERS["pcm_u8"].get_samples_played_in_range(start)
    with pytest.raises(OutOfRangeError, match="start_seconds is too high"):
        DECODERS["pcm_u8"].get_samples_played_in_ranges([(0, 0.1), (start, start + 1e300)])


def test_a_file_without_samples() -> None:
    decoder = WavDecoder(riff(fmt(1, 16), chunk(b"data", b"")))
    assert decoder.metadata.duration_seconds == 0
    with pytest.raises(StreamError, match="no samples"):
        decoder.get_all_samples()


@pytest.mark.parametrize(
    ("start", "stop"),
    [
        (-2.0, -1.0), (-1.0, -1.0), (-5.0, 0.1), (0.05, 0.2), (0.10001, 0.10002), (0.1, 0.1), (0.2, 99.0), (0.0, None),
        (END - 0.1 / RATE, 9.0), (END - 0.1 / RATE, END), (END - 0.6 / RATE, None), (END, END), (END, None),
        (END, END + 0.1 / RATE), (END, END + 1 / RATE), (99.0, 99.0), (99.0, 99.9),
    ],
)  # fmt: skip
def test_ranges_match_the_audio_decoder(start: float, stop: float | None) -> None:
    data = wav("pcm_s24le", noise(NUM_SAMPLES, 2))
    outcomes: list[Any] = []
    for decoder in (WavDecoder(data), AudioDecoder(data)):
        try:
            samples = decoder.get_samples_played_in_range(start, stop)
            outcomes.append((samples.data.tolist(), samples.pts_seconds, samples.duration_seconds))
        except OutOfRangeError:
            outcomes.append("nothing there")
    assert outcomes[0] == outcomes[1]


def test_ranges_that_are_refused() -> None:
    decoder = DECODERS["pcm_s16le"]
    with pytest.raises(InvalidArgumentError, match="less than or equal"):
        decoder.get_samples_played_in_range(0.2, 0.1)
    with pytest.raises(InvalidArgumentError, match="pairs"):
        decoder.get_samples_played_in_ranges([(0, 1), 2])  # type: ignore[list-item]
    assert decoder.get_samples_played_in_ranges([]) == []


def test_a_range_of_a_long_file_reads_only_its_own_bytes(tmp_path: Path) -> None:
    path = tmp_path / "ten hours.wav"
    num_bytes = 10 * 3600 * 48_000 * 2
    header = riff(fmt(1, 16, rate=48_000), b"data" + num_bytes.to_bytes(4, "little"))
    sound = np.arange(48_000, dtype="<i2")
    with path.open("wb") as file:  # all but a second of it is a hole
        file.write(header)
        file.seek(len(header) + 9 * 3600 * 96_000)
        file.write(sound.tobytes())
        file.truncate(len(header) + num_bytes)
    with path.open("rb") as file:
        source = BareFile(file)
        decoder = WavDecoder(source)
        assert decoder.metadata.duration_seconds == 36_000
        opening = source.num_bytes
        assert opening < 20_000
        samples = decoder.get_samples_played_in_range(9 * 3600, 9 * 3600 + 0.5).data
        assert source.num_bytes - opening == 48_000
    np.testing.assert_array_equal(samples[0], sound[:24_000] / np.float32(32768))
    assert torch.equal(WavDecoder(path).get_samples_played_in_range(9 * 3600, 9 * 3600 + 0.5).data, samples)
