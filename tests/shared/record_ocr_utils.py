"""Record what docTR, OpenCV and Shapely answer about boxes, images and scores, for the tests of our own.

Run it by hand where ``doctr`` imports, from its folder:

    python record_ocr_utils.py

It writes ``tests/records/ocr/geometry.json`` and ``tests/records/ocr/metrics.json``.
"""

from __future__ import annotations

import json
from typing import Any

import cv2
import numpy as np
from doctr.utils import geometry, metrics

from ocr_records import FOLDER

SHAPE = (400, 600)
ANGLES = (0.5, 12, -30, 89.5)


def picture(height: int = 24, width: int = 36) -> np.ndarray:
    y, x = np.mgrid[:height, :width]
    grey = np.rint(127 + 60 * np.sin(x / 3 + y / 7) + 60 * np.cos(x / 5 - y / 4)).astype(np.uint8)
    return np.repeat(grey[..., None], 3, axis=2)


def about_the_middle(turn: Any) -> Any:
    """Rotate about the middle of the image; docTR rotates half a pixel off."""

    def matrix(center: tuple[float, float], angle: float, scale: float) -> np.ndarray:
        return turn((center[0] - 0.5, center[1] - 0.5), angle, scale)

    return matrix


def plain(array: Any, digits: int | None = None) -> Any:
    array = np.asarray(array)
    return (array if digits is None else array.astype(float).round(digits)).tolist()


def quads(centers: np.ndarray, sizes: np.ndarray, angles: np.ndarray) -> np.ndarray:
    corners = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]]) / 2 * sizes[:, None]
    cosines, sines = np.cos(angles), np.sin(angles)
    turns = np.stack([np.stack([cosines, sines], -1), np.stack([-sines, cosines], -1)], -2)
    return centers[:, None] + corners @ turns


def turned_images(image: np.ndarray) -> list[dict[str, Any]]:
    original = cv2.getRotationMatrix2D
    cv2.getRotationMatrix2D = about_the_middle(original)
    cases = [(angle, *mode) for angle in (10, -33, 57) for mode in ((False, False), (True, False), (True, True))]
    try:
        return [
            {
                "angle": angle,
                "expand": expand,
                "preserve_origin_shape": preserve,
                "pixels": plain(geometry.rotate_image(image, angle, expand, preserve)[..., 0]),
            }
            for angle, expand, preserve in [*cases, (90, False, False)]
        ]
    finally:
        cv2.getRotationMatrix2D = original


def record_geometry() -> dict[str, Any]:
    rng = np.random.default_rng(7)
    image = picture()
    polygons = np.array(
        [
            [[0.2, 0.3], [0.6, 0.2], [0.65, 0.5], [0.25, 0.6]],
            [[0.8, 0.9], [0.3, 0.9], [0.3, 0.4], [0.8, 0.4]],
            [[0.5, 0.5], [0.505, 0.5], [0.505, 0.52], [0.5, 0.52]],
            [[-0.1, 0.1], [0.3, 0.1], [0.3, 0.4], [-0.1, 0.4]],
            [[0.3, 0.1], [0.7, 0.5], [0.6, 0.7], [0.2, 0.3]],
        ]
    )
    boxes = np.array([[0.2, 0.3, 0.6, 0.5], [0, 0, 1, 1], [0.9, 0.9, 0.95, 1.0]])
    orders = [[2, 0, 3, 1], [1, 2, 3, 0], [3, 2, 1, 0], [0, 1, 2, 3], [2, 3, 1, 0]]
    clouds = []
    for count, angle in ((4, 0.3), (8, 1.2), (40, -0.7)):
        turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        clouds.append((rng.random((count, 2)) * [1, 0.3] @ turn).round(4))
    return {
        "source": f"docTR 1.1.0 with OpenCV {cv2.__version__}; images turn about the middle of the picture",
        "rotate_image": turned_images(image),
        "polygons": plain(polygons),
        "rcrops": [plain(crop[..., 0]) for crop in geometry.extract_rcrops(image, polygons)],
        "horizontal_rcrops": [
            plain(crop[..., 0]) for crop in geometry.extract_rcrops(image, polygons, assume_horizontal=True)
        ],
        "boxes": plain(boxes),
        "crops": [plain(crop[..., 0]) for crop in geometry.extract_crops(image, boxes)],
        "enclosing": [
            {"points": plain(cloud), "corners": plain(geometry.resolve_enclosing_rbbox([cloud]), 6)} for cloud in clouds
        ],
        "rotate_boxes": [
            {
                "angle": angle,
                "target": target,
                "boxes": plain(geometry.rotate_boxes(boxes, angle, SHAPE, target_shape=target), 7),
                "polygons": plain(geometry.rotate_boxes(polygons, angle, SHAPE, target_shape=target), 7),
            }
            for angle in ANGLES
            for target in (None, (500, 700))
        ],
        "rotate_abs_geoms": [
            {
                "angle": angle,
                "expand": expand,
                "polygons": plain(geometry.rotate_abs_geoms(boxes * [600, 400, 600, 400], angle, SHAPE, expand), 3),
            }
            for angle in (12, -30)
            for expand in (False, True)
        ],
        "order_points": {
            "orders": orders,
            "points": [
                plain(geometry.order_points(polygon[order])) for polygon, order in zip(polygons, orders, strict=True)
            ],
        },
        "page_angle": geometry.estimate_page_angle(polygons),
    }


def record_metrics() -> dict[str, Any]:
    rng = np.random.default_rng(7)
    count, kept = 40, 36
    centers = rng.random((count, 2)) * 0.5
    sizes = np.stack([rng.uniform(0.03, 0.12, count), rng.uniform(0.02, 0.05, count)], axis=1)
    angles = rng.normal(0, 0.1, count)
    true = quads(centers, sizes, angles).round(4)
    noise = rng.normal(0, 0.005, (count, 2)), rng.uniform(0.8, 1.2, (count, 2)), rng.normal(0, 0.05, count)
    read = quads(centers + noise[0], sizes * noise[1], angles + noise[2]).round(4)[rng.permutation(count)][:kept]
    words = ["".join(rng.choice(list("aAbBé€"), 2)) for _ in range(count)]
    nearest = ((true.mean(1)[None] - read.mean(1)[:, None]) ** 2).sum(-1).argmin(1)
    changes = [str.lower, str, lambda text: text.replace("é", "e").replace("€", "EUR"), str]
    read_words = [changes[index % 4](words[near]) for index, near in enumerate(nearest)]
    classes, read_classes = rng.integers(0, 2, count), rng.integers(0, 2, kept)
    recorded: dict[str, Any] = {
        "source": "docTR 1.1.0, with SciPy, Shapely and anyascii",
        "true": plain(true),
        "predicted": plain(read),
        "true_words": words,
        "predicted_words": read_words,
        "true_classes": plain(classes),
        "predicted_classes": plain(read_classes),
    }
    # A separate generator, so the values above do not change.
    more = np.random.default_rng(8)
    scores, rows = more.random(kept).round(1), more.integers(0, 3, (count, 4))
    read_rows = np.where(more.random((kept, 4)) < 0.9, rows[nearest], 0)
    recorded |= {"scores": plain(scores), "rows": plain(rows), "predicted_rows": plain(read_rows)}
    for name, rotated in (("boxes", False), ("polygons", True)):
        pages = [page if rotated else np.concatenate([page.min(1), page.max(1)], axis=1) for page in (true, read)]
        found, text, told = (
            metric(0.4, rotated)
            for metric in (metrics.LocalizationConfusion, metrics.OCRMetric, metrics.DetectionMetric)
        )
        found.update(*pages)
        text.update(*pages, words, read_words)
        told.update(*pages, classes, read_classes)
        objects, cells = metrics.ObjectDetectionMetric(use_polygons=rotated), metrics.TableCellMetric(0.4, rotated)
        # Two pages; the second has the parts that the first lacks.
        for true_part, read_part in ((slice(0, 25), slice(0, 15)), (slice(25, None), slice(15, None))):
            objects.update(
                pages[0][true_part], pages[1][read_part], classes[true_part], read_classes[read_part], scores[read_part]
            )
        objects.update(pages[0], pages[1], classes, read_classes, scores)
        cells.update(pages[0], rows, pages[1], read_rows)
        by_threshold = objects.summary()
        recorded[name] = {
            "objects": {**by_threshold, "AP_per_IoU": list(by_threshold["AP_per_IoU"].items())},
            "cells": cells.summary(),
            "localization": found.summary(),
            "ocr": text.summary(),
            "detection": told.summary(),
        }
    shapes = quads(rng.random((14, 2)), rng.uniform(0.2, 0.7, (14, 2)), rng.uniform(0, 6, 14))
    concave = np.array([[[0, 0], [4, 0], [1, 1], [0, 4]], [[0, 0], [3, 0], [3, 3], [2, 0.5]]]) / 4
    shapes = np.concatenate([shapes + rng.normal(0, 0.02, shapes.shape), concave]).round(3)
    recorded["iou"] = {"polygons": plain(shapes), "iou": plain(metrics.polygon_iou(shapes, shapes[:, ::-1]), 6)}
    corners = rng.random((40, 2))
    scored = np.concatenate([corners, corners + rng.uniform(0.1, 0.5, (40, 2)), rng.random((40, 1))], axis=1).round(3)
    recorded["nms"] = {"boxes": plain(scored), "kept": [int(index) for index in metrics.nms(scored, 0.3)]}
    return recorded


if __name__ == "__main__":
    for name, record in (("geometry", record_geometry), ("metrics", record_metrics)):
        text = json.dumps(record(), separators=(",", ":"), ensure_ascii=False)
        (FOLDER / f"{name}.json").write_text(text + "\n", "utf-8")
