"""Errors have docTR's types, so existing except clauses keep working."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import mediatensor
from mediatensor import ocr
from mediatensor.errors import MediaTensorError
from mediatensor.ocr import io, models, utils
from mediatensor.ocr.datasets.utils import decode_sequence, encode_sequences, encode_string
from mediatensor.ocr.file_utils import requires_package
from mediatensor.ocr.models import utils as model_utils
from mediatensor.ocr.models.builder import DocumentBuilder
from mediatensor.ocr.models.detection.differentiable_binarization import DBPostProcessor
from mediatensor.ocr.models.preprocessor import PreProcessor
from mediatensor.ocr.models.reading_order import ReadingOrderPredictor
from mediatensor.ocr.utils import fonts, metrics, visualization

PICTURE = np.zeros((10, 10, 3), np.uint8)
NO_BOXES = np.zeros((0, 4))
# What docTR 1.1.0 raises, found by calling it.
RAISED: dict[str, tuple[type[Exception], Callable[[], Any]]] = {
    "a package that is not there": (ImportError, lambda: requires_package("no-such-package-anywhere")),
    "a number for a PDF": (TypeError, lambda: io.read_pdf(123)),  # type: ignore[arg-type]
    "a PDF that is not there": (FileNotFoundError, lambda: io.read_pdf("absent.pdf")),
    "a number for an image": (TypeError, lambda: io.read_img_as_numpy(123)),  # type: ignore[arg-type]
    "an image that is not there": (FileNotFoundError, lambda: io.read_img_as_numpy("absent.jpg")),
    "bytes that are not an image": (ValueError, lambda: io.read_img_as_numpy(b"not an image")),
    "a number for images": (TypeError, lambda: io.DocumentFile.from_images(123)),  # type: ignore[arg-type]
    "a type of tensors": (ValueError, lambda: io.tensor_from_numpy(PICTURE, torch.int64)),
    "a number for pages": (TypeError, lambda: PreProcessor((8, 8), 2)(42)),  # type: ignore[arg-type]
    "an array for pages": (AssertionError, lambda: PreProcessor((8, 8), 2)(PICTURE)),
    "pages of four dimensions": (AssertionError, lambda: PreProcessor((8, 8), 2)([PICTURE[None]])),
    "pages of numbers": (TypeError, lambda: PreProcessor((8, 8), 2)([PICTURE.astype(np.int32)])),
    "a summary of no words": (AssertionError, lambda: metrics.TextMatch().summary()),
    "words of other numbers": (AssertionError, lambda: metrics.TextMatch().update(["a", "b"], ["c"])),
    "a summary of no pages": (AssertionError, lambda: metrics.ObjectDetectionMetric().summary()),
    "invalid polygons": (AssertionError, lambda: metrics.polygon_iou(np.zeros((2, 5)), np.ones((3, 4)))),
    "labels without boxes": (
        AssertionError,
        lambda: metrics.OCRMetric().update(np.zeros((1, 4)), NO_BOXES, ["a"], ["b", "c"]),
    ),
    "crops of no boxes": (AssertionError, lambda: utils.extract_crops(PICTURE, np.zeros((1, 5)))),
    "crops of no polygons": (AssertionError, lambda: utils.extract_rcrops(PICTURE, np.zeros((1, 8)))),
    "boxes of five": (ValueError, lambda: utils.convert_to_relative_coords(np.zeros((3, 5)), (32, 32))),
    "letters that are in no vocabulary": (ValueError, lambda: encode_string("abc", "xyz")),
    "a number for classes": (TypeError, lambda: decode_sequence(123, "abcdef")),  # type: ignore[arg-type]
    "invalid classes": (AssertionError, lambda: decode_sequence(np.array([2, 10]), "abcdef")),
    "an end within the vocabulary": (ValueError, lambda: encode_sequences(["cba"], "abcdef", eos=1)),
    "maps of three dimensions": (AssertionError, lambda: DBPostProcessor()(np.zeros((2, 8, 8), np.float32))),
    "a patch of numbers": (ValueError, lambda: visualization.create_obj_patch((1, 2), (100, 100))),  # type: ignore
    "lists of other lengths": (
        ValueError,
        lambda: DocumentBuilder()([PICTURE] * 2, [NO_BOXES] * 2, [np.zeros(0)] * 2, [[]] * 3, [(1, 2)] * 2, [[]] * 2),
    ),
    "a direction": (ValueError, lambda: ReadingOrderPredictor(direction="x")),
    "the name of a detector": (ValueError, lambda: models.detection_predictor("wrong")),
    "another network as a detector": (ValueError, lambda: models.detection_predictor(nn.Linear(2, 2))),
    "another network as a classifier": (
        ValueError,
        lambda: models.crop_orientation_predictor(models.textnet_tiny(num_classes=4)),
    ),
    "a whitelist of another network": (TypeError, lambda: model_utils.add_whitelist(nn.Linear(2, 2), "a")),
    "weights that are not there": (
        FileNotFoundError,
        lambda: model_utils.load_pretrained_params(nn.Linear(2, 2), "absent.pt"),
    ),
    "a font that is not there": (OSError, lambda: fonts.get_font("no-such-font-anywhere.ttf")),
}


@pytest.mark.parametrize("what", RAISED)
def test_the_error_is_ours_and_of_the_type_that_doctr_raises(what: str) -> None:
    error, call = RAISED[what]
    with pytest.raises(error) as raised:
        call()
    assert isinstance(raised.value, MediaTensorError)


def test_a_hook_must_be_a_function() -> None:
    predictor = ocr.ocr_predictor("fast_tiny", "crnn_mobilenet_v3_small")
    with pytest.raises(MediaTensorError, match="a hook must be a function"):
        predictor.add_hook(5)  # type: ignore[arg-type]
    assert predictor.hooks == []


def test_a_file_of_weights_must_be_named() -> None:
    with pytest.raises(MediaTensorError, match="must be a path"):
        model_utils.load_pretrained_params(nn.Linear(2, 2), None)  # type: ignore[arg-type]


def test_packages_and_the_version_are_known() -> None:
    requires_package("numpy")
    with pytest.raises(ImportError, match="Charts need it: no-such-package-anywhere is not"):
        requires_package("no-such-package-anywhere", "Charts need it:")
    assert ocr.__version__ == mediatensor.__version__
    assert len(ocr.__version__.split(".")) == 3
