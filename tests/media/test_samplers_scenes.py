"""Scenes: cuts at known frames, other changes, and clips that stay within scenes."""

from __future__ import annotations

import multiprocessing
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from mediatensor.datasets import Item, VideoClips
from mediatensor.decoders import Demuxer, VideoDecoder
from mediatensor.errors import ClosedError, InvalidArgumentError, SourceTypeError
from mediatensor.samplers import Scene, clips_at_scenes, find_scenes
from mediatensor.transforms import CenterCrop
from scene_films import HEIGHT, WIDTH, Shot, draw, first_frames, slow_cuts, slow_scores, write_film

# No key frames at cuts, key frames at cuts, a key frame every frame, and codecs of other kinds.
ENCODERS: dict[str, tuple[str, str, dict[str, str]]] = {
    "no key frames at cuts": ("mp4", "libx264", {"preset": "ultrafast", "g": "250", "sc_threshold": "0"}),
    "key frames at cuts": ("mkv", "libx264", {"preset": "veryfast", "forced-idr": "1"}),
    "open groups": ("mp4", "libx264", {"preset": "veryfast", "x264-params": "open-gop=1:keyint=17:bframes=4"}),
    "few bits": ("mp4", "libx264", {"preset": "ultrafast", "b": "60k", "maxrate": "60k", "bufsize": "30k"}),
    "mpeg4": ("avi", "mpeg4", {"q": "4"}),
    "vp9": ("webm", "libvpx-vp9", {"deadline": "realtime", "cpu-used": "8", "crf": "35", "b": "0"}),
    "mjpeg": ("avi", "mjpeg", {"q": "4"}),
}


def starts(scenes: list[Scene]) -> list[int]:
    return [scene.first_frame for scene in scenes]


def film(path: Path, shots: list[Shot], encoder: str = "no key frames at cuts", **options: Any) -> Path:
    extension, codec, settings = ENCODERS[encoder]
    if encoder == "key frames at cuts":
        options["key_frames"] = first_frames(shots)
    return write_film(path.with_suffix(f".{extension}"), draw(shots), codec, settings, **options)


@pytest.fixture(scope="module")
def cut_film(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Shot]]:
    shots = [Shot(31, 1, pan=2), Shot(20, 6), Shot(47, 3, pan=5), Shot(16, 4), Shot(26, 1, pan=1)]
    return film(tmp_path_factory.mktemp("film") / "film", shots), shots


@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(encoder="mpeg4", shots=[Shot(15, 0), Shot(15, 0), Shot(25, 0, 1)], seed=0)  # a noisy last frame
@given(
    encoder=st.sampled_from(sorted(ENCODERS)),
    shots=st.lists(st.builds(Shot, st.integers(15, 40), st.just(0), st.integers(0, 4)), min_size=1, max_size=5),
    seed=st.integers(0, 99),
)
def test_cuts_are_found_at_the_known_frames(tmp_path: Path, encoder: str, shots: list[Shot], seed: int) -> None:
    shots = [Shot(shot.num_frames, seed + number, shot.pan) for number, shot in enumerate(shots)]
    path = film(tmp_path / "film", shots, encoder)
    scenes = find_scenes(VideoDecoder(path))
    assert starts(scenes) == first_frames(shots)
    scores = slow_scores(path)
    assert starts(scenes)[1:] == slow_cuts(scores)
    assert [scene.score for scene in scenes[1:]] == pytest.approx([scores[i] for i in starts(scenes)[1:]], rel=0.05)


def test_scenes_are_contiguous_and_match_frame_times(cut_film: tuple[Path, list[Shot]]) -> None:
    decoder = VideoDecoder(cut_film[0])
    scenes, index = find_scenes(decoder), decoder.frame_index
    assert [(one.last_frame + 1, one.end_seconds) for one in scenes[:-1]] == [
        (other.first_frame, other.begin_seconds) for other in scenes[1:]
    ]
    assert (scenes[-1].last_frame, scenes[-1].end_seconds) == (len(decoder) - 1, index.end_seconds)
    assert [scene.begin_seconds for scene in scenes] == index.pts_seconds[starts(scenes)].tolist()
    assert [scene.num_frames for scene in scenes] == [shot.num_frames for shot in cut_film[1]]


@pytest.mark.parametrize(
    "name",
    [
        "accv-lab__moving_shape_open_gop_h265.mp4",
        pytest.param("megatron-energon__sync_test.mp4", marks=pytest.mark.slow),
    ],
)
def test_cuts_of_real_films_match_the_slow_detector(media_data: Callable[[str], Path], name: str) -> None:
    path = media_data(name)
    cuts = starts(find_scenes(VideoDecoder(path)))[1:]
    assert cuts == slow_cuts(slow_scores(path)) != []


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "mux.js__sintel-captions.ts",  # starts with black
        "streamio-ffmpeg__awesome-movie.mov",  # fast hands
        "gpmf-parser__karma.mp4",  # a handheld camera
        "file-type__fixture2.3gp",
        "exoplayer__video_desks.3gp",
    ],
)
def test_real_films_of_one_shot_have_no_cuts(media_data: Callable[[str], Path], name: str) -> None:
    assert len(find_scenes(VideoDecoder(media_data(name)))) == 1


def test_fast_pans_flashes_and_noise_are_not_cuts(tmp_path: Path) -> None:
    pictures = [*draw([Shot(40, 2, pan=19), Shot(40, 5, pan=1)])]
    for flash in (12, 60, 61, 70):
        pictures[flash] = np.full_like(pictures[flash], 255)
    path = write_film(tmp_path / "film.mp4", pictures, options=ENCODERS["few bits"][2])
    decoder = VideoDecoder(path)
    assert starts(find_scenes(decoder)) == [0, 40]
    assert len(find_scenes(decoder, ratio=0.0, min_frames=1)) > 40  # each step of the pan counts as a cut


def test_an_insert_is_a_scene_if_it_is_long_enough(tmp_path: Path) -> None:
    path = film(tmp_path / "film", [Shot(30, 2), Shot(10, 5), Shot(30, 2), Shot(8, 1), Shot(30, 6)])
    decoder = VideoDecoder(path)
    assert starts(find_scenes(decoder)) == [0, 70]  # the shot returns, and the shot of 8 frames is too short
    assert starts(find_scenes(decoder, min_frames=8)) == [0, 30, 40, 70, 78]
    assert starts(find_scenes(decoder, min_frames=8, min_seconds=0.36)) == [0, 30, 40, 70]
    assert starts(find_scenes(decoder, min_frames=1, min_seconds=2.0)) == [0]


def test_a_fade_through_black_is_found_at_its_first_black_frame(tmp_path: Path) -> None:
    shots = [Shot(30, 1), Shot(20, 1, brightness=(1.0, 0.0)), Shot(20, 6, brightness=(0.0, 1.0)), Shot(30, 6)]
    decoder = VideoDecoder(film(tmp_path / "film", shots))
    scenes = find_scenes(decoder)
    black = [i for i in range(len(decoder)) if decoder[i].max() <= 20]
    assert starts(scenes) == [0, black[0]]
    # Fading in at the start, and out at the end, is not a cut.
    shots = [Shot(20, 1, brightness=(0.0, 1.0)), Shot(20, 1), Shot(20, 1, brightness=(1.0, 0.0))]
    assert len(find_scenes(VideoDecoder(film(tmp_path / "other", shots)))) == 1


def test_dissolves_are_not_found(tmp_path: Path) -> None:
    one, other = ([*draw([Shot(60, seed)])] for seed in (1, 6))
    shares = np.clip((np.arange(60) - 20) / 20, 0, 1)
    pictures = [(a * (1 - s) + b * s).astype(np.uint8) for a, b, s in zip(one, other, shares, strict=True)]
    assert len(find_scenes(VideoDecoder(write_film(tmp_path / "film.mp4", pictures)))) == 1


def test_bars_hide_no_cut_and_still_films_have_none(tmp_path: Path) -> None:
    # Two pictures that differ slightly. With bars of two thirds of the height, a third of the difference remains.
    pictures = [*draw([Shot(30, 1, bars=32)])] * 2
    pictures[30:] = [np.where(picture > 16, picture.clip(0, 225) + 30, 0).astype(np.uint8) for picture in pictures[30:]]
    decoder = VideoDecoder(write_film(tmp_path / "bars.mp4", pictures))
    assert starts(find_scenes(decoder)) == [0, 30]
    still = film(tmp_path / "still", [Shot(40, 3)], "few bits")
    assert len(find_scenes(VideoDecoder(still))) == 1


def test_variable_rates_and_repeated_frames_do_not_move_cuts(tmp_path: Path) -> None:
    shots = [Shot(20, 1, pan=12), Shot(21, 6, pan=12)]
    ticks = np.cumsum([1, 4, 2] * 14)[:41].tolist()
    decoder = VideoDecoder(film(tmp_path / "variable", shots, ticks=ticks))
    scenes = find_scenes(decoder)
    assert starts(scenes) == [0, 20]
    assert scenes[1].begin_seconds == pytest.approx(ticks[20] / 25)
    # Each frame occurs three times, as in animation. A step of the pan between repeated frames is not a cut.
    thrice = [picture for picture in draw(shots) for _ in range(3)]
    decoder = VideoDecoder(write_film(tmp_path / "thrice.mp4", thrice, options={"preset": "ultrafast"}))
    assert starts(find_scenes(decoder)) == [0, 60]


def test_key_frames_only_finds_cuts_at_the_next_key_frame(tmp_path: Path) -> None:
    shots = [Shot(40, 1), Shot(35, 6), Shot(50, 2)]
    at_cuts = VideoDecoder(film(tmp_path / "at_cuts", shots, "key frames at cuts"))
    assert starts(find_scenes(at_cuts, key_frames_only=True)) == [0, 40, 75]
    every_twelfth = {"preset": "ultrafast", "g": "12", "sc_threshold": "0"}
    late = VideoDecoder(write_film(tmp_path / "late.mp4", draw(shots), options=every_twelfth))
    assert starts(find_scenes(late)) == [0, 40, 75]
    scenes = find_scenes(late, key_frames_only=True)
    assert starts(scenes) == [0, 48, 84]
    assert (scenes[-1].last_frame, scenes[-1].end_seconds) == (124, 5.0)


def test_options_of_the_decoder_do_not_change_the_scenes(cut_film: tuple[Path, list[Shot]]) -> None:
    expected = find_scenes(VideoDecoder(cut_film[0]))
    for options in (
        {"transforms": [CenterCrop((8, 8))]},
        {"num_ffmpeg_threads": 2, "dimension_order": "NHWC"},
        {"output_dtype": torch.float32, "on_error": "nearest"},
        {"seek_mode": "approximate"},
    ):
        decoder = VideoDecoder(cut_film[0], **options)
        decoder[5]  # moves the decoder
        assert find_scenes(decoder) == expected
        assert find_scenes(pickle.loads(pickle.dumps(decoder))) == expected
    assert pickle.loads(pickle.dumps(expected)) == expected
    decoder.close()
    with pytest.raises(ClosedError):
        find_scenes(decoder)


def _num_scenes(decoder: VideoDecoder) -> int:
    return len(find_scenes(decoder))


def test_a_forked_process_finds_the_same_scenes(cut_film: tuple[Path, list[Shot]]) -> None:
    decoder = VideoDecoder(cut_film[0])
    expected = _num_scenes(decoder)
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.apply_async(_num_scenes, (decoder,)).get(60) == expected


def test_damaged_frames_follow_the_error_policy(cut_film: tuple[Path, list[Shot]], tmp_path: Path) -> None:
    path, shots = cut_film
    index = VideoDecoder(path).frame_index
    data = bytearray(path.read_bytes())
    start = int(index.key_frame_position[0]) + int(index.key_frame_bytes[0]) * 9 // 10
    data[start : start + 200] = bytes(np.random.default_rng(0).integers(0, 256, 200, np.uint8))
    damaged = tmp_path / "damaged.mp4"
    damaged.write_bytes(data)
    scenes = find_scenes(VideoDecoder(damaged, on_error="skip"))
    assert set(starts(scenes)) >= {first for first in first_frames(shots) if first < 100}
    cut_off = tmp_path / "cut_off.mkv"
    with_key_frames = film(tmp_path / "whole", shots, "key frames at cuts").read_bytes()
    cut_off.write_bytes(with_key_frames[: len(with_key_frames) * 2 // 3])
    scenes = find_scenes(VideoDecoder(cut_off))
    assert len(scenes) > 1
    assert starts(scenes) == first_frames(shots)[: len(scenes)]


def test_scenes_have_the_indices_of_the_decoder_after_a_lost_frame(tmp_path: Path) -> None:
    shots = [Shot(16, 1), Shot(16, 4), Shot(16, 2)]
    path = film(tmp_path / "film", shots, "key frames at cuts")
    packet = list(Demuxer(path))[4].data
    path.write_bytes(path.read_bytes().replace(packet, packet[:8] + bytes(len(packet) - 8)))
    decoder = VideoDecoder(path)
    assert len(decoder) == 48, "the packets do not show that a frame is lost"
    scenes = find_scenes(decoder, min_frames=5)
    assert starts(scenes) == [0, 15, 31]
    assert decoder.get_frame_at(31).pts_seconds == scenes[2].begin_seconds
    assert len(decoder) == 47


def test_key_frames_have_the_indices_of_the_decoder_after_a_lost_key_frame(tmp_path: Path) -> None:
    path = film(tmp_path / "film", [Shot(8, 1), Shot(8, 4), Shot(8, 2), Shot(8, 3)], "key frames at cuts")
    packet = list(Demuxer(path))[8].data
    path.write_bytes(path.read_bytes().replace(packet, packet[:8] + bytes(len(packet) - 8)))
    decoder = VideoDecoder(path)
    assert len(decoder) == 32, "the packets do not show that frames are lost"
    scenes = find_scenes(decoder, min_frames=5, key_frames_only=True)
    index = decoder.frame_index
    assert starts(scenes) == index.gop_start_indices.tolist()
    assert [scene.begin_seconds for scene in scenes] == index.pts_seconds[index.gop_start_indices].tolist()
    assert scenes[-1].last_frame == len(VideoDecoder(path).get_all_frames()) - 1 < 31


def test_clips_stay_within_their_scenes(cut_film: tuple[Path, list[Shot]]) -> None:
    path, shots = cut_film
    decoder = VideoDecoder(path)
    scenes = find_scenes(decoder)
    clips = clips_at_scenes(decoder, num_frames_per_clip=9, num_indices_between_frames=2, placement="start")
    assert clips.data.shape == (len(shots), 9, 3, HEIGHT, WIDTH)
    for clip, scene in zip(clips, scenes, strict=True):
        frames = [
            min(scene.first_frame + 2 * i, scene.first_frame + 2 * ((scene.num_frames - 1) // 2)) for i in range(9)
        ]
        assert torch.equal(clip.data, decoder.get_frames_at(frames).data)
    middles = clips_at_scenes(decoder, scenes=scenes[1:3])
    assert middles.pts_seconds.tolist() == decoder.get_frames_at([40, 74]).pts_seconds[:, None].tolist()
    torch.manual_seed(0)
    seen = [
        clips_at_scenes(decoder, scenes=scenes[3:4], num_frames_per_clip=15, placement="random")
        .pts_seconds[0, 0]
        .item()
        for _ in range(20)
    ]
    assert {round(25 * seconds) for seconds in seen} == {
        98,
        99,
    }  # starts of clips of 15 frames in 16 frames


def test_rows_of_a_dataset_may_be_scenes(cut_film: tuple[Path, list[Shot]]) -> None:
    path, _ = cut_film
    scenes = find_scenes(VideoDecoder(path))
    items = [Item(path, start_seconds=scene.begin_seconds, end_seconds=scene.end_seconds) for scene in scenes]
    whole = VideoClips(items, lambda decoder: decoder.get_all_frames())
    rows = [whole[row].frame_indices.tolist() for row in range(len(whole))]
    assert rows == [list(range(scene.first_frame, scene.last_frame + 1)) for scene in scenes]
    # Scenes of a segment are found within the segment.
    part = VideoClips([Item(path, start_seconds=0.4, end_seconds=2.84)], clips_at_scenes, keep_clip_dimension=True)
    assert part[0].frame_indices.flatten().tolist() == [10 + 20 // 2, 31 + 19 // 2, 51 + 19 // 2]


def test_clips_at_scenes_checks_its_arguments(cut_film: tuple[Path, list[Shot]]) -> None:
    decoder = VideoDecoder(cut_film[0])
    with pytest.raises(InvalidArgumentError, match="scenes is empty"):
        clips_at_scenes(decoder, scenes=[])
    with pytest.raises(InvalidArgumentError, match="from frame 100 to 900 is not within this video of 140 frames"):
        clips_at_scenes(decoder, scenes=[Scene(100, 900, 4.0, 36.0)])
    with pytest.raises(InvalidArgumentError, match=r"scenes must be a series of Scene objects \(got 5\)"):
        clips_at_scenes(decoder, scenes=5)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="scenes must be Scene objects"):
        clips_at_scenes(decoder, scenes=[(0, 5)])  # type: ignore[list-item]
    with pytest.raises(InvalidArgumentError, match="'error' policy"):
        clips_at_scenes(decoder, scenes=[Scene(0, 5, 0.0, 0.2)], num_frames_per_clip=9, policy="error")
    with pytest.raises(InvalidArgumentError, match="placement"):
        clips_at_scenes(decoder, placement="end")  # type: ignore[arg-type]
    for function in (find_scenes, clips_at_scenes):
        with pytest.raises(SourceTypeError, match="VideoDecoder"):
            function(str(cut_film[0]))  # type: ignore[operator]
