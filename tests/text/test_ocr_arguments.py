"""Arguments of other types are named by the error, in all functions of `ocr.utils` and in elements of documents."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from mediatensor.errors import InvalidArgumentError, MediaTensorError
from mediatensor.ocr import io, utils
from mediatensor.ocr.io import KIEPage, Line, Page, Word
from mediatensor.ocr.io._documents.pages import Pages
from mediatensor.ocr.structure import join_tables
from mediatensor.ocr.utils import fonts, geometry, metrics, visualization

BOXES = np.array([[0.1, 0.1, 0.3, 0.2], [0.4, 0.1, 0.6, 0.2]])
QUADS = geometry.boxes_to_polygons(BOXES)
PICTURE = np.zeros((20, 30, 3), np.uint8)
WORD = Word("a", 0.9, ((0.1, 0.1), (0.3, 0.2)), 0.9, {"value": 0, "confidence": None})
PAGE = Page(PICTURE, [io.Block([Line([WORD])])], 0, (20, 30))
PREDICTIONS = KIEPage(PICTURE, {"a": []}, 0, (20, 30))
TEXTS = ["a", "b"]
CLASSES = np.arange(2)
LOGIC = np.zeros((2, 4), int)
SIZE = (20, 30)

# Functions, and arguments that they accept.
CALLS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "bbox_to_polygon": (utils.bbox_to_polygon, {"bbox": ((0, 0), (1, 1))}),
    "polygon_to_bbox": (utils.polygon_to_bbox, {"polygon": ((0, 0), (1, 1), (0, 1))}),
    "boxes_to_polygons": (geometry.boxes_to_polygons, {"boxes": BOXES}),
    "order_points": (utils.order_points, {"pts": QUADS}),
    "detach_scores": (utils.detach_scores, {"boxes": [BOXES]}),
    "min_area_rect": (utils.min_area_rect, {"points": QUADS[0]}),
    "resolve_enclosing_bbox": (utils.resolve_enclosing_bbox, {"bboxes": BOXES}),
    "resolve_enclosing_rbbox": (utils.resolve_enclosing_rbbox, {"rbboxes": QUADS, "intermed_size": 1024}),
    "rotate_abs_points": (geometry.rotate_abs_points, {"points": QUADS[0], "angle": 3}),
    "rotate_abs_geoms": (utils.rotate_abs_geoms, {"geoms": BOXES, "angle": 3, "img_shape": SIZE}),
    "remap_boxes": (geometry.remap_boxes, {"loc_preds": QUADS, "orig_shape": SIZE, "dest_shape": SIZE}),
    "rotate_boxes": (utils.rotate_boxes, {"loc_preds": BOXES, "angle": 5, "orig_shape": SIZE, "min_angle": 1}),
    "estimate_page_angle": (utils.estimate_page_angle, {"polys": QUADS}),
    "convert_to_relative_coords": (utils.convert_to_relative_coords, {"geoms": BOXES, "img_shape": SIZE}),
    "compute_expanded_shape": (utils.compute_expanded_shape, {"img_shape": SIZE, "angle": 4}),
    "rotate_image": (utils.rotate_image, {"image": PICTURE, "angle": 3}),
    "remove_image_padding": (utils.remove_image_padding, {"image": PICTURE}),
    "straighten_page": (utils.straighten_page, {"page": PICTURE, "angle": 4}),
    "extract_crops": (utils.extract_crops, {"img": PICTURE, "boxes": BOXES}),
    "extract_rcrops": (utils.extract_rcrops, {"img": PICTURE, "polys": QUADS}),
    "box_iou": (utils.box_iou, {"boxes_1": BOXES, "boxes_2": BOXES}),
    "polygon_iou": (utils.polygon_iou, {"polys_1": QUADS, "polys_2": QUADS}),
    "nms": (utils.nms, {"boxes": np.ones((2, 5)), "thresh": 0.5}),
    "LocalizationConfusion": (utils.LocalizationConfusion, {"iou_thresh": 0.5}),
    "LocalizationConfusion.update": (utils.LocalizationConfusion().update, {"gts": BOXES, "preds": BOXES}),
    "OCRMetric.update": (
        utils.OCRMetric().update,
        {"gt_boxes": BOXES, "pred_boxes": BOXES, "gt_labels": TEXTS, "pred_labels": TEXTS},
    ),
    "DetectionMetric.update": (
        utils.DetectionMetric().update,
        {"gt_boxes": BOXES, "pred_boxes": BOXES, "gt_labels": CLASSES, "pred_labels": CLASSES},
    ),
    "TableCellMetric.update": (
        utils.TableCellMetric().update,
        {"gt_cells": BOXES, "gt_logic": LOGIC, "pred_cells": BOXES, "pred_logic": LOGIC},
    ),
    "ObjectDetectionMetric.update": (
        utils.ObjectDetectionMetric().update,
        {
            "gt_boxes": BOXES, "pred_boxes": BOXES, "gt_labels": CLASSES, "pred_labels": CLASSES,
            "pred_scores": np.ones(2),
        },
    ),
    "TextMatch.update": (utils.TextMatch().update, {"gt": TEXTS, "pred": TEXTS}),
    "CharacterErrorRate.update": (utils.CharacterErrorRate().update, {"gt": TEXTS, "pred": TEXTS}),
    "get_font": (fonts.get_font, {"font_size": 13}),
    "draw_boxes": (utils.draw_boxes, {"boxes": BOXES, "image": PICTURE}),
    "overlay": (utils.overlay, {"page": PAGE}),
    "visualize_page": (utils.visualize_page, {"page": PAGE.export(), "image": PICTURE}),
    "synthesize_page": (utils.synthesize_page, {"page": PAGE.export()}),
    "synthesize_kie_page": (utils.synthesize_kie_page, {"page": PREDICTIONS.export()}),
    "get_colors": (visualization.get_colors, {"num_colors": 3}),
    "rect_patch": (visualization.rect_patch, {"geometry": ((0, 0), (1, 1)), "page_dimensions": SIZE}),
    "Document": (io.Document, {"pages": [PAGE]}),
    "Line": (io.Line, {"words": [WORD]}),
    "Block": (io.Block, {"lines": PAGE.blocks[0].lines, "artefacts": []}),
    "Page": (lambda blocks: Page(PICTURE, blocks, 0, SIZE), {"blocks": PAGE.blocks}),
    "KIEPage": (lambda predictions: KIEPage(PICTURE, predictions, 0, SIZE), {"predictions": {}}),
    "Pages": (Pages, {"documents": []}),
    "join_tables": (join_tables, {"pages": []}),
}  # fmt: skip
NEED_MATPLOTLIB = ("draw_boxes", "visualize_page", "rect_patch")


@pytest.mark.parametrize("name", CALLS)
def test_errors_name_the_argument_of_another_type(name: str) -> None:
    if name in NEED_MATPLOTLIB:
        pytest.importorskip("matplotlib", reason="draws figures").use("Agg")
    function, accepted = CALLS[name]
    function(**accepted)
    for parameter in accepted:
        for value in (None, object()):
            with pytest.raises(InvalidArgumentError, match=rf"\b{parameter}\b"):
                function(**{**accepted, parameter: value})


def test_thresholds_and_classes_of_metrics_are_numbers() -> None:
    for thresholds in (0.5, "x", [None], [0.5, 2]):
        with pytest.raises(MediaTensorError, match="iou_thresh"):
            metrics.ObjectDetectionMetric(iou_thresholds=thresholds)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="num_classes"):
        metrics.ObjectDetectionMetric(num_classes="two")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="angle must be a finite number"):
        utils.rotate_boxes(BOXES, np.nan, SIZE)


def test_arrays_of_other_shapes_and_types_are_refused() -> None:
    for value in ([None], ["a"], [[1], [1, 2]], 3, "text"):
        with pytest.raises(InvalidArgumentError, match="boxes_1 must be an array of numbers"):
            utils.box_iou(value, BOXES)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="boxes must be arrays"):
        utils.detach_scores([BOXES[0]])
    with pytest.raises(InvalidArgumentError, match="image must be an image"):
        utils.rotate_image(BOXES[0], 3)


def test_lists_and_tensors_are_taken_as_arrays() -> None:
    """docTR takes lists in some of these functions."""
    expected = utils.box_iou(BOXES, BOXES)
    np.testing.assert_array_equal(utils.box_iou(BOXES.tolist(), torch.from_numpy(BOXES)), expected)
    metric = utils.DetectionMetric()
    metric.update(torch.from_numpy(BOXES), BOXES.tolist(), torch.tensor([0, 1]), [0, 2])
    assert metric.summary()[0] == 0.5
    words = utils.TextMatch()
    words.update(np.array(TEXTS), dict.fromkeys(TEXTS).keys())  # type: ignore[arg-type]
    assert words.summary()["raw"] == 1
    crops = utils.extract_crops(torch.from_numpy(PICTURE), BOXES.tolist())
    assert [crop.shape for crop in crops] == [crop.shape for crop in utils.extract_crops(PICTURE, BOXES)]


def test_elements_take_their_children_from_any_series() -> None:
    line = Line(word for word in [WORD, WORD])  # type: ignore[arg-type]
    assert line.render() == "a a"
    assert line.geometry == WORD.geometry
    words = [WORD]
    assert Line(words).words is words
    assert io.Document((PAGE,)).pages == [PAGE]
    with pytest.raises(InvalidArgumentError, match="words of a Line must be elements \\(got 'a'\\)"):
        Line([WORD, "a"])  # type: ignore[list-item]
