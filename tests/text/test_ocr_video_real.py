"""Real videos, whole and damaged: texts lie within their times according to PyAV."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import av
import numpy as np
import pytest

from mediatensor.errors import MediaTensorError
from mediatensor.ocr import video_text_predictor
from mediatensor.ocr.models.video_predictor import VideoTextPredictor
from ocr_onnx_sessions import require_weights
from real_files import TEST_DATA

_MEDIA = TEST_DATA / "media"
_OTHERS = {".md", ".json", ".gz", ".mp3", ".flac", ".mka"}
# These take more than two seconds.
_LONG = (
    "androidx-media__bbb_800x640_768kbps_30fps_avc_non_reference_3b.mp4",
    "megatron-energon__sync_test.mp4",
    "rails__video_with_undefined_display_aspect_ratio.mp4",
    "streamio-ffmpeg__awesome-movie.mov",
    "vali__test_hevc10.mkv",
)
_FILES = sorted(path for path in _MEDIA.glob("*.*") if path.suffix not in _OTHERS) if _MEDIA.is_dir() else []

pytestmark = [
    pytest.mark.skipif(not _FILES, reason="the real media files are not here"),
    pytest.mark.filterwarnings("ignore:.* is an HDR video"),
]


@pytest.fixture(scope="module")
def predictor() -> VideoTextPredictor:
    require_weights()
    return video_text_predictor(pretrained=True)


def times_of_pictures(path: Path) -> list[float | None]:
    """Return the times of frames in seconds, by a plain decode that skips undecodable packets."""
    times: list[float | None] = []
    try:
        with av.open(str(path), metadata_errors="ignore") as source:
            for packet in source.demux(source.streams.video[:1]) if source.streams.video else ():
                with suppress(av.FFmpegError):
                    times += [picture.time for picture in packet.decode()]
    except av.FFmpegError:
        pass
    return times


def num_subtitles(path: Path) -> int:
    with av.open(str(path)) as source:
        return sum(packet.size > 0 for packet in source.demux(subtitles=0))


@pytest.mark.parametrize(
    # The short run takes every fourth file.
    "path",
    [
        pytest.param(path, id=path.name, marks=[pytest.mark.slow] * (n % 4 != 0 or path.name in _LONG))
        for n, path in enumerate(_FILES)
    ],
)
def test_texts_lie_within_the_video(path: Path, predictor: VideoTextPredictor, tmp_path: Path) -> None:
    pictures = times_of_pictures(path)
    if not pictures:
        with pytest.raises(MediaTensorError):
            predictor(path)
        return
    reading = predictor(path)
    # A plain decode may or may not return frames without references, at the start and around an edit.
    assert reading.num_frames == pytest.approx(len(pictures), abs=max(2, 0.05 * len(pictures)))
    # An elementary stream has no times; generated times start with zero.
    times = sorted(time for time in pictures if time is not None) or [0.0, reading.end_seconds]
    for track in reading.tracks:
        assert track.text.strip()
        assert 0 <= track.first_frame <= track.last_frame < reading.num_frames
        assert times[0] - 1e-3 <= track.start_seconds < track.end_seconds
        assert track.end_seconds <= times[-1] + 1
        # It begins when some picture is shown.
        assert np.abs(np.array(times) - track.start_seconds).min() < 1e-3
    reading.save(tmp_path / "captions.srt")
    if reading.captions:
        assert num_subtitles(tmp_path / "captions.srt") == len(reading.captions)
    else:
        assert (tmp_path / "captions.srt").read_text() == ""
