"""Damage within a stream: the four policies, and holes, in which the codec returns no frame, as in a linear decode."""

from __future__ import annotations

import io
import json
import pickle
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
import torch

import media
from damaging import flipped, garbage, plain_decode, with_damage, zeros
from mediatensor import Frame, FrameBatch, ReplacedFrame, set_index_cache
from mediatensor._engine.common.messages import forget_warnings, warn_once
from mediatensor.cli import main
from mediatensor.datasets import check_dataset
from mediatensor.decoders import Demuxer, FrameIndex, VideoDecoder
from mediatensor.errors import DamageWarning, DecodeError, InvalidArgumentError
from mediatensor.samplers import clips_at_random_indices, clips_at_regular_indices, clips_at_regular_timestamps

NUM_FRAMES, RATE = 100, 25
# Clips of more than 64 KiB, so that the index is made from headers where the container has them.
BASES = {
    "h264": ("mp4", "mp4"),
    "hevc": ("hevc_open_gop_mkv", "mp4"),
    "vp9": ("vp9", "matroska"),
    "av1": ("av1", "mp4"),
    "mpeg4": ("mpeg4_mp4", "mp4"),
}
FIRST, NUM_LOST = 45, 10


@pytest.fixture(autouse=True)
def _warn_again() -> None:
    forget_warnings()


@pytest.fixture(scope="module")
def intact(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], bytes]:
    made: dict[str, bytes] = {}
    folder = tmp_path_factory.mktemp("damage")

    def of(codec: str) -> bytes:
        if codec not in made:
            base, container = BASES[codec]
            spec = replace(media.CLIPS[base], num_frames=NUM_FRAMES, size=(160, 128), container=container)
            media.write_spec(spec, folder / codec)
            made[codec] = (folder / codec).read_bytes()
        return made[codec]

    return of


def pixels_of(batch: FrameBatch | torch.Tensor) -> np.ndarray:
    data = batch.data if isinstance(batch, FrameBatch) else batch
    return data.permute(0, 2, 3, 1).numpy()


def with_warnings(call: Callable[[], Any]) -> tuple[Any, list[str]]:
    """Return the result of a call, and its warnings of damage."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = call()
    return result, [str(warning.message) for warning in caught if warning.category is DamageWarning]


def met(data: bytes, **options: Any) -> VideoDecoder:
    """Return a decoder that has decoded all frames, so that it knows all damage."""
    decoder = VideoDecoder(data, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DamageWarning)
        options = decoder._video.options
        decoder._video.options = replace(options, on_error="keep")
        decoder.get_all_frames()
        decoder._video.options = options
    return decoder


# Holes


@pytest.fixture(
    scope="module",
    params=[
        # Garbage makes holes as zeros do. It is tested in each run with a codec of slices, and one of tiles.
        pytest.param((codec, change), marks=[pytest.mark.slow] if codec not in kept else [])
        for change, kept in ((zeros, BASES), (garbage, ("h264", "av1")))
        for codec in BASES
    ],
    ids=lambda case: f"{case[0]}-{case[1].__name__}",
)
def holed(request: pytest.FixtureRequest, intact: Callable[[str], bytes]) -> bytes:
    codec, change = request.param
    return with_damage(intact(codec), change, range(FIRST, FIRST + NUM_LOST))


def test_frames_keep_numbers_of_plain_decode(holed: bytes) -> None:
    expected = plain_decode(holed)
    assert len(expected) < NUM_FRAMES
    decoder = VideoDecoder(holed)
    batch, messages = with_warnings(decoder.get_all_frames)
    assert len(messages) == 1
    assert "no frame, between frames" in messages[0]
    assert with_warnings(decoder.get_all_frames)[1] == []
    assert len(decoder) == len(batch) == len(expected)
    assert np.array_equal(pixels_of(batch), np.stack([rgb for _, _, rgb in expected]))
    assert batch.is_damaged.tolist() == [is_flagged for _, is_flagged, _ in expected]
    # After damage, H.264's decoder returns a frame too late. It keeps its place, with the time of the previous frame.
    tick = decoder.frame_index.time_base
    times = np.maximum.accumulate([pts for pts, _, _ in expected])
    assert np.allclose(batch.pts_seconds, [float(pts * tick) for pts in times.tolist()])


def test_index_lists_every_missing_frame(holed: bytes) -> None:
    with av.open(io.BytesIO(holed)) as container:
        stated = {packet.pts for packet in container.demux(video=0) if packet.size}
    given = [pts for pts, _, _ in plain_decode(holed)]
    missing = sorted(stated - set(given))
    given = np.maximum.accumulate(given).tolist()
    index = met(holed).frame_index
    tick = float(index.time_base)
    named = [pts for pts in missing if any(h.start_seconds <= pts * tick < h.end_seconds for h in index.holes)]
    assert named == missing
    assert sum(hole.num_packets for hole in index.holes) == len(missing)
    for hole in index.holes:
        assert not any(hole.start_seconds <= pts * tick < hole.end_seconds for pts in given)
        assert hole.frame == sum(pts * tick < hole.start_seconds for pts in given)
    assert any("no frame, between frames" in text for text in index.anomalies)


def test_raise_refuses_only_calls_that_span_a_hole(holed: bytes) -> None:
    decoder = met(holed, on_error="raise")
    plain = met(holed)
    hole = decoder.frame_index.holes[0]
    last = decoder.frame_index.holes[-1].frame
    for call in (
        lambda: decoder.get_frames_in_range(hole.frame - 1, hole.frame + 1),
        lambda: decoder.get_frames_at([hole.frame, hole.frame - 1]),
        lambda: decoder.get_all_frames(),
        lambda: decoder[:],
        lambda: decoder.get_frame_played_at(hole.start_seconds),
        lambda: decoder.get_frames_played_at([hole.start_seconds + 0.01]),
        lambda: decoder.get_frames_played_in_range(hole.start_seconds - 0.1, hole.start_seconds + 0.01),
        lambda: decoder.get_frames_played_in_range(0, plain.frame_index.end_seconds, fps=10),
        lambda: list(decoder),
    ):
        with pytest.raises(DecodeError, match=rf"between frames {hole.frame - 1} and {hole.frame}\b"):
            call()
    flagged = set(np.flatnonzero(plain.frame_index.is_damaged).tolist())
    for start, stop in ((hole.frame - 8, hole.frame), (last, len(decoder))):
        wanted = [i for i in range(start, stop) if i not in flagged]
        assert torch.equal(decoder.get_frames_at(wanted).data, plain.get_frames_at(wanted).data)
        assert torch.equal(decoder[wanted[0]], plain[wanted[0]])
    before = decoder.get_frames_played_in_range(0, hole.start_seconds)
    assert len(before) == hole.frame


def test_iterating_with_raise_gives_the_frames_before_a_hole(holed: bytes) -> None:
    decoder = met(holed, on_error="raise")
    frames = iter(decoder)
    before = [next(frames) for _ in range(decoder.frame_index.holes[0].frame)]
    assert torch.equal(torch.stack(before), met(holed)[: len(before)])
    with pytest.raises(DecodeError, match="hole"):
        next(frames)


@pytest.mark.parametrize("on_error", ["skip", "nearest"])
def test_policies_list_holes_that_calls_span(on_error: Any, holed: bytes) -> None:
    plain, decoder = met(holed), VideoDecoder(holed, on_error=on_error)
    flagged = set(np.flatnonzero(plain.frame_index.is_damaged).tolist())
    batch = decoder.get_all_frames()
    holes = plain.frame_index.holes
    reports = [report for report in batch.replaced if report.num_missing]
    assert [(r.index, r.used_index, r.position, r.num_missing) for r in reports] == [
        (h.frame, h.frame, h.frame, h.num_packets) for h in holes
    ]
    good = [i for i in range(len(plain)) if i not in flagged]
    kept = good if on_error == "skip" else range(len(plain))
    at = [kept.index(i) for i in good]
    assert torch.equal(batch.data[at], plain.get_frames_at(good).data)
    first = holes[0].frame
    assert not decoder.get_frames_in_range(0, first).replaced
    assert decoder.get_frames_played_at([holes[0].start_seconds]).replaced[-1].num_missing == holes[0].num_packets


def test_saved_index_has_holes(holed: bytes, tmp_path: Path) -> None:
    index = met(holed).frame_index
    index.save(tmp_path / "some.index")
    loaded = FrameIndex.load(tmp_path / "some.index")
    assert loaded.holes == index.holes
    decoder = VideoDecoder(holed, frame_index=loaded, on_error="raise")
    with pytest.raises(DecodeError, match="hole"):
        decoder.get_frames_in_range(index.holes[0].frame - 1, index.holes[0].frame + 1)


def test_a_hidden_frame_of_vp9_that_is_refused_is_damage(intact: Callable[[str], bytes]) -> None:
    """A first byte of zero looks like a frame that is not shown."""
    data = with_damage(intact("vp9"), zeros, [50])
    decoder = VideoDecoder(data, on_error="raise")
    assert len(decoder) == NUM_FRAMES
    with pytest.raises(DecodeError, match="hole"):
        decoder.get_frames_in_range(45, 55)
    assert [(hole.frame, hole.num_packets) for hole in decoder.frame_index.holes] == [(50, 1)]


@pytest.mark.parametrize("codec", BASES)
def test_hole_at_the_end_is_named(codec: str, intact: Callable[[str], bytes]) -> None:
    index = met(with_damage(intact(codec), zeros, range(NUM_FRAMES - 20, NUM_FRAMES))).frame_index
    assert index.holes[-1].frame == len(index)
    assert "after the last frame" in index.anomalies[-1]


@pytest.mark.parametrize("codec", ["hevc", "av1", "mpeg4"])
def test_hole_at_the_start_is_named(codec: str, intact: Callable[[str], bytes]) -> None:
    index = met(with_damage(intact(codec), zeros, range(3))).frame_index
    assert index.holes[0].frame == 0
    assert "before the first frame" in "; ".join(index.anomalies)


@pytest.mark.parametrize("name", ["hevc_broken_link_mkv", "hevc_end_before_cra_ts", "hevc_drops_prior_ts"])
def test_frames_dropped_by_a_splice_are_not_a_hole(name: str, tmp_path: Path) -> None:
    decoder = VideoDecoder(media.make(name, tmp_path), on_error="raise")
    decoder.get_all_frames()
    assert decoder.frame_index.settled
    assert decoder.frame_index.holes == ()


# Frames that the codec flags


@pytest.fixture(scope="module", params=["h264", "mpeg4"])
def flagged(request: pytest.FixtureRequest, intact: Callable[[str], bytes]) -> bytes:
    return with_damage(intact(request.param), flipped, range(FIRST, FIRST + 4))


@pytest.fixture
def bad(flagged: bytes) -> list[int]:
    return [i for i, (_, is_flagged, _) in enumerate(plain_decode(flagged)) if is_flagged]


def test_keep_gives_damaged_frames_and_flags_them(flagged: bytes, bad: list[int]) -> None:
    expected = plain_decode(flagged)
    assert bad
    decoder = VideoDecoder(flagged)
    batch, messages = with_warnings(decoder.get_all_frames)
    assert [f"the codec flags {len(bad)} frame" in message for message in messages] == [True]
    assert np.array_equal(pixels_of(batch), np.stack([rgb for _, _, rgb in expected]))
    assert batch.is_damaged.dtype == torch.bool
    assert batch.is_damaged.nonzero().flatten().tolist() == bad
    assert not batch.replaced
    assert decoder.get_frame_at(bad[0]).is_damaged
    assert not decoder.get_frame_at(bad[0] - 1).is_damaged
    assert np.array_equal(decoder[bad[0]].permute(1, 2, 0).numpy(), expected[bad[0]][2])
    assert decoder.get_frames_at([bad[0], 0]).is_damaged.tolist() == [True, False]
    resampled = decoder.get_frames_played_in_range(0, decoder.metadata.end_stream_seconds, fps=RATE)  # type: ignore[arg-type]
    assert resampled.is_damaged.nonzero().flatten().tolist() == bad


def test_raise_refuses_only_damaged_frames(flagged: bytes, bad: list[int]) -> None:
    expected = plain_decode(flagged)
    for call in (
        lambda d: d[bad[0]],
        lambda d: d.get_frame_at(bad[-1]),
        lambda d: d.get_frames_at([0, bad[0]]),
        lambda d: d.get_all_frames(),
        lambda d: d.get_frame_played_at(bad[0] / RATE),
        list,
    ):
        with pytest.raises(DecodeError, match=rf"Frame ({'|'.join(map(str, bad))}) is damaged"):
            call(VideoDecoder(flagged, on_error="raise"))
    decoder = VideoDecoder(flagged, on_error="raise")
    good = [i for i in range(len(expected)) if i not in bad]
    batch = decoder.get_frames_at(good)
    assert np.array_equal(pixels_of(batch), np.stack([expected[i][2] for i in good]))


def test_reading_frame_by_frame_meets_damage_at_its_frame(flagged: bytes, bad: list[int]) -> None:
    expected = plain_decode(flagged)
    for on_error, stop in (("keep", len(expected)), ("raise", bad[0])):
        decoder = VideoDecoder(flagged, on_error=on_error)  # type: ignore[arg-type]
        for i in range(stop):
            assert np.array_equal(decoder[i].permute(1, 2, 0).numpy(), expected[i][2])
    with pytest.raises(DecodeError, match=f"Frame {bad[0]} is damaged"):
        decoder[bad[0]]


@pytest.mark.parametrize("on_error", ["skip", "nearest"])
def test_policies_list_damaged_frames(on_error: Any, flagged: bytes, bad: list[int]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", DamageWarning)
        batch = VideoDecoder(flagged, on_error=on_error).get_all_frames()
    assert [report.index for report in batch.replaced] == bad
    assert all(report.reason for report in batch.replaced)
    assert not batch.is_damaged.any()
    good = [i for i in range(NUM_FRAMES) if i not in bad]
    shown = good if on_error == "skip" else [min(good, key=lambda j, i=i: (abs(i - j), j)) for i in range(NUM_FRAMES)]
    assert torch.equal(batch.data, met(flagged).get_frames_at(shown).data)
    used = [None if on_error == "skip" else shown[i] for i in bad]
    assert [report.used_index for report in batch.replaced] == used


def test_user_table_keeps_policy_in_force(flagged: bytes, bad: list[int]) -> None:
    frames = plain_decode(flagged)
    rows = [{"pts": pts, "duration": 512, "key_frame": int(number == 0)} for number, (pts, _, _) in enumerate(frames)]
    table = json.dumps({"frames": rows})
    with pytest.warns(DamageWarning):
        batch = VideoDecoder(flagged, custom_frame_mappings=table).get_all_frames()
    assert batch.is_damaged.nonzero().flatten().tolist() == bad
    decoder = VideoDecoder(flagged, custom_frame_mappings=table, on_error="raise")
    for _ in range(2):
        with pytest.raises(DecodeError, match="is damaged"):
            decoder[bad[0]]
    for on_error in ("skip", "nearest"):
        batch = VideoDecoder(flagged, custom_frame_mappings=table, on_error=on_error).get_all_frames()
        assert [report.index for report in batch.replaced] == bad


def test_approximate_mode_obeys_the_policy(flagged: bytes, bad: list[int]) -> None:

    def decoder(on_error: Any) -> VideoDecoder:
        return VideoDecoder(flagged, seek_mode="approximate", on_error=on_error, num_ffmpeg_threads=1)

    batch, messages = with_warnings(decoder("keep").get_all_frames)
    assert len(messages) == 1
    frame, messages = with_warnings(lambda: decoder("keep").get_frame_at(bad[0]))
    assert (frame.is_damaged, messages) == (True, [])
    assert batch.is_damaged.nonzero().flatten().tolist() == bad
    with pytest.raises(DecodeError, match="is damaged"):
        decoder("raise").get_all_frames()
    assert torch.equal(decoder("raise")[bad[0] - 5], batch.data[bad[0] - 5])
    skipping = decoder("skip").get_all_frames()
    assert [report.index for report in skipping.replaced] == bad
    good = [i for i in range(len(batch)) if i not in bad]
    assert torch.equal(skipping.data, batch.data[good])
    assert torch.equal(skipping.pts_seconds, batch.pts_seconds[good])
    with pytest.raises(DecodeError, match="nothing to return"):
        decoder("skip").get_frame_at(bad[0])
    nearest = decoder("nearest").get_all_frames()
    assert [report.index for report in nearest.replaced] == bad
    for report in nearest.replaced:
        assert report.used_index in good
        assert nearest.pts_seconds[report.position] == batch.pts_seconds[report.used_index]


def test_an_intact_file_gives_no_warning_and_no_flag(intact: Callable[[str], bytes]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        decoder = VideoDecoder(intact("h264"))
        batch = decoder.get_all_frames()
        frame = decoder.get_frame_at(3)
    assert batch.is_damaged.shape == (NUM_FRAMES,)
    assert not batch.is_damaged.any()
    assert frame.is_damaged is False
    assert not decoder.frame_index.settled


def test_each_file_gets_one_warning(flagged: bytes, tmp_path: Path) -> None:
    names = ("a.mp4", "b.mp4")
    for name in names:
        (tmp_path / name).write_bytes(flagged)
    _, messages = with_warnings(lambda: [VideoDecoder(tmp_path / name).get_all_frames() for name in (*names, *names)])
    assert [name in message for name, message in zip(names, messages, strict=True)] == [True, True]


# Clips


def test_hole_between_two_clips_is_in_neither(intact: Callable[[str], bytes]) -> None:
    data = with_damage(intact("h264"), zeros, range(FIRST, FIRST + NUM_LOST))
    decoder = met(data, on_error="raise")
    length = len(decoder)
    by_index = clips_at_regular_indices(decoder, num_clips=2, num_frames_per_clip=4)
    assert by_index.data.shape[:2] == (2, 4)
    by_time = clips_at_regular_timestamps(decoder, seconds_between_clip_starts=3.0, num_frames_per_clip=4)
    assert by_time.data.shape[:2] == (2, 4)
    with pytest.raises(DecodeError, match="hole"):
        clips_at_regular_indices(decoder, num_clips=1, num_frames_per_clip=length)
    with pytest.raises(DecodeError, match="hole"):
        decoder.get_frames_at([0, length - 1])  # not the frames of clips
    reports = clips_at_regular_indices(met(data, on_error="nearest"), num_clips=3, num_frames_per_clip=40).replaced
    assert {report.position // 40 for report in reports if report.num_missing} == {1}  # from 0, 25 and 50 on


def test_flags_follow_frames_into_clips(flagged: bytes, bad: list[int]) -> None:
    clips = clips_at_random_indices(met(flagged), num_clips=2, num_frames_per_clip=NUM_FRAMES)
    assert clips.is_damaged.shape == (2, NUM_FRAMES)
    assert clips[1].is_damaged.nonzero().flatten().tolist() == bad


# The data types


def test_flags_follow_the_frames_of_a_batch() -> None:
    flags = torch.tensor([False, True, False])
    batch = FrameBatch(torch.zeros(3, 3, 4, 6), torch.arange(3), torch.ones(3), is_damaged=flags)
    assert batch[1:].is_damaged.tolist() == [True, False]
    assert batch[1].is_damaged.item() is True
    assert [bool(one.is_damaged) for one in batch] == flags.tolist()
    assert batch.to(torch.float16).is_damaged.tolist() == flags.tolist()
    assert pickle.loads(pickle.dumps(batch)).is_damaged.tolist() == flags.tolist()
    assert pickle.loads(pickle.dumps(batch[::2])).is_damaged.tolist() == [False, False]
    assert "is_damaged: tensor([False,  True, False])" in repr(batch)
    assert "is_damaged" not in repr(batch[:1])
    batch[:1].is_damaged[0] = True
    assert FrameBatch(torch.zeros(1, 3, 4, 6), [0.0], [1.0]).is_damaged.tolist() == [False]
    with pytest.raises(InvalidArgumentError, match="is_damaged"):
        FrameBatch(torch.zeros(3, 3, 4, 6), torch.arange(3), torch.ones(3), is_damaged=torch.tensor([True]))
    assert Frame(torch.zeros(3, 4, 6), 0.0, 1.0, is_damaged=True).to("cpu").is_damaged


def test_a_report_of_a_hole_moves_with_its_frame() -> None:
    report = ReplacedFrame(7, "a hole", 2, 7, num_missing=5)
    batch = FrameBatch(torch.zeros(4, 3, 4, 6), torch.arange(4), torch.ones(4), replaced=(report,))
    assert batch[1:].replaced == (replace(report, position=1),)
    assert batch[3:].replaced == ()


def test_warnings_are_remembered_within_a_limit() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for name in [*range(5000), 4999, 0]:  # 0 has been dropped
            warn_once(f"{name}.mp4 is damaged")
    assert [str(warning.message).partition(".")[0] for warning in caught] == [*map(str, range(5000)), "0"]


# Elsewhere


def test_cached_index_reports_damage_at_once(
    intact: Callable[[str], bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEDIATENSOR_INDEX_CACHE", "")
    data = with_damage(intact("h264"), zeros, range(FIRST, FIRST + NUM_LOST))
    set_index_cache(tmp_path / "indexes")
    holes = met(data).frame_index.holes
    decoder = VideoDecoder(data, on_error="raise")
    assert decoder.frame_index.holes == holes
    assert len(decoder) < NUM_FRAMES


# The command


def test_verify_names_the_damage(holed: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "holed.mp4").write_bytes(holed)
    assert main(["verify", str(tmp_path / "holed.mp4"), "--frames", "20"]) == 0
    output = capsys.readouterr()
    assert "no frame, between frames" in output.out
    assert output.err == ""


def test_other_commands_warn_in_one_line(
    flagged: bytes, bad: list[int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "flagged.mp4").write_bytes(flagged)
    folder = tmp_path / "frames"
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        assert main(["extract", str(tmp_path / "flagged.mp4"), "-o", str(folder), "--frames", f"0,{bad[0]}"]) == 0
    assert len(list(folder.iterdir())) == 2
    (line,) = (line for line in capsys.readouterr().err.splitlines() if "damaged" in line)
    assert line.startswith("mediatensor: warning: ")
    assert line.endswith("as damaged")


def test_a_check_calls_a_hole_corrupt(holed: bytes, tmp_path: Path) -> None:
    (tmp_path / "holed.mp4").write_bytes(holed)
    holes = met(holed).frame_index.holes
    (file,) = check_dataset([tmp_path / "holed.mp4"], num_workers=0).bad_files
    found = [finding for finding in file.findings if finding.kind == "corrupt" and finding.start_frame is None]
    assert all("no frame" in finding.message for finding in found)
    places = [(finding.start_seconds, finding.end_seconds) for finding in found]
    assert places[:5] == [(hole.start_seconds, hole.end_seconds) for hole in holes[:5]]


@pytest.mark.filterwarnings("ignore::mediatensor.errors.DamageWarning")
@pytest.mark.parametrize("on_error", ["keep", "skip", "nearest"])
def test_reversed_yields_each_frame_once_after_a_lost_frame(on_error: str, folder: Path, tmp_path: Path) -> None:
    whole, path = media.make("h264_b_pyramid", folder), tmp_path / "lost.mp4"
    packet = list(Demuxer(whole))[15].data
    path.write_bytes(whole.read_bytes().replace(packet, packet[:8] + bytes(len(packet) - 8)))
    expected = list(VideoDecoder(path, on_error=on_error))
    decoder = VideoDecoder(path, on_error=on_error)
    assert len(decoder) == 40, "the packets do not show that a frame is lost"
    found = list(reversed(decoder))[::-1]
    assert len(found) == len(expected) < 40
    assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))
