"""Record the probabilities that silero-vad's own ONNX model has for `vowels`: ``python record_speech.py FILE.onnx``.

The file is ``silero_vad/data/silero_vad.onnx`` in the wheel of silero-vad 6.2.3. Needs onnxruntime.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import onnxruntime

from spoken_formulas import RATE, vowels

RECORD = Path(__file__).parents[1] / "records" / "speech_probabilities.json"
SECONDS, SPANS = 7.0, [(0.5, 1.4), (1.9, 4.0), (4.3, 6.2)]


def main(file: str) -> None:
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    state, context = np.zeros((2, 1, 128), np.float32), np.zeros((1, 64), np.float32)
    sound = vowels(SPANS, SECONDS)
    probabilities = []
    for window in np.pad(sound, (0, -len(sound) % 512)).reshape(-1, 1, 512):
        given = {"input": np.concatenate([context, window], 1), "state": state, "sr": np.array(RATE)}
        probability, state = session.run(None, given)
        probabilities.append(round(float(probability[0, 0]), 6))
        context = window[:, -64:]
    RECORD.write_text(json.dumps({"seconds": SECONDS, "spans": SPANS, "probabilities": probabilities}) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
