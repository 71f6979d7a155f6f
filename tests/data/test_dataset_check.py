"""`check_dataset` and ``mediatensor check``: every kind of damage is found where it was planted, and nowhere else."""

from __future__ import annotations

import base64
import csv
import io
import json
import math
import re
import tarfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import av
import pytest
import torch
from torch import Tensor

import media
from checked_files import HEIGHT, RATE, WIDTH, tone, write
from lerobot_files import write_lerobot
from manifests import write_manifest
from media_writing import remux
from mediatensor.cli import main
from mediatensor.datasets import (
    AudioClips,
    CheckedFile,
    DatasetReport,
    Finding,
    VideoClips,
    VideoTextClips,
    as_items,
    check_dataset,
)
from mediatensor.decoders import VideoDecoder, decode_image
from mediatensor.encoders import AudioEncoder, VideoEncoder
from mediatensor.errors import InvalidArgumentError, StreamError, WriteError
from places import file_size_limit
from range_server import serve
from real_files import TEST_DATA
from tar_files import tar_bytes


def moving(num_frames: int, seed: int = 0) -> Tensor:
    """Frames (N, 3, H, W) of a texture that moves."""
    texture = torch.rand(3, 6, 8, generator=torch.Generator().manual_seed(seed))[None]
    large = torch.nn.functional.interpolate(texture, (HEIGHT, WIDTH), mode="bilinear")[0] * 220 + 30
    return torch.stack([large.roll(2 * number, 2) for number in range(num_frames)]).to(torch.uint8)


def kinds_of(path: Path, **options: Any) -> dict[str, Any]:
    """The findings of a file by their kind."""
    report = check_dataset([path], num_workers=0, **options)
    return {finding.kind: finding for finding in report.files[0].findings}


def cut(path: Path) -> Path:
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 7 // 10])
    return path


CLEAN = [
    "mp4",
    "mkv",
    "ts",
    "flv",
    "mp4_fragmented",
    "mkv_open_gop",
    "vp9",
    "av1",
    "mjpeg_avi",
    "edit_list_start",
    "gif",
]


def test_clean_files_are_not_accused(tmp_path: Path) -> None:
    report = check_dataset([media.make(name, tmp_path) for name in CLEAN], num_workers=0)
    kinds = {Path(file.name).stem: [finding.kind for finding in file.findings] for file in report.files}
    # They are the same pictures, in other codecs and containers, and one is larger.
    others = {name: sorted(set(found) - {"near-duplicate", "odd-size"}) for name, found in kinds.items()}
    assert {name: found for name, found in others.items() if found} == {}
    # Of packets that are half a frame each, the header counts the packets.
    assert kinds_of(media.make("h264_field_pairs_mp4", tmp_path)) == {}


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("truncated_mkv", "cut-off"),
        ("truncated_mp4_faststart", "cut-off"),
        ("damaged_packet_mpeg2_ts", "corrupt"),
        ("damaged_packet_mjpeg_avi", "corrupt"),
        ("begins_in_gop_mp4", "first-frame-not-key"),
        ("begins_in_gop_ts", "first-frame-not-key"),
        ("all_equal_pts_mkv", "repeated-times"),
    ],
)
def test_damaged_streams_follow_the_error_policy(name: str, kind: str, tmp_path: Path) -> None:
    assert kind in kinds_of(media.make(name, tmp_path))


def test_numbers_of_frames_agree_with_their_noun(tmp_path: Path) -> None:
    path = tmp_path / "clip.mkv"
    with av.open(path, "w") as file:
        stream = file.add_stream("mjpeg", rate=25, width=64, height=48, pix_fmt="yuvj420p")
        for pts in (0, 1, 2, 2, 3):
            (packet,) = stream.encode(av.VideoFrame(64, 48, "yuvj420p"))
            packet.pts = packet.dts = pts
            file.mux(packet)
    assert kinds_of(path)["repeated-times"].message == "1 frame at the same time as the previous frame"


def test_corrupt_frames_have_their_times(tmp_path: Path) -> None:
    path = media.make("damaged_packet_mpeg2_ts", tmp_path)
    truth = VideoDecoder(path, on_error="skip").get_all_frames().replaced
    times = VideoDecoder(path).frame_index.pts_seconds
    found = kinds_of(path)["corrupt"]
    assert found.start_seconds == pytest.approx(float(times[truth[0].index]))


def test_segments_have_their_own_findings(tmp_path: Path) -> None:
    path = tmp_path / "clip.mkv"
    VideoEncoder(moving(100), frame_rate=RATE).to_file(path, codec="mpeg2video", extra_options={"g": 1})
    with av.open(str(path)) as file:
        packets = [bytes(packet) for packet in file.demux() if packet.size]
    data, position = bytearray(path.read_bytes()), 0
    for number, packet in enumerate(packets):
        position = data.index(packet, position)
        if number in (3, 30, 31, 52, 54, 56, 58, 60):  # at 7 places, in the seconds 0, 1 and 2 of 4
            half = position + len(packet) // 2
            data[half : half + 60] = b"\xff" * 60
    path.write_bytes(data)
    segments = [(None, 1.0), (1.0, 1.2), (1.2, 2.0), (2.0, 3.0), (3.0, None), (None, None)]
    rows = [{"path": str(path), "start_seconds": start, "end_seconds": end} for start, end in segments]
    report = check_dataset(rows, num_workers=0)
    assert [report.is_bad(file) for file in report.files] == [True, False, True, True, False, True]
    corrupt = [[finding for finding in file.findings if finding.kind == "corrupt"] for file in report.files]
    assert [len(found) for found in corrupt] == [1, 0, 1, 4, 0, 6]
    assert "7 places in total" in corrupt[3][-1].message
    assert report.save_manifest(tmp_path / "left.csv") == 2
    left = as_items(tmp_path / "left.csv", kind="video")
    assert [(item.start_seconds, item.end_seconds) for item in left] == [(1.0, 1.2), (3.0, None)]
    assert check_dataset(tmp_path / "left.csv", num_workers=0).is_in_order
    # Findings about the whole file apply to each row.
    cut(path)
    assert check_dataset(rows, num_workers=0).num_bad == len(rows)


def test_non_media_values_are_refused(tmp_path: Path) -> None:
    text = tmp_path / "text.mp4"
    text.write_bytes(b"not a video at all" * 100)
    assert set(kinds_of(text)) == {"unreadable"}
    assert set(kinds_of(tmp_path / "missing.mp4")) == {"unreadable"}


def test_a_file_must_have_what_it_is_checked_for(tmp_path: Path) -> None:
    AudioEncoder(tone(1.0), sample_rate=8000).to_file(tmp_path / "sound.mp4")
    write(tmp_path / "pictures.mp4", moving(25))
    write(tmp_path / "both.mp4", moving(25, 1), tone(1.0))
    state = tmp_path / "state"
    kinds: tuple[tuple[Any, str, dict[str, list[str]], Any], ...] = (
        ("video", "sound.mp4", {"sound.mp4": ["no-video"]}, VideoClips),
        ("audio", "pictures.mp4", {"pictures.mp4": ["no-sound"]}, AudioClips),
    )
    for kind, bad, wanted, dataset in kinds:  # of one state file: what is kept of one kind says nothing of another
        paths = sorted(tmp_path.glob("*.mp4"))
        report = check_dataset(paths, kind=kind, num_workers=0, state_file=state)
        found = {Path(file.name).name: [finding.kind for finding in file.findings] for file in report.bad_files}
        assert found == wanted
        with pytest.raises(StreamError):
            dataset([tmp_path / bad], on_error="raise")[0]


def test_headers_of_joined_and_fragmented_files(tmp_path: Path) -> None:
    parts = [write(tmp_path / f"{num_frames}.avi", moving(num_frames)) for num_frames in (40, 30)]
    joined = tmp_path / "joined.avi"
    joined.write_bytes(b"".join(part.read_bytes() for part in parts))
    assert len(VideoDecoder(joined)) == 70
    assert "40 frames, but there are 70" in kinds_of(joined)["frame-count"].message
    fragmented = tmp_path / "fragmented.mp4"
    options = {"movflags": "frag_keyframe", "g": "10"}
    VideoEncoder(moving(40), frame_rate=25).to_file(fragmented, codec="libx264", extra_options=options)
    decoder = VideoDecoder(fragmented)
    assert (decoder.metadata.num_frames_from_header or 0) < len(decoder) == 40  # only those before the fragments
    assert "frame-count" not in kinds_of(fragmented)


def as_muxed_by_others(data: bytes) -> bytes:
    """A Matroska file of FFmpeg, as if another program had written it."""
    assert data.count(b"Lavf") >= 1
    return data.replace(b"Lavf", b"libe")


def test_matroska_headers_with_too_many_frames_are_findings(tmp_path: Path) -> None:
    path = tmp_path / "whole.mkv"
    with av.open(path, "w") as container:
        stream: Any = container.add_stream("libx264", rate=RATE)
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
        stream.metadata["NUMBER_OF_FRAMES-eng"] = "141"  # as mkvmerge counts
        for frame in moving(141):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame.permute(1, 2, 0).numpy(), "rgb24")))
        container.mux(stream.encode())
    assert kinds_of(path) == {}
    whole = path.read_bytes()
    # Its end is missing, and the segment states no size, as where a program was killed.
    size = whole.index(b"\x18\x53\x80\x67") + 4
    cluster = whole.rindex(b"\x1f\x43\xb6\x75")
    cut = tmp_path / "cut.mkv"
    cut.write_bytes(whole[:size] + b"\x01" + b"\xff" * 7 + whole[size + 8 : cluster])
    report = check_dataset([cut], num_workers=0)
    (found,) = report.bad_files[0].findings
    count = report.files[0].facts.num_frames or 0
    assert 20 < count < 140
    assert (found.kind, found.start_seconds) == ("cut-off", pytest.approx(count / RATE, abs=0.05))
    assert found.message == f"according to the header, the video ends at 5.64 s, but it ends at {count / RATE:.2f} s"
    # Counts of a program that did not copy them from elsewhere.
    fewer = write(tmp_path / "fewer.mkv", moving(48))
    counted = remux(fewer, tmp_path / "counted.mkv", metadata={"NUMBER_OF_FRAMES": "141"})
    assert kinds_of(counted) == {}  # FFmpeg copies the counts of a file to its cut parts
    counted.write_bytes(as_muxed_by_others(counted.read_bytes()))
    (found,) = kinds_of(counted).values()
    assert (found.kind, found.message) == ("frame-count", "the header states 141 frames, but there are 48")


def test_each_still_is_frozen_by_itself(tmp_path: Path) -> None:
    # Slides of five seconds, the last one with one more line; each is encoded again at a key frame every second.
    slides = torch.nn.functional.interpolate(moving(3, 5).float(), (96, 128), mode="bilinear").to(torch.uint8)
    slides[2] = slides[1]
    slides[2, :, 40:50, 30:90] = 255
    path = write(tmp_path / "slides.mp4", slides.repeat_interleave(125, 0), crf=20, extra_options={"g": 25})
    report = check_dataset([path], num_workers=0)
    first, *others = report.files[0].findings
    # The encoder refines the first one for a few frames.
    assert (first.kind, first.end_frame, (first.start_frame or 0) < 25) == ("frozen", 125, True)
    found = [(one.kind, one.start_frame, one.end_frame, one.message) for one in others]
    assert found == [("frozen", 125 * number, 125 * (number + 1), "frozen for 5.00 s") for number in (1, 2)]


def test_short_pauses_and_fades_are_not_found(tmp_path: Path) -> None:
    frames = moving(150)
    frames[20:60] = frames[20]
    frames[100:140] = 0
    assert kinds_of(write(tmp_path / "pause.mp4", frames)) == {}


def test_sparse_key_frames_are_found(tmp_path: Path) -> None:
    path = write(tmp_path / "sparse.mp4", moving(400), extra_options={"g": 400, "sc_threshold": 0})
    report = check_dataset([path], num_workers=0)
    assert set(report.counts()) == {"sparse-key-frames"}
    facts = report.files[0].facts
    assert (facts.longest_gop, facts.num_key_frames, facts.random_access_frames) == (400, 1, 200.5)
    assert facts.random_access_bytes is not None
    assert 0 < facts.random_access_bytes <= path.stat().st_size


def test_mixed_up_sample_rates_are_found(tmp_path: Path) -> None:
    found = kinds_of(write(tmp_path / "sound.mkv", moving(200), tone(8.0 * 44100 / 48000)))
    assert set(found) == {"sound-drift"}
    assert "8.13 % shorter" in found["sound-drift"].message
    assert "48 and 44.1 kHz" in found["sound-drift"].message


@pytest.mark.parametrize("name", ["empty.mkv", "empty.avi", "empty.flv"])
def test_an_empty_audio_stream_is_not_damage_of_a_video(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    with av.open(path, "w") as container:
        video: Any = container.add_stream("mpeg4" if name.endswith("avi") else "libx264", rate=RATE)
        video.width, video.height, video.pix_fmt = WIDTH, HEIGHT, "yuv420p"
        container.add_stream("aac" if name.endswith("flv") else "mp3", rate=44100).open()
        for frame in moving(30):
            container.mux(video.encode(av.VideoFrame.from_ndarray(frame.permute(1, 2, 0).numpy(), "rgb24")))
        container.mux(video.encode())
    report = check_dataset([path], num_workers=0)
    (found,) = report.files[0].findings
    assert (found.kind, found.message, report.num_bad) == ("silent", "there is an audio stream, but it is empty", 0)
    assert report.save_manifest(tmp_path / "left.csv") == 1
    report = check_dataset([path], num_workers=0, kind="audio")
    assert [found.kind for found in report.files[0].findings] == ["nothing-decodes"]


def test_damaged_sound_has_its_place(tmp_path: Path) -> None:
    path = write(tmp_path / "sound.mkv", moving(50), tone(75.0))
    data = bytearray(path.read_bytes())
    with av.open(path) as container:
        packets = [packet for packet in container.demux(audio=0) if packet.pts is not None]
        starts = [float(packet.pts * packet.time_base) for packet in packets]
        places = [data.index(bytes(packet)) for packet in packets]
    wanted = []
    for first, last in ((30, 33), (len(packets) - 40, len(packets) - 39)):
        for place in places[first:last]:
            data[place + 2 : place + 6] = bytes(4)  # the header of the frame
        wanted.append((starts[first], starts[last]))
    assert wanted[1][0] > 60
    path.write_bytes(data)
    report = check_dataset([path], num_workers=0)
    found = [one for one in report.files[0].findings if one.kind == "corrupt-sound"]
    assert len(found) == len(wanted)
    for one, (start, end) in zip(found, wanted, strict=True):
        assert one.start_seconds == pytest.approx(start, abs=0.04)
        assert one.end_seconds == pytest.approx(end, abs=0.04)


def test_undecodable_audio_is_a_finding(tmp_path: Path) -> None:
    path = tmp_path / "sound.flac"
    AudioEncoder(tone(2.0), sample_rate=8000).to_file(path)
    data = bytearray(path.read_bytes())
    for place in range(len(data) - 2):
        if data[place : place + 2] == b"\xff\xf8":  # every FLAC frame begins with this, and its header
            data[place + 2 : place + 6] = b"\xff\xff\xff\xff"
    path.write_bytes(data)
    assert set(kinds_of(path, kind="audio")) == {"nothing-decodes"}


def test_odd_files_are_found(tmp_path: Path) -> None:
    # Of 12 files all but one agree; their pictures differ, so that none is a copy.
    paths = [write(tmp_path / f"{seed:02}.mp4", moving(20, seed)) for seed in range(11)]
    tall = torch.rand(20, 3, WIDTH, HEIGHT, generator=torch.Generator().manual_seed(3)).mul(255).to(torch.uint8)
    paths.append(write(tmp_path / "odd.mp4", tall, rate=30))
    report = check_dataset(paths, num_workers=0)
    assert [Path(file.name).name for file in report.files if file.findings] == ["odd.mp4"]
    assert report.counts() == {"odd-rate": 1, "odd-size": 1}
    assert "48x64, while 11 of 12 files have 64x48" in report.to_text()
    assert check_dataset(paths[-5:], num_workers=0).counts() == {}  # of a few files none is odd


@pytest.mark.skipif(not (TEST_DATA / "media").is_dir(), reason="the real media files are not there")
def test_real_files_are_in_order() -> None:
    folder = TEST_DATA / "media"
    listed = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))["files"]
    small = [file for file in listed if file["bytes"] < 60_000]
    report = check_dataset([folder / file["file"] for file in small], num_workers=0)
    bad = {Path(file.name).name for file in report.bad_files}
    without = {
        file["file"] for file in small if all(one["type"] != "video" for one in file["facts"].get("streams", ()))
    }
    assert "rails__video_without_video_stream.mp4" in without
    assert bad == without | {file["file"] for file in small if file["expect"] != "decodes"}


@pytest.mark.usefixtures("forked_processes")
def test_checks_work_with_processes_state_and_manifest(tmp_path: Path) -> None:
    good = write(tmp_path / "good.mp4", moving(30))
    cut_off = cut(write(tmp_path / "cut.mkv", moving(30, 1)))
    manifest = tmp_path / "all.csv"
    manifest.write_text("path,label,place\ngood.mp4,run,Oslo\ncut.mkv,jump,Rome\ngood.mp4,run,Bonn\n", encoding="utf-8")
    state = tmp_path / "check.state"
    before = {path: path.read_bytes() for path in (good, cut_off, manifest)}
    report = check_dataset(manifest, num_workers=1, state_file=state)
    assert [report.is_bad(file) for file in report.files] == [False, True, False]
    assert report.save_manifest(tmp_path / "left.csv") == 2
    assert report.save_manifest(tmp_path / "left.jsonl") == 2
    for name in ("left.csv", "left.jsonl"):
        left = as_items(tmp_path / name, kind="video")
        assert [(item.label, item.extra["place"]) for item in left] == [(1, "Oslo"), (1, "Bonn")]
        assert [Path(str(item.source)) for item in left] == [good, good]
    assert {path: path.read_bytes() for path in before} == before

    # A state that was truncated by a kill: its complete part is used, and nothing is checked twice.
    lines = state.read_bytes().splitlines(keepends=True)
    assert len(lines) == 3
    forged = lines[1][9:-1].replace(b'"num_frames": 30', b'"num_frames": 31')
    state.write_bytes(lines[0] + f"{zlib.crc32(forged):08x} ".encode() + forged + b"\n" + lines[2][:40])
    again = check_dataset(manifest, num_workers=0, state_file=state)
    frames = {Path(file.name).name: file.facts.num_frames for file in again.files}
    assert sorted(frames.values(), key=str)[-1] == 31 or 31 in frames.values()
    assert [again.is_bad(file) for file in again.files] == [False, True, False]
    write(good, moving(40))  # a changed file is checked again
    changed = check_dataset(manifest, num_workers=0, state_file=state)
    assert changed.files[0].facts.num_frames == 40
    with pytest.raises(InvalidArgumentError, match="not a state file"):
        check_dataset(manifest, num_workers=0, state_file=manifest)
    assert manifest.read_bytes() == before[manifest]


def test_manifests_of_good_rows_name_the_checked_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "data"
    (folder / "subs").mkdir(parents=True)
    (folder / "subs/b.srt").write_text("1\n00:00:00,000 --> 00:00:01,000\nHello.\n")
    for number, name in enumerate(("a", "b", "original")):
        write(folder / f"{name}.mp4", moving(20, number))
    rows = [
        {"clip": "a.mp4", "path": "original.mp4", "action": "run", "label": "7", "other_path": "x", "captions": ""},
        {"clip": "b.mp4", "path": "original.mp4", "action": "jump", "label": "8", "captions": "subs/b.srt"},
        {"clip": "b.mp4", "path": "", "action": "", "label": "9", "start": "0.2"},
        {"clip": "gone.mp4", "path": "original.mp4", "action": "run", "label": "7"},
    ]
    for name in ("rows.csv", "rows.jsonl"):
        write_manifest(folder / name, rows)
        monkeypatch.chdir(folder)
        report = check_dataset(name, num_workers=0, media_column="clip", label_column="action")
        assert [report.is_bad(file) for file in report.files] == [False, False, False, True]
        monkeypatch.chdir(tmp_path)
        for left in ("left.csv", "left.jsonl"):
            monkeypatch.chdir(folder)
            assert report.save_manifest(tmp_path / left, overwrite=True) == 3
            monkeypatch.chdir(tmp_path)
            items = as_items(left, kind="video")
            assert [Path(str(item.source)) for item in items] == [folder / f"{name}.mp4" for name in "abb"]
            assert [item.label for item in items] == [1, 0, None]
            assert [item.extra["other_label"] for item in items] == ["7", "8", "9"]
            assert [item.start_seconds for item in items] == [None, None, 0.2]
            assert items[0].extra["other_other_path"] == "original.mp4"
            captions = items[1].extra["captions"]
            assert Path(captions) == folder / "subs/b.srt"


def test_tar_shards_and_bytes_are_checked(tmp_path: Path) -> None:
    good = write(tmp_path / "good.mp4", moving(30)).read_bytes()
    with tarfile.open(tmp_path / "train.tar", "w") as tar:
        for name, data in (("a.mp4", good), ("b.mp4", good[:2000])):
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    report = check_dataset(tmp_path / "train.tar", num_workers=0)
    assert [report.is_bad(file) for file in report.files] == [False, True]
    # Remaining files are named by their place in the shard.
    assert report.save_manifest(tmp_path / "left.csv") == 1
    again = check_dataset(tmp_path / "left.csv", num_workers=0)
    assert (again.files[0].name, again.num_bad) == (report.files[0].name, 0)
    assert again.files[0].facts == report.files[0].facts
    in_memory = check_dataset([good, good[:2000]], num_workers=0)
    assert in_memory.num_bad == 1
    with pytest.raises(InvalidArgumentError, match="bytes in memory"):
        in_memory.save_manifest(tmp_path / "bytes.csv")


def test_captions_in_shards_are_carried(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    film = write(tmp_path / "film.mp4", moving(50)).read_bytes()
    srt = '1\r\n00:00:00,200 --> 00:00:00,800\r\nOne, "more".\r\n\r\n2\r\n00:00:01,000 --> 00:00:01,500\r\nZwölf\r\n'
    vtt = "\ufeffWEBVTT\n\n00:01.000 --> 00:01.600\nEnd"

    def pack(name: str, members: dict[str, bytes]) -> Path:
        (tmp_path / name).write_bytes(tar_bytes(list(members.items())))
        return tmp_path / name

    members = {"a.en.srt": b"", "a.mp4": film, "a.srt": srt.encode(), "b.de.vtt": vtt.encode(), "b.mp4": film}
    shard = pack("train.tar", members | {"c.mp4": film})
    report = check_dataset(shard, num_workers=0, decode=False)
    wanted = ['One, "more".', "Zwölf", "End"]
    for source in (shard, tmp_path / "left.csv", tmp_path / "left.jsonl"):
        if source != shard:
            assert report.save_manifest(source) == 3
        assert [VideoTextClips(source)[row].label for row in range(3)] == wanted  # type: ignore[union-attr]
    for text, message in ((b"\xff\xfe\x80", "UTF-8"), (srt.encode() * 2000, "jsonl")):
        report = check_dataset(pack("odd.tar", {"a.mp4": film, "a.srt": text}), num_workers=0, decode=False)
        with pytest.raises(InvalidArgumentError, match=message):
            report.save_manifest(tmp_path / "odd.csv")
    # The report of a long check is not lost with it.
    options = ["--no-decode", "--workers", "0", "--fix", str(tmp_path / "odd.csv")]
    assert main(["check", str(tmp_path / "odd.tar"), *options]) == 2
    printed = capsys.readouterr()
    assert "1 checked: 1 in order" in printed.out
    assert "Write a .jsonl" in printed.err


@pytest.mark.parametrize("version", ["v2.1", "v3.0"])
def test_videos_and_tables_of_lerobot(version: str, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    folder = write_lerobot(tmp_path / "robot", version=version, has_still=False)
    report = check_dataset(folder, num_workers=0)
    assert report.num_bad == 0
    assert sum(file.facts.num_frames or 0 for file in report.files) == 2 * 50  # of two cameras
    # A video that lost its last frames: the file is in order, and the table is not.
    path = Path(str(report.items[0].source))
    frames = VideoDecoder(path)[:-3]
    VideoEncoder(frames, frame_rate=10).to_file(path)
    again = check_dataset(folder, num_workers=0)
    assert [file.name for file in again.bad_files] == [report.files[0].name]
    (found,) = (finding for finding in again.bad_files[0].findings if finding.kind == "frame-count")
    episodes = report.items[0].extra["episodes"]
    assert episodes == ([0] if version == "v2.1" else [0, 1])
    length = 20 if version == "v2.1" else 13
    assert found.message == f"the table has {length} frames of episode {episodes[-1]}, but the video has {length - 3}"
    assert again.good_episodes == [episode for episode in (0, 1, 2) if episode != episodes[-1]]


@pytest.mark.parametrize("damage", ["zeros", "cut", "lost", "more"])
def test_damage_of_a_shared_video_costs_the_episodes_it_lies_in(damage: str, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    folder = write_lerobot(tmp_path / "robot", lengths=(12, 21, 12, 12), has_still=False)
    path = next(folder.glob("videos/*wrist/chunk-000/file-001.mp4"))  # of episodes 1, 2 and 3
    frames = VideoDecoder(path)[:]
    assert len(frames) == 45
    if damage == "lost":  # packets of episode 2 are gone
        lost = remux(path, tmp_path / "lost.mp4", keep=lambda packet: not 2.5 <= packet.pts * packet.time_base < 2.8)
        lost.replace(path)
    elif damage == "more":  # frames that belong to no episode
        VideoEncoder(torch.cat([frames, frames[:4]]), frame_rate=10).to_file(path)
    else:
        # Headers in front, so that the file is readable without its end.
        written = remux(path, tmp_path / "front.mp4", movflags="faststart").read_bytes()
        media_starts = written.index(b"mdat") + 4
        at = media_starts + (len(written) - media_starts) * 8 // 10  # within episode 3
        path.write_bytes(written[:at] if damage == "cut" else written[:at] + bytes(300) + written[at + 300 :])
    report = check_dataset(folder, num_workers=0)
    assert [file.name for file in report.bad_files] == [str(path)]
    bad = {"zeros": [3], "cut": [3], "lost": [2], "more": []}[damage]
    assert report.good_episodes == [episode for episode in range(4) if episode not in bad]


def test_a_missing_value_of_a_table_costs_its_episode(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    folder = write_lerobot(tmp_path / "robot", has_still=False)
    path = folder / "data/chunk-000/file-000.parquet"
    table = parquet.read_table(path)
    actions = table.column("action").to_pylist()
    actions[25] = None
    parquet.write_table(table.set_column(1, "action", pa.array(actions, table.schema.field("action").type)), path)
    report = check_dataset(folder, num_workers=0)
    (found,) = report.findings
    assert (found.kind, found.episode, found.row, found.start_frame) == ("table-rows", 1, 25, 5)
    assert found.message == f"{path}: action of 1 of 13 rows is missing, or has a wrong shape"
    assert report.good_episodes == [0, 2]


def test_rows_of_parquet_are_read(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    good = write(tmp_path / "good.mp4", moving(30)).read_bytes()
    other = write(tmp_path / "other.mp4", moving(20, 1)).read_bytes()
    # Two rows of one name are two files.
    rows = [{"bytes": data, "path": name} for data, name in ((good, "a.mp4"), (good[:2000], "b.mp4"), (other, "a.mp4"))]
    parquet.write_table(pa.table({"video": rows}), tmp_path / "train.parquet")
    state = tmp_path / "state"
    report = check_dataset(tmp_path / "train.parquet", num_workers=0, state_file=state)
    assert [report.is_bad(file) for file in report.files] == [False, True, False]
    assert report.save_manifest(tmp_path / "left.jsonl") == 2
    again = check_dataset(tmp_path / "left.jsonl", num_workers=0)
    assert [file.facts.num_frames for file in again.files] == [30, 20]
    # A rewritten table is a different one, although its rows have the same names.
    parquet.write_table(pa.table({"video": rows[::-1]}), tmp_path / "train.parquet")
    turned = check_dataset(tmp_path / "train.parquet", num_workers=0, state_file=state)
    assert [file.facts.num_frames for file in turned.files] == [20, None, 30]


def test_a_file_over_the_time_limit_is_a_finding(tmp_path: Path) -> None:
    # A new process takes longer to start; a forked one may not.
    paths, state = [write(tmp_path / "a.mp4", moving(30))], tmp_path / "state"
    report = check_dataset(paths, num_workers=1, timeout_seconds=0.001, state_file=state)
    (found,) = report.files[0].findings
    assert found.kind == "unreadable"
    assert "0.001 seconds" in found.message
    # A later call checks this file again, because it may have more time.
    again = check_dataset(paths, num_workers=0, timeout_seconds=None, state_file=state)
    assert again.files[0].facts.num_frames == 30


def test_checks_work_without_decoding(tmp_path: Path) -> None:
    frames = moving(150)
    frames[20:] = 0
    path = write(tmp_path / "black.mp4", frames, tone(1.0, 1e-5))
    assert kinds_of(path, decode=False) == {}
    facts = check_dataset([path], num_workers=0, decode=False).files[0].facts
    assert (facts.num_frames, facts.width, facts.height, facts.sample_rate) == (150, WIDTH, HEIGHT, 8000)


def test_the_command_prints_findings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "videos"
    folder.mkdir()
    frames = moving(100)
    frames[20:] = frames[20]
    write(folder / "<frozen>.mp4", frames)
    write(folder / "good.mp4", moving(50, 2))
    common = ["check", str(folder), "--workers", "0"]
    assert main([*common, "--html", str(tmp_path / "report.html"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["num_files"], found["num_bad"], found["counts"]) == (2, 0, {"frozen": 1})
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "data:image/jpeg;base64," in page
    assert "&lt;frozen&gt;.mp4" in page
    assert "<frozen>" not in page
    assert "good.mp4" not in page  # nothing was found in it
    assert main([*common, "--bad", "frozen", "--fix", str(tmp_path / "good.csv")]) == 1
    assert "frozen for 3." in capsys.readouterr().out
    rows = list(csv.DictReader((tmp_path / "good.csv").open(encoding="utf-8")))
    assert [Path(row["path"]).name for row in rows] == ["good.mp4"]
    assert main([*common, "--bad", "ugly"]) == 2
    assert "--bad has 'ugly', which is not a kind of finding; give names of unreadable, " in capsys.readouterr().err


def test_the_command_names_the_kind_of_files_with_audio_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "sounds"
    folder.mkdir()
    path = folder / "tone.flac"
    AudioEncoder(tone(1.0), sample_rate=8000).to_file(path)
    assert main(["check", str(path), "--workers", "0"]) == 1
    told = capsys.readouterr().out
    assert "no-video: there is no video, but audio" in told
    assert "--kind audio" in told
    assert main(["check", str(folder), "--workers", "0"]) == 2
    assert "There are files for --kind audio." in capsys.readouterr().err
    assert main(["check", str(path), "--kind", "audio", "--workers", "0"]) == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--classes", "3"], "--classes is for data sets with labels, and "),
        (["--label-column", "x"], "--label-column is for manifests (.csv, .tsv, .jsonl, .json, .parquet), and "),
        (["--media-column", "x"], "--media-column is for manifests (.csv, .tsv, .jsonl, .json, .parquet), and "),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else None,
)
def test_the_command_refuses_options_without_effect(
    options: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "tone.wav"
    AudioEncoder(tone(1.0), sample_rate=8000).to_file(path)
    for source in ([tmp_path], [path], [path, path]):
        assert main(["check", *map(str, source), "--kind", "audio", "--workers", "0", *options]) == 2
        assert message in capsys.readouterr().err
    manifest = tmp_path / "all.csv"
    manifest.write_text("x,path\n0,tone.wav\n1,tone.wav\n", encoding="utf-8")
    common = ["check", str(manifest), "--kind", "audio", "--workers", "0"]
    assert main([*common, "--label-column", "x", "--classes", "2"]) == 0
    assert main([*common, "--media-column", "path", "--bad", "rare-label"]) == 0


@pytest.mark.filterwarnings("error:.* is an HDR video")
def test_check_shows_hdr_frames_as_sdr_without_a_warning(media_data: Callable[[str], Path], tmp_path: Path) -> None:
    path = media_data("vali__test_hevc10.mkv")
    page = tmp_path / "page.html"
    copy = tmp_path / "copy.mkv"  # only a file with a finding has an image
    copy.write_bytes(path.read_bytes())
    assert main(["check", str(path), str(copy), "--html", str(page), "--workers", "0"]) == 0
    (image,) = re.findall(r"data:image/jpeg;base64,([A-Za-z0-9+/=]+)", page.read_text(encoding="utf-8"))
    decoder = VideoDecoder(path, tone_mapping="bt2390")
    shown, frame = decode_image(base64.b64decode(image)).float(), decoder[len(decoder) // 2].float()
    assert (shown.mean((1, 2)) - frame.mean((1, 2))).abs().max() < 2


def test_names_of_files_are_printed_as_one_line() -> None:
    file = CheckedFile("a\n\x1b[2Jb.mp4", (Finding("black", "black"),))
    text = DatasetReport((file,)).to_text()
    assert "\x1b" not in text
    assert "row 0: a\N{REPLACEMENT CHARACTER}" in text


def test_text_of_a_report_names_one_frame_or_the_first_and_the_last() -> None:
    findings = tuple(Finding("black", "black", start_frame=7, end_frame=end) for end in (8, 9, None))
    lines = DatasetReport((CheckedFile("a.mp4", findings),)).to_text().splitlines()
    assert [line.strip() for line in lines if line.strip().startswith("black:")] == [
        "black: black (frame 7)", "black: black (frames 7 to 8)", "black: black (frame 7)",
    ]  # fmt: skip


def test_no_flipped_byte_of_a_state_changes_the_report(tmp_path: Path) -> None:
    paths = [write(tmp_path / f"{name}.mp4", moving(12, number)) for number, name in enumerate("ab")]
    state = tmp_path / "state"
    report = check_dataset(paths, num_workers=0, state_file=state)
    whole = state.read_bytes()
    second = whole.index(b"\n") + 1
    for at in [
        second + 3,
        whole.index(b"picture_signature") + 20,
        whole.index(b"digest") + 12,
        *range(second, len(whole), 97),
    ]:
        damaged = bytearray(whole)
        damaged[at] ^= 1
        state.write_bytes(damaged)
        assert check_dataset(paths, num_workers=0, state_file=state) == report
    # States of versions with other rules are begun again.
    state.write_bytes(b'{"mediatensor check": 2}\n' + b'{"key": "x", "file": {}}\n')
    assert check_dataset(paths, num_workers=0, state_file=state) == report
    assert state.read_bytes().count(b"\n") == 3
    state.write_bytes(b"X" + whole[1:])
    with pytest.raises(InvalidArgumentError, match="not a state file"):
        check_dataset(paths, num_workers=0, state_file=state)


def test_changed_file_that_is_given_as_a_url_is_checked_again(tmp_path: Path) -> None:
    path, state = tmp_path / "a.mp4", tmp_path / "state"
    for count in (12, 14):
        write(path, moving(count))
        report = check_dataset([path.as_uri()], decode=False, num_workers=0, state_file=state)
        assert report.files[0].facts.num_frames == count


def test_remote_file_is_checked_again_only_if_it_has_changed(tmp_path: Path) -> None:
    path, state = tmp_path / "a.mp4", tmp_path / "state"
    with serve(tmp_path) as server:

        def check() -> tuple[int | None, int]:
            """Return the number of frames, and the number of requests."""
            server.reset()
            report = check_dataset([f"{server.url}/a.mp4"], decode=False, num_workers=0, state_file=state)
            return report.files[0].facts.num_frames, len(server.requests)

        write(path, moving(12))
        num_frames, num_requests = check()
        assert num_frames == 12
        assert num_requests > 1
        assert check() == (12, 1)
        write(path, moving(14))
        assert check() == (14, num_requests)
        server.fault = "other tag"
        assert check() == (14, num_requests)
        assert check() == (14, 1)


def test_file_of_another_file_system_is_checked_again_if_it_has_changed(tmp_path: Path) -> None:
    memory = pytest.importorskip("fsspec").filesystem("memory")
    state = tmp_path / "state"
    for num_results, count in ((1, 12), (2, 14)):
        memory.pipe_file("/checked.mp4", write(tmp_path / "a.mp4", moving(count)).read_bytes())
        for _ in range(2):
            report = check_dataset(["memory://checked.mp4"], decode=False, num_workers=0, state_file=state)
            assert report.files[0].facts.num_frames == count
        _, *results = state.read_text().splitlines()
        assert len(results) == num_results
    memory.rm("/checked.mp4")


@pytest.mark.slow
def test_worker_processes_check_media_in_a_remote_table(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    rows = [{"video": write(tmp_path / f"{number}.mp4", moving(4, number)).read_bytes()} for number in (1, 2)]
    write_manifest(tmp_path / "rows.parquet", rows)
    with serve(tmp_path) as server:
        report = check_dataset(f"{server.url}/rows.parquet", decode=False, num_workers=1)
    assert [file.facts.num_frames for file in report.files] == [4, 4]
    assert report.num_bad == 0


def test_state_whose_path_no_file_can_have_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(WriteError, match="null byte"):
        check_dataset([write(tmp_path / "a.mp4", moving(4))], num_workers=0, state_file="\0")


@pytest.mark.parametrize("num_bytes", [10, 40, 600])
def test_state_that_cannot_be_written_is_named(tmp_path: Path, num_bytes: int) -> None:
    path = write(tmp_path / "a.mp4", moving(4))
    with file_size_limit(num_bytes), pytest.raises(WriteError, match="state"):
        check_dataset([path], num_workers=0, state_file=tmp_path / "state")


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "image"},
        {"bad_kinds": ["ugly"]},
        {"num_workers": -1},
        {"timeout_seconds": 0},
        {"timeout_seconds": math.inf},
    ],
)
def test_wrong_arguments_are_refused(change: dict[str, Any], tmp_path: Path) -> None:
    call: Callable[..., Any] = check_dataset
    with pytest.raises(InvalidArgumentError):
        call([tmp_path / "a.mp4"], **({"num_workers": 0} | change))
