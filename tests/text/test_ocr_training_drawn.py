"""Lines and pages that are drawn for training: repetition, positions of boxes, and learning from them."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from mediatensor.cli import main
from mediatensor.datasets import DataLoader, Sample
from mediatensor.errors import InvalidArgumentError
from mediatensor.ocr import training
from mediatensor.ocr.models import load_checkpoint
from mediatensor.ocr.training import (
    DetectionEvaluation,
    Fit,
    _loop,
    cropped_page,
    drawn_lines,
    drawn_pages,
    evaluate,
    fit,
)

matplotlib = pytest.importorskip("matplotlib")

FONTS = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
# Faces that are the same wherever matplotlib is.
FILES = [FONTS / f"{name}.ttf" for name in ("DejaVuSans", "DejaVuSerif", "DejaVuSansMono")]


def test_drawn_lines_depend_on_epoch_and_seed() -> None:
    lines, same, other = (drawn_lines(4, languages=["de", "en"], style="clean", seed=seed) for seed in (1, 1, 2))
    first = [lines[row] for row in range(4)]
    assert all(torch.equal(first[row].image, same[row].image) for row in range(4))
    assert [sample.label for sample in first] != [other[row].label for row in range(4)]
    lines.set_epoch(1)
    assert [sample.label for sample in first] != [lines[row].label for row in range(4)]
    assert all(lines.characters.issuperset(lines[row].label) for row in range(4))
    assert set(drawn_lines(2, characters="0123456789")[0].label) <= set("0123456789 ")
    assert set(same.limited_to("xq7")[0].label) <= set("xq7")
    with pytest.raises(InvalidArgumentError, match="choose from"):
        drawn_lines(2, languages=["xx"])
    with pytest.raises(InvalidArgumentError, match="style must be one of"):
        drawn_lines(2, style="wet")


def same(one: Sample, other: Sample) -> bool:
    return torch.equal(one.image, other.image) and np.array_equal(one.extra["boxes"], other.extra["boxes"])


@pytest.mark.slow
def test_drawn_pages_depend_on_epoch_and_seed() -> None:
    pages, again, other = (
        drawn_pages(6, languages=["de", "ru"], size=(300, 360), fonts=FILES, seed=seed) for seed in (1, 1, 2)
    )
    first = [pages[row] for row in range(6)]
    assert all(same(first[row], again[row]) for row in range(6))
    assert not any(same(first[row], other[row]) for row in range(6))
    for page in first:
        assert page.image.shape == (3, 360, 300)
        assert page.image.dtype == torch.uint8
        boxes = page.extra["boxes"]
        assert boxes.dtype == np.float64
        assert boxes.shape[1:] == (4, 2)
        assert 0 <= boxes.min(initial=0) <= boxes.max(initial=1) <= 1
    pages.set_epoch(1)
    second = [pages[row] for row in range(6)]
    assert not any(same(first[row], second[row]) for row in range(6))
    # Workers get the dataset pickled, and draw the same as the process itself; a loader resumes at its position.
    loader = DataLoader(pickle.loads(pickle.dumps(again)), 2, collate_fn=list, num_workers=1)
    batches = iter(loader)
    whole = list(next(batches))
    state = loader.state_dict()
    rest = [page for batch in batches for page in batch]
    assert all(same(one, other) for one, other in zip(first, whole + rest, strict=True))
    resumed = DataLoader(again, 2, collate_fn=list)
    resumed.load_state_dict(state)
    assert all(same(one, other) for one, other in zip(rest, [p for batch in resumed for p in batch], strict=True))


def in_pixels(page: Sample) -> NDArray[np.float64]:
    """The boxes of an upright page, (N, 4)."""
    corners = page.extra["boxes"] * [page.image.shape[2], page.image.shape[1]]
    np.testing.assert_allclose(corners[:, 0, 1], corners[:, 1, 1], atol=1e-6)
    return np.concatenate([corners[:, 0], corners[:, 2]], axis=1)


@pytest.mark.parametrize("kind", ["letter", "form"])
def test_boxes_of_drawn_pages_are_around_the_ink(kind: str) -> None:
    """A threshold of the picture says where ink is."""
    options = {"kind": kind, "style": "clean", "fonts": FILES, "size": (700, 900), "seed": 3}
    num_words = 0
    for row in range(2):
        tight, roomy, lines = (
            drawn_pages(2, **options, **more)[row]
            for more in ({"margin": 0}, {"margin": 0.2}, {"margin": 0, "text_unit": "line"})
        )
        assert torch.equal(tight.image, roomy.image)
        ink = tight.image.float().mean(0).numpy() < 190
        words, wide, whole = in_pixels(tight), in_pixels(roomy), in_pixels(lines)
        assert len(words) == len(wide) > len(whole) > 5
        for left, top, right, bottom in words.round().astype(int):
            part = ink[top:bottom, left:right]
            # The outermost pixel of a thin stroke may be fainter than the threshold.
            assert all(edge.any() for edge in (part[:2], part[-2:], part[:, :2], part[:, -2:]))
        for word, box in zip(words, wide, strict=True):
            middle = (word[:2] + word[2:]) / 2
            around = whole[((whole[:, :2] <= middle) & (middle <= whole[:, 2:])).all(axis=1)]
            room = 0.2 * (around[:, 3] - around[:, 1])
            moved = np.array([word[0] - box[0], word[1] - box[1], box[2] - word[2], box[3] - word[3]])
            assert (np.abs(moved[:, None] - room).max(axis=0) < 0.01).any()
        num_words += len(words)
    assert num_words > 60


@pytest.mark.slow
def test_detector_learns_from_crops_of_drawn_pages(tmp_path: Path, training_seed: int) -> None:
    options = {"kind": "slide", "style": "clean", "fonts": FILES, "size": (128, 128), "text_unit": "line"}
    done = fit(
        "linknet_resnet18",
        drawn_pages(64, **options),
        validation=drawn_pages(6, seed=1, **options),
        out=tmp_path / "finder.pt",
        pretrained=False,
        page_size=256,
        crop_size=128,
        batch_size=4,
        epochs=2,
        learning_rate=1e-2,
        ema_decay=0.9,
        seed=training_seed,
        augment=False,
    )
    assert done.epochs[0]["validation"]["recall"] < 0.02
    assert done.scores["recall"] > 0.4
    # Learnt from crops, searched as a whole.
    model = load_checkpoint(done.path, "detection")
    assert model.cfg["input_shape"] == (3, 256, 256)
    # The thresholds are saved with the weights, and are the best ones on the validation pages.
    own = (model.postprocessor.bin_thresh, model.postprocessor.box_thresh)
    scores = {}
    for model.postprocessor.bin_thresh, model.postprocessor.box_thresh in (own, (0.1, 0.1), (0.3, 0.5), (0.7, 0.7)):
        found = evaluate(model, drawn_pages(6, seed=1, **options))
        assert isinstance(found, DetectionEvaluation)
        thresholds = (model.postprocessor.bin_thresh, model.postprocessor.box_thresh)
        recall, precision = found.recall or 0.0, found.precision or 0.0
        scores[thresholds] = 2 * recall * precision / max(recall + precision, 1e-9)
    assert scores[own] == pytest.approx(done.scores["score"])
    assert scores[own] == max(scores.values()) > min(scores.values())


def test_crops_have_boxes_where_the_ink_is() -> None:
    """The page is white but for black bars, so that a crop shows where they must be: a slow count of its pixels."""
    page = torch.full((3, 90, 120), 255, dtype=torch.uint8)
    boxes = np.array([[0.1, 0.2, 0.3, 0.3], [0.5, 0.1, 0.9, 0.2], [0.4, 0.6, 0.7, 0.8]])
    for left, top, right, bottom in (boxes * [120, 90, 120, 90]).round().astype(int):
        page[:, top:bottom, left:right] = 0
    quads = boxes[:, [[0, 1], [2, 1], [2, 3], [0, 3]]]
    torch.manual_seed(0)
    num_padded = 0
    for number in range(60):
        size = (120, 240, 300)[number % 3]
        crop, found = cropped_page(page, {"a": boxes[:2], "b": quads[2:], "c": np.zeros((0, 4))}, size, 96)
        assert crop.shape == (3, 96, 96)
        assert found["c"].shape == (0, 4)
        assert found["b"].shape[1:] == (4, 2)
        bars = [*found["a"], *(np.concatenate([quad[0], quad[2]]) for quad in found["b"])]
        light, marked = crop.float().mean(0).numpy(), np.zeros((96, 96), bool)
        for left, top, right, bottom in np.array(bars).reshape(-1, 4) * 96:
            assert 0 <= left < right <= 96
            assert 0 <= top < bottom <= 96
            marked[round(top) : round(bottom), round(left) : round(right)] = True
            inside = light[round(top) + 1 : round(bottom) - 1, round(left) + 1 : round(right) - 1]
            assert inside.size == 0 or inside.max() < 60
        # The page is 4 to 3, in the middle of a square: black is above and below it, only in the bars.
        rows = (light < 60).all(axis=1)
        num_padded += rows.any()
        black = (light < 60) & ~rows[:, None]
        assert (black & ~marked).sum() < 0.02 * light.size
    assert num_padded > 5
    # Most crops are around a bar.
    assert sum(len(v) for _ in range(20) for v in cropped_page(page, {"a": boxes}, 240, 96)[1].values()) > 15


def test_drawn_pages_rejects_invalid_arguments() -> None:
    for name, value, message in (
        ("num_pages", 0, "num_pages"),
        ("kind", "poster", "kind must be one of letter"),
        ("languages", [], r"languages=\[\]"),
        ("style", "wet", "style must be one of"),
        ("text_unit", "words", "text_unit must be 'word' or 'line'"),
        ("margin", -0.1, "margin must be from 0 to 1"),
    ):
        with pytest.raises(InvalidArgumentError, match=message):
            drawn_pages(**{name: value})


@pytest.mark.slow
def test_command_trains_on_drawn_rows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_loop, "_POOL_BATCHES", 1)  # the statistics of this many batches are recomputed
    drawn = ["--random-weights", "--train-languages", "en,de", "--num-drawn", "2", "--epochs", "1", "--batch-size", "2"]
    for task, options, printed in (
        ("detection", ["--start", "linknet_resnet18", "--page-size", "96", "--crop-size", "64"], "recall"),
        ("recognition", ["--start", "crnn_mobilenet_v3_small", "--vocab", "0123456789 "], "lines exact"),
        ("orientation", ["--start", "mobilenet_v3_small_crop_orientation"], "directions right"),
    ):
        out = tmp_path / f"{task}.pt"
        assert main(["train", task, *options, *drawn, "--keep-languages", "fr", "-o", str(out)]) == 0
        assert printed in capsys.readouterr().out
        kind = "Pages(2 drawn pages" if task == "detection" else "Lines(2 drawn lines"
        assert torch.load(out, weights_only=True)["card"]["keep"].startswith(f"Drawn{kind} in fr")


def test_command_gives_drawn_rows_and_options_to_fit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    given: dict[str, Any] = {}

    def spy(start: str, train: Any, **options: Any) -> Fit:
        given.update(options, start=start, train=train)
        return Fit(tmp_path / "best.pt", {"recall": 0.5, "precision": 0.25}, (), 3)

    drawn = ["--random-weights", "--train-languages", "en,de", "--num-drawn", "20"]
    pages = ["--start", "linknet_resnet18", "--page-size", "96", "--crop-size", "64"]
    command = ["train", "detection", *pages, *drawn, "-o", str(tmp_path / "finder.pt")]
    with monkeypatch.context() as replaced:
        replaced.setattr(training, "fit", spy)
        assert (
            main([*command, "--keep-languages", "fr", "--ema-decay", "0.9", "--epochs", "7", "--batch-size", "2"]) == 0
        )
        assert (
            capsys.readouterr().out == f"{tmp_path / 'best.pt'}: epoch 3 is the best. recall 50.0%, precision 25.0%.\n"
        )
        assert [repr(given[name]) for name in ("train", "validation", "keep")] == [
            "DrawnPages(20 drawn pages in en, de)",
            "DrawnPages(2 drawn pages in en, de)",
            "DrawnPages(20 drawn pages in fr)",
        ]
        expected = {
            "start": "linknet_resnet18", "pretrained": False, "page_size": 96, "crop_size": 64, "ema_decay": 0.9,
            "epochs": 7, "batch_size": 2, "out": tmp_path / "finder.pt", "vocab": None,
        }  # fmt: skip
        assert {name: given[name] for name in expected} == expected
        start = "mobilenet_v3_small_crop_orientation"
        assert main(["train", "orientation", "--start", start, *drawn, "--keep-languages", "fr", "-o", "x.pt"]) == 0
        assert repr(given["keep"]) == "DrawnLines(20 drawn lines in fr)"
        digits = ["--start", "crnn_mobilenet_v3_small", "--vocab", "0123456789 "]
        assert main(["train", "recognition", *digits, *drawn, "-o", "x.pt"]) == 0
        assert given["vocab"] == "0123456789 "
        assert set(given["train"][0].label) <= set("0123456789 ")
    capsys.readouterr()
    for more, message in (
        (["--train", str(tmp_path)], "Give --train or --train-languages"),
        (["--train-languages", "xx"], "choose from"),
        (["--text-unit", "page"], "invalid choice"),
        (["--crop-size", "70"], "expected a multiple of 32"),
    ):
        assert main([*command[:-1], str(tmp_path / "other.pt"), *more]) == 2
        assert message in capsys.readouterr().err
    assert main(["train", "recognition", *digits, *drawn, "--crop-size", "64", "-o", str(tmp_path / "other.pt")]) == 2
    assert "--crop-size is for detectors" in capsys.readouterr().err
    assert main(["train", "detection", "--train", str(tmp_path), "-o", str(tmp_path / "other.pt")]) == 2
    assert "--train needs --validation" in capsys.readouterr().err
