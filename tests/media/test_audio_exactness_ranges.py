"""A range of audio equals the same samples of the whole stream, in whatever order ranges are requested.

Ranges are bit-identical if the codec has bounded memory, and within `SoundSpec.range_snr_db` otherwise.
"""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import sound
from audio_exactness import Truth, assert_range, assert_same, find_truth, samples_of_range
from media_audio import DAMAGED_CLIPS, SOUND_CLIPS
from mediatensor.decoders import AudioDecoder, Demuxer
from mediatensor.encoders import Encoder
from mediatensor.errors import DecodeError, OutOfRangeError

_GAPS = [name for name in SOUND_CLIPS if name.startswith("gap_")]


@pytest.fixture(scope="module", params=[name for name in SOUND_CLIPS if name not in _GAPS])
def truth(request: pytest.FixtureRequest, sound_folder: Path) -> Truth:
    return find_truth(request.param, sound_folder)


def random_range(truth: Truth, salt: str) -> tuple[float, float]:
    """Return times between samples, like those of users."""
    draw = truth.random(salt)
    first = draw.uniform(0, truth.num_samples)
    last = min(truth.num_samples, first + draw.uniform(1, 6000))
    return truth.seconds(first - 0.5), truth.seconds(max(last, first + 1) - 0.5)


def test_first_range_is_a_part_of_the_whole(truth: Truth) -> None:
    for number in range(3):
        start, stop = random_range(truth, f"contact {number}")
        with truth.open() as decoder:
            assert_range(truth, decoder.get_samples_played_in_range(start, stop), start, stop)


def test_ranges_backwards_are_parts_of_the_whole(truth: Truth) -> None:
    with truth.open() as decoder:
        cuts = np.unique(np.linspace(0, truth.num_samples, 7).astype(int)).tolist()
        for first, last in zip(cuts[-2::-1], cuts[:0:-1], strict=True):
            start, stop = truth.seconds(first), truth.seconds(min(last, first + 3000))
            assert_range(truth, decoder.get_samples_played_in_range(start, stop), start, stop)


def test_cuts_at_frame_borders_are_exact(truth: Truth) -> None:
    """Ranges start and stop on the first sample of a frame, and one sample before and after it."""
    borders = [start for start in truth.linear.frame_starts if 0 < start < truth.num_samples - 2]
    chosen = truth.random("borders").sample(borders, min(3, len(borders)))
    with truth.open() as decoder:
        for border in chosen:
            for offset in (-1, 0, 1):
                at = truth.seconds(border + offset)
                for start, stop in ((at, truth.seconds(border + 1200)), (truth.seconds(border - 1200), at)):
                    assert_range(truth, decoder.get_samples_played_in_range(start, stop), start, stop)


def test_tiny_ranges_are_exact(truth: Truth) -> None:
    draw = truth.random("tiny")
    with truth.open() as decoder:
        for count in (1, 2, 0):
            first = draw.randrange(max(1, truth.num_samples - 2))
            start, stop = truth.seconds(first), truth.seconds(first + count)
            assert_range(truth, decoder.get_samples_played_in_range(start, stop), start, stop)
        start, width = truth.seconds(first), 0.2 / truth.linear.rate
        got = decoder.get_samples_played_in_range(start, start + width)
        assert got.data.shape == (len(truth.data), 0), "no sample begins there"


def test_begin_and_end_are_exact(truth: Truth) -> None:
    begin, end = truth.seconds(0), truth.seconds(truth.num_samples)
    width = 700 / truth.linear.rate
    with truth.open() as decoder:
        for start, stop in [
            (begin, begin + width),
            (begin - 5.0, begin + width),
            (end - width, end),
            (end - width, None),
            (end - width, end + 100.0),
            (truth.seconds(truth.num_samples - 1), None),
            (begin - 1.0, None),
        ]:
            if math.isclose(start, begin) or stop is None or truth.num_samples > 700:
                assert_range(truth, decoder.get_samples_played_in_range(start, stop), start, stop)
        assert np.array_equal(decoder.get_all_samples().data.numpy(), truth.data), "and the whole after them"


def test_history_does_not_matter(truth: Truth) -> None:
    """The same call returns the same bits a second time, after other calls, and from another decoder."""
    start, stop = random_range(truth, "history")
    elsewhere = [random_range(truth, f"elsewhere {number}") for number in range(3)]
    with truth.open() as fresh:
        expected = fresh.get_samples_played_in_range(start, stop).data
        twice = fresh.get_samples_played_in_range(start, stop).data
    assert np.array_equal(expected, twice)
    with truth.open() as decoder:
        for other in [*elsewhere, (start - 0.1, start), (stop, stop + 0.1)]:
            if truth.seconds(0) <= other[0] < truth.seconds(truth.num_samples - 1):
                decoder.get_samples_played_in_range(*other)
                assert np.array_equal(expected, decoder.get_samples_played_in_range(start, stop).data)
        decoder.get_all_samples()
        assert np.array_equal(expected, decoder.get_samples_played_in_range(start, stop).data)


def test_several_ranges_at_once_are_exact(truth: Truth) -> None:
    """Several ranges of one call can be in any order, overlap, repeat and be empty."""
    ranges: list[tuple[float, float | None]] = [random_range(truth, f"several {number}") for number in range(6)]
    start, stop = ranges[0]
    assert stop is not None
    ranges += [
        (start, stop),
        ((start + stop) / 2, stop + 0.05),
        (start, start),
        (truth.seconds(0) - 0.1, stop),
        ranges[1],
    ]
    with truth.open() as one_by_one, truth.open() as at_once:
        got = at_once.get_samples_played_in_ranges(ranges)
        assert len(got) == len(ranges)
        for each, samples in zip(ranges, got, strict=True):
            alone = one_by_one.get_samples_played_in_range(*each)
            assert_range(truth, alone, *each)
            assert samples.pts_seconds == alone.pts_seconds
            assert samples.duration_seconds == alone.duration_seconds
            assert_range(truth, samples, *each)


def test_tiles_make_up_the_whole(truth: Truth) -> None:
    """Ranges that meet at times between samples make up the whole, without gaps and overlaps."""
    draw = truth.random("tiles")
    cuts = sorted(truth.seconds(draw.uniform(0, truth.num_samples)) for _ in range(6))
    edges = [truth.seconds(0), *cuts]
    with truth.open() as decoder:
        tiles = [
            decoder.get_samples_played_in_range(start, stop).data.numpy()
            for start, stop in zip(edges, [*cuts, None], strict=True)
            if samples_of_range(start, stop, truth.seconds(0), truth.linear.rate, truth.num_samples)[0]
            < truth.num_samples
        ]
    joined = np.concatenate(tiles, axis=1)
    assert joined.shape == truth.data.shape
    assert_same(truth, joined, 0, "in tiles")


def test_ranges_after_the_end_are_refused(truth: Truth) -> None:
    with truth.open() as decoder:
        end = truth.seconds(truth.num_samples)
        for start, stop in ((end + 1.0, None), (end + 1.0, end + 2.0), (end + 1e6, None)):
            with pytest.raises(OutOfRangeError):
                decoder.get_samples_played_in_range(start, stop)
        assert decoder.get_samples_played_in_range(end - 0.001, None).data.shape[1] > 0, "it continues to work"


@pytest.mark.parametrize("name", ["pcm_s16_mkv", "flac_small_blocks", "mp3_vbr", "aac_m4a", "opus_ogg", "vorbis_mkv"])
@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cuts=st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_every_partition_tiles(name: str, sound_folder: Path, cuts: list[float]) -> None:
    truth = find_truth(name, sound_folder)
    end = truth.seconds(truth.num_samples)
    edges = sorted([truth.seconds(0), *(truth.seconds(cut * (truth.num_samples - 1)) for cut in cuts), end])
    with truth.open() as decoder:
        tiles = decoder.get_samples_played_in_ranges(list(pairwise(edges)))
    joined = np.concatenate([tile.data.numpy() for tile in tiles], axis=1)
    assert joined.shape == truth.data.shape
    assert_same(truth, joined, 0, "in tiles")


@pytest.mark.parametrize("name", _GAPS)
def test_ranges_of_streams_with_gaps(name: str, sound_folder: Path) -> None:
    """If half a second is missing in the middle, later samples are found by their time instead of their number."""
    truth = find_truth(name, sound_folder)
    linear, rate = truth.linear, truth.linear.rate
    resumed = next(
        number
        for number in range(1, len(linear.frame_starts))
        if (linear.frame_seconds[number] or 0) - (linear.frame_seconds[number - 1] or 0) > 0.4
    )
    before = linear.frame_starts[resumed]  # the number of samples before the gap
    left, back = linear.begin_seconds + before / rate, linear.frame_seconds[resumed]
    assert back is not None
    tick = math.ceil(rate / 1000) + 1  # times of Matroska are milliseconds
    with truth.open() as decoder:
        for start, first in (
            (left - 0.6, before - round(0.6 * rate)),
            (left - 0.2, before - round(0.2 * rate)),
            (back + 0.01, before + round(0.01 * rate)),
            (back + 0.1, before + round(0.1 * rate)),
            (back + 0.5, before + round(0.5 * rate)),
        ):
            got = decoder.get_samples_played_in_range(start, start + 0.15).data.numpy()
            assert got.shape[1] == round(0.15 * rate)
            shift = sound.delay_of(linear.data[0, first - 2000 :][: len(got[0]) + 4000], got[0], 4000) - 2000
            assert abs(shift) <= tick
            near = linear.data[:, first + shift :][:, : got.shape[1]]
            assert np.array_equal(got, near) or sound.snr_db(near, got) > (truth.range_snr_db or math.inf)
        across = decoder.get_samples_played_in_range(left - 0.1, back + 0.1).data.numpy()
        assert abs(across.shape[1] - 0.2 * rate) <= 2 * tick, "missing samples do not count"
        assert decoder.get_samples_played_in_range(left + 0.1, back - 0.1).data.shape[1] == 0
        (after, in_several) = decoder.get_samples_played_in_ranges([(left + 0.1, back + 0.1), (back, back + 0.1)])
        assert after.pts_seconds == pytest.approx(back, abs=tick / rate), "the time of the first sample"
        assert after.data.shape[1] == pytest.approx(0.1 * rate, abs=tick)
        assert abs(after.data.shape[1] - in_several.data.shape[1]) <= tick
        with AudioDecoder(truth.path, sample_rate=rate * 2 // 3) as resampled:
            later = resampled.get_samples_played_in_range(left + 0.1, back + 0.1)
            assert later.pts_seconds == pytest.approx(back, abs=2 * tick / rate)
            close: list[tuple[float, float | None]] = [
                (back - 0.2, back + 0.1),
                (left - 0.1, left - 0.05),
                (back, None),
            ]
            close += [(left + 0.05, left + 0.1), (left - 0.06, back + 0.2)]
            for source in (decoder, resampled):
                for each, samples in zip(close, source.get_samples_played_in_ranges(close), strict=True):
                    alone = source.get_samples_played_in_range(*each)
                    assert np.array_equal(samples.data, alone.data)
                    assert samples.pts_seconds == alone.pts_seconds
        edges = np.linspace(linear.begin_seconds, linear.begin_seconds + linear.num_samples / rate + 0.6, 9)
        tiles = [
            decoder.get_samples_played_in_range(start, stop).data.numpy() for start, stop in pairwise(edges.tolist())
        ]
        assert np.array_equal(np.concatenate(tiles, axis=1), truth.data) or truth.range_snr_db is not None
        assert sum(tile.shape[1] for tile in tiles) == truth.num_samples


def test_damage_between_close_ranges_does_not_affect_them(tmp_path: Path) -> None:
    path, noise = tmp_path / "sound.mkv", torch.rand(1, 24_000, generator=torch.Generator().manual_seed(0)) - 0.5
    encoder = Encoder()
    audio = encoder.add_audio(sample_rate=8000, num_channels=1, codec="flac")
    with encoder.open_file(path):
        audio.add_samples(noise)
    packet = next(packet for packet in Demuxer(path, streams="audio") if (packet.pts_seconds or 0) > 1)
    damaged = path.read_bytes().replace(packet.data, b"\xff" * len(packet.data))
    with AudioDecoder(damaged) as decoder:
        with pytest.raises(DecodeError):
            decoder.get_samples_played_in_range(0.9, 1.2)
        before, after = decoder.get_samples_played_in_ranges([(0.9, 1.0), (1.1, 1.2)])
    whole = AudioDecoder(path).get_all_samples().data
    assert torch.equal(before.data, whole[:, 7200:8000])
    assert torch.equal(after.data, whole[:, 8800:9600])


@pytest.mark.parametrize("name", list(DAMAGED_CLIPS))
def test_damaged_files(name: str, sound_folder: Path) -> None:
    """Samples before the damage are decoded as usual."""
    truth = find_truth(name, sound_folder)
    with truth.open() as decoder:
        quarter = decoder.get_samples_played_in_range(truth.linear.begin_seconds, truth.linear.begin_seconds + 0.4)
        length = quarter.data.shape[1]
        assert length == round(0.4 * truth.linear.rate)
        expected = truth.linear.data[:, :length]
        noise = np.sqrt(np.mean((quarter.data.numpy() - expected) ** 2))
        assert noise == 0 or (truth.range_snr_db is not None and noise < 1e-3)
