"""`fit`: learning and forgetting, resuming after a kill, files, and impossible trainings."""

from __future__ import annotations

import itertools
import json
import random
import string
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image, ImageDraw, ImageFont

from forked import run_program
from mediatensor.cli import main
from mediatensor.datasets import Item, Recipe, Sample
from mediatensor.errors import (
    InvalidArgumentError,
    SourceNotFoundError,
    SourceTypeError,
    TrainingError,
    WeightsError,
    WeightsNotFoundError,
    WriteError,
)
from mediatensor.isolate import limited_memory
from mediatensor.ocr.models import (
    crnn_mobilenet_v3_small,
    crop_orientation_predictor,
    fast_tiny,
    load_checkpoint,
    ocr_predictor,
    ppocr_mobile_v2_line_orientation,
    ppocr_v6_small_reco,
    recognition_predictor,
)
from mediatensor.ocr.models._networks.weights import Checkpoint, save_checkpoint
from mediatensor.ocr.training import (
    DrawnLines,
    LineDataset,
    PageDataset,
    _loop,
    _recognition,
    changed_line,
    changed_page,
    drawn_lines,
    evaluate,
    fit,
)
from mediatensor.ocr.training._detection import Detection
from ocr_onnx_sessions import require_weights

VOCAB = "0123456789"
TINY: dict[str, Any] = {"pretrained": False, "vocab": VOCAB, "batch_size": 2, "learning_rate": 1e-3, "epochs": 2}


class StopError(Exception):
    """Breaks a training off."""


def drawn(text: str, size: int = 24) -> Image.Image:
    """A line in Pillow's own face."""
    font = ImageFont.load_default(size)
    _, _, right, bottom = font.getbbox(text)
    picture = Image.new("RGB", (int(right) + 8, int(bottom) + 8), "white")
    ImageDraw.Draw(picture).text((4, 2), text, font=font, fill="black")
    return picture


def write_lines(folder: Path, texts: list[str], name: str = "lines") -> Path:
    """Write images into a folder, and a manifest next to it."""
    (folder / name).mkdir(parents=True)
    rows = []
    for number, text in enumerate(texts):
        drawn(text).save(folder / name / f"{number:03}.png")
        rows.append(json.dumps({"file": f"{name}/{number:03}.png", "text": text}, ensure_ascii=False))
    manifest = folder / f"{name}.jsonl"
    manifest.write_text("\n".join(rows), encoding="utf-8")
    return manifest


def numbers(count: int, seed: int = 0) -> list[str]:
    source = random.Random(seed)
    return [str(source.randrange(10, 100_000)) for _ in range(count)]


@pytest.fixture(autouse=True)
def small_pools(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read two batches together: with eight, an epoch of several pools takes long."""
    monkeypatch.setattr(_loop, "_POOL_BATCHES", 2)


@pytest.fixture
def lines(tmp_path: Path) -> LineDataset:
    return LineDataset(write_lines(tmp_path, numbers(20)))


@pytest.fixture
def few_lines(tmp_path: Path) -> LineDataset:
    return LineDataset(write_lines(tmp_path, numbers(8)))


@pytest.fixture
def validation(tmp_path: Path) -> LineDataset:
    return LineDataset(write_lines(tmp_path, numbers(4, 1), "validation"))


@pytest.fixture
def saved_weights(monkeypatch: pytest.MonkeyPatch) -> dict[tuple[int, int], dict[str, torch.Tensor]]:
    """The averaged weights in all states that trainings save, by epoch and pool. (A checkpoint has the best epoch.)"""
    weights: dict[tuple[int, int], dict[str, torch.Tensor]] = {}
    save = torch.save

    def record(value: Any, *args: Any, **kwargs: Any) -> None:
        if "averaged" in value:
            epoch, pool = value["counts"][:2]
            weights[epoch, pool] = {name: tensor.clone() for name, tensor in value["averaged"].items()}
        save(value, *args, **kwargs)

    monkeypatch.setattr(torch, "save", record)
    return weights


def break_off(lines: LineDataset, **settings: Any) -> None:
    """Begin a training, and end it as soon as it has written its first checkpoint."""

    def stop(epoch: Any) -> None:
        raise StopError

    with pytest.raises(StopError):
        fit("crnn_mobilenet_v3_small", lines, report=stop, **settings)


def weights_of(path: Path) -> dict[str, torch.Tensor]:
    return dict(load_checkpoint(path).state_dict())


def assert_same_weights(ours: dict[str, torch.Tensor], theirs: dict[str, torch.Tensor]) -> None:
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        torch.testing.assert_close(value, theirs[name], rtol=0, atol=0, msg=name)


# Where lines come from


def test_line_dataset_reads_manifests_folders_and_labels(tmp_path: Path) -> None:
    texts = ["Größe", "12,50 €"]
    manifest = write_lines(tmp_path, texts)
    folder = tmp_path / "lines"
    decomposed = "Gro\u0308\u00dfe"
    (folder / "000.gt.txt").write_text(decomposed + "\n", encoding="utf-8")
    (folder / "001.txt").write_text(texts[1], encoding="utf-8")
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "images").symlink_to(folder)
    (docs / "labels.json").write_text(json.dumps({"000.png": decomposed, "001.png": texts[1]}), encoding="utf-8")
    (tmp_path / "flat.jsonl").write_text('{"file": "000.png", "text": "Gro\u0308\u00dfe"}', encoding="utf-8")
    (tmp_path / "flat").symlink_to(folder)
    for source, expected in ((manifest, texts), (folder, texts), (docs / "labels.json", texts)):
        dataset = LineDataset(source)
        # The decomposed letters come out composed: one sign is written in one way.
        assert [dataset[number].label for number in range(len(dataset))] == ["Größe", "12,50 €"][: len(expected)]
        assert torch.equal(dataset[1].image, LineDataset(manifest)[1].image)
    # A folder that is called like the manifest, and a folder that is named.
    assert LineDataset(tmp_path / "flat.jsonl")[0].label == "Größe"
    assert LineDataset(tmp_path / "flat.jsonl", images=folder)[0].image is not None
    # Sources that have their own images do not have a folder of images.
    for given in (folder, [{"file": str(folder / "000.png"), "text": "12"}], [Item(b"", label="12")]):
        with pytest.raises(InvalidArgumentError, match="images is the folder of the image files of a manifest or of"):
            LineDataset(given, images=docs)


def test_line_dataset_rejects_invalid_sources(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    drawn("12").save(tmp_path / "empty" / "0.png")
    with pytest.raises(InvalidArgumentError, match=r"1 pictures, and none with a text next to it"):
        LineDataset(tmp_path / "empty")
    with pytest.raises(InvalidArgumentError, match="has no text"):
        LineDataset([tmp_path / "empty" / "0.png"])
    with pytest.raises(SourceNotFoundError):
        LineDataset(tmp_path / "absent.jsonl")
    (tmp_path / "empty" / "0.gt.txt").write_bytes("Größe".encode("latin-1"))
    with pytest.raises(InvalidArgumentError, match=r"0\.gt\.txt' is not text in UTF-8"):
        LineDataset(tmp_path / "empty")
    (tmp_path / "empty" / "0.gt.txt").write_bytes(b"a" * ((1 << 20) + 1))
    with pytest.raises(InvalidArgumentError, match=r"0\.gt\.txt' has 1048577 bytes, too many"):
        LineDataset(tmp_path / "empty")


@pytest.mark.parametrize("size", [(1, 1), (1, 40), (2, 3), (40, 1)])
def test_augmentation_keeps_the_size_of_tiny_images(size: tuple[int, int]) -> None:
    image = torch.full((3, *size), 200, dtype=torch.uint8)
    torch.manual_seed(0)
    assert all(changed_line(image).shape == image.shape for _ in range(30))
    assert all(changed_page(image, np.zeros((0, 4)))[0].ndim == 3 for _ in range(30))


def test_changed_lines_differ_and_repeat() -> None:
    line = torch.from_numpy(np.array(drawn("Total 12.50"))).permute(2, 0, 1)
    torch.manual_seed(1)
    first = [changed_line(line) for _ in range(12)]
    torch.manual_seed(1)
    assert all(torch.equal(one, changed_line(line)) for one in first)
    assert len({one.sum().item() for one in first}) > 8
    assert all(one.shape == line.shape and one.dtype == torch.uint8 for one in first)
    # It stays legible: ink stays dark on a light ground.
    assert all(one.float().mean() > 100 for one in first)


# The loss


def test_loss_covers_all_classes() -> None:
    torch.manual_seed(0)
    model = ppocr_v6_small_reco(vocab="".join(map(chr, range(0x4E00, 0x4E00 + 5000))) + " abcß")
    texts = ["a b", "", "c" * 30, "ßa一a"]
    features = torch.randn(4, 12, 120, requires_grad=True)

    def gradients(loss: torch.Tensor) -> list[torch.Tensor]:
        found = torch.autograd.grad(loss, [features, model.head.weight, model.head.bias])
        return [loss.detach(), *found]

    numbers = {character: index + 1 for index, character in enumerate(model.characters)}
    labels = torch.tensor([numbers[c] for text in texts for c in text])
    scores = model.head(features).log_softmax(-1).transpose(0, 1)
    lengths = torch.tensor([len(text) for text in texts])
    whole = F.ctc_loss(scores, labels, torch.full((4,), 12), lengths, 0, zero_infinity=True)
    for ours, theirs in zip(gradients(model.compute_loss(features, texts)), gradients(whole), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


def test_new_characters_leave_other_classes_unchanged() -> None:
    torch.manual_seed(0)
    model = ppocr_v6_small_reco(vocab="abc ").eval()
    picture = torch.rand(1, 3, 48, 64)
    before = model(picture, return_model_output=True)["out_map"]
    model.extend_vocab("cжa")
    after = model(picture, return_model_output=True)["out_map"]
    assert model.vocab == "abc ж"
    assert torch.equal(after[..., :5], before)
    assert model(picture, ["ж"])["loss"].isfinite()


# Training


def test_killed_training_resumes_to_the_same_weights(
    tmp_path: Path, saved_weights: dict[tuple[int, int], dict[str, torch.Tensor]], training_seed: int
) -> None:
    lines = LineDataset(write_lines(tmp_path, numbers(10)))
    whole, parts = tmp_path / "whole.pt", tmp_path / "parts.pt"
    # A network with normalisation and dropout, on randomly changed lines, with rehearsal lines.
    settings: dict[str, Any] = {
        "pretrained": False,
        "page_size": 64,
        "batch_size": 4,
        "learning_rate": 2e-3,
        "epochs": 3,
        "ema_decay": 0.8,
        "save_seconds": 0.0,
        "seed": training_seed,
    }
    arch, manifest = "mobilenet_v3_small_crop_orientation", str(tmp_path / "lines.jsonl")
    expected = fit(arch, lines, validation=lines, keep=LineDataset(manifest), out=whole, **settings)
    uninterrupted = dict(saved_weights)
    saved_weights.clear()
    assert list(uninterrupted) == [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1), (3, 0)]
    script = f"""
        import os, torch
        from mediatensor.ocr.training import LineDataset, fit
        from mediatensor.ocr.training import _detection, _loop
        torch.set_num_threads({torch.get_num_threads()})
        _loop._POOL_BATCHES = 2
        loss, count = _detection.Orientation.loss, 0
        def dying(self, model, batch, share=1.0):
            global count
            count += model.training
            if count == 12:  # in the second pool of the second epoch, of 3 steps with two losses each
                os._exit(9)
            return loss(self, model, batch, share)
        _detection.Orientation.loss = dying
        lines = LineDataset({manifest!r})
        fit({arch!r}, lines, validation=lines, keep=LineDataset({manifest!r}), out={str(parts)!r}, **{settings!r})
    """
    killed = run_program(textwrap.dedent(script))
    assert killed.returncode == 9, killed.stderr
    assert parts.with_suffix(".state.pt").exists()
    resumed = fit(arch, lines, validation=lines, keep=LineDataset(manifest), out=parts, **settings)
    assert list(saved_weights) == [(2, 0), (2, 1), (3, 0)]  # it was killed after (1, 1)
    for place, weights in saved_weights.items():
        assert_same_weights(uninterrupted[place], weights)
    assert_same_weights(weights_of(whole), weights_of(parts))
    timeless = [[{**epoch, "seconds": 0} for epoch in one.epochs] for one in (expected, resumed)]
    assert timeless[0] == timeless[1]
    # The network was in training mode: its normalisation has seen the pictures.
    last = uninterrupted[3, 0]
    statistics = [name for name in last if name.endswith("running_mean")]
    assert statistics
    assert all(last[name].abs().max() > 0 for name in statistics)
    # The weights moved after the kill, and the state that was needed to resume is gone.
    head = next(name for name in reversed(last) if name.endswith("weight"))
    assert not torch.equal(uninterrupted[1, 1][head], last[head])
    assert not parts.with_suffix(".state.pt").exists()
    logged = [json.loads(line) for line in parts.with_suffix(".jsonl").read_text().splitlines()]
    assert logged == list(resumed.epochs)
    with Image.open(parts.with_suffix(".png")) as picture:
        assert picture.width > 500


def test_training_that_ended_before_its_first_state_resumes(
    few_lines: LineDataset, validation: LineDataset, tmp_path: Path
) -> None:
    settings: Any = {"validation": validation, "out": tmp_path / "out.pt", **TINY, "epochs": 1}
    break_off(few_lines, **settings)
    assert (tmp_path / "out.pt").exists()
    assert len(fit("crnn_mobilenet_v3_small", few_lines, **settings).epochs) == 2


def test_state_that_is_damaged_or_lacks_its_weights_is_rejected(
    few_lines: LineDataset, validation: LineDataset, tmp_path: Path
) -> None:
    out = tmp_path / "out.pt"
    settings: Any = {"validation": validation, "out": out, **TINY}
    break_off(few_lines, **settings)
    state = out.with_suffix(".state.pt")
    stored = torch.load(state, weights_only=True)
    stored["epochs"] = [json.loads(out.with_suffix(".jsonl").read_text())]
    for damage in ({"epochs": None}, {"counts": [0, 0, 0, 0, 7]}):
        torch.save(stored | damage, state)
        with pytest.raises(WeightsError, match="is damaged"):
            fit("crnn_mobilenet_v3_small", few_lines, **settings)
    torch.save(stored, state)
    out.unlink()
    with pytest.raises(WeightsError, match=r"out\.pt is missing, which has the best weights so far"):
        fit("crnn_mobilenet_v3_small", few_lines, **settings)


def test_other_rows_do_not_resume(few_lines: LineDataset, validation: LineDataset, tmp_path: Path) -> None:
    settings: Any = {"out": tmp_path / "out.pt", **TINY}
    break_off(few_lines, validation=validation, **settings)
    fewer = LineDataset(validation.items[:3])
    with pytest.raises(InvalidArgumentError, match=r"num_validation_rows=4, now 3.*resume=False"):
        fit("crnn_mobilenet_v3_small", few_lines, validation=fewer, **settings)
    others = LineDataset(few_lines.items[4:])
    assert len(others) == len(validation)
    differing = r"other files with the same number of rows.*000\.png.*004\.png.*resume=False"
    with pytest.raises(InvalidArgumentError, match=differing):
        fit("crnn_mobilenet_v3_small", few_lines, validation=others, **settings)
    turned = LineDataset(few_lines.items[::-1])
    with pytest.raises(InvalidArgumentError, match=r"another order.*resume=False"):
        fit("crnn_mobilenet_v3_small", turned, validation=validation, **settings)


@pytest.mark.slow
def test_other_arguments_do_not_resume(few_lines: LineDataset, validation: LineDataset, tmp_path: Path) -> None:
    out = tmp_path / "out.pt"

    class Stopping(Recipe):
        def __init__(self, recipe: Recipe) -> None:
            self.recipe, self.count = recipe, 0

        def open(self, item: Item) -> Any:
            return self.recipe.open(item)

        def read(self, opened: Any, item: Item, part: int) -> Sample:
            self.count += 1
            if self.count > 10:
                raise StopError
            return self.recipe.read(opened, item, part)

    recipe = few_lines.recipe
    few_lines.recipe = Stopping(recipe)
    with pytest.raises(StopError):
        fit("crnn_mobilenet_v3_small", few_lines, validation=validation, out=out, save_seconds=0.0, **TINY)
    few_lines.recipe = recipe
    changed = {**TINY, "learning_rate": 2e-3}
    with pytest.raises(InvalidArgumentError, match=r"learning_rate=0.001, now 0.002.*resume=False"):
        fit("crnn_mobilenet_v3_small", few_lines, validation=validation, out=out, **changed)
    state = out.with_suffix(".state.pt")
    state.write_bytes(state.read_bytes()[:1000])
    with pytest.raises(WeightsError):
        fit("crnn_mobilenet_v3_small", few_lines, validation=validation, out=out, **TINY)
    assert fit("crnn_mobilenet_v3_small", few_lines, validation=validation, out=out, resume=False, **changed).epochs


# Stars represent a sign that is not among the published characters: the network learns a new name of a shape.
NEW = "\u203d"


def write_stars(folder: Path, texts: list[str]) -> LineDataset:
    manifest = write_lines(folder, texts, "stars")
    rows = [json.loads(row) for row in manifest.read_text().splitlines()]
    manifest.write_text("\n".join(json.dumps({**row, "text": row["text"].replace("*", NEW)}) for row in rows))
    return LineDataset(manifest)


def test_training_changes_the_characters_of_its_lines(
    tmp_path: Path,
    saved_weights: dict[tuple[int, int], dict[str, torch.Tensor]],
    training_seed: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    require_weights()
    before = ppocr_v6_small_reco(pretrained=True)
    before.restrict_vocab(string.printable)  # with all characters, each step takes twice as long
    start = tmp_path / "start.pt"
    save_checkpoint(start, Checkpoint("ppocr_v6_small_reco", before.state_dict(), before.characters))
    stars = write_stars(tmp_path, ["12*", "7*"])
    settings: dict[str, Any] = {"validation": stars, "out": tmp_path / "learnt.pt", "batch_size": 2, "epochs": 1}
    with pytest.raises(
        InvalidArgumentError, match=r"1 characters that the recogniser does not know.*extend_vocab=True"
    ):
        fit(start, stars, **settings)
    # German has marks that the reader does not know; there is nothing to keep of them.
    german = drawn_lines(2, languages=["de"])
    assert not german.characters <= set(before.vocab)
    # The scores grow, so that the trained weights are the best.
    scores = itertools.count()
    monkeypatch.setattr(
        _recognition.Recognition, "scores", lambda *_: {"score": float(next(scores)), "character_error_rate": 0.5}
    )
    done = fit(start, stars, keep=german, extend_vocab=True, blend=0.5, seed=training_seed, **settings)
    assert done.best_epoch == 1
    model = load_checkpoint(done.path)
    assert model.vocab == before.vocab + NEW
    learnt, found = saved_weights[1, 0]["head.weight"], model.head.weight
    # Blended, half of the way from the weights at the start; new characters keep their learnt weights.
    assert torch.equal(found[-1], learnt[-1])
    assert torch.allclose(found[:-1], (before.head.weight + learnt[:-1]) / 2, atol=1e-6)
    unused = [i + 1 for i, character in enumerate(before.characters) if character not in german.characters | set("127")]
    assert len(unused) > 3
    assert torch.equal(found[unused], before.head.weight[unused])
    assert torch.equal(model.head.bias[unused], before.head.bias[unused])
    used = before.characters.index("7") + 1
    assert not torch.equal(found[used], before.head.weight[used])
    # Two lines say nothing of the statistics that thousands of pages have.
    statistics = {name: value for name, value in before.state_dict().items() if "running" in name}
    assert statistics
    assert all(torch.equal(model.state_dict()[name], value) for name, value in statistics.items())
    # The file is a reader wherever a name is.
    assert ocr_predictor(reco_arch=done.path, pretrained=True).reco_predictor.model.vocab == model.vocab


@pytest.mark.slow
def test_default_recogniser_learns_new_characters_and_keeps_others(tmp_path: Path, training_seed: int) -> None:
    require_weights()
    before = ppocr_v6_small_reco(pretrained=True)
    assert NEW not in before.vocab
    stars = write_stars(tmp_path, [f"{a}{b}" for a in ("12", "7", "345") for b in ("*", "**")])
    settings: dict[str, Any] = {
        "validation": stars,
        "out": tmp_path / "learnt.pt",
        "augment": False,
        "batch_size": 3,
        "seed": training_seed,
    }
    kept = LineDataset(write_lines(tmp_path, ["Total 12", "Hello you"], "kept"))
    taught: dict[str, Any] = {"keep": kept, "extend_vocab": True, "epochs": 4, "learning_rate": 3e-4, "ema_decay": 0.8}
    done = fit("ppocr_v6_small_reco", stars, **taught, **settings)
    assert done.scores["character_error_rate"] < 0.5 * done.epochs[0]["validation"]["character_error_rate"]
    model = load_checkpoint(done.path)
    assert model.vocab == before.vocab + NEW
    assert done.epochs[-1]["keep"]["character_error_rate"] <= done.epochs[0]["keep"]["character_error_rate"]
    # Greek has letters that the reader does not know; there is nothing to keep of them.
    greek = drawn_lines(4, languages=["el"])
    assert not greek.characters <= set(model.vocab)
    once: dict[str, Any] = {**settings, "out": tmp_path / "greek.pt", "epochs": 1}
    assert fit(done.path, stars, keep=greek, **once).epochs[-1]["keep"]["num_lines"] == 4
    assert evaluate(done.path, stars).cer == pytest.approx(done.scores["character_error_rate"])


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_recogniser_learns_from_random_weights(tmp_path: Path, training_seed: int) -> None:
    matplotlib = pytest.importorskip("matplotlib", reason="brings a font")
    # No digit twice in a row: learning to separate two of them takes far longer.
    digits = "01234"
    texts = ["".join(text) for length in (1, 2, 3) for text in itertools.permutations(digits, length)]

    def drawn(num_lines: int, seed: int) -> DrawnLines:
        font = Path(matplotlib.get_data_path(), "fonts", "ttf", "DejaVuSans.ttf")
        return drawn_lines(num_lines, characters=digits, texts=texts, style="clean", fonts=[font], seed=seed)

    settings: dict[str, Any] = {
        "validation": drawn(40, 1),
        "pretrained": False,
        "vocab": digits,
        "epochs": 4,
        "batch_size": 8,
        "learning_rate": 1.5e-3,
        "ema_decay": 0.95,
        "augment": False,
        "seed": training_seed,
    }
    done = fit("crnn_mobilenet_v3_small", drawn(320, 0), out=tmp_path / "digits.pt", **settings)
    assert done.epochs[0]["validation"]["exact"] < 0.2
    for attempt in range(4):
        if done.epochs[-1]["loss"] < 0.1:
            break
        done = fit(done.path, drawn(320, 0), out=tmp_path / f"digits{attempt}.pt", **settings)
    assert done.epochs[-1]["loss"] < 0.1
    lines = drawn(200, 2)
    unseen = [lines[row] for row in range(len(lines))]
    read = recognition_predictor(done.path).read([line.image for line in unseen])
    assert sum(text == line.label for (text, _), line in zip(read, unseen, strict=True)) >= 190


@pytest.mark.slow
def test_infinite_gradients_end_training(lines: LineDataset, validation: LineDataset, tmp_path: Path) -> None:
    out = tmp_path / "out.pt"
    fit("crnn_mobilenet_v3_small", lines, validation=validation, out=out, **{**TINY, "epochs": 1})
    good = out.read_bytes()
    # An infinite loss makes all gradients infinite.
    settings = {**TINY, "keep": lines, "keep_weight": 1e38}
    with pytest.raises(TrainingError, match=r"not finite, in epoch 1.*out2.pt.*smaller learning_rate"):
        fit(out, lines, validation=validation, out=tmp_path / "out2.pt", **settings)
    assert out.read_bytes() == good
    # The weights at the start are the best so far.
    assert_same_weights(weights_of(out), weights_of(tmp_path / "out2.pt"))


def test_invalid_arguments_are_rejected(lines: LineDataset, validation: LineDataset, tmp_path: Path) -> None:
    given: dict[str, Any] = {"validation": validation, "out": tmp_path / "out.pt"}
    for arch, changes, message in (
        ("crnn", {}, "unknown architecture 'crnn'"),
        ("db_resnet18", {}, "unknown architecture 'db_resnet18'"),
        ("lw_detr_s", {"pretrained": False}, "is a network for layout"),
        ("crnn_mobilenet_v3_small", {**TINY, "vocab": "012"}, "characters that the recogniser does not know: 3 4 5"),
        ("crnn_mobilenet_v3_small", {**TINY, "vocab": "012", "extend_vocab": True}, "cannot take further characters"),
        ("crnn_mobilenet_v3_small", {**TINY, "epochs": 0}, "epochs"),
        ("linknet_resnet18", {"pretrained": False, "page_size": 33}, "page_size must be a multiple of 32 .got 33"),
        ("crnn_mobilenet_v3_small", {**TINY, "learning_rate": -1.0}, "learning_rate must be from 0 to 1"),
        ("crnn_mobilenet_v3_small", {**TINY, "clip_norm": -1.0}, r"clip_norm must be at least 0 .got -1\.0"),
        ("crnn_mobilenet_v3_small", {**TINY, "clip_norm": 0}, "clip_norm must be above 0"),
        ("crnn_mobilenet_v3_small", {**TINY, "keep_weight": -2}, "keep_weight must be at least 0"),
        ("crnn_mobilenet_v3_small", {**TINY, "save_seconds": -1}, "save_seconds must be at least 0"),
        ("crnn_mobilenet_v3_small", {**TINY, "report": "log"}, "report must be a function"),
        ("crnn_mobilenet_v3_small", {**TINY, "seed": 2**64}, "seed must be a whole number"),
        *[
            ("crnn_mobilenet_v3_small", {**TINY, "device": device}, f"Unsupported device: {device}")
            for device in ("abacus", "cuda:99", "meta")
        ],
        ("crnn_mobilenet_v3_small", {**TINY, "out": tmp_path / "out.onnx"}, r"ends in \.pt"),
        ("crnn_mobilenet_v3_small", {**TINY, "validation": ["a.png"]}, "validation must be a MediaDataset"),
    ):
        with pytest.raises(InvalidArgumentError, match=message):
            fit(arch, lines, **{**given, **changes})
    with pytest.raises(SourceTypeError, match=r"arch must be a path.*got None"):
        fit(None, lines, **given)  # type: ignore[arg-type]
    two_lines = LineDataset([Item(lines.items[0].source, extra={"text": "12\n3"})])
    with pytest.raises(InvalidArgumentError, match=r"does not know: '\\n'\."):
        fit("crnn_mobilenet_v3_small", two_lines, **given, **TINY)
    with pytest.raises(WriteError, match=r"there is no folder .*absent"):
        fit("crnn_mobilenet_v3_small", lines, **{**given, **TINY, "out": tmp_path / "absent" / "out.pt"})
    with pytest.raises(WeightsNotFoundError):
        fit("crnn_mobilenet_v3_small", lines, **given)
    with pytest.raises(WeightsNotFoundError):
        fit(tmp_path / "absent.pt", lines, **given)


def test_damaged_and_foreign_checkpoints_are_rejected(
    few_lines: LineDataset, validation: LineDataset, tmp_path: Path
) -> None:
    path = tmp_path / "digits.pt"
    fit("crnn_mobilenet_v3_small", few_lines, validation=validation, out=path, **{**TINY, "epochs": 1})
    stored = torch.load(path, weights_only=True)
    assert stored["card"]["scores_before"].keys() == stored["card"]["scores"].keys()
    assert recognition_predictor(path).model.vocab == VOCAB
    bad = tmp_path / "bad.pt"

    def check(message: str) -> None:
        with pytest.raises(WeightsError, match=message):
            load_checkpoint(bad)

    bad.write_bytes(path.read_bytes()[:5000])
    check("damaged")
    torch.save(crnn_mobilenet_v3_small(vocab=VOCAB).state_dict(), bad)
    check("is not a checkpoint of mediatensor")
    torch.save({**stored, "version": 99}, bad)
    check("version 99")
    torch.save({**stored, "arch": "crnn_vgg16_bn"}, bad)
    check("does not fit crnn_vgg16_bn")
    torch.save({**stored, "arch": "my_net"}, bad)
    check("of the architecture 'my_net'")
    torch.save({**stored, "input_shape": [3, 1 << 20, 1 << 20]}, bad)
    check("from 1 to 4096")
    with limited_memory(1 << 30):
        torch.save({**stored, "options": {"rnn_units": 100_000}}, bad)
        check("other names or shapes than with options")
    name, value = next(iter(stored["state_dict"].items()))
    torch.save({**stored, "state_dict": {**stored["state_dict"], name: value + 1}}, bad)
    check("another checksum")
    with pytest.raises(WeightsError, match="one of detection is needed"):
        load_checkpoint(path, "detection")
    with pytest.raises(WeightsError, match="one of detection is needed"):
        ocr_predictor(det_arch=path, reco_arch=path)


def test_two_processes_train_one_network(lines: LineDataset, validation: LineDataset, tmp_path: Path) -> None:
    # What `torchrun` does, with forked processes, so that the imports happen once.
    program = f"""
        import torch
        from torch.distributed.launcher.api import LaunchConfig, elastic_launch
        from mediatensor.ocr.training import LineDataset, fit, _loop
        torch.set_num_threads(1)
        _loop._POOL_BATCHES = 2
        end = _loop.Training._end_epoch
        def ending(self, began):
            end(self, began)
            rank = torch.distributed.get_rank()
            torch.save(dict(self.model.named_parameters()), {str(tmp_path)!r} + f"/{{rank}}.{{self.epoch}}.pt")
        _loop.Training._end_epoch = ending
        def train():
            fit("crnn_mobilenet_v3_small", LineDataset({str(tmp_path / "lines.jsonl")!r}),
                validation=LineDataset({str(tmp_path / "validation.jsonl")!r}), out={str(tmp_path / "out.pt")!r},
                pretrained=False, vocab={VOCAB!r}, batch_size=2, learning_rate=1e-3, epochs=1)
        settings = dict(run_id="digits", rdzv_backend="c10d", rdzv_endpoint="localhost:0", start_method="fork")
        elastic_launch(LaunchConfig(min_nodes=1, max_nodes=1, nproc_per_node=2, max_restarts=0, **settings), train)()
    """
    done = run_program(textwrap.dedent(program), timeout=300)
    assert done.returncode == 0, done.stderr
    start, first, second = (torch.load(tmp_path / name, weights_only=True) for name in ("0.0.pt", "0.1.pt", "1.1.pt"))
    assert first.keys() == second.keys()
    for name, value in first.items():
        torch.testing.assert_close(value, second[name], rtol=0, atol=0, msg=name)
    assert any(not torch.equal(value, first[name]) for name, value in start.items())
    (epoch,) = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()][1:]
    # 20 rows in pools of 2 x 2 batches of 2: two whole pools, in each of which each process makes 2 steps.
    assert epoch["steps"] == 4


def test_processes_need_enough_rehearsal_data(
    lines: LineDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_loop, "num_ranks", lambda: 2)
    few = LineDataset(lines.items[:3])
    with pytest.raises(InvalidArgumentError, match="keep has 3 rows; 2 processes take 2 batches of 2 each"):
        fit("crnn_mobilenet_v3_small", lines, validation=few, keep=few, out=tmp_path / "out.pt", **TINY)


# Detectors and classifiers of directions


def write_pages(folder: Path, count: int, name: str) -> Path:
    """Pages with a few lines, and a manifest with their boxes in pixels."""
    source = random.Random(name)
    (folder / name).mkdir(parents=True)
    rows = []
    for number in range(count):
        page, boxes, top = Image.new("RGB", (160, 160), "white"), [], source.randrange(4, 20)
        while top < 130:
            line = drawn(str(source.randrange(10**3, 10**8)), source.randrange(14, 24))
            left = source.randrange(2, max(3, 158 - line.width))
            page.paste(line, (left, top))
            boxes.append([left + 4, top + 4, min(left + line.width - 4, 159), top + line.height - 6])
            top += line.height + source.randrange(4, 24)
        page.save(folder / name / f"{number:03}.png")
        rows.append(json.dumps({"file": f"{name}/{number:03}.png", "boxes": boxes}))
    manifest = folder / f"{name}.jsonl"
    manifest.write_text("\n".join(rows))
    return manifest


@pytest.mark.slow
def test_a_detector_learns_where_lines_are(tmp_path: Path, training_seed: int) -> None:
    pages = PageDataset(write_pages(tmp_path, 24, "pages"))
    unseen = PageDataset(write_pages(tmp_path, 6, "unseen"))
    done = fit(
        "linknet_resnet18",
        pages,
        validation=unseen,
        out=tmp_path / "finder.pt",
        pretrained=False,
        page_size=160,
        batch_size=4,
        epochs=3,
        learning_rate=1e-2,
        ema_decay=0.9,
        augment=False,
        seed=training_seed,
    )
    assert done.epochs[0]["validation"]["recall"] < 0.3
    assert done.scores["recall"] > 0.6
    # Predictors bring pages to the size that it was trained at, and so does another training.
    again = fit(done.path, unseen, validation=unseen, out=tmp_path / "again.pt", batch_size=4, epochs=1)
    for path in (done.path, again.path):
        assert load_checkpoint(path, "detection").cfg["input_shape"] == (3, 160, 160)
    assert again.epochs[0]["validation"]["recall"] == done.scores["recall"]
    assert ocr_predictor(det_arch=done.path, reco_arch="crnn_mobilenet_v3_small").det_predictor is not None


def test_boxes_follow_their_text() -> None:
    """A part of a page, changed, has its boxes where the ink is: the page is white but for them."""
    page = torch.full((3, 90, 120), 255, dtype=torch.uint8)
    boxes = np.array([[0.1, 0.2, 0.3, 0.3], [0.5, 0.1, 0.9, 0.2], [0.4, 0.6, 0.7, 0.8]])
    for box in boxes * [120, 90, 120, 90]:
        left, top, right, bottom = box.round().astype(int)
        page[:, top:bottom, left:right] = 0
    torch.manual_seed(0)
    seen = 0
    for _ in range(40):
        image, placed = changed_page(page, boxes)
        height, width = image.shape[1:]
        light = image.float().mean(0)
        for left, top, right, bottom in placed * [width, height, width, height]:
            inside = light[round(top) + 1 : round(bottom) - 1, round(left) + 1 : round(right) - 1]
            if inside.numel():
                seen += 1
                assert abs(inside.mean() - light.median()) > 25  # of the other shade than most of the page
    assert seen > 60
    # An empty page stays one.
    assert all(changed_page(page, np.zeros((0, *shape)))[1].shape == (0, *shape) for shape in ((4,), (4, 2)) * 6)


def test_pages_are_changed_only_with_augmentation(tmp_path: Path) -> None:
    Image.new("RGB", (120, 90), "gray").save(tmp_path / "page.png")
    pages = PageDataset([Item(str(tmp_path / "page.png"), extra={"boxes": [[10, 20, 30, 40]]})])
    learner = Detection(fast_tiny())
    plain, changed = (learner.prepared(pages, augment=augment)[0].image for augment in (False, True))
    assert torch.equal(plain, pages[0].image)
    assert changed.shape != plain.shape or not torch.equal(changed, plain)


@pytest.mark.slow
def test_classifier_learns_the_orientations_of_predictors(tmp_path: Path, training_seed: int) -> None:
    require_weights()
    blank = ppocr_mobile_v2_line_orientation(pretrained=True)
    torch.nn.init.zeros_(blank.head.weight)
    start = tmp_path / "blank.pt"
    save_checkpoint(start, Checkpoint("ppocr_mobile_v2_line_orientation", blank.state_dict()))
    lines = LineDataset(write_lines(tmp_path, [f"Total {a}7{b}" for a in range(4) for b in range(6)]))
    settings: dict[str, Any] = {
        "batch_size": 6,
        "epochs": 6,
        "learning_rate": 3e-3,
        "ema_decay": 0.8,
        "augment": False,
        "seed": training_seed,
    }
    done = fit(start, lines, validation=lines, out=tmp_path / "turns.pt", **settings)
    assert done.epochs[0]["validation"]["score"] < 0.8
    assert done.scores["score"] > 0.9
    predictor = crop_orientation_predictor(done.path)
    upright = [lines[row].image for row in range(0, 24, 4)]
    for degrees in (0, 180):
        turned = [image.rot90(degrees // 90, (1, 2)) for image in upright]
        assert predictor(turned)[1].count(degrees) >= 5


# The command


@pytest.mark.slow
def test_command_trains_and_resumes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = [
        "--train",
        str(write_lines(tmp_path, numbers(8))),
        "--validation",
        str(write_lines(tmp_path, numbers(4), "v")),
    ]
    out = tmp_path / "digits.pt"
    start = ["--start", "crnn_mobilenet_v3_small", "--random-weights", "--vocab", VOCAB]
    command = ["train", "recognition", *data, *start, "--epochs", "2", "--batch-size", "4", "-o", str(out)]
    assert main(command) == 0
    printed = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in printed[:3]] == [["epoch", "0"], ["epoch", "1"], ["epoch", "2"]]
    assert printed[3].startswith(f"{out}: epoch ")
    assert load_checkpoint(out).vocab == VOCAB
    # Repeating a command does not lose its result.
    trained = out.read_bytes()
    assert main(command) == 2
    assert "exists already, and its training is complete" in capsys.readouterr().err
    assert out.read_bytes() == trained
    assert main([*command, "--no-resume"]) == 0
    capsys.readouterr()
    assert main([*command, "--keep", data[1], "--keep-languages", "de"]) == 2
    assert "not both" in capsys.readouterr().err
    assert main([*command[:-2], "-o", str(tmp_path / "digits.txt")]) == 2
    assert main([*command, "--vocab", "01"]) == 2
    assert "characters that the recogniser does not know: 2 3" in capsys.readouterr().err
