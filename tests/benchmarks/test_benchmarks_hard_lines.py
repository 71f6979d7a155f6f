"""Hard lines are reproducible and legible to their teacher, and a tiny training writes a blend that loads."""

from __future__ import annotations

import hashlib
import random
import re
from copy import deepcopy
from pathlib import Path

import numpy as np
import pytest
import torch
from benchmarks.calibration import hard_lines, script_reader
from benchmarks.calibration.hard_drawing import (
    KINDS,
    HardLine,
    draw_hard_line,
    draw_separator,
    form_texts,
    rare_texts,
)
from benchmarks.calibration.hard_lines import _divergence, _Learner, blended, main
from benchmarks.calibration.signs import published_reader
from PIL import Image, ImageChops

from mediatensor.datasets import Sample
from mediatensor.ocr.drawing import Face, find_faces
from mediatensor.ocr.models import load_checkpoint, ppocr_v6_small_reco
from ocr_onnx_sessions import require_weights

TEXTS = ["Total 12.50", "Date: 3/14/97", "INVOICE No. 4711"]


def faces() -> tuple[Face, ...]:
    matplotlib = pytest.importorskip("matplotlib", reason="brings fonts")
    folder = Path(matplotlib.get_data_path(), "fonts", "ttf")
    return find_faces([folder / "DejaVuSans.ttf", folder / "DejaVuSansMono.ttf"])


def draw(seed: int) -> HardLine:
    return draw_hard_line(random.Random(seed), TEXTS, faces())


def test_same_seed_draws_same_line_of_each_kind() -> None:
    lines = [draw(seed) for seed in range(60)]
    assert {line.kind for line in lines} == set(KINDS)
    for seed in range(0, 60, 6):
        again = draw(seed)
        assert again.text == lines[seed].text
        assert np.array_equal(again.image, lines[seed].image)
        assert np.array_equal(again.clean, lines[seed].clean)
    assert len({line.image.tobytes() for line in lines}) == len(lines)


def test_form_texts_are_reproducible_and_of_many_kinds() -> None:
    texts = form_texts(["cat", "house"], 400, 1)
    assert texts == form_texts(["cat", "house"], 400, 1)
    assert len(set(texts)) > 300
    for pattern in (r"\$\d", r"\d/\d+/\d", r"\(\d{3}\) ?\d{3}-\d{4}", r"[A-Z]+-\d", r"\d%$", r":$", r"\bcat\b"):
        assert any(re.search(pattern, text) for text in texts), pattern


def test_rare_texts_are_reproducible_and_of_many_kinds() -> None:
    texts = rare_texts(["cat", "house"], 400, 1)
    assert texts == rare_texts(["cat", "house"], 400, 1)
    code, note, sign = r"^for \(\w+ = \d; .*\) \{$", "^\N{EIGHTH NOTE} .* \N{EIGHTH NOTE}$", r"^\W$"
    for pattern in (code, note, sign, r"^cathouse", r"\[-[a-zA-Z] \w+\]", r"^\$\d"):
        assert any(re.search(pattern, text) for text in texts), pattern


def likeness(line: HardLine, shift_px: int = 0) -> float:
    """Return the correlation of the two images, after moving the clean one. Its sign is for inverted lines."""
    clean = Image.fromarray(line.clean).convert("L")
    hard = Image.fromarray(line.image).convert("L").resize(clean.size)
    moved = ImageChops.offset(clean, shift_px, 0)
    return abs(float(np.corrcoef(np.asarray(hard).ravel(), np.asarray(moved).ravel())[0, 1]))


def test_letters_are_at_the_same_places_in_both_images() -> None:
    lines = [draw(seed) for seed in range(40)]
    assert np.median([likeness(line) for line in lines]) > 0.6
    # Letters have an em of 40 to 64 pixels in clean lines.
    assert sum(likeness(line) > max(likeness(line, -6), likeness(line, 6)) for line in lines) >= 38


def test_separators_are_cropped_closely_around_their_ink() -> None:
    rows = [draw_separator(random.Random(seed), faces(), 10.0) for seed in range(40)]
    assert np.array_equal(rows[7], draw_separator(random.Random(7), faces(), 10.0))
    assert all(row.shape[1] <= 10 * row.shape[0] + 1 for row in rows)
    assert np.median([row.shape[1] / row.shape[0] for row in rows]) > 4
    assert sum(np.ptp(row.min(2)) > 60 for row in rows) > 35
    # Dashes are lower than letters.
    assert np.median([len(row) for row in rows]) < 0.8 * np.median([len(draw(seed).image) for seed in range(40)])


def test_dataset_skips_unknown_characters_and_keeps_usual_lines_unchanged() -> None:
    def rows(*shares: float) -> list[object]:
        dataset = hard_lines.hard_lines(
            6, texts=["Total 5", "Preis 5 €"], fonts=[face.file for face in faces()], languages=["en"],
            characters="Total 5 abcdefghijklmnopqrstuvwxyz", seed=3, rare=["Total 5", "Ⅷ"], shares=shares,
        )  # fmt: skip
        return [dataset[row] for row in range(6)]

    hard, separators, rare, usual = rows(1, 0, 0), rows(0, 1, 0), rows(0, 0, 1), rows(0, 0, 0)
    assert {row.label for row in hard} == {"Total 5"}
    assert {row.label for row in separators} == {""}
    assert all(row.label and row.label in "Total 5" for row in rare)
    assert not any(torch.equal(row.image, row.extra["clean"]) for row in hard)
    assert all(torch.equal(row.image, row.extra["clean"]) for row in separators + rare + usual)
    assert all(torch.equal(row.image, again.image) for row, again in zip(hard, rows(1, 0, 0), strict=True))
    drawn = hard + separators + rare + usual
    assert all(row.image.shape[1] == 48 and row.image.shape == row.extra["clean"].shape for row in drawn)


@pytest.mark.slow
def test_score_counts_distance_from_published_network() -> None:
    characters = "abcdefghijklmnopqrstuvwxyz "
    published = ppocr_v6_small_reco(vocab=characters).eval()
    other = deepcopy(published)
    with torch.no_grad():
        other.layers[0].attention.qkv.weight.mul_(1.5)
    lines = hard_lines.hard_lines(
        2, texts=["abc"], fonts=[face.file for face in faces()], languages=["en"], characters=characters, seed=3,
        shares=(0, 0, 0),
    )  # fmt: skip
    learner = _Learner(deepcopy(published), published)
    same, different = (learner.scores(model, lines)["score"] for model in (published, other))
    # The texts do not count, because untrained networks cannot read them.
    assert same == pytest.approx(0, abs=1e-4)
    assert different < -1e-3


@pytest.mark.parametrize(("character", "is_learnt"), [("a", True), ("-", False)])
def test_separators_are_learnt_only_if_the_published_network_reads_letters(character: str, is_learnt: bool) -> None:
    characters = "abcdefghijklm-"
    network = ppocr_v6_small_reco(vocab=characters).eval()
    with torch.no_grad():
        network.head.weight.zero_()
        network.head.bias.copy_(torch.tensor([0.0, *(5.0 * (known == character) for known in characters)]))
    learner = _Learner(deepcopy(network), network)
    image = torch.zeros(3, 48, 96, dtype=torch.uint8)
    row = Sample(image=image, label="", extra={"clean": image})
    (batch,) = learner.collator(1)([row])
    # The share of the blank is 1 / (14 + e^5) at each step. The weight of CTC is 0.5.
    expected = 0.5 * np.log(14 + np.exp(5)) if is_learnt else 0
    assert float(learner.loss(learner.model, batch).detach()) == pytest.approx(expected, abs=1e-4)


def test_divergence_equals_the_formula_and_ignores_padding() -> None:
    generator = torch.Generator().manual_seed(1)
    known, found = torch.randn(2, 2, 5, 13, generator=generator)
    # Of 13 classes, the 12 most probable and the only other one: no class is merged.
    expected = torch.nn.functional.kl_div(
        found.log_softmax(-1), known.log_softmax(-1), reduction="none", log_target=True
    ).sum(-1)
    divergence = _divergence(found.log_softmax(-1), known, torch.tensor([5, 3]))
    torch.testing.assert_close(divergence, torch.stack([expected[0].mean(), expected[1, :3].mean()]), atol=1e-4, rtol=0)


def test_blend_interpolates_and_keeps_small_layers_exact() -> None:
    published = {"stem": torch.tensor([1.0, 3.0]), "norm.weight": torch.tensor([0.1]), "count": torch.tensor(7)}
    trained = {"stem": torch.tensor([2.0, 1.0]), "norm.weight": torch.tensor([0.1]), "count": torch.tensor(7)}
    weights = blended(published, trained, 0.25)
    assert weights["stem"].dtype == torch.float16
    assert weights["stem"].tolist() == [1.25, 2.5]
    assert torch.equal(weights["norm.weight"], published["norm.weight"])
    assert weights["count"] == 7


@pytest.mark.slow
def test_a_tiny_training_blends_and_scores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    require_weights()
    monkeypatch.setattr(script_reader, "HELD_OUT", "DejaVuSansMono")
    monkeypatch.setattr(hard_lines, "_NUM_VALIDATED", 4)
    monkeypatch.setattr(hard_lines, "_SCORED", ("en",))
    options = ["-o", str(tmp_path), "--fonts", *(face.file for face in faces())]
    settings = ["--lines", "8", "--epochs", "1", "--batch-size", "4"]
    assert main(["train", *options, *settings]) == 0
    # Training only writes the epoch with the least loss. Here, that may be the start.
    assert main(["blend", *options]) == 0
    file = tmp_path / "blend.pt"
    assert hashlib.sha256(file.read_bytes()).hexdigest() in capsys.readouterr().out
    model, published = load_checkpoint(file), published_reader()
    assert model.characters == published.characters
    assert model.script_classifier is not None
    assert torch.equal(model.norm.weight, published.norm.weight)
    assert main(["score", *options, "--scored", "1"]) == 0
    report = (tmp_path / "ocr_hard_lines.md").read_text("utf-8")
    assert "| hard lines | blend |" in report
    assert "| rare texts | published |" in report
    assert "| en | published |" in report
    further = ["-o", str(tmp_path / "further"), *options[2:], *settings, "--start", str(file)]
    assert main(["train", *further]) == 0
    assert load_checkpoint(tmp_path / "further" / "trained.pt").characters == published.characters
    assert main(["blend", *further[:2], "--start", str(file), "--alpha", "1"]) == 0
    ends = [load_checkpoint(path).stem.state_dict() for path in (file, tmp_path / "further" / "trained.pt")]
    for name, value in load_checkpoint(tmp_path / "further" / "blend.pt").stem.state_dict().items():
        mean = (ends[0][name].float() + ends[1][name].float()) / 2
        torch.testing.assert_close(value.float(), mean, atol=1e-3, rtol=1e-3)
