"""Record the results of transformers' own backends, for `test_compat_transformers.py`.

In a separate environment: ``pip install transformers torchvision av decord opencv-python-headless soundfile soxr``,
then ``python tests/shared/record_transformers.py``.
"""

from __future__ import annotations

from importlib.metadata import version
from types import SimpleNamespace

from transformers.audio_utils import load_audio
from transformers.video_utils import load_video

from decord_calls import FOLDER
from ocr_records import write_record
from transformers_calls import CALLS, outcome


def main() -> None:
    module = SimpleNamespace(load_video=load_video, load_audio=load_audio)
    found = {name: outcome(call, module) for name, call in CALLS.items()}
    found["versions"] = {name: version(name) for name in ("transformers", "av", "decord", "opencv-python-headless")}
    write_record("transformers", found, FOLDER)


if __name__ == "__main__":
    main()
