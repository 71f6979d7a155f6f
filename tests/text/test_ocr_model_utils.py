"""Test loading of checkpoints, export of networks, and restriction of a recogniser to some characters."""

from __future__ import annotations

import copy
import hashlib
import importlib.util
import itertools
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image, ImageDraw, ImageFont
from torch import nn

import ocr_small_networks
from mediatensor.errors import InvalidArgumentError, MissingDependencyError, WeightsError
from mediatensor.ocr import models, ocr_predictor
from mediatensor.ocr.datasets import VOCABS
from mediatensor.ocr.models.recognition import CRNN, PARSeq, crnn_mobilenet_v3_small, ppocr_v6_small_reco
from mediatensor.ocr.models.utils import (
    add_whitelist,
    conv_sequence_pt,
    export_model_to_onnx,
    load_pretrained_params,
    set_device_and_dtype,
)
from ocr_onnx_sessions import exported_session, require_weights
from ocr_reading import logged_messages
from ocr_weights import fill, formula_input

VOCAB = "abcäÄłоβ1"  # noqa: RUF001 - the o is Cyrillic


def small_crnn(vocab: str = VOCAB) -> CRNN:
    return ocr_small_networks.small_crnn(vocab).eval()


def small_parseq(vocab: str = VOCAB) -> PARSeq:
    return ocr_small_networks.small_parseq(vocab).eval()


def images(count: int = 6) -> torch.Tensor:
    return 3 * torch.randn(count, 3, 16, 64, generator=torch.Generator().manual_seed(3))


def same(a: nn.Module, b: nn.Module) -> bool:
    return all(torch.equal(x, y) for x, y in zip(a.state_dict().values(), b.state_dict().values(), strict=True))


def save_with_checksum(model: nn.Module, folder: Path) -> Path:
    torch.save(model.state_dict(), folder / "saved.pt")
    digest = hashlib.sha256((folder / "saved.pt").read_bytes()).hexdigest()
    return (folder / "saved.pt").rename(folder / f"model-{digest[:8]}.pt")


def test_checkpoint_checksum_is_verified(tmp_path: Path) -> None:
    saved, model = small_crnn(), small_crnn()
    file = save_with_checksum(saved, tmp_path)
    assert not same(saved, model)
    model.from_pretrained(str(file))
    assert same(saved, model)

    other = shutil.copy(file, tmp_path / "model-00000000.pt")
    with pytest.raises(WeightsError, match="expected 00000000"):
        load_pretrained_params(model, other)
    plain = shutil.copy(file, tmp_path / "model.pt")
    load_pretrained_params(model, plain, hash_prefix=file.stem[-8:].upper())
    with pytest.raises(WeightsError, match="expected abc"):
        load_pretrained_params(model, plain, hash_prefix="abc")


def test_checkpoint_of_another_vocabulary_loads_without_its_head(tmp_path: Path) -> None:
    file = str(save_with_checksum(small_crnn("xyz"), tmp_path))
    model = small_crnn()
    with pytest.raises(WeightsError, match=r"(?s)does not fit.*linear\.weight"):
        model.from_pretrained(file)
    head = model.linear.weight.clone()
    model.from_pretrained(file, ignore_keys=["linear.weight", "linear.bias"])
    assert torch.equal(model.linear.weight, head)
    with pytest.raises(WeightsError, match=r"decoder|linear"):
        small_parseq().from_pretrained(file, ignore_keys=["linear.weight"])


def test_parseq_loads_checkpoints_with_former_layers(tmp_path: Path) -> None:
    saved, model = small_parseq(), small_parseq()
    old = saved.state_dict() | {
        f"decoder.{name}.bias": torch.zeros(24) for name in ("attention_norm", "cross_attention_norm")
    }
    torch.save(old, tmp_path / "old.pt")
    model.from_pretrained(str(tmp_path / "old.pt"))
    assert same(saved, model)
    with pytest.raises(WeightsError, match="attention_norm"):
        load_pretrained_params(model, tmp_path / "old.pt")


def test_another_vocabulary_leaves_out_the_published_head(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEDIATENSOR_MODELS", str(tmp_path))
    saved = crnn_mobilenet_v3_small()
    torch.save(saved.state_dict(), tmp_path / "crnn_mobilenet_v3_small.pt")
    other_vocabulary = crnn_mobilenet_v3_small(pretrained=True, vocab="abc")
    assert other_vocabulary.linear.out_features == 4
    assert torch.equal(other_vocabulary.decoder.weight_ih_l0, saved.decoder.weight_ih_l0)


def read(model: CRNN | PARSeq, count: int = 6) -> list[str]:
    return [word for word, _ in model(images(count))["preds"]]


@pytest.mark.parametrize("build", [small_crnn, small_parseq])
def test_whitelist_masks_until_it_is_removed(build: Callable[[], CRNN | PARSeq]) -> None:
    torch.manual_seed(2)
    model = build()
    for parameter in model.parameters():
        nn.init.normal_(parameter)
    before = read(model)
    assert not set("".join(before)) <= set("ab1")
    with add_whitelist(model, ["ab", "1?"]) as handle:
        restricted = read(model)
        assert set("".join(restricted)) <= set("ab1")
        assert any(restricted)
    assert read(model) == before
    handle.remove()
    assert read(model) == before


def test_whitelist_keeps_the_scores_of_allowed_characters() -> None:
    torch.manual_seed(1)
    model = small_crnn()
    free = model(images(), return_model_output=True)["out_map"]
    with add_whitelist(model, "abc"):
        scores = model(images(), return_model_output=True)["out_map"]
    kept = [0, 1, 2, len(VOCAB)]
    torch.testing.assert_close(scores[..., kept], free[..., kept], rtol=0, atol=0)
    assert (scores[..., 3 : len(VOCAB)] == -torch.inf).all()
    of_lines = ppocr_v6_small_reco(vocab=["ab", "c", "d"]).eval()  # the blank is the first class
    with add_whitelist(of_lines, "bad"):
        scores = of_lines(torch.zeros(1, 3, 48, 64), return_model_output=True)["out_map"]
    assert (scores == -torch.inf).any((0, 1)).tolist() == [False, False, True, False]


@pytest.mark.parametrize(
    ("mapping", "expected"),
    [
        (None, {"a": "aäÄ", "b": "b"}),
        ("anyascii", {"a": "aäÄ", "b": "b"}),
        ({"1": "b", "ä": "b", "c": "z", "z": "a"}, {"a": "aÄ", "b": "b1ä"}),
    ],
)
def test_nearest_character_gets_the_score(mapping: Any, expected: dict[str, str]) -> None:
    torch.manual_seed(1)
    model = small_crnn()
    free = model(images(), return_model_output=True)["out_map"]
    with add_whitelist(model, "ab", strategy="nearest", mapping=mapping):
        scores = model(images(), return_model_output=True)["out_map"]
    for target, sources in expected.items():
        best = free[..., [VOCAB.index(char) for char in sources]].amax(dim=-1)
        torch.testing.assert_close(scores[..., VOCAB.index(target)], best, rtol=0, atol=0)


def test_nearest_letters_ignore_marks_and_scripts() -> None:
    model = small_crnn("oOlзłØо0")  # noqa: RUF001
    with add_whitelist(model, "olO", strategy="nearest"):
        model.linear.weight.data.zero_()
        for char, target in {"ł": "l", "Ø": "O", "о": "o"}.items():  # noqa: RUF001
            model.linear.bias.data.zero_()
            model.linear.bias.data[model.vocab.index(char)] = 5.0
            assert read(model, 1) == [target]


def test_nearest_characters_have_the_same_ascii_form() -> None:
    # What docTR 1.1.0 returns: "€" is EUR, "ß" is ss, "ж" is zh and "Γ" is G in ASCII.
    closest = {"€": "E", "ß": "s", "ж": "z", "Γ": "g", "“": '"', "³": "3", "a": "ä"}
    model = small_crnn('eEsSzg"3ä' + "".join(closest) + "ф")
    with add_whitelist(model, 'eEsSzg"3ä', strategy="nearest"):
        model.linear.weight.data.zero_()
        for char, target in closest.items():
            model.linear.bias.data.zero_()
            model.linear.bias.data[model.vocab.index(char)] = 5.0
            assert read(model, 1) == [target]


def test_ascii_forms_need_a_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "anyascii", None)
    with pytest.raises(ImportError, match=r"mediatensor\[ocr\]"):
        add_whitelist(small_crnn(), "ab", strategy="nearest")
    with add_whitelist(small_crnn(), "ab", strategy="nearest", mapping="weights"), add_whitelist(small_crnn(), "ab"):
        pass


def test_restrictions_are_logged_on_request() -> None:
    with logged_messages() as messages:
        for verbose in (False, True):
            add_whitelist(small_crnn(), "ab", strategy="nearest", verbose=verbose)
    assert messages == [
        "CRNN: 2 of 9 characters are allowed, 7 are forbidden, and 2 of these are passed to another character"
    ]


def test_nearest_weights_have_the_same_direction() -> None:
    model = small_crnn("abcd")
    weight = model.linear.weight.data
    weight[2], weight[3] = 3 * weight[1], -weight[1]
    free = model(images(), return_model_output=True)["out_map"]
    with add_whitelist(model, "abd", strategy="nearest", mapping="weights"):
        scores = model(images(), return_model_output=True)["out_map"]
    torch.testing.assert_close(scores[..., 1], free[..., 1:3].amax(dim=-1))
    torch.testing.assert_close(scores[..., 0], free[..., 0])


def test_whitelist_finds_the_recogniser_of_a_predictor() -> None:
    class Predictor(nn.Module):
        def __init__(self, model: nn.Module) -> None:
            super().__init__()
            self.model = model

    class Pipeline(nn.Module):
        def __init__(self, reco_predictor: nn.Module) -> None:
            super().__init__()
            self.reco_predictor = reco_predictor

    torch.manual_seed(1)
    model = small_crnn()
    for predictor in (Predictor(model), Pipeline(Predictor(model))):
        with add_whitelist(predictor, "ab"):
            assert set("".join(read(model))) <= set("ab")
    with pytest.raises(InvalidArgumentError, match="Linear"):
        add_whitelist(nn.Linear(2, 2), "ab")


def test_whitelist_needs_a_score_layer() -> None:
    class BlankFirst(nn.Module):
        vocab = "abc"

        def __init__(self) -> None:
            super().__init__()
            self.head = nn.Linear(4, 4)

    class Named(BlankFirst):
        def score_layer(self) -> tuple[nn.Linear, int]:
            return self.head, 1

    with pytest.raises(InvalidArgumentError, match="score_layer"):
        add_whitelist(BlankFirst(), "a")
    model = Named()
    with add_whitelist(model, "a"):
        assert model.head(torch.zeros(4)).isinf().tolist() == [False, False, True, True]


@pytest.mark.parametrize(
    ("vocabs", "options", "message"),
    [
        ("xyz", {}, "none of the 9"),
        ("", {}, "none of the 9"),
        (5, {}, "a string or several"),
        ([None], {}, "a string or several"),
        ("a", {"strategy": "closest"}, "strategy='closest'"),
        ("a", {"mapping": "weights"}, "mapping is for"),
        ("a", {"strategy": "nearest", "mapping": "sound"}, "mapping='sound'"),
        ("a", {"strategy": "nearest", "mapping": 3}, "mapping=3"),
    ],
)
def test_whitelist_errors_name_the_argument(vocabs: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        add_whitelist(small_crnn(), vocabs, **options)


def test_conv_sequence_makes_the_requested_layers() -> None:
    layers = conv_sequence_pt(3, 8, act=True, bn=True, kernel_size=3)
    assert [type(layer).__name__ for layer in layers] == ["Conv2d", "BatchNorm2d", "ReLU"]
    assert isinstance(layers[0], nn.Conv2d)
    assert layers[0].bias is None
    [alone] = conv_sequence_pt(3, 8, kernel_size=3)
    assert isinstance(alone, nn.Conv2d)
    assert alone.bias is not None
    gelu = nn.GELU()
    assert conv_sequence_pt(3, 8, act=True, activation=gelu, kernel_size=1)[-1] is gelu


def test_model_and_batches_move_together() -> None:
    model, batches = set_device_and_dtype(small_crnn(), [images(1)], "cpu", torch.float64)
    assert model.linear.weight.dtype == batches[0].dtype == torch.float64
    assert len(model(batches[0])["preds"]) == 1


def test_masks_move_with_their_batches_and_become_bool() -> None:
    given = ([torch.rand(8), torch.rand(3)], [torch.ones(8), torch.zeros(3)])
    model, pairs = set_device_and_dtype(nn.Linear(8, 8), given, "cpu", torch.float16)
    assert next(model.parameters()).dtype == torch.float16
    assert [(batch.dtype, mask.dtype) for batch, mask in pairs] == [(torch.float16, torch.bool)] * 2
    assert [bool(mask.all()) for _, mask in pairs] == [True, False]
    with pytest.raises(InvalidArgumentError, match="equal length"):
        set_device_and_dtype(nn.Linear(8, 8), (given[0], given[1][:1]), "cpu", torch.float16)


@pytest.mark.parametrize("name", ["crnn", "parseq"])
def test_exported_networks_give_the_same_scores(name: str, tmp_path: Path) -> None:
    build: Any = {"crnn": crnn_mobilenet_v3_small, "parseq": small_parseq}[name]
    model = build(vocab=VOCABS["digits"]).eval()
    model.exportable = True
    shape = {"crnn": (3, 32, 128), "parseq": (3, 16, 64)}[name]
    session = exported_session(model, tmp_path / name, torch.rand(1, *shape))
    assert (tmp_path / f"{name}.onnx").exists()
    for count in (1, 3):
        crops = torch.rand(count, *shape)
        [logits] = session.run(["logits"], {"input": crops.numpy()})
        torch.testing.assert_close(torch.from_numpy(logits), model(crops)["logits"], rtol=0, atol=1e-4)


EXPORTED = {
    # The input that is exported, and inputs that the file must take as well.
    "ppocr_v6_small_det": ((1, 3, 96, 128), [(1, 3, 96, 128), (3, 3, 64, 64), (2, 3, 32, 256), (1, 3, 224, 96)]),
    "ppocr_v6_small_reco": ((1, 3, 48, 320), [(1, 3, 48, 320), (4, 3, 48, 64), (2, 3, 48, 200), (1, 3, 48, 808)]),
    "ppocr_mobile_v2_line_orientation": ((1, 3, 48, 192), [(1, 3, 48, 192), (5, 3, 48, 192)]),
    "fast_tiny": ((1, 3, 96, 96), [(1, 3, 96, 96), (3, 3, 96, 96)]),
    "mobilenet_v3_small_crop_orientation": ((1, 3, 64, 64), [(1, 3, 64, 64), (3, 3, 64, 64)]),
    "vit_det_s": ((1, 3, 32, 32), [(1, 3, 32, 32), (3, 3, 32, 32)]),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPORTED)
@pytest.mark.parametrize("state", ["training", "evaluating"])
def test_models_are_exported_in_any_mode(name: str, state: str, tmp_path: Path) -> None:
    check_export(name, state, tmp_path)


@pytest.mark.slow
def test_models_of_half_precision_are_exported(tmp_path: Path) -> None:
    check_export("ppocr_v6_small_reco", "half", tmp_path)


def check_export(name: str, state: str, tmp_path: Path) -> None:
    model = fill(getattr(models, name)(**({"vocab": "0123456789 "} if "reco" in name else {})), 0.7)
    model.train(state == "training")
    expected = copy.deepcopy(model).eval()
    if state == "half":
        model.to(torch.bfloat16)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    shape, shapes = EXPORTED[name]
    session = exported_session(model, tmp_path / name, formula_input(shape))
    assert model.training == (state == "training")
    assert not getattr(model, "exportable", False)
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())
    if hasattr(expected, "exportable"):
        expected.exportable = True
    for other in shapes:
        images = formula_input(other)
        [logits] = session.run(["logits"], {"input": images.numpy()})
        with torch.no_grad():
            scores = expected(images)
        scores = scores if isinstance(scores, torch.Tensor) else scores["logits"]
        tolerance = 0.05 if state == "half" else 1e-4  # weights were rounded
        torch.testing.assert_close(torch.from_numpy(logits), scores, rtol=tolerance, atol=tolerance)


@pytest.mark.slow
def test_exported_default_networks_read_the_same_text(tmp_path: Path) -> None:
    """Read a line twice: by the predictor, and by another runtime from the exported networks, with CTC by hand."""
    require_weights()
    predictor = ocr_predictor(pretrained=True)
    page = Image.new("RGB", (320, 48), "white")
    ImageDraw.Draw(page).text((10, 8), "Delivery note 2048", font=ImageFont.load_default(28), fill="black")
    line = np.array(page)
    [(text, _)] = predictor.reco_predictor([line])
    detection, recognition = (
        exported_session(stage.model, tmp_path / str(index))
        for index, stage in enumerate((predictor.det_predictor, predictor.reco_predictor))
    )
    assert predictor.reco_predictor([line])[0][0] == text
    assert [axis.shape[1:] for axis in detection.get_inputs()] == [[3, "height", "width"]]
    assert [axis.shape[1:] for axis in recognition.get_inputs()] == [[3, 48, "width"]]
    picture = (line[..., ::-1].transpose(2, 0, 1)[None] / 127.5 - 1).astype(np.float32)
    [logits] = recognition.run(None, {"input": picture})
    classes = [label for label, _ in itertools.groupby(logits[0].argmax(-1).tolist())]
    characters = predictor.reco_predictor.model.characters
    assert "".join(characters[label - 1] for label in classes if label) == text


def test_export_needs_an_input_or_a_configuration(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="dummy_input"):
        export_model_to_onnx(nn.Linear(2, 2), tmp_path / "linear")


def test_two_inputs_are_named_as_in_doctr(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx", reason="torch's exporter needs it")

    class Two(nn.Module):
        def forward(self, x: torch.Tensor, masks: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return x * masks, x + masks

    path = export_model_to_onnx(Two(), tmp_path / "two", (torch.rand(1, 2), torch.rand(1, 2)))
    graph = onnx.load(path).graph
    assert [value.name for value in graph.input] == ["input", "masks"]
    assert [value.name for value in graph.output] == ["logits", "pred_boxes"]


@pytest.mark.skipif(importlib.util.find_spec("onnx") is not None, reason="onnx is installed")
def test_export_without_onnx_names_the_package(tmp_path: Path) -> None:
    with pytest.raises(MissingDependencyError, match="onnx"):
        export_model_to_onnx(nn.Linear(2, 2), tmp_path / "linear", torch.zeros(1, 2))
