"""``mediatensor extract``: images, sound and subtitles against the decoder, and against the ffmpeg program."""

from __future__ import annotations

import io
import os
import re
import time
import wave
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image

import media
import media_subtitles
import places
import wav_files
from audio_oracles import ffmpeg_samples
from mediatensor._engine.common.messages import forget_warnings
from mediatensor.cli import main
from mediatensor.decoders import AudioDecoder, FrameIndex, SubtitleDecoder, VideoDecoder
from mediatensor.encoders import PngEncoder
from mediatensor.errors import DecodeError


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return media_subtitles.write_mkv_with_everything(tmp_path_factory.mktemp("extract") / "everything.mkv")


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def index_of(name: str) -> int:
    match = re.fullmatch(r".*_(\d+)_-?[\d.]+s\.(png|jpg)", name)
    assert match is not None
    return int(match[1])


def samples_of(path: Path) -> tuple[NDArray[np.int16], int]:
    """(samples of shape (N, channels), rate) by Python's own reader."""
    with wave.open(str(path), "rb") as file:
        assert file.getsampwidth() == 2
        data = np.frombuffer(file.readframes(file.getnframes()), "<i2").reshape(-1, file.getnchannels())
        return data, file.getframerate()


def test_every_frame_is_that_of_a_linear_decode(
    clip: Path, clip_rgb: torch.Tensor, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "new" / "frames"
    assert main(["extract", str(clip), "-o", str(folder)]) == 0
    assert capsys.readouterr().out == f"wrote {len(clip_rgb)} images to {folder}{os.sep}\n"
    found = names(folder)
    assert [index_of(name) for name in found] == list(range(len(clip_rgb)))
    for name, rgb in zip(found, clip_rgb, strict=True):
        assert np.array_equal(np.asarray(Image.open(folder / name)), rgb.permute(1, 2, 0).numpy())


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        # 40 frames of 25 a second, in groups of any kind.
        (["--frames", "7,0,-1,7"], [0, 7, 39]),
        (["--every", "0.5"], [0, 12, 25, 37]),
        (["--fps", "2"], [0, 12, 25, 37]),
        (["--fps", "100", "--stop", "0.1"], [0, 1, 2]),
        (["--every", "0.2", "--start", "0.1", "--stop", "0.7"], [2, 7, 12]),
        (["--start", "1.5"], [37, 38, 39]),
        (["--start", "0.5", "--stop", "0:00.6"], [12, 13, 14]),
        (["--every", "100"], [0]),
    ],
    ids=lambda value: " ".join(map(str, value)),
)
def test_which_frames(options: list[str], expected: list[int], clip: Path, tmp_path: Path) -> None:
    assert main(["extract", str(clip), "-o", str(tmp_path), *options]) == 0
    assert [index_of(name) for name in names(tmp_path)] == expected


def test_as_many_frames_as_the_decoder_gives_at_a_rate(tmp_path: Path) -> None:
    path = media.make("vfr_mkv", tmp_path)
    assert main(["extract", str(path), "-o", str(tmp_path / "out"), "--fps", "10"]) == 0
    with VideoDecoder(path) as decoder:
        index = decoder.frame_index
        begin, end = index.begin_seconds, index.end_seconds
        times = [begin + k / 10 for k in range(1000) if begin + k / 10 < end]
        played = [max(i for i, pts in enumerate(index.pts_seconds.tolist()) if pts <= at) for at in times]
    assert [index_of(name) for name in names(tmp_path / "out")] == sorted(set(played))


def test_jpeg_and_size(clip: Path, tmp_path: Path) -> None:
    options = ["--images", "jpg", "--size", "48x32", "--frames", "3"]
    assert main(["extract", str(clip), "-o", str(tmp_path), *options]) == 0
    (name,) = names(tmp_path)
    picture = Image.open(tmp_path / name)
    assert (picture.format, picture.size) == ("JPEG", (48, 32))


# FFV1 conceals damage with earlier frames, VP8 with the contents of its memory.
TOLD = sorted(name for name in set(media.DAMAGED_CLIPS) - media.LEFT_TO_MEMORY if "ffv1" not in name)


@pytest.mark.parametrize("name", TOLD[::6])
def test_damaged_files(name: str, tmp_path: Path) -> None:
    path, folder = media.make(name, tmp_path), tmp_path / "out"
    assert main(["extract", str(path), "-o", str(folder)]) == 0
    with VideoDecoder(path) as decoder:
        decoder.get_all_frames()  # now it knows which frames there are
        expected = dict(enumerate(decoder))
    written = {index_of(entry): folder / entry for entry in names(folder)}
    assert sorted(written) == sorted(expected)
    for index, picture in written.items():
        assert np.array_equal(np.asarray(Image.open(picture)), expected[index].permute(1, 2, 0).numpy())


def test_warnings_are_one_line_in_the_words_of_the_command(
    media_data: Callable[[str], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    forget_warnings()
    video = str(media_data("vali__test_hevc10.mkv"))
    assert main(["extract", video, "--frames", "0", "-o", str(tmp_path)]) == 0
    told = capsys.readouterr().err
    assert told.startswith(f"mediatensor: warning: {video} is an HDR video")
    assert told.count("\n") == 1
    assert "metadata." not in told
    assert "In Python, VideoDecoder converts them to SDR with tone_mapping='bt2390'. The ffmpeg program " in told


def test_frames_that_do_not_decode_are_left_out_and_told(
    everything: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    frame, frames = VideoDecoder.get_frame_at, VideoDecoder.get_frames_at

    def refuse(self: VideoDecoder, index: int) -> Any:
        if index in (3, 17):
            raise DecodeError("damaged")
        return frame(self, index)

    def refuse_some(self: VideoDecoder, indices: Any) -> Any:
        if {3, 17} & set(indices):
            raise DecodeError("damaged")
        return frames(self, indices)

    monkeypatch.setattr(VideoDecoder, "get_frame_at", refuse)
    monkeypatch.setattr(VideoDecoder, "get_frames_at", refuse_some)
    assert main(["extract", str(everything), "-o", str(tmp_path), "--images", "png", "--audio"]) == 2
    assert [index_of(name) for name in names(tmp_path)[1:]] == [i for i in range(20) if i not in (3, 17)]
    assert names(tmp_path)[0] == "everything.wav"
    told = capsys.readouterr()
    reason = f"2 frames of 20 did not decode and are missing in {str(tmp_path)!r}: 3, 17."
    assert told.err == f"mediatensor: error: {everything}: {reason}\n"


def find_other_frames(other: FrameIndex, clip: Path, call: int, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """As damage that the packets do not show: at a call, the decoder finds frames at other times. Return the calls."""
    indices, calls, original = [VideoDecoder(clip).frame_index], list[Any](), VideoDecoder.get_frames_at

    def correct(self: VideoDecoder, numbers: Any) -> Any:
        calls.append(numbers)
        if len(calls) == call:
            indices[0] = other
        return original(self, numbers)

    monkeypatch.setattr(VideoDecoder, "frame_index", property(lambda self: indices[0]))
    monkeypatch.setattr(VideoDecoder, "get_frames_at", correct)
    return calls


def test_frames_that_turn_out_to_be_others(clip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = VideoDecoder(media.make("vfr_mkv", tmp_path)).frame_index
    calls = find_other_frames(other, clip, 2, monkeypatch)
    assert main(["extract", str(clip), "-o", str(tmp_path / "out"), "--fps", "25"]) == 0
    assert len(calls) > 2
    times = other.pts_seconds.tolist()
    grid = [other.begin_seconds + k / 25 for k in range(1000) if other.begin_seconds + k / 25 < other.end_seconds]
    played = sorted(set(other.frames_played_at(grid).tolist()))
    expected = [f"{clip.stem}_{index:06d}_{times[index]:.3f}s.png" for index in played]
    assert names(tmp_path / "out") == sorted(expected)


def test_standard_output_gets_a_frame_whose_time_turns_out_to_be_another(
    clip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    other = VideoDecoder(media.make("vfr_mkv", tmp_path)).frame_index
    find_other_frames(other, clip, 1, monkeypatch)
    assert main(["extract", str(clip), "-o", "-", "--frames", "7"]) == 0
    with Image.open(io.BytesIO(capfdbinary.readouterr().out)) as picture:
        assert np.array_equal(np.asarray(picture), VideoDecoder(clip, dimension_order="NHWC")[7].numpy())


def test_every_stream_that_does_not_decode_is_reported(
    everything: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(self: object, *arguments: Any) -> Any:
        raise DecodeError("The audio is damaged.")

    for owner, method in (
        (VideoDecoder, "get_frame_at"),
        (VideoDecoder, "get_frames_at"),
        (AudioDecoder, "get_samples_played_in_range"),
    ):
        monkeypatch.setattr(owner, method, refuse)
    assert main(["extract", str(everything), "-o", str(tmp_path), "--frames", "0", "--audio", "--subtitles"]) == 2
    assert names(tmp_path) == ["everything.srt"]
    reason = f"1 frame of 1 did not decode and is missing in {str(tmp_path)!r}: 0. The audio is damaged."
    assert capsys.readouterr().err == f"mediatensor: error: {everything}: {reason}\n"


@pytest.mark.parametrize(
    ("name", "num_padded", "tolerance"),
    [
        ("whisper__jfk.flac", 0, 0.5),  # of more than 16 bits, rounded to the nearest step
        ("metadata-extractor-images__100_0306.AVI", 0, 0),
        ("exoplayer__video_desks.3gp", 1024, 2),
    ],
)
def test_sound_is_that_of_the_program(
    name: str,
    num_padded: int,
    tolerance: float,
    media_data: Callable[[str], Path],
    ffmpeg_program: str,
    tmp_path: Path,
) -> None:
    assert main(["extract", str(media_data(name)), "-o", str(tmp_path), "--audio"]) == 0
    (file,) = names(tmp_path)
    found, rate = samples_of(tmp_path / file)
    expected, expected_rate = ffmpeg_samples(ffmpeg_program, media_data(name))
    assert (rate, found.shape[1]) == (expected_rate, len(expected))
    assert abs(len(found) - expected.shape[1]) <= num_padded
    common = min(len(found), expected.shape[1])
    assert np.abs(found[:common] - 32768.0 * expected.T[:common]).max() <= tolerance


@pytest.mark.slow
def test_sound_of_half_an_hour_is_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # More than is in memory at a time: 64 MiB of floats.
    source = tmp_path / "long.wav"
    samples = np.resize(np.arange(-20_000, 20_000, 7, dtype=np.int16), 2200 * 8000)
    source.write_bytes(wav_files.riff(wav_files.fmt(1, 16), wav_files.chunk(b"data", samples.tobytes())))
    assert main(["extract", str(source), "-o", str(tmp_path / "out"), "--audio"]) == 0
    assert capsys.readouterr().out.endswith("long.wav: 2200 s, 8000 Hz, 1 channel\n")
    found, rate = samples_of(tmp_path / "out" / "long.wav")
    assert rate == 8000
    assert np.array_equal(found[:, 0], samples)


def test_sound_of_a_range_resampled(everything: Path, tmp_path: Path) -> None:
    options = ["--start", "0.5", "--stop", "1.25", "--sample-rate", "16000", "--num-channels", "2"]
    assert main(["extract", str(everything), "-o", str(tmp_path), "--audio", *options]) == 0
    found, rate = samples_of(tmp_path / "everything.wav")
    expected = AudioDecoder(everything, sample_rate=16_000, num_channels=2).get_samples_played_in_range(0.5, 1.25)
    assert (rate, found.shape) == (16_000, (12_000, 2))
    assert np.array_equal(found, (expected.data.t().numpy() * 32768).round().clip(-32768, 32767))


def test_subtitles(everything: Path, tmp_path: Path) -> None:
    assert main(["extract", str(everything), "-o", str(tmp_path), "--subtitles", "--subtitle-stream", "3"]) == 0
    assert names(tmp_path) == ["everything.srt"], "no images"
    assert (tmp_path / "everything.srt").read_bytes() == b"1\n00:00:00,750 --> 00:00:01,500\nUn\n"


def test_subtitles_read_back_are_the_same(tmp_path: Path) -> None:
    source = tmp_path / "talk.vtt"
    source.write_text(media_subtitles.WEBVTT, encoding="utf-8")
    assert main(["extract", str(source), "-o", str(tmp_path / "out"), "--subtitles"]) == 0
    again = SubtitleDecoder(tmp_path / "out" / "talk.srt")
    found = [(subtitle.start_seconds, subtitle.end_seconds, subtitle.text) for subtitle in again]
    assert found == media_subtitles.WEBVTT_EXPECTED
    options = ["-o", str(tmp_path / "part"), "--subtitles", "--start", "3", "--stop", "10"]
    assert main(["extract", str(source), *options]) == 0
    assert [subtitle.text for subtitle in SubtitleDecoder(tmp_path / "part" / "talk.srt")] == ["Yellow karaoke"]


def test_subtitles_escape_what_players_take_for_markup_or_times(tmp_path: Path) -> None:
    source = tmp_path / "code.vtt"
    text = "&lt;i&gt;a 00:00:09.000 --&gt; 00:00:10.000\n{\\an8}b"
    source.write_text(f"WEBVTT\n\n00:01.000 --> 00:02.000\n{text}\n", encoding="utf-8")
    assert main(["extract", str(source), "-o", str(tmp_path / "out"), "--subtitles"]) == 0
    written = (tmp_path / "out" / "code.srt").read_text(encoding="utf-8")
    assert written.count("-->") == 1
    (again,) = SubtitleDecoder(tmp_path / "out" / "code.srt")
    (before,) = SubtitleDecoder(source)
    assert again.text.replace("\u2060", "") == before.text
    assert before.text.startswith("<i>a 00:00:09.000 -->")


def test_subtitles_of_another_encoding(tmp_path: Path) -> None:
    source = tmp_path / "latin.srt"
    source.write_bytes("1\n00:00:01,000 --> 00:00:02,000\nGrüße\n".encode("latin-1"))
    options = ["-o", str(tmp_path / "out"), "--subtitles"]
    assert main(["extract", str(source), *options]) == 2
    assert not (tmp_path / "out").exists()
    assert main(["extract", str(source), *options, "--encoding", "latin-1"]) == 0
    assert "Grüße" in (tmp_path / "out" / "latin.srt").read_text(encoding="utf-8")


def test_all_kinds_at_once(everything: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--audio", "--subtitles", "--frames", "0"]
    assert main(["extract", str(everything), "-o", str(tmp_path), *options]) == 0
    assert names(tmp_path) == ["everything.srt", "everything.wav", "everything_000000_0.000s.png"]
    assert capsys.readouterr().out.count("wrote ") == 3


def test_nothing_is_replaced_without_overwrite(clip: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = f"{clip.stem}_000001_0.040s.png"
    (tmp_path / name).write_text("precious")
    options = ["-o", str(tmp_path), "--frames", "0,1,2"]
    assert main(["extract", str(clip), *options]) == 2
    assert names(tmp_path) == [name]
    assert (tmp_path / name).read_text() == "precious"
    assert "--overwrite" in capsys.readouterr().err
    assert main(["extract", str(clip), *options, "--overwrite"]) == 0
    assert len(names(tmp_path)) == 3
    assert Image.open(tmp_path / name).size == (96, 64)


def test_the_file_that_is_read_is_never_replaced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "talk.srt"
    source.write_text(media_subtitles.SUBRIP, encoding="utf-8")
    assert main(["extract", str(source), "-o", str(tmp_path), "--subtitles", "--overwrite"]) == 2
    assert source.read_text(encoding="utf-8") == media_subtitles.SUBRIP
    assert "is a file that is read" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--frames", "40"], "There is no frame 40: the video has 40 frames."),
        (["--frames", "-41"], "There is no frame -41"),
        (["--start", "9"], "There is nothing from 9 s"),
        (["--start", "1", "--stop", "0.5"], "must be before --stop"),
        (["--frames", "1", "--start", "1"], "does not go with --start"),
        (["--sample-rate", "8000"], "go with --audio"),
        (["--encoding", "latin-1"], "go with --subtitles"),
        (["--every", "1e-9"], "less often"),
        (["--audio"], "audio"),
        (["--subtitles"], "no stream of subtitles"),
        (["--stream", "5"], "not a valid stream"),
        (["--images", "png", "--audio"], "audio"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_done_leaves_nothing(
    options: list[str], message: str, clip: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["extract", str(clip), "-o", str(tmp_path / "out"), *options]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("mediatensor: error: ")
    assert message in told.err
    assert not (tmp_path / "out").exists()


def test_an_output_that_is_a_file(clip: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "out").touch()
    assert main(["extract", str(clip), "-o", str(tmp_path / "out")]) == 2
    assert "is a file, not a folder" in capsys.readouterr().err
    path = tmp_path / "frames.png"
    assert main(["extract", str(clip), "-o", str(path)]) == 2
    message = f"-o must be a folder (got '{path}'): use -o FOLDER --images png, or -o - for standard output."
    assert message in capsys.readouterr().err
    assert not path.exists()


@places.needs_fork
def test_control_c_leaves_no_half_file(tmp_path: Path) -> None:
    path, folder = tmp_path / "long.wav", tmp_path / "out"
    data = wav_files.chunk(b"data", bytes(2 * 8000 * 3600))  # long enough to be met midway
    path.write_bytes(wav_files.riff(wav_files.fmt(1, 16), data))
    original = wave.Wave_write.writeframesraw

    def extract(may_be_interrupted: Callable[[], object]) -> None:
        def write_slowly(self: wave.Wave_write, data: bytes) -> None:
            original(self, data)
            may_be_interrupted()
            time.sleep(60)

        wave.Wave_write.writeframesraw = write_slowly  # type: ignore[method-assign, assignment]
        if main(["extract", str(path), "-o", str(folder), "--audio"]) == 130:
            raise KeyboardInterrupt

    places.interrupted(tmp_path, extract, 0.1)
    assert not folder.exists()


@pytest.mark.parametrize(
    ("options", "name"),
    [(["--frames", "3"], None), (["--audio"], "everything.wav"), (["--subtitles"], "everything.srt")],
)
def test_one_file_to_standard_output(
    options: list[str],
    name: str | None,
    everything: Path,
    tmp_path: Path,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    assert main(["extract", str(everything), "-o", str(tmp_path), *options]) == 0
    capfdbinary.readouterr()
    assert main(["extract", str(everything), "-o", "-", *options]) == 0
    written = tmp_path / (name or names(tmp_path)[0])
    assert capfdbinary.readouterr().out == written.read_bytes()


def test_several_files_do_not_go_to_standard_output(
    everything: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert main(["extract", str(everything), "-o", "-", "--fps", "1", "--audio"]) == 2
    captured = capfdbinary.readouterr()
    assert captured.out == b""
    assert b"Standard output takes one file" in captured.err


def test_interruption_says_what_is_written(
    everything: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    original, written = PngEncoder.to_file, []

    def interrupt(self: PngEncoder, path: Path) -> None:
        if len(written) >= 2:
            raise KeyboardInterrupt
        written.append(path)
        original(self, path)

    monkeypatch.setattr(PngEncoder, "to_file", interrupt)
    assert main(["extract", str(everything), "-o", str(tmp_path)]) == 130
    written_names = names(tmp_path)
    assert f"interrupted; {len(written_names)} of 20 files are in" in capsys.readouterr().err
    for name in written_names:
        Image.open(tmp_path / name).load()  # it is whole
