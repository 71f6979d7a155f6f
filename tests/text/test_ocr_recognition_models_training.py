"""Test targets, losses and call options of recognition networks with few weights."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from mediatensor.errors import InvalidArgumentError
from mediatensor.ocr.models import detection_predictor, ppocr_v6_small_reco, recognition_predictor
from mediatensor.ocr.models.recognition import CRNN, MASTER, SAR, PARSeq, crnn_mobilenet_v3_small, parseq, viptr_tiny
from mediatensor.ocr.models.recognition.core import RecognitionModel
from mediatensor.ocr.models.recognition.parseq import draw_permutations, visible_positions
from ocr_small_networks import (
    VOCAB,
    SmallFeatures,
    small_crnn,
    small_master,
    small_parseq,
    small_sar,
    small_viptr,
    small_vitstr,
)

SMALL = pytest.mark.parametrize("build", [small_crnn, small_viptr, small_vitstr, small_parseq, small_sar, small_master])
Build = Callable[..., RecognitionModel]


def images(count: int = 2) -> torch.Tensor:
    return torch.rand(count, 3, 16, 64, generator=torch.Generator().manual_seed(3))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("build", "rate", "steps"),
    [
        (small_crnn, 2e-2, 400),
        (small_viptr, 2e-2, 200),
        (small_vitstr, 5e-3, 80),
        (small_parseq, 5e-3, 60),
        (small_sar, 1e-2, 80),
        (small_master, 5e-3, 80),
    ],
)
def test_a_few_steps_teach_two_words(build: Build, rate: float, steps: int, training_seed: int) -> None:
    torch.manual_seed(training_seed)
    model, crops, words = build(), images(), ["abc", "hgfe"]
    crops[1] *= torch.linspace(-2, 2, 64)
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    losses, read = [], [""]
    while len(losses) < steps and not (read == words and losses[-1] < 0.3 * losses[0]):
        model.train()
        for _ in range(20):
            optimizer.zero_grad()
            loss = model(crops, target=words)["loss"]
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        read = [word for word, _ in model.eval()(crops)["preds"]]
    assert losses[-1] < 0.3 * losses[0]
    assert all(parameter.grad is not None for parameter in model.score_layer()[0].parameters())
    assert read == words


@SMALL
@pytest.mark.parametrize("words", [["abcdefgh" * 5, "ab"], ["", ""], ["", "a"], ["abcdefgh", "abcdefgha"]])
@pytest.mark.parametrize("training", [True, False])
def test_words_of_any_length_have_a_loss(build: Build, words: list[str], training: bool) -> None:
    torch.manual_seed(0)
    model = build().train(training)
    loss = model(images(), target=words)["loss"]
    loss.backward()
    assert torch.isfinite(loss)
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)


def test_a_word_too_long_for_the_steps_does_not_count_in_ctc() -> None:
    model = small_crnn().eval()
    crops = images()
    alone = model(crops[1:], target=["ab"])["loss"]
    with_too_long = model(crops, target=["abcdefgh" * 5, "ab"])["loss"]
    assert with_too_long.item() == pytest.approx(alone.item() / 2)


def test_a_word_too_long_for_the_steps_keeps_its_beginning_in_vitstr() -> None:
    model = small_vitstr().eval()
    beginning = "abcdefgha"
    losses = [model(images(1), target=[beginning + rest])["loss"].item() for rest in ("b", "fgh")]
    assert losses[0] == losses[1]
    assert losses[0] != model(images(1), target=["babcdefgha"])["loss"].item()


def test_a_word_with_as_many_characters_as_there_are_patches_has_no_step_for_its_end() -> None:
    model = small_vitstr().eval()
    crops = torch.rand(1, 3, 8, 32)
    out = model(crops, target=["abcdefgh"], return_model_output=True)
    assert out["out_map"].shape[1] == 8
    expected = nn.functional.cross_entropy(out["out_map"][0], torch.arange(8))
    torch.testing.assert_close(out["loss"], expected)


@pytest.mark.parametrize("build", [small_vitstr, small_parseq, small_sar, small_master])
def test_a_word_without_end_has_one_character_more_than_the_longest_word(build: Build) -> None:
    model = build().eval()
    layer, first = model.score_layer()
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
    layer.bias.data[first] = 9
    [(word, _)] = model(images(1))["preds"]
    # MASTER counts the marks of the start and the end, and takes a character at both.
    assert word == "a" * (10 if build is small_master else 9)
    rows, lengths = model.build_target(["a" * 20, "a" * 8])
    assert [int((row == first).sum()) for row in rows] == [9, 8]
    assert lengths == [9 if build is small_sar else 8, 8]


@SMALL
def test_a_batch_without_images_has_no_words(build: Build) -> None:
    out = build().eval()(images(0), return_model_output=True)
    assert out["preds"] == []
    assert len(out["out_map"]) == 0


@SMALL
def test_bfloat16_gives_scores_that_numpy_takes(build: Build) -> None:
    model = build().eval().to(torch.bfloat16)
    out = model(images().to(torch.bfloat16), target=["a", "bcd"], return_model_output=True, return_preds=True)
    assert out["out_map"].dtype == torch.float32
    assert torch.isfinite(out["loss"])


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@SMALL
def test_everything_stays_on_the_device_of_the_model(build: Build) -> None:
    torch.manual_seed(0)
    model = build().eval()
    scores = model(images(), return_model_output=True)["out_map"]
    model.cuda()
    out = model(images().cuda(), target=["a", "bcd"], return_model_output=True, return_preds=True)
    assert out["out_map"].is_cuda
    if not isinstance(model, PARSeq | MASTER):
        torch.testing.assert_close(out["out_map"].cpu(), scores, rtol=1e-3, atol=1e-3)
    model.train()(images().cuda(), target=["a", "bcd"])["loss"].backward()


@SMALL
def test_call_returns_the_requested_entries(build: Build) -> None:
    model = build().eval()
    crops = images()
    assert set(model(crops)) == {"preds"}
    assert set(model(crops, return_model_output=True)) == {"out_map", "preds"}
    assert set(model(crops, target=["a", "b"])) == {"loss"}
    assert set(model(crops, target=["a", "b"], return_preds=True)) == {"loss", "preds"}
    scores = model(crops, return_model_output=True)["out_map"]
    exported = build(exportable=True).eval()
    exported.load_state_dict(model.state_dict())
    out = exported(crops)
    assert set(out) == {"logits"}
    assert [word for word, _ in model.postprocessor(out["logits"])] == [word for word, _ in model(crops)["preds"]]
    # Exported networks continue after the last word has ended, which changes MASTER's scores there.
    if build is not small_master:
        torch.testing.assert_close(out["logits"], scores)
    model.train()
    assert set(model(crops, target=["a", "b"])) == {"loss"}
    assert set(model(crops, target=["a", "b"], return_preds=True)) == {"loss", "preds"}
    assert set(model(crops, target=["a", "b"], return_model_output=True)) == {"loss", "out_map"}


@SMALL
def test_labels_are_checked(build: Build) -> None:
    model = build()
    with pytest.raises(InvalidArgumentError, match="training mode"):
        model(images())
    with pytest.raises(InvalidArgumentError, match="3 words for 2 images"):
        model(images(), target=["a", "b", "c"])
    with pytest.raises(InvalidArgumentError, match="'X'"):
        model(images(), target=["a", "X"])


def test_crnn_height_equals_its_input_shape() -> None:
    tall = crnn_mobilenet_v3_small(vocab=VOCAB, input_shape=(3, 64, 256)).eval()
    assert tall.cfg["input_shape"] == (3, 64, 256)
    assert len(tall(torch.zeros(1, 3, 64, 100))["preds"]) == 1
    with pytest.raises(InvalidArgumentError, match="height 32"):
        tall(torch.zeros(1, 3, 32, 256))


def test_building_crnn_leaves_the_statistics_of_its_backbone() -> None:
    model = crnn_mobilenet_v3_small(vocab=VOCAB)
    assert model.training
    assert all(int(n) == 0 for name, n in model.named_buffers() if name.endswith("num_batches_tracked"))
    # A layer that is kept in evaluation mode stays so.
    backbone = nn.Sequential(nn.Conv2d(3, 4, 16, 16), nn.BatchNorm2d(4).eval())
    CRNN(backbone, VOCAB, input_shape=(3, 16, 64))
    assert [layer.training for layer in (backbone, *backbone)] == [True, True, False]


def test_a_backbone_that_fails_keeps_its_mode() -> None:
    backbone = nn.Sequential(nn.Conv2d(4, 8, 3), nn.BatchNorm2d(8))
    with pytest.raises(RuntimeError, match="channels"):
        CRNN(backbone, VOCAB, input_shape=(3, 16, 64))
    assert all(module.training for module in backbone.modules())


def test_patches_have_to_fill_the_image() -> None:
    with pytest.raises(InvalidArgumentError, match="multiples of 4 and 8"):
        small_vitstr().eval()(torch.zeros(1, 3, 16, 60))


def test_stripes_have_to_fill_the_image() -> None:
    model = viptr_tiny(vocab=VOCAB).eval()
    assert len(model(torch.zeros(1, 3, 48, 40))["preds"]) == 1
    for height, width in ((32, 36), (40, 128)):
        with pytest.raises(InvalidArgumentError, match="multiple of 16"):
            model(torch.zeros(1, 3, height, width))


def test_sar_has_room_for_so_many_characters() -> None:
    with pytest.raises(InvalidArgumentError, match="room for 23"):
        SAR(SmallFeatures(True), "".join(map(chr, range(50, 74))), rnn_units=24, embedding_units=24)


def test_transformers_take_other_sizes() -> None:
    model = small_vitstr().eval()
    assert len(model(torch.rand(1, 3, 32, 128))["preds"]) == 1


@pytest.mark.parametrize("vocab", ["", [], 5, object(), [1, 2]])
def test_a_vocabulary_without_characters_is_refused(vocab: Any) -> None:
    for make in (crnn_mobilenet_v3_small, ppocr_v6_small_reco):
        with pytest.raises(InvalidArgumentError, match=r"vocab must be a string of at least one character .got"):
            make(vocab=vocab)


def test_unknown_arguments_of_calls_are_named() -> None:
    crops = [np.zeros((32, 64, 3), np.uint8)]
    for arch in ("crnn_mobilenet_v3_small", "ppocr_v6_small_reco"):
        with pytest.raises(InvalidArgumentError, match=r"forward\(\) got an unexpected keyword argument 'beam_width'"):
            recognition_predictor(arch)(crops, beam_width=4)
    with pytest.raises(InvalidArgumentError, match="'return_map'"):
        detection_predictor()(crops, return_map=True)


@SMALL
def test_reading_does_not_depend_on_the_rest_of_the_batch(build: Build) -> None:
    torch.manual_seed(4)
    model = build().eval()
    crops = images(5)
    together = model(crops, return_model_output=True)
    alone = [model(crop[None], return_model_output=True) for crop in crops]
    assert [word for word, _ in together["preds"]] == [out["preds"][0][0] for out in alone]
    # MASTER continues until the last word of the batch has ended.
    if build is not small_master:
        torch.testing.assert_close(together["out_map"], torch.cat([out["out_map"] for out in alone]))


def test_one_model_serves_several_threads() -> None:
    model = small_parseq().eval()
    crops = images(4)
    expected = model(crops)["preds"]
    found: list[Any] = []
    threads = [threading.Thread(target=lambda: found.append(model(crops)["preds"])) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 4


@pytest.mark.parametrize("length", range(8))
def test_orders_come_in_pairs_and_are_all_different(length: int) -> None:
    torch.manual_seed(length)
    orders = draw_permutations(length).tolist()
    assert orders[0] == list(range(length + 2))
    assert orders[1] == [0, *range(length + 1, 0, -1)]
    assert len(orders) == 2 * min(3, max(1, len(list(itertools.permutations(range(length)))) // 2))
    for order, reverse in zip(orders[2::2], orders[3::2], strict=True):
        assert sorted(order) == orders[0]
        assert order[1:-1] == reverse[-2:0:-1]
        assert order[0] == 0
        assert order[-1] == length + 1
    assert len({tuple(order) for order in orders}) == (len(orders) if length else 1)


def test_characters_attend_only_to_earlier_characters() -> None:
    order = [0, 3, 1, 2, 4]
    visible = visible_positions(torch.tensor(order))
    for row, column in itertools.product(range(4), range(4)):
        assert bool(visible[row, column]) == (order.index(column) < order.index(row + 1))


def test_a_seed_fixes_the_loss_of_parseq() -> None:
    model = small_parseq(dropout_prob=0.0)
    losses = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        losses.append(model(images(), target=["abcdefg", "hg"])["loss"].item())
    assert losses[0] == losses[1] != losses[2]


def test_parseq_never_sees_the_character_it_predicts() -> None:
    # If a character leaked into its own prediction, its embedding would have a gradient.
    torch.manual_seed(0)
    model = parseq(vocab=VOCAB, max_length=8, dropout_prob=0.0).eval()
    features = torch.rand(1, 5, 384)
    known = torch.tensor([[model.start, 0, 1, 2]])
    for order in draw_permutations(3):
        visible = visible_positions(order)
        queries = model.pos_queries[:, :4]
        scores = model.decode(known, features, visible, queries)
        for position in range(3):
            changed = known.clone()
            changed[0, position + 1] = 7
            other = model.decode(changed, features, visible, queries)
            torch.testing.assert_close(scores[:, position], other[:, position], rtol=0, atol=0)
            seers = [row for row in range(4) if visible[row, position + 1]]
            assert all(not torch.equal(scores[:, row], other[:, row]) for row in seers)
