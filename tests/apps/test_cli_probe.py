"""``mediatensor probe``: its report, as text and as JSON."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import media
import media_audio
import media_subtitles
from encoder_oracles import probe as ffprobe
from mediatensor._engine.pyav.reading import VideoReader
from mediatensor.cli import main
from mediatensor.decoders import AudioDecoder, VideoDecoder
from mediatensor.errors import DecodeError, MediaTensorError, OutOfRangeError

VIDEO_KEYS = [
    "stream_index", "codec", "profile", "pixel_format", "width", "height", "stored_width", "stored_height",
    "display_width", "display_height", "pixel_aspect_ratio", "rotation", "color_primaries", "color_transfer",
    "color_space", "color_range", "scanned", "num_frames", "average_fps", "is_constant_frame_rate",
    "min_frame_step_seconds", "max_frame_step_seconds", "num_key_frames", "gop_length_min", "gop_length_median",
    "gop_length_max", "begin_seconds", "end_seconds", "duration_seconds", "anomalies",
]  # fmt: skip

AUDIO_KEYS = [
    "stream_index", "codec", "profile", "sample_rate", "num_channels", "channel_layout", "sample_format", "bit_rate",
    "language", "begin_seconds", "duration_seconds",
]  # fmt: skip

SUBTITLE_KEYS = [
    "stream_index", "codec", "language", "is_text", "scanned", "num_subtitles", "begin_seconds", "end_seconds",
    "anomalies",
]  # fmt: skip


def probe_json(path: Path, capsys: pytest.CaptureFixture[str], *options: str, code: int = 0) -> dict[str, Any]:
    assert main(["probe", str(path), "--json", *options]) == code
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_json_of_subtitles_and_chapters(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = media_subtitles.write_mkv_with_everything(tmp_path / "everything.mkv")
    found = probe_json(path, capsys)
    subtitles = found["subtitles"]
    assert list(subtitles) == SUBTITLE_KEYS
    assert (subtitles["stream_index"], subtitles["codec"], subtitles["is_text"]) == (2, "subrip", True)
    assert (subtitles["language"], subtitles["num_subtitles"]) == ("deu", 2)
    assert (subtitles["begin_seconds"], subtitles["end_seconds"]) == (0.5, 1.75)
    assert found["tags"]["title"] == "Lesson"
    assert found["chapters"] == [
        {"start_seconds": 0.0, "end_seconds": 1.0, "title": "Opening", "tags": {"title": "Opening"}},
        {"start_seconds": 1.0, "end_seconds": 2.0, "title": "Gr\u00fc\u00dfe", "tags": {"title": "Gr\u00fc\u00dfe"}},
    ]
    assert [stream["language"] for stream in found["streams"]] == [None, "eng", "deu", "fra"]
    assert probe_json(path, capsys, "--stream", "3")["subtitles"]["language"] == "fra"
    assert probe_json(path, capsys, "--no-scan")["subtitles"]["num_subtitles"] is None


def test_subtitles_that_cannot_be_read_are_an_anomaly(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "latin.srt"
    path.write_bytes("1\n00:00:01,000 --> 00:00:02,000\nGr\u00fc\u00dfe\n".encode("latin-1"))
    found = probe_json(path, capsys)
    assert (found["error"], found["subtitles"]["num_subtitles"]) == (None, None)
    assert "not in the encoding utf-8" in found["subtitles"]["anomalies"][0]


def test_json_of_a_clip_written_by_known_rules(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = media.CLIPS["h264_b_pyramid"]  # a key frame every 12 frames
    found = probe_json(media.make("h264_b_pyramid", tmp_path), capsys)
    video = found["video"]
    assert list(found) == [
        "file", "file_size_bytes", "container", "duration_seconds", "bit_rate", "tags", "chapters", "streams",
        "video", "audio", "subtitles", "error",
    ]  # fmt: skip
    assert list(video) == VIDEO_KEYS
    assert found["file_size_bytes"] == (tmp_path / "h264_b_pyramid.mp4").stat().st_size
    assert found["error"] is None
    assert (video["codec"], video["pixel_format"], video["scanned"]) == ("h264", "yuv420p", True)
    assert (video["width"], video["height"]) == (video["display_width"], video["display_height"]) == spec.size
    assert video["num_frames"] == spec.num_frames
    assert video["average_fps"] == pytest.approx(spec.rate)
    assert video["is_constant_frame_rate"] is True
    assert video["num_key_frames"] == 4
    assert (video["gop_length_min"], video["gop_length_median"], video["gop_length_max"]) == (4, 12, 12)
    assert video["duration_seconds"] == pytest.approx(spec.num_frames / spec.rate)
    assert video["anomalies"] == []


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("mkv", {"is_constant_frame_rate": True}),
        ("vfr_mkv", {"is_constant_frame_rate": False}),
        ("rotated_90", {"width": 64, "height": 96, "stored_width": 96, "stored_height": 64}),
        ("sample_aspect_ratio", {"pixel_aspect_ratio": "4/3", "width": 96, "display_width": 128, "display_height": 64}),
        ("colour_bt709_full", {"color_space": "bt709", "color_range": "pc"}),
        ("mjpeg_avi", {"color_range": "pc", "gop_length_max": 1}),
        ("late_start_mp4", {"begin_seconds": 8.0}),
        ("vp9_hidden_frames", {"num_frames": 60}),
    ],
)
def test_json_of_special_clips(
    name: str, expected: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    video = probe_json(media.make(name, tmp_path), capsys)["video"]
    assert {key: video[key] for key in expected} == expected


def test_headers_only_opens_no_decoder(
    clip: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(VideoReader, "__init__", lambda self, *_, **__: pytest.fail("a decoder was opened"))
    video = probe_json(clip, capsys, "--no-scan")["video"]
    assert (video["scanned"], video["num_frames"], video["num_key_frames"]) == (False, 40, None)
    assert video["stored_width"] == 96


@pytest.mark.parametrize("name", media.CLIPS)
def test_video_is_what_a_decoder_says(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = media.make(name, tmp_path)
    main(["probe", str(path), "--json"])
    found = json.loads(capsys.readouterr().out)
    try:
        # One thread, which reads no more packets than a frame needs: later damage affects neither.
        with VideoDecoder(path, num_ffmpeg_threads=1) as decoder:
            assert len(decoder)  # of the whole stream, and not of its first frames
            with suppress(DecodeError, OutOfRangeError):
                decoder.get_frame_at(0)
            metadata, index = decoder.metadata, decoder.frame_index
    except MediaTensorError:
        assert found["video"] is None
        return
    video = found["video"]
    assert video is not None, found["error"]
    assert (video["width"], video["height"]) == (metadata.width, metadata.height)
    assert (video["num_frames"], video["num_key_frames"]) == (len(index), len(index.key_frame_indices))
    assert (video["rotation"], video["average_fps"]) == (metadata.rotation, metadata.average_fps)
    span = (metadata.begin_stream_seconds, metadata.end_stream_seconds)
    assert (video["begin_seconds"], video["end_seconds"]) == span
    assert video["anomalies"][: len(index.anomalies)] == list(index.anomalies)


def test_probing_needs_no_torch(clip: Path) -> None:
    program = (
        "import sys; from mediatensor.cli import main; main(['probe', sys.argv[1]]); sys.exit('torch' in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", program, str(clip)], capture_output=True, text=True, check=False)
    assert result.returncode == 0
    assert "40" in result.stdout


def test_stream_is_chosen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = media.make("two_video_streams", tmp_path)
    both = [probe_json(path, capsys, "--stream", str(index))["video"] for index in (0, 1)]
    assert [video["stream_index"] for video in both] == [0, 1]
    assert both[0]["width"] != both[1]["width"]
    found = probe_json(media.make("audio_beside_video", tmp_path), capsys, "--stream", "0")
    assert [stream["media_type"] for stream in found["streams"]] == ["audio", "video"]
    assert (found["audio"]["stream_index"], found["video"]["stream_index"]) == (0, 1)


def test_stream_that_is_not_there(clip: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = probe_json(clip, capsys, "--stream", "7", code=2)
    assert (found["video"], found["audio"]) == (None, None)
    assert "Stream 7 is not a video, audio or subtitle stream of this file (0 video)." in found["error"]


def test_audio_alone_is_no_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = media.make("audio_only", tmp_path)
    found = probe_json(path, capsys)
    assert (found["video"], found["error"]) == (None, None)
    assert found["streams"][0]["sample_rate"] == found["audio"]["sample_rate"] > 0
    assert list(found["audio"]) == AUDIO_KEYS
    assert main(["probe", str(path)]) == 0
    text = capsys.readouterr().out
    assert "no video stream\n\naudio stream 0\n  codec " in text


@pytest.mark.parametrize(
    "name",
    [
        "androidx-media__opus-5.1.mka", "androidx-media__bear-vbr-xing-header.mp3", "whisper__jfk.flac",
        "mux.js__sintel-captions.ts", "exoplayer__video_desks.3gp", "winui-gallery__ladybug.wmv",
    ],
)  # fmt: skip
def test_audio_is_that_of_ffprobe(
    name: str, media_data: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    path = media_data(name)
    told, _ = ffprobe(path, "a:0")
    audio = probe_json(path, capsys, "--no-scan")["audio"]
    assert audio["stream_index"] == told["index"]
    assert audio["codec"] == told["codec_name"]
    assert audio["sample_rate"] == int(told["sample_rate"])
    assert (audio["num_channels"], audio["channel_layout"]) == (told["channels"], told["channel_layout"])
    assert audio["sample_format"] == told["sample_fmt"]
    assert audio["begin_seconds"] == pytest.approx(float(told["start_time"]), abs=0.01)


def test_video_that_does_not_decode_still_shows_its_streams(
    media_data: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    path = media_data("mp4parse-rust__short-cenc.mp4")  # encrypted
    assert main(["probe", str(path)]) == 2
    captured = capsys.readouterr()
    assert "* 0" not in captured.out
    assert "0  video  h264" in captured.out
    assert captured.err.startswith("mediatensor: error: ")


@pytest.mark.parametrize(
    "name", ["decord__corrupted.mp4", "androidx-media__sample.avi", "file-type__fixture2.mpg", "vali__test_hevc10.mkv"]
)
def test_frame_count_is_that_of_ffprobe(
    name: str, media_data: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    path = media_data(name)
    told, _ = ffprobe(path, options=["-count_frames"])
    assert probe_json(path, capsys)["video"]["num_frames"] == int(told["nb_read_frames"])


def test_no_file_gives_a_traceback(media_data: Callable[[str], Path], capsys: pytest.CaptureFixture[str]) -> None:
    folder = media_data("README.md").parent
    codes = {path.name: main(["probe", str(path)]) for path in sorted(folder.iterdir())}
    assert set(codes.values()) == {0, 2}
    assert codes["README.md"] == codes["file-type__fixture-corrupt.mkv"] == codes["mp4ff__init-video.mp4"] == 2
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize("name", ["flac", "opus_ogg", "vorbis_ogg", "wavpack_s16"])
def test_audio_joined_from_several_files_has_its_whole_length(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    part = media_audio.make(name, tmp_path)
    joined = tmp_path / f"joined{part.suffix}"
    joined.write_bytes(3 * part.read_bytes())
    expected = AudioDecoder(joined).get_all_samples().duration_seconds
    audio = probe_json(joined, capsys)["audio"]
    assert audio["duration_seconds"] == pytest.approx(expected, abs=0.1)
    header = probe_json(joined, capsys, "--no-scan")["audio"]
    assert header["duration_seconds"] < 0.5 * expected


def test_an_empty_name_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["probe", ""]) == 2
    told = capsys.readouterr().err
    assert told == "mediatensor: error: Could not open input file: the name '' is empty; give a path or a URL.\n"
