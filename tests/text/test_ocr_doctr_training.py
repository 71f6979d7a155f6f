"""Loops as docTR's training scripts have them, with nothing but the import changed: they learn generated data."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor, nn
from torch.utils.data import DataLoader, RandomSampler, SequentialSampler

from mediatensor.ocr import transforms as T
from mediatensor.ocr.datasets import VOCABS, DetectionDataset, OrientationDataset, RecognitionDataset
from mediatensor.ocr.models import classification, detection, recognition
from mediatensor.ocr.utils import Sample
from mediatensor.ocr.utils.metrics import LocalizationConfusion, TextMatch

WORDS = ("Total", "42,90", "Ab3", "invoice", "2026", "x+y")
QUARTERS = [0, -90, 180, 90]


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Any:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Lines of one word, as docTR lays them out: ``images`` and ``labels.json``."""
    folder = tmp_path_factory.mktemp("lines")
    (folder / "images").mkdir()
    font = ImageFont.load_default(24)
    for number, word in enumerate(WORDS):
        line = Image.new("RGB", (int(font.getlength(word)) + 10, 36), "white")
        ImageDraw.Draw(line).text((5, 3), word, fill="black", font=font)
        line.save(folder / "images" / f"{number}.png")
    labels = {f"{number}.png": word for number, word in enumerate(WORDS)}
    (folder / "labels.json").write_text(json.dumps(labels), "utf-8")
    return folder


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two pages of six words each, as docTR lays them out: ``images`` and ``labels.json`` with polygons."""
    folder = tmp_path_factory.mktemp("pages")
    (folder / "images").mkdir()
    font, labels = ImageFont.load_default(26), {}
    for number in range(2):
        page, polygons = Image.new("RGB", (192, 160), "white"), []
        draw = ImageDraw.Draw(page)
        for place, word in enumerate(WORDS):
            corner = (10 + 95 * (place % 2), 12 + 22 * number + 42 * (place // 2))
            draw.text(corner, word, fill="black", font=font)
            left, top, right, bottom = draw.textbbox(corner, word, font=font)
            polygons.append([[left, top], [right, top], [right, bottom], [left, bottom]])
        page.save(folder / "images" / f"{number}.png")
        labels[f"{number}.png"] = {"img_dimensions": [160, 192], "img_hash": "", "polygons": polygons}
    (folder / "labels.json").write_text(json.dumps(labels), "utf-8")
    return folder


def normalize(mean: tuple[float, ...], std: tuple[float, ...]) -> Callable[[Tensor], Tensor]:
    """What torchvision's ``Normalize`` does in docTR's scripts."""
    center, scale = (torch.tensor(values).view(1, 3, 1, 1) for values in (mean, std))
    return lambda images: (images - center) / scale


def seed_everything(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def fit(
    model: nn.Module,
    loader: DataLoader[Any],
    batch_transforms: Callable[[Tensor], Tensor],
    steps: int,
    learning_rate: float,
    loss_of: Callable[[Tensor, Any], Tensor],
    until: float = 0.0,
) -> list[float]:
    """Run the loop of docTR's scripts until the loss is small, for at most this many steps.

    The step that reaches a loss depends on the processor, because sums round differently.
    """
    optimizer = torch.optim.Adam(model.parameters(), learning_rate, betas=(0.95, 0.999), eps=1e-6)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 2 * steps, eta_min=learning_rate / 25e4)
    model.train()
    losses: list[float] = []
    while len(losses) < steps and not (losses and losses[-1] < until):
        for images, targets in loader:
            optimizer.zero_grad()
            train_loss = loss_of(batch_transforms(images), targets)
            train_loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 5)
            optimizer.step()
            scheduler.step()
            losses.append(train_loss.item())
    return losses


def loader_of(train_set: Any, batch_size: int) -> DataLoader[Any]:
    return DataLoader(
        train_set,
        batch_size=batch_size,
        drop_last=True,
        num_workers=0,
        sampler=RandomSampler(train_set),
        collate_fn=train_set.collate_fn,
    )


def settle(model: nn.Module, images: Tensor, targets: Any) -> None:
    """Take the means and deviations of all layers from these images: a few dozen steps do not reach them."""
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.momentum = 1.0
    with torch.no_grad():
        model.train()(images, targets)
    model.eval()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_recogniser_learns_lines(lines: Path, training_seed: int) -> None:
    seed_everything(training_seed)
    train_set = RecognitionDataset(
        img_folder=str(lines / "images"),
        labels_path=str(lines / "labels.json"),
        img_transforms=T.Resize((32, 128), preserve_aspect_ratio=True),
    )
    loader = loader_of(train_set, batch_size=6)
    model = recognition.__dict__["crnn_mobilenet_v3_small"](pretrained=False, vocab=VOCABS["french"])
    batch_transforms = normalize(mean=(0.694, 0.695, 0.693), std=(0.299, 0.296, 0.301))
    # Six words with a mean loss this small: at least half of them are read with a probability near one.
    losses = fit(
        model, loader, batch_transforms, 1000, 5e-3, lambda images, targets: model(images, targets)["loss"], until=0.02
    )
    assert losses[-1] < 0.02 < 1 < losses[0]

    images, targets = next(iter(loader))
    settle(model, batch_transforms(images), targets)
    val_metric = TextMatch()
    with torch.no_grad():
        out = model(batch_transforms(images), targets, return_preds=True)
    words, _ = zip(*out["preds"], strict=True)
    val_metric.update(targets, words)
    assert val_metric.summary()["raw"] >= 0.5
    assert out["loss"] < 1


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_detector_learns_pages(pages: Path, training_seed: int) -> None:
    seed_everything(training_seed)
    train_set = DetectionDataset(
        img_folder=str(pages / "images"),
        label_path=str(pages / "labels.json"),
        sample_transforms=T.SampleCompose([T.Resize((160, 160), preserve_aspect_ratio=True, symmetric_pad=True)]),
    )
    loader = loader_of(train_set, batch_size=2)
    model = detection.__dict__["db_mobilenet_v3_large"](
        pretrained=False, assume_straight_pages=True, class_names=train_set.class_names
    )
    batch_transforms = normalize(mean=(0.798, 0.785, 0.772), std=(0.264, 0.2749, 0.287))
    losses = fit(
        model, loader, batch_transforms, 200, 5e-3, lambda images, targets: model(images, targets)["loss"], until=0.12
    )
    assert losses[-1] < 0.12 < 1 < losses[0]

    images, targets = next(iter(loader))
    settle(model, batch_transforms(images), targets)
    val_metric = LocalizationConfusion(iou_thresh=0.5)
    with torch.no_grad():
        out = model(batch_transforms(images), targets, return_preds=True)
    for target, predicted in zip(targets, out["preds"], strict=True):
        for boxes_gt, boxes_pred in zip(target.values(), predicted.values(), strict=True):
            val_metric.update(gts=boxes_gt, preds=boxes_pred[:, :4])
    recall, precision, _ = val_metric.summary()
    assert min(recall, precision) > 0.7


def rnd_rotate(sample: Sample) -> Sample:
    """A random quarter turn, and which."""
    index = int(np.random.choice(len(QUARTERS)))
    turned, _ = T.functional.rotate_sample(sample.image, np.array([[0.0, 0.0, 1.0, 1.0]]), -QUARTERS[index])
    return sample.replace(image=turned, target=np.array([index]))


@pytest.mark.slow
def test_an_orientation_classifier_learns_turned_lines(lines: Path, training_seed: int) -> None:
    seed_everything(training_seed)
    train_set = OrientationDataset(
        img_folder=str(lines / "images"),
        img_transforms=T.Resize((48, 48), preserve_aspect_ratio=True, symmetric_pad=True),
        sample_transforms=T.SampleCompose([T.RandomApply(T.GaussianBlur((0.1, 0.5)), 0.3), rnd_rotate]),
    )
    loader = loader_of(train_set, batch_size=6)
    model = classification.__dict__["mobilenet_v3_small_crop_orientation"](pretrained=False, classes=QUARTERS)

    def loss_of(images: Tensor, targets: Any) -> Tensor:
        return nn.functional.cross_entropy(model(images), torch.tensor(np.array(targets)).flatten())

    batch_transforms = normalize(mean=(0.694, 0.695, 0.693), std=(0.299, 0.296, 0.301))
    losses = fit(model, loader, batch_transforms, 400, 2e-3, loss_of, until=0.2)
    # Chance gives log(4), and to one batch in 4 ** 6 a loss this small.
    assert losses[-1] < 0.2 < 1 < losses[0]


@pytest.mark.slow
def test_doctrs_augmentations_in_workers(lines: Path, pages: Path) -> None:
    train_set = RecognitionDataset(
        lines / "images",
        lines / "labels.json",
        img_transforms=T.SampleCompose(
            [
                T.Resize((32, 128), preserve_aspect_ratio=True),
                T.RandomApply(T.ColorInversion(), 0.1),
                T.ImageTorchvisionTransform(nn.Identity()),
                T.RandomApply(T.RandomShadow(), p=0.4),
                T.RandomApply(T.GaussianNoise(mean=0, std=0.1), 0.1),
                T.RandomApply(T.GaussianBlur(sigma=(0.5, 1.5)), 0.3),
            ]
        ),
    )
    page_set = DetectionDataset(
        pages / "images",
        pages / "labels.json",
        use_polygons=True,
        img_transforms=T.OneOf(
            [
                T.SampleCompose(
                    [T.RandomApply(T.ColorInversion(), 0.3), T.RandomApply(T.GaussianBlur((0.5, 1.5)), 0.2)]
                ),
                T.SampleCompose([T.RandomApply(T.RandomShadow(), 0.3), T.RandomApply(T.GaussianNoise(), 0.1)]),
            ]
        ),
        sample_transforms=T.SampleCompose(
            [
                T.RandomHorizontalFlip(0.15),
                T.OneOf(
                    [
                        T.RandomApply(T.RandomCrop(ratio=(0.6, 1.33)), 0.25),
                        T.RandomResize(scale_range=(0.4, 0.9), preserve_aspect_ratio=0.5, symmetric_pad=0.5, p=0.25),
                    ]
                ),
                T.RandomApply(T.RandomRotate(90.0, expand=True), 0.5),
                T.Resize((128, 128), preserve_aspect_ratio=True, symmetric_pad=True),
            ]
        ),
    )
    for data, shape in ((train_set, (3, 32, 128)), (page_set, (3, 128, 128))):
        seed_everything(0)
        loader = DataLoader(
            data, batch_size=2, num_workers=1, sampler=SequentialSampler(data), collate_fn=data.collate_fn
        )
        batches = [batch for _ in range(3) for batch in loader]
        assert len(batches) == 3 * len(data) // 2
        for images, targets in batches:
            assert images.shape == (2, *shape)
            assert -1e-6 <= images.min() < images.max() <= 1 + 1e-6
            for target in targets:
                if isinstance(target, str):
                    assert target in WORDS
                else:
                    assert target["words"].shape[1:] == (4, 2)
                    assert 0 <= target["words"].min() <= target["words"].max() <= 1
