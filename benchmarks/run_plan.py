"""What a long run will read and ask for: ``python -m benchmarks.run_plan [SOURCE] [--run 1e8] [-o FOLDER]``.

For some ways to shuffle, `mediatensor.datasets.plan_run` computes bytes, requests, cost and how well batches are mixed.
Without SOURCE, two videos are drawn, one with a key frame every second and one with a key frame every eight; then the
same clips are read from a web server on this machine, which counts, beside the plan.
"""

from __future__ import annotations

import argparse
import importlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import av
import numpy as np

from mediatensor.datasets import RunPlan, Shuffle, VideoClips, plan_run

from .chart import can_draw
from .machine import machine_stamp, package_versions
from .options import add_folders
from .remote import counting_server

__all__ = ["main"]

_TOGETHER = (1, 2, 4, 8, 16)
_NUM_FRAMES, _FPS = 600, 30


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line, plan, count, report."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run_plan", description=__doc__)
    parser.add_argument("source", nargs="?", help="a folder, a manifest, shards or a Parquet file with videos")
    parser.add_argument("--quick", action="store_true", help="few clips: does everything work?")
    parser.add_argument("--run", dest="num_clips", type=float, default=1e8, metavar="N")
    parser.add_argument("--frames", type=int, default=16, metavar="N", help="frames of a clip (default: 16)")
    parser.add_argument("--rows-per-file", type=int, default=100, metavar="N", help="clips of a file in an epoch")
    parser.add_argument("--batch-size", type=int, default=256, metavar="N")
    parser.add_argument(
        "--price-per-million-requests", type=float, default=0.4, metavar="PRICE", help="(an example: 0.4)"
    )
    parser.add_argument("--price-per-gigabyte", type=float, default=0.0, metavar="PRICE")
    add_folders(parser)
    options = parser.parse_args(arguments)
    sources = {options.source: None} if options.source else _write(options.clips / "run-plan")
    rows = []
    for name, path in sources.items():
        for together in _TOGETHER:
            plan = plan_run(
                options.source or [path] * 10_000, options.num_clips, num_frames_per_clip=options.frames,
                rows_per_file=max(together, options.rows_per_file), batch_size=options.batch_size,
                shuffle=Shuffle(rows_together=together), num_files=8 if options.source else 1,
                price_per_million_requests=options.price_per_million_requests,
                price_per_gigabyte=options.price_per_gigabyte,
            )  # fmt: skip
            row = {"source": name, "together": together, **_figures(plan)}
            if path is not None:
                row |= _counted(path, together, options.frames, 16 if options.quick else 96)
            rows.append(row)
    stamp = machine_stamp() | package_versions("torch", "av")
    stamp["run"] = f"{options.num_clips:g} clips of {options.frames} frames, batches of {options.batch_size}"
    text = _markdown(stamp, rows)
    print(text)
    if options.output is not None:
        options.output.mkdir(parents=True, exist_ok=True)
        document = {"machine": stamp, "rows": rows}
        (options.output / "run_plan.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
        (options.output / "run_plan.md").write_text(text, encoding="utf-8")
        if can_draw():
            _draw(rows, options.output / "run_plan.png")


def _figures(plan: RunPlan) -> dict[str, float]:
    names = ("needed_bytes_per_clip", "bytes_per_clip", "requests_per_clip", "total_bytes", "total_requests", "cost")
    return {name: getattr(plan, name) for name in (*names, "files_per_batch", "effective_batch_size")}


def _write(folder: Path) -> dict[str, Path]:
    """Two videos of moving noise, which are written unless they are there."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = {f"a key frame every {group} frames": folder / f"{group}.mp4" for group in (30, 250)}
    noise = np.random.default_rng(0).integers(0, 256, (256 * 3 // 2 + 64, 320 + 64), np.uint8)
    for group, path in zip((30, 250), paths.values(), strict=True):
        if path.exists():
            continue
        begun = path.with_suffix(".part.mp4")
        options = {"preset": "ultrafast", "tune": "zerolatency", "qp": "44", "g": str(group), "sc_threshold": "0"}
        with av.open(str(begun), "w") as container:
            stream = container.add_stream("libx264", rate=_FPS, options=options)
            stream.width, stream.height, stream.pix_fmt = 320, 256, "yuv420p"
            for number in range(_NUM_FRAMES):
                top, left = number * 7 % 64, number * 13 % 64
                picture = np.ascontiguousarray(noise[top : top + 384, left : left + 320])
                container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="yuv420p")))
            container.mux(stream.encode(None))
        begun.rename(path)
    return paths


def _counted(path: Path, together: int, num_frames: int, num_clips: int) -> dict[str, float]:
    """Bytes and requests of clips that are read from a server, a file being opened for so many."""
    with counting_server(path) as (url, counts):
        for epoch in range(num_clips // together):
            clips = VideoClips(
                [url], num_frames_per_clip=num_frames, rows_per_file=together, seed=epoch,
                decoder_options={"num_ffmpeg_threads": 1},
            )  # fmt: skip
            clips.__getitems__(range(together))
            clips.close()
        read = num_clips // together * together
        return {"counted_bytes_per_clip": counts.num_bytes / read, "counted_requests_per_clip": counts.requests / read}


def _markdown(stamp: dict[str, str], rows: Sequence[dict[str, Any]]) -> str:
    parts = ["# A long run, planned", "", *(f"- {key}: {value}" for key, value in stamp.items()), ""]
    heads = ["source", "clips an opening", "KiB a clip", "counted", "requests a clip", "counted", "TB", "1e6 requests"]
    heads += ["cost", "files a batch", "effective batch"]
    parts += [f"| {' | '.join(heads)} |", f"| --- |{' ---: |' * (len(heads) - 1)}"]
    for row in rows:
        counted = [row.get(f"counted_{name}_per_clip") for name in ("bytes", "requests")]
        cells = [
            row["source"], row["together"], f"{row['bytes_per_clip'] / 1024:.0f}",
            "" if counted[0] is None else f"{counted[0] / 1024:.0f}", f"{row['requests_per_clip']:.2f}",
            "" if counted[1] is None else f"{counted[1]:.2f}", f"{row['total_bytes'] / 1e12:.1f}",
            f"{row['total_requests'] / 1e6:.0f}", f"{row['cost']:.0f}", f"{row['files_per_batch']:.0f}",
            f"{row['effective_batch_size']:.0f}",
        ]  # fmt: skip
        parts.append(f"| {' | '.join(map(str, cells))} |")
    parts += [
        "",
        "Counted are clips that were read from a web server on this machine. The effective batch size takes clips",
    ]
    parts += ["of one file as copies of each other, the worst case. Prices are examples.", ""]
    return "\n".join(parts) + "\n"


def _draw(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """Lines of the plan and dots of what was counted, by clips for each opening."""
    figure = importlib.import_module("matplotlib.figure").Figure(figsize=(11, 3.4), layout="constrained")
    panels = figure.subplots(1, 3)
    names = [("bytes_per_clip", "KiB a clip", 1 / 1024), ("requests_per_clip", "requests a clip", 1.0)]
    names += [("effective_batch_size", "independent clips a batch", 1.0)]
    colours = ("#1b7f5c", "#8a94a6", "#c2703d")
    for axis, (name, title, factor) in zip(panels, names, strict=True):
        for source, colour in zip(dict.fromkeys(row["source"] for row in rows), colours, strict=False):
            own = [row for row in rows if row["source"] == source]
            places = [row["together"] for row in own]
            axis.plot(places, [factor * row[name] for row in own], color=colour, label=f"plan: {source}")
            if f"counted_{name}" in own[0]:
                counted = [factor * row[f"counted_{name}"] for row in own]
                axis.plot(places, counted, "o", color=colour, label=f"counted: {source}")
        axis.set_xscale("log", base=2)
        axis.set_xticks(_TOGETHER, map(str, _TOGETHER))
        axis.set_ylim(bottom=0)
        axis.set_title(title, fontsize=9)
        axis.set_xlabel("clips for each opening (rows_together)", fontsize=8)
        axis.tick_params(labelsize=8)
        axis.spines[["top", "right"]].set_visible(False)
    panels[2].legend(*panels[0].get_legend_handles_labels(), fontsize=7, frameon=False)
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    main()
