"""Read rows of one source and measure it, in a separate process, which may be one with lerobot."""

from __future__ import annotations

import resource
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from ..shared.workers import serve


def measure(request: dict[str, Any]) -> dict[str, Any]:
    """Open a source, read rows, and measure time and memory.

    Args:
        request: ``way``, "lerobot" or "mediatensor"; ``source``; ``rows``, numbers from 0 to 1, each a place in the
            source; ``fps``, of a LeRobot dataset, or ``None``; ``clip``, how many frames a row has; ``rows_per_file``.
    """
    begin = time.perf_counter()
    import torch

    torch.set_num_threads(1)
    imported = time.perf_counter()
    dataset = _opened(request)
    rows = [int(place * len(dataset)) for place in request["rows"]]
    dataset[rows[0]]
    first = time.perf_counter()
    bytes_before, cpu_before = _bytes_read(), _cpu_seconds()
    for row in rows:
        dataset[row]
    seconds, cpu = time.perf_counter() - first, _cpu_seconds() - cpu_before
    num_bytes = _bytes_read() - bytes_before
    return {
        "rows_per_second": len(rows) / seconds,
        "cpu_ms_per_row": 1e3 * cpu / len(rows),
        "bytes_per_row": num_bytes / len(rows),
        "needed_bytes_per_row": sum(_needed(dataset, row) for row in rows) / len(rows) if _is_ours(request) else None,
        "start_seconds": first - begin,
        "import_seconds": imported - begin,
        "peak_rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def _is_ours(request: dict[str, Any]) -> bool:
    return bool(request["way"] == "mediatensor")


def _opened(request: dict[str, Any]) -> Any:
    camera, fps, length = "observation.images.top", request["fps"], request["clip"]
    deltas = None if fps is None else {camera: [i / fps for i in range(length)], "action": [i / fps for i in range(16)]}
    if not _is_ours(request):
        from lerobot.datasets.lerobot_dataset import LeRobotDataset

        return LeRobotDataset(
            "local/drawn", root=request["source"], delta_timestamps=deltas, video_backend="torchcodec"
        )
    from mediatensor.datasets import LeRobotClips, VideoClips

    if fps is not None:
        return LeRobotClips(request["source"], deltas)
    source = request["source"]
    if source.endswith(".hf"):
        import datasets

        source = datasets.load_from_disk(source)
    return VideoClips(source, num_frames_per_clip=length, rows_per_file=request["rows_per_file"])


def _needed(dataset: Any, row: int) -> int:
    """Return the bytes of the groups of pictures with the frames of a row."""
    import numpy as np

    from mediatensor.decoders import VideoDecoder

    spec = dataset.spec(row)
    source = spec.item.source
    sample = spec.load()
    if sample.frame_indices is not None:
        frames = sample.frame_indices.numpy()
    else:  # a row of a LeRobot dataset, whose video contains its episodes one after the other
        source = dict(source.videos)["observation.images.top"]
        begin = round(spec.item.extra["episode"].begin_seconds["observation.images.top"] * dataset.fps)
        length = spec.item.extra["episode"].num_frames
        deltas = spec.recipe.delta_frames["observation.images.top"]
        frames = begin + np.clip(spec.part + np.array(deltas), 0, length - 1)
    key = source if isinstance(source, str) else id(source)
    if key not in _indexes:
        with VideoDecoder(source) as decoder:
            _indexes[key] = (decoder.frame_index, source)
    index = _indexes[key][0]
    groups = np.unique(np.searchsorted(index.gop_start_indices.numpy(), frames, side="right") - 1)
    return int(index.gop_bytes.numpy()[groups].sum())


_indexes: dict[Any, Any] = {}


def _bytes_read() -> int:
    """Return the bytes that this process requested from the system, cached or not; 0 if unknown."""
    path = Path("/proc/self/io")
    if not path.exists():
        return 0
    return int(path.read_text().split("rchar:")[1].split()[0])


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    serve(SimpleNamespace(measure=measure))
