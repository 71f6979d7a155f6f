"""What damaged files did once, each in the fewest bytes that show it."""

from __future__ import annotations

import io
import json
import os
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest

import media
import pdf_files
import wav_files
from mediatensor._pyav import linear_decode
from mediatensor.decoders import AudioDecoder, VideoDecoder
from mediatensor.errors import InvalidArgumentError, OpenError, ReadError
from mediatensor.ocr.io import Document, read_pdf

from .corpus import seed_file


def test_frame_mappings_with_times_out_of_all_proportion_are_no_mappings(clip: Path) -> None:
    frame = {"pts": 1 << 63, "duration": 1, "key_frame": 1}
    with pytest.raises(InvalidArgumentError, match="Frame 0"):
        VideoDecoder(clip, custom_frame_mappings=json.dumps({"frames": [frame]}))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("pages", 3),
        ("blocks", None),
        ("layout", 1.5),
        ("page_idx", {}),
        ("dimensions", [1, 2, 3]),
        ("dimensions", "ab"),
        ("orientation", 0),
        ("geometry", [[0, 0], [0]]),
        ("geometry", [[0, 0], ["a", 1]]),
        ("geometry", [[0, 0], [float("nan"), 1]]),
        ("value", None),
        ("confidence", "high"),
    ],
)
def test_values_of_other_kinds_in_a_stored_document_are_named(key: str, value: Any, tmp_path: Path) -> None:
    export = json.loads(seed_file("exports", "document", tmp_path))
    Document.from_dict(export).export_as("tsv")
    page = export["pages"][0]
    word = page["blocks"][0]["lines"][0]["words"][0]
    place = next((place for place in (word, page) if key in place), page if key == "layout" else export)
    place[key] = value
    with pytest.raises(InvalidArgumentError, match=f"{key!r} = "):
        Document.from_dict(export)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc, as Linux has it")
def test_a_pdf_file_that_is_refused_does_not_stay_open(tmp_path: Path) -> None:
    pytest.importorskip("pypdfium2", reason="needs pypdfium2")
    path = tmp_path / "no_catalogue.pdf"
    path.write_bytes(pdf_files.document([b""]).replace(b"/Root 1 0 R", b"/Root 9 0 R"))
    for _ in range(2):
        before = os.listdir("/proc/self/fd")
        with pytest.raises(OpenError):
            read_pdf(path)
        assert len(os.listdir("/proc/self/fd")) == len(before)


def test_frame_mappings_that_are_nested_too_deeply_are_no_mappings(clip: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="custom frame mappings"):
        VideoDecoder(clip, custom_frame_mappings='{"frames": ' + "[" * 100_000)


def test_a_rate_out_of_all_proportion_makes_no_filter() -> None:
    # The filter for this ratio would take 2 GB, and seconds to compute.
    sound = wav_files.wav("pcm_s16le", wav_files.noise(400), rate=251_680_290)
    assert AudioDecoder(sound).get_all_samples().data.shape == (1, 400)
    with pytest.raises(InvalidArgumentError, match="251680290 samples per second"):
        AudioDecoder(sound, sample_rate=16_000).get_all_samples()


class _BreaksHalfway(io.BytesIO):
    """A file whose second half cannot be read."""

    def read(self, size: int | None = -1) -> bytes:
        if self.tell() > len(self.getbuffer()) // 2:
            raise OSError("bad sector")
        return super().read(size)


def test_frames_that_a_codec_holds_back_are_part_of_a_plain_decode_that_fails(tmp_path: Path) -> None:
    data = media.make("mkv", tmp_path).read_bytes()
    decoder = VideoDecoder(_BreaksHalfway(data))
    frames = decoder.get_all_frames()
    assert any("reading stops" in anomaly for anomaly in decoder.frame_index.anomalies)
    times: list[Any] = []
    with pytest.raises(ReadError):
        times.extend(map(attrgetter("pts_seconds"), linear_decode(_BreaksHalfway(data))))
    assert times
    assert sorted(times) == frames.pts_seconds.tolist()
