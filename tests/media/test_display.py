"""Frames, audio and documents in notebooks, and with `show` and `print`."""

from __future__ import annotations

import base64
import io
import re
import sys
import wave
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from mediatensor import AudioSamples, Frame, FrameBatch
from mediatensor.datasets import Sample
from mediatensor.errors import MissingDependencyError
from mediatensor.ocr.io import Block, Document, Line, Page, Word


def opened(png: bytes | None) -> np.ndarray[Any, Any]:
    assert png is not None
    return np.asarray(Image.open(io.BytesIO(png)))


def test_frame_image_has_pixels_in_any_order_and_type() -> None:
    pixels = torch.randint(256, (3, 20, 30), dtype=torch.uint8)
    expected = pixels.permute(1, 2, 0).numpy()
    for data in (pixels, pixels.permute(1, 2, 0), pixels.float() / 255, (pixels.int() * 257).to(torch.uint16)):
        np.testing.assert_array_equal(opened(Frame(data, 0.5, 0.04)._repr_png_()), expected)
    gray = Frame(pixels[:1], 0.5, 0.04)
    np.testing.assert_array_equal(opened(gray._repr_png_()), expected[:, :, 0])


def test_batch_image_is_a_sheet_of_frames() -> None:
    data = (
        torch.zeros(40, 3, 30, 50, dtype=torch.uint8) + torch.arange(0, 240, 6, dtype=torch.uint8)[:, None, None, None]
    )
    times = torch.arange(40) / 10
    picture = opened(FrameBatch(data, times, times)._repr_png_())
    assert picture.shape == (4 * (30 + 16), 4 * (50 + 4) - 4, 3)
    corners = [picture[row * 46 + 5, column * 54 + 5, 0] for row in range(4) for column in range(4)]
    assert corners[0] == 0
    assert corners[-1] == 39 * 6
    assert corners == sorted(set(corners))
    clips = FrameBatch(data.reshape(10, 4, 3, 30, 50), times.reshape(10, 4), times.reshape(10, 4))
    np.testing.assert_array_equal(opened(clips._repr_png_()), picture)
    assert FrameBatch(data[:0], times[:0], times[:0])._repr_png_() is None


@pytest.mark.parametrize(
    "data",
    [torch.zeros(7, 20, 30), torch.zeros(3, 0, 0, dtype=torch.uint8), torch.zeros(3, 8, 8, device="meta")],
    ids=["channels", "no pixels", "no memory"],
)
def test_data_that_cannot_be_drawn_prints_text(data: torch.Tensor) -> None:
    assert Frame(data, 0.0, 0.0)._repr_png_() is None


def test_batch_without_dimension_is_one_frame() -> None:
    data = torch.zeros(3, 20, 30, dtype=torch.uint8)
    assert opened(FrameBatch(data, torch.tensor(0.5), torch.tensor(0.1))._repr_png_()).shape == (36, 30, 3)


def test_audio_is_a_player_of_its_samples() -> None:
    data = torch.linspace(-1.5, 1.5, 1000).expand(2, 1000)
    html = AudioSamples(data, 0.0, 0.125, 8000)._repr_html_()
    match = re.search(r'src="data:audio/wav;base64,([^"]+)"', html)
    assert match is not None
    with wave.open(io.BytesIO(base64.b64decode(match[1]))) as file:
        assert (file.getnchannels(), file.getframerate(), file.getnframes()) == (2, 8000, 1000)
        samples = np.frombuffer(file.readframes(1000), np.int16).reshape(1000, 2) / 32768
    np.testing.assert_allclose(samples, data.t().clamp(-1, 1).numpy(), atol=1 / 32768)
    long = AudioSamples(torch.zeros(1, 8000 * 200), 0.0, 200.0, 8000)._repr_html_()
    assert "the first 120 s" in long
    assert len(long) < 120 * 8000 * 2 * 1.4


def test_document_shows_pages_with_words() -> None:
    word = Word("Total", 0.9, ((0.1, 0.1), (0.3, 0.2)), 0.9, {"value": 0, "confidence": None})
    pages = [Page(np.full((80, 120, 3), 255, np.uint8), [Block([Line([word])])], i, (80, 120)) for i in range(7)]
    picture = opened(pages[0]._repr_png_())
    assert (picture != 255).any()
    html = Document(pages)._repr_html_()
    assert html.count("<img") == 5
    assert "and 2 more pages" in html
    without_image = Document.from_dict(Document(pages[:1]).export())
    assert without_image.pages[0]._repr_png_() is None
    assert "page 1" in without_image._repr_html_()


def test_show_draws_with_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("agg")
    shown: list[int] = []
    monkeypatch.setattr(pyplot, "show", lambda **_: shown.append(len(pyplot.gcf().axes)))
    frame = Frame(torch.zeros(3, 20, 30, dtype=torch.uint8), 0.5, 0.04)
    frame.show()
    FrameBatch(frame.data[None], torch.tensor([0.5]), torch.tensor([0.04])).show()
    samples = AudioSamples(torch.zeros(2, 100), 0.0, 0.1, 1000)
    with torch.device("meta"):  # as under torch.set_default_device("cuda")
        samples.show()
    assert shown == [1, 1, 2]
    pyplot.close("all")


def test_show_without_matplotlib_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingDependencyError, match=r"mediatensor\[plot\]"):
        Frame(torch.zeros(3, 20, 30, dtype=torch.uint8), 0.5, 0.04).show()


def test_a_sample_prints_shapes_and_no_pixels() -> None:
    times = torch.zeros(4)
    frames = FrameBatch(torch.zeros(4, 3, 20, 30, dtype=torch.uint8), times, times)
    sample = Sample(frames=frames, label=3, source="a.mp4", frame_indices=torch.arange(4), extra={"place": "Oslo"})
    assert repr(sample).splitlines() == [
        "Sample of 'a.mp4', row 0, epoch 0:",
        "  frames: uint8 (4, 3, 20, 30)",
        "  label: 3",
        "  frame_indices: int64 (4,)",
        "  extra: place",
    ]
