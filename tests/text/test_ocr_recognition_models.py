"""Compare recognisers with docTR's results for the same weights, recorded in ``tests/records/ocr``."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from mediatensor.ocr.models import classification, recognition
from mediatensor.ocr.models.recognition.core import RecognitionModel
from ocr_records import read_record
from ocr_small_networks import SmallFeatures
from ocr_weights import assert_summary, describe_state, fill, formula_input

RECORDED: dict[str, dict[str, Any]] = read_record("recognition_networks")
BACKBONES: dict[str, dict[str, Any]] = read_record("recognition_backbones")


def with_formula_weights(name: str, **kwargs: Any) -> RecognitionModel:
    """Return a network with the weights of the recorded one."""
    model: RecognitionModel = getattr(recognition, name)(**kwargs)
    fill(model, RECORDED[name]["gain"])
    model.score_layer()[0].bias.data[len(model.vocab)] += RECORDED[name]["end_bias"]
    return model


# Of these, one writes fifty characters one by one, and the other has the layers of vitstr_small.
WRITING_TAKES_SECONDS, LARGER = "master", "vitstr_base"


@pytest.mark.parametrize(
    ("name", "writes"),
    [
        *((name, name != WRITING_TAKES_SECONDS) for name in RECORDED if name != LARGER),
        *(pytest.param(name, True, marks=pytest.mark.slow) for name in (WRITING_TAKES_SECONDS, LARGER)),
    ],
)
def test_scores_words_and_losses_are_docTRs(name: str, writes: bool) -> None:
    recorded = RECORDED[name]
    model = with_formula_weights(name, **({"dropout_prob": 0.0} if "training_loss" in recorded else {}))
    images = formula_input((2, 3, 32, 128))
    assert describe_state(model) == recorded["state"]
    if recorded["float64"]:
        model, images = model.double(), images.double()

    with torch.no_grad():
        if writes:
            out = model(images, return_model_output=True, return_preds=True)
            assert_summary(out["out_map"], recorded["out_map"])
            assert [word for word, _ in out["preds"]] == [word for word, _ in recorded["preds"]]
            assert [c for _, c in out["preds"]] == pytest.approx([c for _, c in recorded["preds"]], abs=1e-5)

        with_target = model(images, target=recorded["target"])
        assert set(with_target) == {"loss"}
        assert float(with_target["loss"]) == pytest.approx(recorded["loss"], rel=1e-5)
        if "training_loss" in recorded:
            model.train().get_submodule("feat_extractor").eval()
            loss = model(images, target=recorded["short_target"])["loss"]
            assert float(loss) == pytest.approx(recorded["training_loss"], rel=1e-5)


@pytest.mark.parametrize("name", BACKBONES)
def test_scores_of_backbones_are_docTRs(name: str) -> None:
    recorded = BACKBONES[name]
    model = fill(getattr(classification, name)(), recorded["gain"])
    assert describe_state(model) == recorded["state"]
    with torch.no_grad():
        assert_summary(model(formula_input((2, 3, 32, 32))), recorded["scores"])


def test_factories_record_their_arguments() -> None:
    model = classification.vip_tiny(num_classes=3, classes=["a", "b", "c"], input_shape=(3, 64, 32))
    expected = (3, ["a", "b", "c"], (3, 64, 32))
    assert (model.cfg["num_classes"], model.cfg["classes"], model.cfg["input_shape"]) == expected
    reader = recognition.viptr_tiny(vocab="abc", input_shape=(3, 64, 64))
    assert (reader.cfg["vocab"], reader.cfg["input_shape"]) == ("abc", (3, 64, 64))


def test_networks_take_the_positional_arguments_of_docTR() -> None:
    cfg = {"input_shape": (3, 16, 64)}
    model = recognition.VIPTR(SmallFeatures(False), "abc", (3, 16, 64), True, cfg, embedding_units=24)
    assert (model.input_shape, model.exportable, model.cfg) == ((3, 16, 64), True, cfg)
    transformer = classification.VisionTransformer(24, 1, 2, 2, (4, 8), (3, 16, 64), 0.0, 5, True, cfg)
    assert (transformer.cfg, transformer(torch.zeros(1, 3, 16, 64)).shape) == (cfg, (1, 5))
