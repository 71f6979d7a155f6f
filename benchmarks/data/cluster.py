"""Clips of many files on a cluster of Ray, with a killed actor: ``python -m benchmarks.data.cluster [--quick]``.

The same files, some of them broken, are stored in a folder, in tar shards and in Parquet tables. There is also a
LeRobot dataset. Each source is read by one actor, by several, and by several of which one is killed. Every row must be
returned once, bit-identical to a dataset in one process. To compare, Ray reads the folder and passes on its bytes.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import logging
import os
import shutil
import signal
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from mediatensor.datasets import LeRobotClips, Sample, VideoClips
from mediatensor.distributed import ClipDecoder, LeRobotReader, clip_rows

from ..shared.machine import machine_stamp, package_versions
from ..shared.options import add_folders, check_counts
from ..shared.reports import fact_list, markdown_table, say, write_report
from . import sources

_CLIP, _SEED, _BATCH = 8, 7, 16
_NUM_DISTINCT, _EVERY_BROKEN, _NUM_SHARDS, _NUM_TABLES = 50, 20, 8, 4
_NUM_FRAMES, _SIZE = 48, (240, 320)


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line, write the files, start the cluster, run, report."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.data.cluster", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smoke test: 30 files")
    parser.add_argument("--files", type=int, help="files (default: 1000)")
    parser.add_argument("--actors", type=int, help="actors with a CPU each (default: 2)")
    add_folders(parser)
    options = parser.parse_args(arguments)
    check_counts(parser, options, "files", "actors")
    num_files, num_actors = options.files or (30 if options.quick else 1000), options.actors or 2
    folder = (options.clips / f"cluster-{num_files}").resolve()
    given = _write(folder, num_files)
    found = []
    stamp = machine_stamp() | package_versions("torch", "av", "pyarrow", "ray")
    with _cluster(num_actors + 1):  # one for the source of the rows
        for name, way in given.items():
            expected = way["expected"]()
            ways = [(1, False), (num_actors, False), (num_actors, True)] if name == "folder" else [(num_actors, True)]
            for actors, is_killed in [(num_actors, False)] if "read" in way else ways:
                how = f"{actors} actor{'s' * (actors > 1)}{', one killed' * is_killed}"
                say(f"{name}: {how}")
                row = {"source": name, "how": how, **_run(way, actors, expected, is_killed=is_killed)}
                row["load"] = os.getloadavg()[0]
                say(row)
                found.append(row)
    stamp["files"] = (
        f"{num_files} of {min(num_files, _NUM_DISTINCT)} contents, {_NUM_FRAMES} frames of {_SIZE[1]}x{_SIZE[0]}, "
        f"H.264; every {_EVERY_BROKEN}th is cut short"
    )
    text = _markdown(stamp, found)
    write_report(options.output, "cluster", {"machine": stamp, "runs": found}, text)
    wrong = [row for row in found if row["lost"] or row["twice"] or row["wrong"]]
    if wrong:
        sys.exit(f"Rows were lost, came twice or had other bits: {wrong}")


# The files


def _write(folder: Path, num_files: int) -> dict[str, dict[str, Any]]:
    """Return the ways to read the files; write missing files."""
    import pyarrow as pa
    import torch
    from pyarrow import parquet

    from mediatensor.encoders import VideoEncoder

    paths = [folder / f"videos/{number:05d}.mp4" for number in range(num_files)]
    if not (folder / "done").exists():
        shutil.rmtree(folder, ignore_errors=True)
        paths[0].parent.mkdir(parents=True)
        contents = []
        generator = torch.Generator().manual_seed(0)
        for _ in range(min(num_files, _NUM_DISTINCT)):
            small = torch.randint(0, 256, (_NUM_FRAMES, 3, *(size // 16 for size in _SIZE)), generator=generator)
            frames = small.to(torch.uint8).repeat_interleave(16, 2).repeat_interleave(16, 3)
            encoder = VideoEncoder(frames, frame_rate=24)
            contents.append(
                encoder.to_tensor("mp4", codec="libx264", crf=26, preset="veryfast", extra_options={"g": 12})
            )
        for number, path in enumerate(paths):
            data = contents[number % len(contents)].numpy().tobytes()
            path.write_bytes(data[:500] if number % _EVERY_BROKEN == 3 else data)
        for shard in range(_NUM_SHARDS):
            with tarfile.open(folder / f"shard-{shard}.tar", "w") as archive:
                for path in _part(paths, shard, _NUM_SHARDS):
                    archive.add(path, path.name)
        for number in range(_NUM_TABLES):
            values = [{"bytes": path.read_bytes(), "path": path.name} for path in _part(paths, number, _NUM_TABLES)]
            parquet.write_table(
                pa.table({"video": values}), folder / f"table-{number}.parquet", compression="none", row_group_size=64
            )
        sources._write_lerobot(folder / "robot", 4, 120)
        (folder / "done").touch()

    @functools.cache
    def digests(source: Any) -> list[str]:
        options: dict[str, Any] = {"on_error": "skip", "max_consecutive_failures": num_files}
        return _digests(VideoClips(source, num_frames_per_clip=_CLIP, rows_per_file=2, seed=_SEED, **options))

    def clips(source: Any) -> Callable[[], list[str]]:
        return lambda: digests(source)

    shards = f"{folder}/shard-{{0..{_NUM_SHARDS - 1}}}.tar"
    tables = [str(folder / f"table-{number}.parquet") for number in range(_NUM_TABLES)]
    clip_shape = (_CLIP, 3, *_SIZE)
    reading = {"num_frames_per_clip": _CLIP, "clip_shape": clip_shape, "seed": _SEED}
    camera = {sources._CAMERA: [0.0, 1 / sources._FPS]}
    # Rows of several tables are numbered like one table.
    table_rows = [row for table in tables for row in clip_rows(table, 2)]
    table_rows = [{**row, "row": number} for number, row in enumerate(table_rows)]
    return {
        "folder": {
            "rows": clip_rows(folder / "videos", 2), "mapper": ClipDecoder, "options": reading,
            "expected": clips(folder / "videos"),
        },
        "folder, bytes by Ray": {
            "read": str(folder / "videos"), "mapper": ClipDecoder, "options": reading,
            "expected": clips(folder / "videos"),
        },
        "tar shards": {
            "rows": clip_rows(shards, 2), "mapper": ClipDecoder, "options": reading, "expected": clips(shards),
        },
        "Parquet tables": {
            "rows": table_rows, "mapper": ClipDecoder, "options": reading, "expected": clips(folder / "videos"),
        },
        "LeRobot": {
            "rows": [{"row": number} for number in range(4 * 120)], "mapper": LeRobotReader,
            "options": {"source": str(folder / "robot"), "delta_timestamps": camera},
            "expected": lambda: _digests(LeRobotClips(folder / "robot", camera)),
        },
    }  # fmt: skip


def _part(paths: Sequence[Path], number: int, num_parts: int) -> Sequence[Path]:
    """Return one of ``num_parts`` consecutive parts of a list."""
    return paths[len(paths) * number // num_parts : len(paths) * (number + 1) // num_parts]


def _digests(dataset: Any) -> list[str]:
    """Return a digest of the frames of each row, empty if it cannot be read."""
    digests = []
    for number in range(len(dataset)):
        row = dataset[number]
        pictures = (
            row.frames.data if isinstance(row, Sample) else row[sources._CAMERA] if isinstance(row, dict) else None
        )
        digests.append("" if pictures is None else _digest(pictures.numpy()))
    return digests


def _digest(pictures: Any) -> str:
    return hashlib.blake2b(np.ascontiguousarray(pictures).tobytes(), digest_size=16).hexdigest()


# The cluster


@contextmanager
def _cluster(num_cpus: int) -> Iterator[None]:
    """Run Ray on the loopback interface, and clean up afterwards."""
    import ray

    folder = tempfile.mkdtemp(prefix="ray")  # paths of sockets must be short
    os.environ.update({"HOME": folder, "RAY_USAGE_STATS_ENABLED": "0"})  # Ray stores the token of its clusters there
    try:
        ray.init(
            num_cpus=num_cpus, include_dashboard=False, object_store_memory=300 << 20, log_to_driver=False,
            logging_level="ERROR", _node_ip_address="127.0.0.1", _temp_dir=folder,
        )  # fmt: skip
        ray.data.DataContext.get_current().enable_progress_bars = False
        logging.getLogger("ray.data").setLevel(logging.ERROR)
        ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
        yield
    finally:
        ray.shutdown()
        shutil.rmtree(folder, ignore_errors=True)


def _digesting(mapper: type, deaths: str | None, dies_with_row: int) -> type:
    """Define a reader that returns digests of frames, and that is killed once."""

    class Digesting(mapper):  # type: ignore[misc, valid-type]
        def __call__(self, batch: Any) -> dict[str, Any]:
            columns = super().__call__(batch)
            if deaths is not None and dies_with_row in batch["row"] and not os.path.exists(deaths):
                with open(deaths, "w") as file:
                    file.write(str(os.getpid()))
                os.kill(os.getpid(), signal.SIGKILL)  # with rows that were decoded and not delivered
            pictures = columns["frames" if "frames" in columns else sources._CAMERA]
            digests = ["" if error else _digest(one) for one, error in zip(pictures, columns["error"], strict=True)]
            return {
                "row": columns["row"], "digest": np.array(digests, object), "error": columns["error"],
                "process": np.full(len(digests), os.getpid()),
            }  # fmt: skip

    return Digesting


def _run(way: dict[str, Any], num_actors: int, expected: list[str], *, is_killed: bool) -> dict[str, Any]:
    """Compare the rows from a pool of actors with the expected ones."""
    import ray

    with tempfile.TemporaryDirectory() as folder:
        deaths = os.path.join(folder, "deaths")
        started = time.perf_counter()
        if "read" in way:
            names = sorted(os.listdir(way["read"]))
            first_rows = {name: 2 * number for number, name in enumerate(names)}

            def numbered(batch: dict[str, Any]) -> dict[str, Any]:
                """Return two rows of each file, both with the bytes of the file."""
                rows = [first_rows[os.path.basename(path)] + clip for path in batch["path"] for clip in range(2)]
                return {name: np.repeat(values, 2) for name, values in batch.items()} | {"row": np.array(rows)}

            dataset = ray.data.read_binary_files(way["read"], include_paths=True).map_batches(numbered, batch_size=8)
        else:
            dataset = ray.data.from_items(way["rows"])
        rows = dataset.map_batches(
            _digesting(way["mapper"], deaths if is_killed else None, len(expected) // 2 + 1),
            fn_constructor_kwargs=way["options"],
            batch_size=_BATCH,
            num_cpus=1,
            compute=ray.data.ActorPoolStrategy(size=num_actors),
        ).take_all()
        seconds = time.perf_counter() - started
        has_died = os.path.exists(deaths)
    by_row: dict[int, list[dict[str, Any]]] = {}
    for row in rows:
        by_row.setdefault(row["row"], []).append(row)
    return {
        "rows": len(rows),
        "errors": sum(bool(row["error"]) for row in rows),
        "lost": len(set(range(len(expected))) - by_row.keys()),
        "twice": sum(len(same) > 1 for same in by_row.values()),
        "wrong": sum(row["digest"] != expected[row["row"]] for row in rows),
        "killed": has_died,
        "processes": len({row["process"] for row in rows}),
        "seconds": seconds,
        "rows_per_second": len(rows) / seconds,
    }


def _markdown(stamp: dict[str, str], rows: Sequence[dict[str, Any]]) -> str:
    lines = []
    for row in rows:
        counts = [str(row[name]) for name in ("rows", "errors", "lost", "twice", "wrong")]
        lines.append([row["source"], row["how"], *counts, f"{row['seconds']:.1f}", f"{row['rows_per_second']:.0f}"])
    head = ["source", "how", "rows", "with an error", "lost", "twice", "other bits", "seconds", "rows/s"]
    parts = ["# Clips on a cluster", "", fact_list(stamp), "", markdown_table(head, lines, 2)]
    parts += ["", "Two clips of 8 frames of each file; of LeRobot each row with two frames of a camera. Other bits are"]
    parts += ["rows whose frames differ from a dataset in one process. Seconds include the start of the actors."]
    if any(row["load"] > 1.5 * (os.cpu_count() or 1) for row in rows):
        parts += ["", "The machine did other work meanwhile: compare counts, not seconds."]
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    main()
