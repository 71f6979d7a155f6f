"""A user's own table of frames, as ``ffprobe -show_frames -of json`` prints it."""

from __future__ import annotations

import json
from typing import Any

from ..errors import InvalidArgumentError

__all__ = ["parse_frame_mappings"]

# Times that can be added and subtracted without overflow.
_MAX_TICKS = 1 << 61
_SPELLINGS = (("pts", "duration"), ("pkt_pts", "pkt_duration"))


def parse_frame_mappings(mappings: Any) -> tuple[list[int], list[int], list[bool]]:
    """(pts, duration, is_key) of a JSON text (str, bytes) or of an object with ``read()`` that gives one.

    >>> parse_frame_mappings('{"frames": [{"pts": "0", "duration": 512, "key_frame": 1}]}')
    ([0], [512], [True])

    Raises:
        InvalidArgumentError: if it is not JSON, or entries or keys are missing.
    """
    try:
        table = json.loads(mappings.read() if hasattr(mappings, "read") else mappings)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArgumentError(
            f"Invalid custom frame mappings: {error}. It should be a valid JSON string or a file-like object."
        ) from None
    frames = table.get("frames") if isinstance(table, dict) else None
    if not isinstance(frames, list) or not frames:
        raise InvalidArgumentError(
            "Invalid custom frame mappings. The input is empty or missing the required 'frames' key."
        )
    rows = [_row(frame, number) for number, frame in enumerate(frames)]
    return [row[0] for row in rows], [row[1] for row in rows], [row[2] for row in rows]


def _row(frame: Any, number: int) -> tuple[int, int, bool]:
    for pts, duration in _SPELLINGS:
        try:
            row = int(frame[pts]), int(frame[duration]), bool(int(frame["key_frame"]))
        except (KeyError, TypeError):
            continue
        except (ValueError, OverflowError) as error:
            raise InvalidArgumentError(f"Invalid custom frame mappings. Frame {number}: {error}.") from None
        if max(abs(row[0]), abs(row[1])) > _MAX_TICKS:
            raise InvalidArgumentError(f"Invalid custom frame mappings. Frame {number}: times out of all proportion.")
        return row
    raise InvalidArgumentError(
        "Invalid custom frame mappings. The 'pts'/'pkt_pts', 'duration'/'pkt_duration', and 'key_frame' keys are "
        f"required in the frame metadata (frame {number} has {sorted(frame) if isinstance(frame, dict) else frame!r})."
    )
