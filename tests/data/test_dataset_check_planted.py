"""`check_dataset` finds every kind of damage where it was planted, says how bad it is, and accuses no other."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import pytest
import torch
from torch import Tensor

from checked_files import HEIGHT, RATE, WIDTH, tone, write
from lerobot_files import write_lerobot
from manifests import write_manifest
from mediatensor.datasets import FINDING_KINDS, DatasetReport, LeRobotClips, VideoClips, check_dataset
from mediatensor.decoders import VideoDecoder
from mediatensor.encoders import VideoEncoder
from mediatensor.frames import FrameBatch

NUM_FRAMES = 100


def scene(num_frames: int, seed: int, *, height: int = HEIGHT, width: int = WIDTH) -> Tensor:
    """Frames (N, 3, H, W) of a smooth texture that moves by two pixels a frame, with a little noise."""
    generator = torch.Generator().manual_seed(seed)
    texture = torch.rand(1, 3, 6, 8, generator=generator)
    large = torch.nn.functional.interpolate(texture, (height, width), mode="bicubic")[0].clamp(0, 1) * 200 + 30
    frames = torch.stack([large.roll(2 * number, 2) for number in range(num_frames)])
    return (frames + 2 * torch.randn(frames.shape, generator=generator)).clamp(0, 255).to(torch.uint8)


def retime(path: Path, kind: str, change: Any) -> None:
    """Give the packets of the video or the sound of a Matroska file other times, in seconds."""
    old = path.rename(path.with_suffix(".old"))
    with av.open(str(old)) as source, av.open(str(path), "w") as target:
        streams = {stream.index: target.add_stream_from_template(stream) for stream in source.streams}
        for packet in source.demux():
            if packet.pts is None:
                continue
            if packet.stream.type == kind:
                base = packet.time_base or Fraction(1, 1000)
                shift = round(change(float(packet.pts * base)) / base) - packet.pts
                packet.pts += shift
                packet.dts = packet.pts if packet.dts is None else packet.dts + shift
            packet.stream = streams[packet.stream.index]
            target.mux(packet)
    old.unlink()


def patch(path: Path, name: bytes, offset: int, data: bytes) -> None:
    content = bytearray(path.read_bytes())
    at = content.index(name) + offset
    content[at : at + len(data)] = data
    path.write_bytes(content)


def repeated(frames: Tensor, numbers: list[int]) -> Tensor:
    """Repeat the previous frame at some numbers; the scene continues after it."""
    frames = frames.clone()
    for number in numbers:
        frames[number] = frames[number - 1]
    return frames


def plant(folder: Path) -> dict[str, set[str]]:
    """Write a dataset with every kind of damage in files and rows; return the findings of each row."""
    rows: list[dict[str, Any]] = []
    truth: dict[str, set[str]] = {}

    def add(name: str, *kinds: str, **columns: Any) -> Path:
        number = len(rows)
        rows.append({"path": name, "label": number % 3, **columns})
        truth[f"{number} {name}"] = set(kinds)
        return folder / name

    def frames(num_frames: int = NUM_FRAMES) -> Tensor:
        return scene(num_frames, seed=len(rows))

    sound = tone(NUM_FRAMES / RATE)
    for number in range(8):
        add(f"clean{number}.mkv")
        write(folder / f"clean{number}.mkv", frames(), sound)
    slow = frames() // 40 + 100  # hardly any motion: encoded frames repeat, and nothing is wrong
    write(add("slow.mkv"), slow, sound)
    write(add("pause.mkv"), torch.cat([frames(50), frames(50)[49:].expand(30, -1, -1, -1), frames(20)]), sound)

    still = scene(200, seed=100)  # pause.mkv has the seed of its row, so that both would share a part
    still[20:95], still[100:160] = still[20], 0
    write(add("still.mkv", "frozen", "black"), still, tone(8.0))
    write(add("dropped.mkv", "dropped-frames"), repeated(frames(), [20, 33, 50, 51, 78]), sound)
    inserted = frames().repeat_interleave(torch.tensor([1, 1, 1, 2] * 25), 0)[:NUM_FRAMES]
    write(add("inserted.mkv", "repeated-frames"), inserted, sound)
    pts = torch.arange(60) / RATE
    pts[30:] += 1.6
    batch = FrameBatch(frames(60), pts, torch.full((60,), 1 / RATE))
    path = add("gap.mkv", "gap", "variable-rate", "odd-rate", "odd-sound", "odd-codec")
    VideoEncoder(batch).to_file(path, codec="libx264", preset="ultrafast")
    path = write(add("sparse.mkv", "sparse-key-frames"), frames(350), tone(14.0), extra_options={"g": 400})

    write(add("silent.mkv", "silent"), frames(), 0 * sound)
    write(add("clipped.mkv", "clipped"), frames(), (6 * sound).clamp(-1, 1))
    write(add("short_sound.mkv", "sound-length"), frames(), tone(2.9))
    # Sound of 48 kHz taken for 44.1 kHz: longer by 8.8 %.
    write(add("rates_mixed_up.mkv", "sound-drift"), frames(200), tone(8.0 * 48000 / 44100))
    path = write(add("sound_lags.mkv", "sound-drift"), frames(), tone(3.9))
    retime(path, "audio", lambda seconds: 1.05 * seconds)
    path = write(add("picture_lags.mkv", "sound-drift", "odd-rate"), frames(), sound)
    retime(path, "video", lambda seconds: 1.05 * seconds)
    path = write(add("sound_gap.mkv", "sound-gap"), frames(), tone(3.6))
    retime(path, "audio", lambda seconds: seconds + 0.4 * (seconds > 2))

    original = write(add("original.mkv"), frames(), sound)
    (folder / "copy.mkv").write_bytes(original.read_bytes())
    add("copy.mkv", "duplicate", "two-labels")
    rows[-1]["label"] = (rows[-2]["label"] + 1) % 3
    larger = torch.nn.functional.interpolate(scene(NUM_FRAMES, 3).float(), scale_factor=2, mode="bilinear")
    write(add("again.mkv", "near-duplicate", "odd-size"), larger.to(torch.uint8), sound, crf=28)

    write(add("codec.mkv", "odd-codec"), frames(), sound, codec="mpeg4", preset=None)
    write(add("faster.mkv", "odd-rate"), frames(120), sound, rate=30)
    write(add("stereo.mkv", "odd-sound"), frames(), tone(4.0, num_channels=2))
    path = write(add("turned.mp4", "odd-rotation"), frames(), sound)
    minus = (0xFFFF0000).to_bytes(4, "big")
    patch(path, b"tkhd", 44, minus + bytes(12) + minus)  # the matrix of half a turn

    path = write(add("cut.mkv", "cut-off"), frames(), sound)
    path.write_bytes(path.read_bytes()[:-3000])
    (add("text.mkv", "unreadable")).write_text("not a video\n" * 100, encoding="utf-8")
    path = write(add("promised.avi", "frame-count", "odd-codec", "odd-sound"), frames(), None)
    patch(path, b"strh", 8 + 32, (150).to_bytes(4, "little"))  # dwLength

    for name, kinds, columns in (
        ("negative", {"wrong-label"}, {"label": -1}),
        ("beyond", {"wrong-label"}, {"label": 7}),
        ("unlabelled", {"missing-label"}, {"label": ""}),
        ("single", {"rare-label"}, {"label": 4}),
        ("late", {"segment-outside"}, {"start": 9.0, "end": 12.0}),
        ("long", {"segment-cut"}, {"start": 1.0, "end": 12.0}),
        ("stated", {"table-facts"}, {"num_frames": 250}),
        ("front", set(), {"camera": "front", "episode": 1}),
        ("side", {"camera-drift", "odd-rate"}, {"camera": "side", "episode": 1}),
    ):
        path = add(f"{name}.mkv", *kinds, **columns)
        frame_rate = Fraction(RATE * 29, 30) if name == "side" else RATE
        write(path, frames(), sound, rate=frame_rate)
    write_manifest(folder / "all.csv", rows)
    return truth


def json_advice(report: DatasetReport) -> list[str]:
    return [finding["advice"] for file in report.to_json()["files"] for finding in file["findings"]]


def found_in(report: DatasetReport) -> dict[str, set[str]]:
    return {
        f"{row} {Path(file.name).name}": {finding.kind for finding in file.findings}
        for row, file in enumerate(report.files)
    }


# Planted in the other tests, here and in test_dataset_check.py.
ELSEWHERE = {
    "nothing-decodes", "no-video", "no-sound", "corrupt", "corrupt-sound", "repeated-times", "first-frame-not-key",
    "table-rows", "table-times", "label-gap",
}  # fmt: skip

#: Seconds and frames of planted findings, [first, last).
PLACES = {
    "frozen": (0.8, 3.8, 20, 95),
    "black": (4.0, 6.4, 100, 160),
    "dropped-frames": (0.8, 3.16, 20, 79),
    "gap": (29 / RATE, 30 / RATE + 1.6, 29, 31),
    "sound-length": (2.9, 4.0, None, None),
    "sound-gap": (2.0, 2.4, None, None),
    "segment-cut": (4.0, 12.0, None, None),
}


def test_every_kind_is_found_where_it_was_planted(tmp_path: Path) -> None:
    truth = plant(tmp_path)
    report = check_dataset(tmp_path / "all.csv", num_workers=0, num_classes=6)
    assert found_in(report) == truth
    assert set.union(*truth.values(), ELSEWHERE) == set(FINDING_KINDS)
    assert [finding.kind for finding in report.findings] == ["label-gap"]
    assert "no row has the label 3, 5" in report.findings[0].message
    assert report.label_counts == {"-1": 1, "0": 13, "1": 13, "2": 11, "4": 1, "7": 1}

    found = {finding.kind: finding for file in report.files for finding in file.findings}
    for kind, (start, end, first, last) in PLACES.items():
        # The encoder refines a frozen picture at first; a packet of sound is 0.07 s long.
        slack = 0.3 if kind == "frozen" else 0.08
        assert (found[kind].start_seconds, found[kind].end_seconds) == pytest.approx((start, end), abs=slack)
        assert found[kind].end_frame == last
        assert first is None or first <= (found[kind].start_frame or 0) <= first + slack * RATE
    assert "150 frames, but there are 100" in found["frame-count"].message
    assert "frames 20, 33, 50, 51, 78" in found["dropped-frames"].message
    assert "(one in 5 frames), the video has about 20 frames/s" in found["repeated-frames"].message
    drifts = [finding.message for file in report.files for finding in file.findings if finding.kind == "sound-drift"]
    assert "8.84 % longer than the video" in drifts[0]
    assert "48 and 44.1 kHz" in drifts[0]
    assert "samples come 4.9" in drifts[1]
    assert "4.7" in drifts[2]
    assert "0.14 s longer" in found["camera-drift"].message

    # Each file is as bad as its worst planted finding, and so is the exit code.
    worst = ["bad", "look", "note", None]
    for (name, kinds), file in zip(truth.items(), report.files, strict=True):
        severities = [FINDING_KINDS[kind].severity for kind in kinds]
        assert report.severity_of(file) == min(severities, key=worst.index, default=None), name
    assert {FINDING_KINDS[kind].advice for kind in found} <= set(json_advice(report))
    assert not report.is_in_order

    # The remaining rows load, and have no bad findings.
    left = report.num_files - report.num_bad
    for name in ("left.csv", "left.jsonl"):
        assert report.save_manifest(tmp_path / name) == left
    again = check_dataset(tmp_path / "left.csv", num_workers=0, num_classes=6)
    assert (again.num_files, again.num_bad, again.is_in_order) == (left, 0, True)
    clips = VideoClips(tmp_path / "left.jsonl", num_frames_per_clip=2)
    assert clips[0].frames.data.shape[-2:] == (HEIGHT, WIDTH)

    page = report.to_html()
    assert page.count("<article") == sum(bool(kinds) for kinds in truth.values())
    assert "http" not in page.replace("</", "")


@pytest.mark.parametrize("version", ["v2.1", "v3.0"])
def test_cameras_and_tables_of_lerobot_are_checked(version: str, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    import pyarrow as pa
    from pyarrow import parquet

    folder = write_lerobot(tmp_path / "robot", version=version, has_still=False)
    clean = check_dataset(folder, num_workers=0)
    assert (clean.is_in_order, clean.findings, clean.counts()) == (True, (), {})
    assert clean.good_episodes == [0, 1, 2]

    # The last episode of a camera runs at 9.9 frames/s, where the table has 10.
    path = next(Path(str(item.source)) for item in clean.items if item.extra["episodes"] == [2])
    frames = VideoDecoder(path)[:]
    assert len(frames) == 17
    VideoEncoder(frames.data, frame_rate=Fraction(99, 10)).to_file(path)
    table = sorted((folder / "data").rglob("*.parquet"))[0 if version == "v3.0" else 1]
    rows = parquet.read_table(table)
    columns = {name: rows.column(name).to_pylist() for name in rows.column_names}
    first = columns["episode_index"].index(1)
    columns["timestamp"][first + 3] += 0.02
    columns["action"][first + 5] = [float("nan"), 0.0]
    columns["index"][first + 6] += 1
    columns["task_index"][first + 7] = 9
    parquet.write_table(pa.table(columns, rows.schema), table)

    report = check_dataset(folder, num_workers=0)
    found = [(finding.kind, finding.episode, finding.row, finding.start_frame) for finding in report.findings]
    assert sorted(found) == [("table-rows", 1, 20 + frame, frame) for frame in (3, 5, 6, 7)]
    assert sorted(finding.message.split(": ")[1].split()[0] for finding in report.findings) == [
        "action",
        "index",
        "task_index",
        "timestamp",
    ]
    (bad,) = report.bad_files
    late, drift = bad.findings
    assert (late.kind, late.episode, late.row, late.start_frame) == ("table-times", 2, 34, 1)
    assert late.message.startswith("16 of 17 rows")  # all but the first
    assert drift.kind == "camera-drift"
    assert "9.9 frames/s, but the table has 10: they are 0.016 s apart" in drift.message  # 16 / 9.9 - 1.6
    assert not report.is_in_order
    assert report.good_episodes == [0]
    assert sum(1 for _ in LeRobotClips(folder, episodes=report.good_episodes, on_error="raise")) == 20
    with pytest.raises(Exception, match="tolerance_s"):
        LeRobotClips(folder, episodes=[2], on_error="raise")[9]


CODECS = {
    "h264.mp4": {"codec": "libx264", "preset": "veryfast", "crf": 28},
    "mpeg4.avi": {"codec": "mpeg4", "preset": None},
    "mjpeg.mkv": {"codec": "mjpeg", "preset": None},
    "vp9.webm": {"codec": "libvpx-vp9", "preset": None, "extra_options": {"deadline": "realtime", "cpu-used": 8}},
}


@pytest.mark.parametrize("name", CODECS)
def test_repeated_frames_are_found_in_every_codec(name: str, tmp_path: Path) -> None:
    moving = scene(120, seed=5, height=96, width=128)
    lost = [13, 27, 28, 44, 71, 90, 101]
    on_twos = moving[:60].repeat_interleave(2, 0)
    # As when 24 frames/s become 30, with a repeat after each four.
    pulled_up = moving.repeat_interleave(torch.tensor([1, 1, 1, 2] * 30), 0)[:120]
    # A still filmed by hand: no motion in the scene, and noise.
    shaky = (moving[:1].float() + 2 * torch.randn(120, 1, 96, 128)).clamp(0, 255).to(torch.uint8)
    wanted = {
        "moving": (moving, set()),
        "lost": (repeated(moving, lost), {"dropped-frames"}),
        "on_twos": (on_twos, {"repeated-frames"}),
        "pulled_up": (pulled_up, {"repeated-frames"}),
        "shaky": (shaky, set()),
    }
    paths = []
    for kind, (frames, _) in wanted.items():
        paths.append(write(tmp_path / f"{kind}_{name}", frames, None, **CODECS[name]))
    report = check_dataset(paths, num_workers=0)
    known = {"dropped-frames", "repeated-frames"}
    found = [{finding.kind for finding in file.findings} & known for file in report.files]
    assert found == [kinds for _, kinds in wanted.values()]
    message = next(finding.message for finding in report.files[1].findings if finding.kind in known)
    assert int(message.split()[0]) in (len(lost), len(lost) - 1), message  # coarse codecs blur one of them
