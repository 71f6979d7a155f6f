"""Small LeRobot datasets of both versions, whose pictures say which frame they are."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import av
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from images import encoded
from mediatensor.encoders import VideoEncoder

HEIGHT, WIDTH = 96, 128
_FPS = 10
TOP, WRIST, STILL = "observation.images.top", "observation.images.wrist", "observation.images.still"
DEPTH, DEPTH_STILL = "observation.images.depth", "observation.images.depth_still"
LANGUAGE = ("language_persistent", "language_events")
TASKS = ("Push the block.", "Open the drawer.")
_NUM_BITS = 8


def picture(number: int) -> NDArray[np.uint8]:
    """A picture (H, W, 3) with the bits of a number as dark and bright columns."""
    bits = [64 + 128 * (number >> bit & 1) for bit in range(_NUM_BITS)]
    row = np.repeat(np.array(bits, np.float32), WIDTH // _NUM_BITS)[None, :, None]
    return np.broadcast_to(row * np.array([1.0, 0.8, 0.6]), (HEIGHT, WIDTH, 3)).astype(np.uint8)


def number_in(pictures: Tensor) -> list[int]:
    """The numbers that pictures (..., 3, H, W) from 0 to 1 show."""
    columns = pictures.float().mean((-3, -2)).unflatten(-1, (_NUM_BITS, -1)).mean(-1) > 0.4
    return (columns.long() << torch.arange(_NUM_BITS)).sum(-1).reshape(-1).tolist()


def depths(number: int) -> NDArray[np.float64]:
    """Depths (H, W) in metres, from 0.3 to 9 and another picture for each number."""
    across = np.linspace(0.3, 8.0, WIDTH)[None] + np.linspace(0.0, 0.5, HEIGHT)[:, None]
    return np.asarray(across + number % 50 / 100)


def language_of(episode: int, frame: int) -> dict[str, list[dict[str, Any]]]:
    """The values of both columns of language of a row: persistent for the episode, and events at the row."""
    plan = {"role": "assistant", "content": f"Plan {episode}", "style": "plan", "timestamp": 0.0, "camera": None}
    event = {"role": "user", "content": "Stop!", "style": "interjection", "camera": None, "tool_calls": None}
    says = {**event, "role": "assistant", "content": None, "tool_calls": ['{"name": "say", "words": ["yes"]}']}
    return {
        "language_persistent": [{**plan, "tool_calls": None}],
        "language_events": [event, says] if frame == 3 else [],
    }


def rows_of(lengths: Sequence[int]) -> list[dict[str, Any]]:
    """The rows of the table, with lists for the columns that are vectors."""
    rows: list[dict[str, Any]] = []
    for episode, length in enumerate(lengths):
        for frame in range(length):
            index = len(rows)
            rows.append(
                {
                    "observation.state": [episode + 0.5, frame / 3, index * 0.1],
                    "action": [float(frame), float(-index)],
                    "pose": [[index, 1.0, 2.0], [frame, 4.0, 5.0]],
                    "gripper": [index % 7],
                    "next.reward": frame / length,
                    "next.done": frame == length - 1,
                    "timestamp": np.float32(frame / _FPS).item(),
                    "frame_index": frame,
                    "episode_index": episode,
                    "index": index,
                    "task_index": episode % 2,
                }
            )
    return rows


FEATURES: dict[str, dict[str, Any]] = {
    "observation.state": {"dtype": "float32", "shape": [3], "names": ["x", "y", "z"]},
    "action": {"dtype": "float32", "shape": [2], "names": None},
    "pose": {"dtype": "float64", "shape": [2, 3], "names": None},
    "gripper": {"dtype": "int64", "shape": [1], "names": None},
    "next.reward": {"dtype": "float32", "shape": [1], "names": None},
    "next.done": {"dtype": "bool", "shape": [1], "names": None},
    "timestamp": {"dtype": "float32", "shape": [1], "names": None},
    "frame_index": {"dtype": "int64", "shape": [1], "names": None},
    "episode_index": {"dtype": "int64", "shape": [1], "names": None},
    "index": {"dtype": "int64", "shape": [1], "names": None},
    "task_index": {"dtype": "int64", "shape": [1], "names": None},
}


def write_lerobot(
    root: Path,
    *,
    version: str = "v3.0",
    lengths: Sequence[int] = (20, 13, 17),
    has_still: bool = True,
    depth_info: dict[str, Any] | None = None,
    has_language: bool = False,
) -> Path:
    """Write a dataset with two cameras, TOP and WRIST, and STILL, which is pictures in the table.

    With ``depth_info``, the ``info`` of its feature, version 3 has DEPTH as well, a video of `depths`, and DEPTH_STILL,
    the same as images of millimetres in the table; with ``has_language`` the columns of `language_of`.

    TOP shows the number of the row; WRIST 255 minus this, and STILL the number of the row plus 100, both mod 256. In
    version 3, the first two episodes share a table, and a video of TOP; the last two share a video of WRIST.
    """
    rows = rows_of(lengths)
    for row in rows:
        row["gripper"] = row["gripper"][0]
    features = dict(FEATURES)
    for camera in (TOP, WRIST):
        features[camera] = {"dtype": "video", "shape": [HEIGHT, WIDTH, 3], "names": ["height", "width", "channels"]}
    if has_still:
        features[STILL] = {"dtype": "image", "shape": [HEIGHT, WIDTH, 3], "names": ["height", "width", "channels"]}
        for row in rows:
            row[STILL] = {
                "bytes": encoded(picture((row["index"] + 100) % 256), "PNG"),
                "path": f"{row['index']}.png",
            }
    if depth_info is not None:
        shape = {"shape": [HEIGHT, WIDTH, 1], "names": ["height", "width", "channels"]}
        features[DEPTH] = {"dtype": "video", **shape, "info": {"is_depth_map": True, **depth_info}}
        features[DEPTH_STILL] = {"dtype": "image", **shape, "info": {"is_depth_map": True, "depth_unit": "mm"}}
        for row in rows:
            millimetres = (depths(row["index"]) * 1000).round().astype(np.uint16)
            row[DEPTH_STILL] = {"bytes": encoded(millimetres, "TIFF"), "path": f"{row['index']}.tiff"}
    if has_language:
        features |= {name: {"dtype": "language", "shape": [1], "names": None} for name in LANGUAGE}
        for row in rows:
            row |= language_of(row["episode_index"], row["frame_index"])
    info = {
        "codebase_version": version,
        "robot_type": "drawn",
        "total_episodes": len(lengths),
        "total_frames": len(rows),
        "total_tasks": len(TASKS),
        "chunks_size": 1000,
        "fps": _FPS,
        "splits": {"train": f"0:{len(lengths)}"},
        "features": features,
    }
    (root / "meta").mkdir(parents=True)
    write = _write_version_2 if version.startswith("v2") else _write_version_3
    write(root, rows, list(lengths), info)
    return root


def _write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value), encoding="utf-8")


def _write_lines(path: Path, rows: Sequence[Any]) -> None:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")


def _write_video(path: Path, numbers: Sequence[int]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    frames = torch.from_numpy(np.stack([picture(number) for number in numbers])).permute(0, 3, 1, 2)
    VideoEncoder(frames, frame_rate=_FPS).to_file(path, codec="libx264", crf=12, extra_options={"g": 4})


def _write_depths(path: Path, numbers: Sequence[int], info: dict[str, Any]) -> None:
    """A video of 12-bit codes of `depths`, without loss, as LeRobot 0.6 makes codes by default."""
    path.parent.mkdir(parents=True, exist_ok=True)
    least, most, shift = (
        info.get(f"video.{name}", usual) for name, usual in (("depth_min", 0.01), ("depth_max", 10.0), ("shift", 3.5))
    )
    with av.open(path, "w") as container:
        stream: Any = container.add_stream("libx265", rate=_FPS)
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "gray12le"
        stream.options = {"x265-params": "lossless=1:log-level=none", "g": "4"}
        for pts, number in enumerate(numbers):
            shares = (depths(number) - least) / (most - least)
            if info.get("video.use_log", True):
                shares = np.log((depths(number) + shift) / (least + shift)) / np.log((most + shift) / (least + shift))
            frame = av.VideoFrame(WIDTH, HEIGHT, "gray12le")
            lines = np.zeros((HEIGHT, frame.planes[0].line_size // 2), np.uint16)
            lines[:, :WIDTH] = np.rint(shares * 4095)
            frame.planes[0].update(lines.tobytes())
            frame.pts = pts
            container.mux(stream.encode(frame))
        container.mux(stream.encode())


def _write_table(path: Path, rows: list[dict[str, Any]]) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    path.parent.mkdir(parents=True, exist_ok=True)
    fields = [
        pa.field("observation.state", pa.list_(pa.float32(), 3)),
        pa.field("action", pa.list_(pa.float32())),
        pa.field("pose", pa.list_(pa.list_(pa.float64()))),
        pa.field("gripper", pa.int64()),
        pa.field("next.reward", pa.float32()),
        pa.field("next.done", pa.bool_()),
        pa.field("timestamp", pa.float32()),
        *(pa.field(name, pa.int64()) for name in ("frame_index", "episode_index", "index", "task_index")),
    ]
    schema = pa.schema(fields)
    for name in {STILL, DEPTH_STILL} & rows[0].keys():
        schema = schema.append(pa.field(name, pa.struct([("bytes", pa.binary()), ("path", pa.string())])))
    text = [pa.field(name, pa.string()) for name in ("role", "content", "style", "camera")]
    entry = [*text, pa.field("tool_calls", pa.list_(pa.string()))]
    for name, more in zip(LANGUAGE, ([pa.field("timestamp", pa.float32())], []), strict=True):
        if name in rows[0]:
            schema = schema.append(pa.field(name, pa.list_(pa.struct([*entry, *more]))))
    if STILL in rows[0]:
        # What LeRobot's readers of version 2 learn the type of the column from.
        features = {field.name: _hugging_face_feature(field.name) for field in fields} | {STILL: {"_type": "Image"}}
        schema = schema.with_metadata({"huggingface": json.dumps({"info": {"features": features}})})
    parquet.write_table(pa.Table.from_pylist(rows, schema), path, row_group_size=8)


def _hugging_face_feature(name: str) -> dict[str, Any]:
    feature = FEATURES[name]
    value = {"dtype": feature["dtype"], "_type": "Value"}
    if feature["shape"] == [1]:
        return value
    if len(feature["shape"]) == 2:
        return {"shape": feature["shape"], "dtype": feature["dtype"], "_type": "Array2D"}
    return {"feature": value, "length": feature["shape"][0], "_type": "Sequence"}


def _numbers(camera: str, rows: Sequence[dict[str, Any]]) -> list[int]:
    return [row["index"] % 256 if camera == TOP else 255 - row["index"] % 256 for row in rows]


def _write_version_2(root: Path, rows: list[dict[str, Any]], lengths: list[int], info: dict[str, Any]) -> None:
    info |= {
        "total_chunks": 1,
        "total_videos": 2 * len(lengths),
        "data_path": "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet",
        "video_path": "videos/chunk-{episode_chunk:03d}/{video_key}/episode_{episode_index:06d}.mp4",
    }
    _write_json(root / "meta" / "info.json", info)
    _write_lines(root / "meta" / "tasks.jsonl", [{"task_index": i, "task": text} for i, text in enumerate(TASKS)])
    episodes = [{"episode_index": i, "tasks": [TASKS[i % 2]], "length": n} for i, n in enumerate(lengths)]
    _write_lines(root / "meta" / "episodes.jsonl", episodes)
    stats = {"action": {"min": [0], "max": [1], "mean": [0], "std": [1], "count": [1]}}
    _write_lines(
        root / "meta" / "episodes_stats.jsonl", [{"episode_index": i, "stats": stats} for i in range(len(lengths))]
    )
    for episode in range(len(lengths)):
        own = [row for row in rows if row["episode_index"] == episode]
        _write_table(root / f"data/chunk-000/episode_{episode:06d}.parquet", own)
        for camera in (TOP, WRIST):
            path = root / f"videos/chunk-000/{camera}/episode_{episode:06d}.mp4"
            _write_video(path, _numbers(camera, own))


def _write_version_3(root: Path, rows: list[dict[str, Any]], lengths: list[int], info: dict[str, Any]) -> None:
    import pandas
    import pyarrow as pa
    from pyarrow import parquet

    info |= {
        "data_path": "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet",
        "video_path": "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4",
        "data_files_size_in_mb": 100,
        "video_files_size_in_mb": 500,
    }
    _write_json(root / "meta" / "info.json", info)
    # As LeRobot does it: the texts are the index of the table.
    pandas.DataFrame({"task_index": range(len(TASKS))}, index=list(TASKS)).to_parquet(root / "meta" / "tasks.parquet")
    files = {"data": lambda i: int(i > 1), TOP: lambda i: int(i > 1), WRIST: lambda i: int(i > 0)}
    files |= {DEPTH: lambda i: 0} if DEPTH in info["features"] else {}
    cameras = [name for name in files if name != "data"]
    starts = np.cumsum([0, *lengths]).tolist()
    episodes = []
    for i, length in enumerate(lengths):
        episode: dict[str, Any] = {
            "episode_index": i,
            "tasks": [TASKS[i % 2]],
            "length": length,
            "dataset_from_index": starts[i],
            "dataset_to_index": starts[i + 1],
            "data/chunk_index": 0,
            "data/file_index": files["data"](i),
            "meta/episodes/chunk_index": 0,
            "meta/episodes/file_index": 0,
        }
        for camera in cameras:
            first = next(other for other in range(i + 1) if files[camera](other) == files[camera](i))
            begin = (starts[i] - starts[first]) / _FPS
            episode |= {
                f"videos/{camera}/chunk_index": 0,
                f"videos/{camera}/file_index": files[camera](i),
                f"videos/{camera}/from_timestamp": begin,
                f"videos/{camera}/to_timestamp": begin + length / _FPS,
            }
        episodes.append(episode)
    path = root / "meta/episodes/chunk-000/file-000.parquet"
    path.parent.mkdir(parents=True)
    parquet.write_table(pa.Table.from_pylist(episodes), path)
    for file in {files["data"](i) for i in range(len(lengths))}:
        own = [row for row in rows if files["data"](row["episode_index"]) == file]
        _write_table(root / f"data/chunk-000/file-{file:03d}.parquet", own)
    for camera in cameras:
        for file in {files[camera](i) for i in range(len(lengths))}:
            own = [row for row in rows if files[camera](row["episode_index"]) == file]
            path = root / f"videos/{camera}/chunk-000/file-{file:03d}.mp4"
            if camera == DEPTH:
                _write_depths(path, [row["index"] for row in own], info["features"][DEPTH]["info"])
            else:
                _write_video(path, _numbers(camera, own))
