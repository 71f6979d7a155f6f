"""A decoder with the index of another gives the same frames without a scan, and only for the same source."""

from __future__ import annotations

import dataclasses
import json
import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import media
from mediatensor.decoders import FrameIndex, VideoDecoder
from mediatensor.errors import FrameIndexError, InvalidArgumentError


@pytest.mark.parametrize("name", ["h264_open_gop", "hevc_open_gop_ts", "h264_field_pairs_ts", "ts_concatenated", "mkv"])
@pytest.mark.parametrize("through", ["path", "text", "object"])
def test_given_index_gives_same_frames_without_a_scan(
    name: str, through: str, folder: Path, num_packets_read: Callable[[], int]
) -> None:
    video, path = media.make(name, folder), folder / f"{name}.{through}.index"
    scanning = VideoDecoder(video)
    scanning.frame_index.save(path)
    given_index: Any = {"path": path, "text": str(path), "object": FrameIndex.load(path)}[through]
    num_packets_read()
    decoder = VideoDecoder(video, frame_index=given_index)
    assert len(decoder) == len(scanning)
    assert decoder.get_all_frames().data.shape[0] == len(scanning)
    for i in (len(decoder) - 1, 3, len(decoder) // 2):
        assert torch.equal(decoder[i], scanning[i])
    copied = pickle.loads(pickle.dumps(decoder))
    num_packets_read()
    assert len(copied) == len(scanning)
    assert num_packets_read() == 0
    assert copied.frame_index.pts.tolist() == scanning.frame_index.pts.tolist()


def test_opening_with_an_index_reads_only_what_a_frame_needs(folder: Path, num_packets_read: Callable[[], int]) -> None:
    video = folder / "long.ts"
    media.write_clip(media.ClipSpec("", container="mpegts", options={"g": "10", "bf": "0"}, num_frames=200), video)
    index = VideoDecoder(video).frame_index
    num_packets_read()
    decoder = VideoDecoder(video, frame_index=index, num_ffmpeg_threads=1)
    assert (len(decoder), decoder.frame_index is index, num_packets_read()) == (200, True, 0)
    decoder[15]
    assert num_packets_read() < 60


def test_moved_and_copied_files_keep_their_index(clip: Path, clip_rgb: torch.Tensor, tmp_path: Path) -> None:
    index = VideoDecoder(clip).frame_index
    moved = Path(shutil.copy(clip, tmp_path / "other name.mp4"))
    os.utime(moved, (0, 0))
    data = moved.read_bytes()
    with moved.open("rb") as file:
        for source in (moved, data, torch.frombuffer(bytearray(data), dtype=torch.uint8), file, f"file:{moved}"):
            assert torch.equal(VideoDecoder(source, frame_index=index)[7], clip_rgb[7])


def changed_in_front(data: bytearray) -> None:
    data[data.index(b"isom")] ^= 1  # a brand that readers ignore


def changed_behind(data: bytearray) -> None:
    data[-1] ^= 1


def made_longer(data: bytearray) -> None:
    data += b"\0\0\0\x08free"


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        (changed_in_front, "first 64 KiB"),
        (changed_behind, "last 64 KiB"),
        (made_longer, r"the size \(\d+ bytes, not \d+"),
    ],
)
def test_index_of_another_file_is_refused(
    change: Callable[[bytearray], None], difference: str, folder: Path, tmp_path: Path
) -> None:
    video = folder / "large.mp4"
    media.write_clip(media.ClipSpec("", options={"qp": "1"}, num_frames=120, size=(192, 160)), video)
    assert video.stat().st_size > 1 << 17
    index = VideoDecoder(video).frame_index
    data = bytearray(video.read_bytes())
    change(data)
    (tmp_path / "changed.mp4").write_bytes(data)
    with pytest.raises(FrameIndexError, match=difference) as caught:
        VideoDecoder(tmp_path / "changed.mp4", frame_index=index)
    assert "changed.mp4" in str(caught.value)


def test_index_of_another_stream_or_header_is_refused(clip: Path, folder: Path) -> None:
    video = media.make("two_video_streams", folder)
    index = VideoDecoder(video, stream_index=0).frame_index
    with pytest.raises(FrameIndexError, match=r"the stream \(0, not 1\)"):
        VideoDecoder(video, stream_index=1, frame_index=index)
    with pytest.raises(FrameIndexError, match="the header"):
        VideoDecoder(f"file:{clip}", frame_index=index)


def test_decoded_index_is_refused_by_another_pyav_version(
    folder: Path, clip: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    video = media.make("h264_field_pairs_ts", folder)
    by_decoding, from_packets = VideoDecoder(video).frame_index, VideoDecoder(clip).frame_index
    monkeypatch.setattr("mediatensor._engine.index.index_file.PYAV_VERSION", "99.1")
    with pytest.raises(FrameIndexError, match=r"the version of PyAV \(.*, not 99.1\)"):
        VideoDecoder(video, frame_index=by_decoding)
    VideoDecoder(clip, frame_index=from_packets)


def test_index_without_source_is_refused(clip: Path) -> None:
    index = dataclasses.replace(VideoDecoder(clip).frame_index, made_from=None)
    with pytest.raises(FrameIndexError, match="not known"):
        VideoDecoder(clip, frame_index=index)


def test_index_needs_exact_mode(clip: Path) -> None:
    index = VideoDecoder(clip).frame_index
    with pytest.raises(InvalidArgumentError, match="incompatible with seek_mode='approximate'"):
        VideoDecoder(clip, frame_index=index, seek_mode="approximate")
    table = json.dumps({"frames": [{"pts": 0, "duration": 1, "key_frame": 1}]})
    with pytest.raises(InvalidArgumentError, match="incompatible with custom_frame_mappings"):
        VideoDecoder(clip, frame_index=index, custom_frame_mappings=table)


def test_index_without_frames_is_refused(clip: Path) -> None:
    index = VideoDecoder(clip).frame_index
    frameless = dataclasses.replace(
        index, **{name: getattr(index, name)[:0] for name in ("pts", "duration", "is_key", "is_damaged", "packet")}
    )
    with pytest.raises(FrameIndexError, match="no frames"):
        VideoDecoder(clip, frame_index=frameless)
