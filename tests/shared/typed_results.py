"""Result types for type checkers: checked by `make types`, never run."""

from __future__ import annotations

from typing import assert_type

from torch import Tensor

from mediatensor import AudioSamples, Frame, FrameBatch
from mediatensor.datasets import Batch, DataLoader, Sample, Skipped, VideoClips
from mediatensor.decoders import AudioDecoder, VideoDecoder, decode_image, decode_png
from mediatensor.ocr import kie_predictor, ocr_predictor
from mediatensor.ocr.io import Document, DocumentFile, KIEDocument, Pages


def decoded(decoder: VideoDecoder, sound: AudioDecoder) -> None:
    assert_type(decoder[0], Tensor)
    assert_type(decoder.get_frame_at(0), Frame)
    assert_type(decoder.get_frames_at([0]), FrameBatch)
    assert_type(sound.get_all_samples(), AudioSamples)
    assert_type(decode_image("a.png"), Tensor)
    assert_type(decode_image(b"..."), Tensor)
    assert_type(decode_png(["a.png", b"..."], mode="gray"), list[Tensor])


def read() -> None:
    assert_type(ocr_predictor(pretrained=True)("page.png"), Document)
    assert_type(kie_predictor(pretrained=True)("page.png"), KIEDocument)
    assert_type(DocumentFile.from_pdf("report.pdf"), Pages)


def loaded(clips: VideoClips) -> None:
    assert_type(clips[0], Sample | Skipped)
    for batch in DataLoader(clips, batch_size=2):
        assert_type(batch, Batch)

    def count(samples: list[Sample | Skipped]) -> int:
        return len(samples)

    for number in DataLoader(clips, collate_fn=count):
        assert_type(number, int)
