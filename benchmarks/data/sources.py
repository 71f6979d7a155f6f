"""Rows of the same clips from many kinds of sources: ``python -m benchmarks.data.sources [--quick] [-o FOLDER]``.

The same videos are stored in a folder, in a tar shard, in Parquet files (plain and packed), in Lance datasets (blobs
and bytes), in a Hugging Face dataset, and in a LeRobot dataset. lerobot reads the latter as well, if ``--python`` has
it. Each way reads the same number of random rows of two neighbouring frames in a new process with one thread; in each
round the ways take turns.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from mediatensor.decoders import VideoDecoder
from mediatensor.encoders import VideoEncoder

from ..shared.machine import machine_stamp, package_versions
from ..shared.options import add_folders, check_counts
from ..shared.panels import Bar, Panel, draw_panels
from ..shared.reports import fact_list, markdown_table, say, write_report
from ..shared.workers import WorkerProcess, single_threaded

_CAMERA = "observation.images.top"
_FPS = 30
_GROUP = 2  # as LeRobot encodes: a key frame every other frame
_CLIP = 2
_WIDTH, _HEIGHT = 640, 480


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line, write the sources, measure, report."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.data.sources", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smoke test: two short videos and one round")
    parser.add_argument("--rows", type=int, help="rows of a run (default: 200)")
    parser.add_argument("--repeats", type=int, help="rounds (default: 3)")
    parser.add_argument("--python", metavar="PROGRAM", help="a Python that has lerobot")
    add_folders(parser)
    options = parser.parse_args(arguments)
    check_counts(parser, options, "rows", "repeats")
    num_videos, num_frames = (2, 30) if options.quick else (8, 120)
    num_rows, repeats = options.rows or (5 if options.quick else 200), options.repeats or (1 if options.quick else 3)
    folder = options.clips / f"sources-{num_videos}-{num_frames}"
    ways = _write(folder, num_videos, num_frames)
    notes = [] if options.python else ["lerobot was not measured: --python names a Python that has it."]
    if options.python:
        ways["LeRobot, by lerobot"] = {**ways["LeRobot"], "way": "lerobot"}
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in ways}
    shuffled = random.Random(0)
    for repeat in range(repeats):
        for name in shuffled.sample(sorted(found), len(found)):
            say(f"round {repeat + 1}: {name}")
            places = random.Random(repeat)
            request = {**ways[name], "rows": [places.random() for _ in range(num_rows)], "clip": _CLIP}
            request["rows_per_file"] = num_frames
            try:
                found[name].append(_run(request, options.python))
            except subprocess.CalledProcessError as error:
                notes.append(f"{name}: failed ({error.stderr.strip().splitlines()[-1:]})")
                del found[name]
    rows = [
        {"source": name, **{key: _median(runs, key) for key in runs[0]}, "runs": runs}
        for name, runs in found.items()
        if runs
    ]
    stamp = (
        machine_stamp()
        | package_versions("torch", "av", "pyarrow", "pylance", "datasets")
        | {"runs": f"{repeats} of {num_rows} rows"}
    )
    stamp["videos"] = (
        f"{num_videos} of {num_frames} frames, {_WIDTH}x{_HEIGHT}, H.264, a key frame every {_GROUP} frames"
    )
    text = _markdown(stamp, rows, notes)
    document = {"machine": stamp, "rows": rows, "notes": notes}
    write_report(options.output, "sources", document, text, partial(_draw, rows))


def _median(runs: list[dict[str, Any]], key: str) -> float | None:
    values = [run[key] for run in runs if run[key] is not None]
    return statistics.median(values) if values else None


def _run(request: dict[str, Any], python: str | None) -> dict[str, Any]:
    """Measure in a new process with one thread."""
    program = python if request["way"] == "lerobot" and python else sys.executable
    environment = {
        **single_threaded(),
        "MEDIATENSOR_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
        "HF_DATASETS_OFFLINE": "1",
        "HF_DATASETS_CACHE": str(Path(request["source"]).parent / "hugging-face"),
    }
    if program != sys.executable:
        environment["PYTHONPATH"] = ""
    with WorkerProcess("benchmarks.data.sources_worker", python=program, environment=environment) as worker:
        return worker.ask("measure", request=request)


# The sources


def _write(folder: Path, num_videos: int, num_frames: int) -> dict[str, dict[str, Any]]:
    """Return the ways to read the sources; write missing sources."""
    videos = [folder / "videos" / f"{number:03d}.mp4" for number in range(num_videos)]
    if not (folder / "done").exists():
        (folder / "videos").mkdir(parents=True, exist_ok=True)
        for number, path in enumerate(videos):
            _write_video(path, range(number * num_frames, (number + 1) * num_frames))
        with tarfile.open(folder / "shard.tar", "w") as shard:
            for path in videos:
                shard.add(path, path.name)
        _write_columns(folder, videos)
        _write_lerobot(folder / "lerobot", num_videos, num_frames)
        (folder / "done").touch()
    if not (folder / "tables").exists():
        _write_tables(folder, videos)
        (folder / "tables").touch()
    ours = {"way": "mediatensor", "fps": None}
    return {
        "folder": {**ours, "source": str(folder / "videos")},
        "tar": {**ours, "source": str(folder / "shard.tar")},
        "Parquet, plain": {**ours, "source": str(folder / "plain.parquet")},
        "Parquet, snappy": {**ours, "source": str(folder / "snappy.parquet")},
        "Lance, blobs": {**ours, "source": str(folder / "blobs.lance")},
        "Lance, bytes": {**ours, "source": str(folder / "bytes.lance")},
        "Hugging Face": {**ours, "source": str(folder / "rows.hf")},
        "LeRobot": {**ours, "source": str(folder / "lerobot"), "fps": _FPS},
    }


def _write_video(path: Path, numbers: Sequence[int]) -> None:
    """Generate a moving pattern with camera noise."""
    base = np.add.outer(np.arange(_HEIGHT) // 2, np.arange(_WIDTH) // 2).astype(np.uint8)
    noise = np.random.default_rng(0).integers(0, 9, (_HEIGHT + 16, _WIDTH + 16), dtype=np.uint8)
    frames = np.empty((len(numbers), _HEIGHT, _WIDTH, 3), np.uint8)
    for frame, number in zip(frames, numbers, strict=True):
        moved = base + noise[number % 16 :, number * 7 % 16 :][:_HEIGHT, :_WIDTH]  # bytes, which wrap around
        for channel in range(3):
            frame[..., channel] = moved + np.uint8((2 * channel + 3) * number % 256)
    options = {"g": _GROUP, "bf": 0}
    path.parent.mkdir(parents=True, exist_ok=True)
    VideoEncoder(torch.from_numpy(frames).permute(0, 3, 1, 2), frame_rate=_FPS).to_file(
        path, codec="libx264", crf=26, preset="veryfast", extra_options=options
    )


def _write_columns(folder: Path, videos: Sequence[Path]) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    table = pa.table({"video": [{"bytes": path.read_bytes(), "path": path.name} for path in videos]})
    for name, compression in (("plain", "none"), ("snappy", "snappy")):
        parquet.write_table(table, folder / f"{name}.parquet", compression=compression, use_dictionary=False)


def _write_tables(folder: Path, videos: Sequence[Path]) -> None:
    import datasets
    import lance
    import pyarrow as pa

    values = [path.read_bytes() for path in videos]
    blobs = pa.table([lance.blob_array(values)], schema=pa.schema([lance.blob_field("video")]))
    lance.write_dataset(blobs, folder / "blobs.lance", mode="overwrite")
    lance.write_dataset(
        pa.table({"video": pa.array(values, pa.large_binary())}), folder / "bytes.lance", mode="overwrite"
    )
    rows = [{"bytes": value, "path": path.name} for value, path in zip(values, videos, strict=True)]
    features = datasets.Features({"video": datasets.Video()})
    datasets.Dataset.from_dict({"video": rows}, features=features).save_to_disk(folder / "rows.hf")


def _write_lerobot(root: Path, num_videos: int, num_frames: int) -> None:
    """Write a dataset of version 3 with a camera: one episode per source video, four of them in a file."""
    import pyarrow as pa
    from pyarrow import parquet

    columns = {"timestamp": "float32", "frame_index": "int64", "episode_index": "int64", "index": "int64"}
    columns |= {"task_index": "int64", "next.reward": "float32"}
    features: dict[str, Any] = {name: {"dtype": dtype, "shape": [1], "names": None} for name, dtype in columns.items()}
    features |= {name: {"dtype": "float32", "shape": [7], "names": None} for name in ("action", "observation.state")}
    features[_CAMERA] = {"dtype": "video", "shape": [_HEIGHT, _WIDTH, 3], "names": ["height", "width", "channels"]}
    info = {
        "codebase_version": "v3.0",
        "robot_type": None,
        "total_episodes": num_videos,
        "total_frames": num_videos * num_frames,
        "total_tasks": 1,
        "chunks_size": 1000,
        "fps": _FPS,
        "splits": {"train": f"0:{num_videos}"},
        "data_path": "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet",
        "video_path": "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4",
        "features": features,
    }
    for name in ("meta/episodes/chunk-000", "data/chunk-000"):
        (root / name).mkdir(parents=True, exist_ok=True)
    (root / "meta/info.json").write_text(json.dumps(info), encoding="utf-8")
    tasks = pa.table({"task_index": [0], "task": ["Push the block."]})
    # As pandas writes a table with the texts as its index.
    about = {"name": "task", "field_name": "task", "pandas_type": "unicode", "numpy_type": "object", "metadata": None}
    index = {"index_columns": ["task"], "column_indexes": [], "columns": [about]}
    parquet.write_table(tasks.replace_schema_metadata({"pandas": json.dumps(index)}), root / "meta/tasks.parquet")
    episodes = [
        {
            "episode_index": number,
            "tasks": ["Push the block."],
            "length": num_frames,
            "dataset_from_index": number * num_frames,
            "dataset_to_index": (number + 1) * num_frames,
            "data/chunk_index": 0,
            "data/file_index": 0,
            f"videos/{_CAMERA}/chunk_index": 0,
            f"videos/{_CAMERA}/file_index": number // 4,
            f"videos/{_CAMERA}/from_timestamp": number % 4 * num_frames / _FPS,
            f"videos/{_CAMERA}/to_timestamp": (number % 4 + 1) * num_frames / _FPS,
        }
        for number in range(num_videos)
    ]
    parquet.write_table(pa.Table.from_pylist(episodes), root / "meta/episodes/chunk-000/file-000.parquet")
    total = np.arange(num_videos * num_frames)
    frame = total % num_frames
    vectors = pa.array(np.outer(total, np.arange(7)).astype(np.float32).tolist(), pa.list_(pa.float32(), 7))
    table = {"timestamp": (frame / _FPS).astype(np.float32), "frame_index": frame, "episode_index": total // num_frames}
    table |= {"index": total, "task_index": total * 0, "next.reward": frame.astype(np.float32)}
    parquet.write_table(
        pa.table({**table, "action": vectors, "observation.state": vectors}), root / "data/chunk-000/file-000.parquet"
    )
    for number in range(0, num_videos, 4):
        last = min(num_videos, number + 4)
        path = root / f"videos/{_CAMERA}/chunk-000/file-{number // 4:03d}.mp4"
        _write_video(path, range(number * num_frames, last * num_frames))
        with VideoDecoder(path) as decoder:
            assert len(decoder) == (last - number) * num_frames


# Reports


def _markdown(stamp: dict[str, str], rows: Sequence[dict[str, Any]], notes: Sequence[str]) -> str:
    head = ["source", "rows/s", "CPU ms a row", "KiB a row", "x bytes needed", "start s", "of it import s", "peak MiB"]
    lines = []
    for row in rows:
        needed = row["needed_bytes_per_row"]
        lines.append(
            [
                row["source"],
                f"{row['rows_per_second']:.0f}",
                f"{row['cpu_ms_per_row']:.2f}",
                f"{row['bytes_per_row'] / 1024:.1f}",
                "" if not needed else f"{row['bytes_per_row'] / needed:.2f}",
                f"{row['start_seconds']:.2f}",
                f"{row['import_seconds']:.2f}",
                f"{row['peak_rss_mib']:.0f}",
            ]
        )
    parts = ["# Rows from many sources", "", fact_list(stamp), "", markdown_table(head, lines)]
    parts += [
        "",
        "Medians of the runs. Bytes are requested from the system while the process reads rows and opens their",
        "files. Needed bytes are the groups of pictures with a row's frames. The start is the time from the first",
        "import to the first row; it includes reading the packed page with all videos. Hugging Face's rows request",
        "no bytes, because their file is mapped into memory.",
        "",
    ]
    return "\n".join([*parts, *(f"- {note}" for note in notes)]) + "\n"


def _draw(rows: Sequence[dict[str, Any]], path: Path) -> None:
    def panel(title: str, unit: str, name: str, factor: float = 1.0) -> Panel:
        return Panel(title, unit, [Bar(row["source"], factor * row[name]) for row in rows])

    line = [
        panel("Speed", "rows per second (more is better)", "rows_per_second"),
        panel("CPU time", "ms per row (less is better)", "cpu_ms_per_row"),
        panel("Bytes", "KiB per row (less is better)", "bytes_per_row", 1 / 1024),
        panel("First row", "seconds (less is better)", "start_seconds"),
    ]
    draw_panels("Random rows of two frames, one thread", [line], path)


if __name__ == "__main__":
    main()
