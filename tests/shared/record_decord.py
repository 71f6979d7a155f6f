"""Write what decord's readers give: ``python tests/shared/record_decord.py``, where decord is installed.

Frames are recorded of decord 0.6, because 3.4 returns resized ones with six channels, and sound of decord 3.4, because
0.6 shifts sound that it resamples, and the second channel: run it where one is installed, and then where the other is.

It needs nothing of this library. The files that it reads were written by ``python tests/shared/record_decord.py
files``, with PyAV; they are kept, because another encoder would write different ones.
"""

from __future__ import annotations

import json
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from decord_calls import CALLS, CLIP, FOLDER, LATE, UNEVEN, outcome
from ocr_records import write_record

UNEVEN_MILLISECONDS = [
    0,
    40,
    80,
    200,
    240,
    300,
    310,
    *range(500, 941, 40),
    *range(1040, 1241, 40),
    *range(1400, 1561, 40),
]
NUM_FRAMES, RATE, SAMPLE_RATE = 30, 25, 48_000


def main(what: str = "calls") -> None:
    if what == "files":
        FOLDER.mkdir(exist_ok=True)
        write(Path(CLIP))
        write(Path(LATE), late_samples=24_000)
        write(Path(UNEVEN), times=UNEVEN_MILLISECONDS)
        return
    import decord

    of_sound = decord.__version__ >= "3"
    path = FOLDER / "decord.json"
    recorded = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    kinds = ("sound:", "both:")
    done = {name: outcome(decord, call) for name, call in CALLS.items() if name.startswith(kinds) is of_sound}
    recorded |= done | {f"decord for {'sound' if of_sound else 'frames'}": decord.__version__}
    write_record("decord", dict(sorted(recorded.items())), FOLDER)
    print(f"wrote {path}, {len(done)} calls of decord {decord.__version__}")


def paint(number: int, width: int, height: int) -> Any:
    """A picture with a bar that grows, and a field whose colour changes: no two are alike."""
    picture = np.full((height, width, 3), (40, 60, 80), np.uint8)
    picture[:, : max(1, number * width // NUM_FRAMES)] = (200, 40, 40)
    picture[height // 2 :, width // 2 :, number // 5 % 3] = 40 + number % 5 * 45
    return picture


def write(path: Path, *, times: list[int] | None = None, late_samples: int = 0) -> None:
    """A clip with a key frame every 8 frames and with B-frames; without ``times``, it has audio."""
    import av

    unit = Fraction(1, RATE) if times is None else Fraction(1, 1000)
    with av.open(str(path), "w") as container:
        options = {"g": "8", "bf": "2", "crf": "12", "x264-params": "scenecut=0:threads=1"}
        video = container.add_stream("libx264", rate=RATE, options=options)
        video.width, video.height, video.pix_fmt, video.codec_context.time_base = 64, 48, "yuv420p", unit
        audio = container.add_stream("aac", rate=SAMPLE_RATE, layout="stereo") if times is None else None
        packets = []
        for number in range(NUM_FRAMES):
            frame = av.VideoFrame.from_ndarray(paint(number, 64, 48), format="rgb24")
            frame.pts, frame.time_base = number if times is None else times[number], unit
            packets += video.encode(frame)
        packets += video.encode(None)
        if audio is not None:
            audio.bit_rate = 64_000
            seconds = np.arange(SAMPLE_RATE * NUM_FRAMES // RATE) / SAMPLE_RATE
            tones = [0.4 * np.sin(2 * np.pi * 440 * seconds), 0.2 * np.sin(2 * np.pi * 880 * seconds)]
            sound = av.AudioFrame.from_ndarray(np.stack(tones).astype(np.float32), format="fltp", layout="stereo")
            sound.sample_rate, sound.pts, sound.time_base = SAMPLE_RATE, 0, Fraction(1, SAMPLE_RATE)
            heard = [*audio.encode(sound), *audio.encode(None)]
            for packet in heard:
                packet.pts, packet.dts = packet.pts + late_samples, packet.dts + late_samples
            packets += heard
        container.mux(sorted(packets, key=lambda packet: packet.dts * packet.time_base))


if __name__ == "__main__":
    main(*sys.argv[1:])
