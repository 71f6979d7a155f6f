"""Record the results of LeRobot's own reader for the datasets of ``lerobot_files``.

It runs where lerobot is installed, 0.4 for version 3 of the format and 0.3.3 for version 2.1, on a dataset
that ``write_lerobot`` wrote::

    python tests/shared/record_lerobot.py FOLDER v3.0
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

ROWS = (0, 1, 19, 20, 32, 33, 49)
DELTAS = {
    "observation.images.top": [-0.2, 0.0, 0.1],
    "observation.images.wrist": [0.1],
    "observation.images.still": [-0.1, 0.0],
    "action": [0.0, 0.1, 0.5],
    "pose": [-0.3, 0.0],
    "next.done": [0.0, 0.1],
    "gripper": [0.0],
}
RECORD = Path(__file__).parents[1] / "records" / "lerobot_rows.json"


def described(value: Any) -> Any:
    """A value as JSON has it: type, shape and numbers; of pictures, the means of 8 columns, from 0 to 255."""
    if isinstance(value, str):
        return value
    numbers = value
    if value.ndim >= 3 and value.shape[-3] == 3:
        numbers = (value * 255).mean((-3, -2)).unflatten(-1, (8, -1)).mean(-1).round()
    return [str(value.dtype), list(value.shape), numbers.tolist()]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("version")
    arguments = parser.parse_args()
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    recorded = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}
    for kind, deltas in (("plain", None), ("deltas", DELTAS)):
        dataset = LeRobotDataset(
            "local/drawn", root=arguments.folder, delta_timestamps=deltas, video_backend="torchcodec"
        )
        rows = {i: {name: described(value) for name, value in dataset[i].items()} for i in ROWS}
        recorded[f"{arguments.version} {kind}"] = {"num_rows": len(dataset), "rows": rows}
    RECORD.write_text(json.dumps(recorded, separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
