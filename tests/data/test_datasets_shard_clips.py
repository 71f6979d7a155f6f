"""Clips in shards: decoded by a plain decode, they have exactly the frames and samples of the segment of the source."""

from __future__ import annotations

import json
import tarfile
from contextlib import ExitStack
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
import torch

import media
import media_audio
from media_writing import copy_stream
from mediatensor.datasets import AudioClips, Item, VideoClips, as_items, write_shards
from mediatensor.decoders import AudioDecoder, VideoDecoder, get_container_metadata
from mediatensor.encoders import AudioEncoder, Encoder
from oracles import linear_decode_rgb

# Segments as frame indices [start, stop). A star means that packets must be copied.
CLIPS = {
    "h264_b_pyramid": "*0-40 *12-24 *12-40 12-15 13-17 39-40",  # 12-15 ends at a frame that refers to later frames
    "h264_open_gop": "*0-40 *12-40 12-24 24-27",  # 12-40 leaves out frames that are shown before frame 12
    "h264_intra_refresh": "*0-40 12-24",  # frames after the key frame refer to earlier frames
    "h264_rgb": "*12-24 13-17",
    "h264_field_pairs_ts": "0-40 13-17",
    "hevc_open_gop_mkv": "*0-40 *12-40 12-24 13-14",
    "hevc_radl": "*12-40",
    "h263p_avi": "*0-40 2-5",  # every frame is marked as a key frame
    "prores_alpha": "2-5",  # mov stores alpha by a tag that is not copied
    "vp8": "*20-40 *20-23 13-17",
    "vp9": "*20-40 39-40",  # the size is odd
    "av1": "*16-19 39-40",
    "mpeg2_ts": "*12-40 24-36",
    "vfr_mp4": "*0-40 13-17",
    "edit_list_start": "0-5 5-9",
    "rotated_90": "*0-40 13-17",
    "rotated_270_flipped": "13-17",
    "rotated_90_odd": "13-17",
    "colour_bt709_full": "3-5",
    "one_frame": "*0-1",
}


def read_clips(shard: str, folder: Path) -> list[tuple[Path, dict[str, Any]]]:
    """Return the media file and the columns of each sample of a shard."""
    with tarfile.open(shard) as archive:
        archive.extractall(folder, filter="data")
    files = sorted(path for path in folder.iterdir() if path.suffix != ".json")
    return [(path, json.loads(path.with_suffix(".json").read_text())) for path in files]


@pytest.mark.parametrize("name", CLIPS)
def test_clips_have_the_frames_of_the_source(name: str, tmp_path: Path) -> None:
    path = media.make(name, tmp_path)
    _, source = linear_decode_rgb(path)
    times = [*VideoDecoder(path).frame_index.pts_seconds.tolist(), None]
    segments = [text.lstrip("*").split("-") for text in CLIPS[name].split()]
    bounds = [(int(start), min(int(stop), len(times) - 1)) for start, stop in segments]
    items = [Item(path, start_seconds=times[start], end_seconds=times[stop]) for start, stop in bounds]
    (shard,) = write_shards(items, tmp_path / "{:03d}.tar")
    clips = read_clips(shard, tmp_path / "out")
    for (clip, columns), (start, stop), text in zip(clips, bounds, CLIPS[name].split(), strict=True):
        _, frames = linear_decode_rgb(clip)
        assert np.array_equal(frames, source[start:stop]), text
        assert columns["clip_is_copied"] == text.startswith("*"), text
        assert columns["clip_pts_seconds"] == times[start]
        shown = VideoDecoder(clip).frame_index.pts_seconds
        assert shown.tolist() == pytest.approx([time - times[start] for time in times[start:stop]], abs=1e-3), text


def test_frames_with_equal_times_are_all_in_the_segment(tmp_path: Path) -> None:
    path = media.make("equal_pts_mkv", tmp_path)
    times = VideoDecoder(path).frame_index.pts_seconds.tolist()
    first = next(i for i in range(2, len(times)) if times[i] == times[i + 1])
    rows = [{"path": str(path), "start": times[first], "end": times[first + 8]}]
    dataset = VideoClips(rows, VideoDecoder.get_all_frames)
    (shard,) = write_shards(dataset, tmp_path / "{}.tar")
    assert len(dataset[0].frames) == len(VideoClips(shard, VideoDecoder.get_all_frames)[0].frames) == 8


SECONDS = torch.arange(32_000) / 16_000
#: A tone that rises, so that each moment of the audio is different.
RISING = torch.sin(2000 * SECONDS**2) * 0.5


def write_film(path: Path, codec: str, sound: torch.Tensor = RISING) -> Path:
    """Write 2 s of video with a sound, if it has any samples."""
    encoder = Encoder()
    video = encoder.add_video(height=48, width=64, frame_rate=10, extra_options={"g": 5, "bf": 0}, codec="libx264")
    audio = encoder.add_audio(sample_rate=16_000, num_channels=1, codec=codec) if len(sound) else None
    with encoder.open_file(path):
        video.add_frames(torch.arange(0, 200, 10, dtype=torch.uint8)[:, None, None, None].expand(20, 3, 48, 64))
        if audio is not None:
            audio.add_samples(sound[None])
    return path


def packet_times(path: Path) -> set[Fraction]:
    with av.open(path) as container:
        return {packet.pts * packet.time_base for packet in container.demux(audio=0) if packet.pts is not None}


@pytest.mark.parametrize("hertz", [0, 1000])
def test_audio_that_is_alike_everywhere_is_not_shifted(hertz: int, tmp_path: Path) -> None:
    path = write_film(tmp_path / "tone.mp4", "flac", torch.sin(2 * torch.pi * hertz * SECONDS) * 0.5)
    (shard,) = write_shards([Item(path, start_seconds=0.5, end_seconds=1.5)], tmp_path / "{}.tar")
    ((clip, _),) = read_clips(shard, tmp_path / "out")
    assert {time + Fraction(1, 2) for time in packet_times(clip)} <= packet_times(path)


def join_streams(path: Path, *sources: Path) -> None:
    """Write a file with the first stream of each source."""
    with ExitStack() as opened:
        output = opened.enter_context(av.open(path, "w"))
        inputs = [opened.enter_context(av.open(source)) for source in sources]
        for packets in [copy_stream(source.streams[0], output) for source in inputs]:
            output.mux(packets)


@pytest.mark.parametrize(
    ("codec", "extension", "tolerance"),
    [
        ("flac", "mkv", 0),
        ("aac", "mp4", 0.02),
        ("libmp3lame", "avi", 0),  # times are multiples of the packet length
        ("libopus", "mkv", 1e-4),  # times are rounded to milliseconds
        ("vorbis", "mkv", 0),  # the first packet gives no samples, so the samples are stored
        ("adpcm_ima_wav", "avi", 0),  # no container of clips holds the packets
    ],
)
@pytest.mark.parametrize(("start", "stop"), [(0.5, 1.5), (0.7, 1.1), (1.9, None)])
def test_audio_stays_in_sync(
    codec: str, extension: str, tolerance: float, start: float, stop: float | None, tmp_path: Path
) -> None:
    path = tmp_path / f"film.{extension}"
    if codec == "vorbis":
        silent = write_film(tmp_path / "silent.mkv", "flac", RISING[:0])
        join_streams(path, silent, media_audio.make("vorbis_mkv", tmp_path))
    else:
        write_film(path, codec)
    (shard,) = write_shards([Item(path, start_seconds=start, end_seconds=stop)], tmp_path / "{}.tar")
    ((clip, columns),) = read_clips(shard, tmp_path / "out")
    source = AudioDecoder(path).get_all_samples()
    rate, whole = source.sample_rate, source.data
    samples = AudioDecoder(clip).get_samples_played_in_range(0, columns["clip_duration_seconds"])
    first = round((columns["clip_pts_seconds"] + samples.pts_seconds - source.pts_seconds) * rate)
    expected = whole[:, first : first + samples.data.shape[1]]
    assert samples.pts_seconds == pytest.approx(0, abs=1e-3)
    seconds = min(columns["clip_duration_seconds"], source.duration_seconds - columns["clip_pts_seconds"])
    assert samples.data.shape[1] >= (seconds - 0.07) * rate
    assert (samples.data - expected).abs().max() <= tolerance


@pytest.mark.parametrize(
    ("codec", "extension", "num_samples"), [("aac", "mp4", 0), ("aac", "mp4", 8000), ("adpcm_ima_wav", "avi", 8000)]
)
def test_clips_without_sound_have_no_audio(codec: str, extension: str, num_samples: int, tmp_path: Path) -> None:
    path = write_film(tmp_path / f"film.{extension}", codec, RISING[:num_samples])
    (shard,) = write_shards([Item(path, start_seconds=1.0, end_seconds=1.5)], tmp_path / "{}.tar")
    ((clip, columns),) = read_clips(shard, tmp_path / "out")
    assert columns["clip_is_copied"] == (extension == "mp4")
    assert [stream.media_type for stream in get_container_metadata(clip).streams] == ["video"]


@pytest.mark.parametrize(("extension", "stored"), [("wav", ".flac"), ("mp3", ".wav")])
def test_audio_segments_are_stored_without_loss(extension: str, stored: str, tmp_path: Path) -> None:
    path = tmp_path / f"tone.{extension}"
    data = torch.sin(torch.arange(32_000) ** 2 / 1e5)[None].repeat(2, 1) * 0.5
    AudioEncoder(data, sample_rate=16_000).to_file(path)
    whole = AudioDecoder(path).get_all_samples()
    dataset = AudioClips([{"path": str(path), "start": 0.25, "end": 1.0}])
    (shard,) = write_shards(dataset, tmp_path / "{}.tar")
    ((clip, columns),) = read_clips(shard, tmp_path / "out")
    assert clip.suffix == stored
    first = round((columns["clip_pts_seconds"] - whole.pts_seconds) * 16_000)
    assert torch.equal(AudioDecoder(clip).get_all_samples().data, whole.data[:, first : first + 12_000])
    assert columns["clip_pts_seconds"] == pytest.approx(0.25, abs=1 / 16_000)
    assert columns["clip_duration_seconds"] == pytest.approx(0.75)


def test_segments_of_items_without_a_video_stream_are_audio(tmp_path: Path) -> None:
    path = tmp_path / "tone.mkv"
    AudioEncoder(torch.zeros(1, 16_000), sample_rate=16_000).to_file(path)
    items = as_items([{"path": str(path), "start": 0.5}], kind="video")
    (shard,) = write_shards(items, tmp_path / "{}.tar")
    ((clip, columns),) = read_clips(shard, tmp_path / "out")
    assert (clip.suffix, columns["clip_duration_seconds"]) == (".flac", pytest.approx(0.5, abs=0.1))


@pytest.mark.filterwarnings("ignore:.* is an HDR video")
@pytest.mark.parametrize("light", ["", ":max-cll=600,400"])
def test_encoded_clips_keep_the_luminance_of_hdr(light: str, tmp_path: Path) -> None:
    parameters = "log-level=none:hdr10=1:master-display=G(13250,34500)B(7500,3000)R(34000,16000)WP(15635,16450)"
    with av.open(tmp_path / "hdr.mp4", "w") as output:
        stream: Any = output.add_stream("libx265", rate=25)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p10le"
        stream.options = {"preset": "ultrafast", "x265-params": f"{parameters}L(40000000,50){light}"}
        context = stream.codec_context
        context.color_trc, context.color_primaries, context.colorspace, context.color_range = 16, 9, 9, 1
        for number in range(4):
            levels = np.linspace(0, 65535, 64 * 48 * 3).astype(np.uint16).reshape(48, 64, 3)
            frame = av.VideoFrame.from_ndarray(levels, format="rgb48le").reformat(format="yuv420p10le")
            frame.pts, frame.color_trc, frame.color_primaries, frame.colorspace = number, 16, 9, 9
            output.mux(stream.encode(frame))
        output.mux(stream.encode(None))
    (shard,) = write_shards([Item(tmp_path / "hdr.mp4", start_seconds=0.04)], tmp_path / "{}.tar")
    ((clip, columns),) = read_clips(shard, tmp_path / "out")
    assert not columns["clip_is_copied"]
    whole, cut = (VideoDecoder(path, tone_mapping="bt2390") for path in (tmp_path / "hdr.mp4", clip))
    assert torch.equal(cut[:], whole[1:])
