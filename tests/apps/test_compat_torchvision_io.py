"""`mediatensor.compat.torchvision_io` compared with recorded calls of torchvision, and its extensions."""

from __future__ import annotations

import builtins
import json
from pathlib import Path
from typing import Any

import pytest
import torch

import media
import media_audio
from decord_calls import differences
from mediatensor.compat import torchvision_io as io
from mediatensor.decoders import AudioDecoder, VideoDecoder
from mediatensor.errors import InvalidArgumentError, OpenError, SourceNotFoundError, StreamError
from torchvision_io_calls import CALLS, CLIP, FOLDER, LATE, UNEVEN, outcome

RECORDED: dict[str, Any] = json.loads((FOLDER / "torchvision_io.json").read_text(encoding="utf-8"))
# Deliberate differences, as on the page "Coming from torchvision.io": the tests below show our results.
DIFFERENT = {"sound", "reader changes", "reader changes back", "wrong mode"}
FAILING = [name for name, value in RECORDED.items() if "raises" in str(value) and name not in DIFFERENT]
# Tolerances in levels of 255. We round gray, torchvision truncates it.
MAX_LEVELS = {"png to gray": 1.0}


@pytest.mark.parametrize("name", sorted(set(CALLS) - set(FAILING) - DIFFERENT))
def test_results_match_torchvision(name: str) -> None:
    tolerance = {"values": MAX_LEVELS.get(name, 2e-4)}
    assert differences(outcome(io, CALLS[name]), RECORDED[name], tolerance) == []


def test_every_call_was_recorded() -> None:
    assert set(RECORDED) - set(CALLS) == {"torchvision"}
    assert set(CALLS) <= set(RECORDED)
    assert len(RECORDED) > 60
    assert set(RECORDED) >= DIFFERENT


@pytest.mark.parametrize("name", FAILING)
def test_errors_have_torchvisions_types(name: str) -> None:
    with pytest.raises(getattr(builtins, RECORDED[name]["raises"])):
        CALLS[name](io)


def test_the_audio_of_a_range_has_its_times() -> None:
    whole = AudioDecoder(CLIP).get_all_samples().data
    _, samples, info = io.read_video(CLIP, 0.25, 0.5, pts_unit="sec")
    assert info == {"video_fps": 25.0, "audio_fps": 48_000}
    assert samples.shape == (2, 12_000)
    assert torch.allclose(samples, whole[:, 12_000:24_000], atol=1e-4)
    _, samples, _ = io.read_video(CLIP, 12_800 // 4, 12_800 // 2)  # units of the video: 1/12800 second
    assert torch.allclose(samples, whole[:, 12_000:24_000], atol=1e-4)
    assert torch.equal(io.read_video(CLIP)[1], whole)
    assert io.read_video(LATE, 0, 0.1, pts_unit="sec")[1].shape[1] == 0  # the audio starts later


def test_data_that_torchvision_silently_drops(tmp_path: Path) -> None:
    with pytest.raises(SourceNotFoundError, match="nothing"):
        io.read_video("nothing.mp4")
    with pytest.raises(OpenError):
        io.read_video_timestamps(str(FOLDER / "decord.json"))
    path = media.make("damaged_packet_mpeg2_ts", tmp_path)
    whole = VideoDecoder(path, on_error="skip", dimension_order="NHWC").get_all_frames()
    with pytest.warns(UserWarning, match="Left out 1 frame of"):
        frames, _, _ = io.read_video(str(path), pts_unit="sec")
    assert torch.equal(frames, whole.data)


def test_seeking_is_exact() -> None:
    times = VideoDecoder(UNEVEN).frame_index.pts_seconds.tolist()
    reader = io.VideoReader(UNEVEN)
    for seconds in (0.0, 0.05, 0.5, 1.3, times[-1]):
        assert next(reader.seek(seconds))["pts"] == min(time for time in times if time >= seconds)
    assert next(reader.seek(99), None) is None
    sound = io.VideoReader(CLIP, "audio")
    piece = next(sound.seek(0.5))
    assert piece["pts"] == 0.5
    assert torch.allclose(piece["data"].T, AudioDecoder(CLIP).get_samples_played_in_range(0.5, 0.53).data[:, :1024])
    for seconds in (99, 1e300):
        assert next(sound.seek(seconds), None) is None
    pieces = [piece["data"] for piece in sound.seek(0)]
    whole = AudioDecoder(CLIP).get_all_samples().data
    # The second half was decoded after a pre-roll, so AAC synthesizes other noise.
    assert (torch.cat(pieces).T - whole).abs().mean() < 1e-3


def test_audio_after_a_gap_is_read_once_with_its_times(tmp_path: Path) -> None:
    path = media_audio.make("gap_pcm_mkv", tmp_path)  # after a second, time jumps by half a second
    pieces = list(io.VideoReader(path, "audio"))
    assert torch.equal(torch.cat([piece["data"] for piece in pieces]).T, AudioDecoder(path).get_all_samples().data)
    num_samples = 0
    for piece in pieces:
        seconds = num_samples / 44_100
        assert piece["pts"] == pytest.approx(seconds + 0.5 * (seconds > 1), abs=1e-3)  # Matroska rounds times
        num_samples += len(piece["data"])


def test_missing_streams() -> None:
    reader = io.VideoReader(CLIP)
    next(reader)
    assert not reader.set_current_stream("audio:1")
    assert next(reader)["pts"] == 0.04  # the position does not change
    assert reader.set_current_stream("audio")
    assert next(reader)["pts"] == 0.0
    with pytest.raises(StreamError, match="of audio streams: 0"):
        io.VideoReader(UNEVEN, "audio")
    with pytest.raises(InvalidArgumentError, match="subtitle"):
        reader.set_current_stream("subtitle")


def test_sound_and_fractions_of_frame_rates_are_written(tmp_path: Path) -> None:
    path = tmp_path / "both.mkv"
    frames, _, _ = io.read_video(CLIP, pts_unit="sec")
    tone = (0.5 * torch.sin(torch.arange(48_000) / 10))[None]
    io.write_video(
        path, frames, fps=29.97, options={"crf": "5"}, audio_array=tone, audio_fps=48_000, audio_codec="flac"
    )
    again, samples, info = io.read_video(path, pts_unit="sec")
    assert again.shape == frames.shape
    assert (again.float() - frames.float()).abs().mean() < 4
    assert info["video_fps"] == pytest.approx(29.97, abs=0.01)
    assert torch.allclose(samples, tone, atol=1e-3)
    whole_numbers = (tone * 32767).to(torch.int16)
    io.write_video(path, frames, fps=25, audio_array=whole_numbers, audio_fps=48_000, audio_codec="flac")
    assert torch.allclose(io.read_video(path)[1], tone, atol=1e-3)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("video_array", "frames"),
        ("video_array", [[0], [0, 0]]),
        ("options", 5),
        ("audio_array", "samples"),
        ("audio_fps", "fast"),
        ("audio_options", {"b": "high"}),
    ],
)
def test_arguments_that_cannot_be_written(name: str, value: Any, tmp_path: Path) -> None:
    frames, samples = torch.zeros(1, 16, 16, 3, dtype=torch.uint8), torch.zeros(1, 8000)
    arguments = {"video_array": frames, "fps": 25, "audio_array": samples, "audio_fps": 8000, name: value}
    with pytest.raises(InvalidArgumentError, match=name):
        io.write_video(tmp_path / "out.mp4", **arguments)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("forked_processes")
def test_a_time_limit_changes_nothing_else() -> None:
    frames, samples, info = io.read_video(CLIP, 0.2, 0.4, pts_unit="sec", timeout_seconds=60)
    here = io.read_video(CLIP, 0.2, 0.4, pts_unit="sec")
    assert torch.equal(frames, here[0])
    assert torch.equal(samples, here[1])
    assert info == here[2]


@pytest.mark.parametrize("start", [float("nan"), "now", float("-inf"), float("inf")])
def test_times_that_are_none(start: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="start_pts"):
        io.read_video(CLIP, start, pts_unit="sec")
