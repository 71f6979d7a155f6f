"""Your own datasets: a folder of images, and a JSON file in one of docTR's formats."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from ..._engine.common.checks import shown
from ...errors import InvalidArgumentError
from ..file_utils import CLASS_NAME
from ..io import get_img_shape, read_img_as_tensor
from ..utils import convert_to_relative_coords
from ..utils.common_types import Sample
from ._files import Array, boxes_of, corners_of, entries_of, entry, files_in, labels_by_picture, quads_of
from .datasets import AbstractDataset
from .utils import pre_transform_multiclass


class RecognitionDataset(AbstractDataset):
    """Images with one text each, to train text recognisers.

    Indexing returns a `Sample` with an image, float32 (3, H, W) in [0, 1], and its text (``str``) as target.

    Args:
        img_folder: Folder of the images.
        labels_path: A JSON file that maps image names to texts: ``{"word_1.png": "one", ...}``.
        **kwargs: ``img_transforms`` and ``sample_transforms``, functions that change a sample; see `AbstractDataset`.

    Raises:
        SourceNotFoundError: (a FileNotFoundError) The folder, the file or an image is missing.
        OpenError: The file is not JSON.
        InvalidArgumentError: The file is not a JSON object, or the label of an image is not a text.

    Example:
        >>> import json
        >>> from pathlib import Path
        >>> from mediatensor.ocr.datasets import RecognitionDataset
        >>> size = Path("words.json").write_text(json.dumps({"page.png": "Delivery"}))
        >>> words = RecognitionDataset(".", "words.json")
        >>> len(words), words[0].target
        (1, 'Delivery')
    """

    def __init__(self, img_folder: str | Path, labels_path: str | Path, **kwargs: Any) -> None:
        super().__init__(img_folder, **kwargs)
        self.data: list[tuple[Any, str]] = []
        for name, label, place in labels_by_picture(self.root, labels_path):
            if not isinstance(label, str):
                raise InvalidArgumentError(f"The label of {place} must be a text (got {shown(label)}).")
            self.data.append((name, label))

    def merge_dataset(self, ds: AbstractDataset) -> None:
        """Append the images and texts of another dataset to this dataset. The transforms of ``ds`` are not used.

        Args:
            ds: A dataset whose targets are texts, such as a `RecognitionDataset`.
        """
        self.data = [*_rows_with_full_paths(self), *_rows_with_full_paths(ds)]
        self.root = Path(Path(self.root).absolute().anchor)


def _rows_with_full_paths(dataset: AbstractDataset) -> list[tuple[Any, Any]]:
    root = os.path.abspath(dataset.root)
    return [
        (picture if isinstance(picture, np.ndarray) else os.path.join(root, picture), target)
        for picture, target in dataset.data
    ]


class _BoxesByClass(AbstractDataset):
    def __init__(
        self, img_folder: str | Path, label_path: str | Path, use_polygons: bool = False, **kwargs: Any
    ) -> None:
        super().__init__(img_folder, pre_transforms=pre_transform_multiclass, **kwargs)
        self._class_names: list[str] = []
        self.data: list[tuple[str, tuple[Array, list[str]]]] = [
            (name, self._boxes_and_classes(label, use_polygons, place))
            for name, label, place in labels_by_picture(self.root, label_path)
        ]
        self._class_names = self.class_names

    def _boxes_and_classes(self, label: Any, use_polygons: bool, place: str) -> tuple[Array, list[str]]:
        raise NotImplementedError

    @property
    def class_names(self) -> list[str]:
        """Names of all classes, sorted."""
        return sorted(set(self._class_names))


class DetectionDataset(_BoxesByClass):
    """Page images with the text boxes of each class, to train text detectors.

    The target of a sample is a dict from class names to float32 arrays of boxes. A box is (xmin, ymin, xmax, ymax), so
    the array is (N, 4). With ``use_polygons``, a box is its four corners (x, y), so the array is (N, 4, 2). Coordinates
    are fractions of the page's width and height. The dict is empty for a page without boxes.

    Args:
        img_folder: Folder of the pages.
        label_path: A JSON file, ``{"page.png": {"polygons": [...]}, ...}``. A polygon has four points ``[x, y]`` in
            pixels, clockwise from the top left in reading direction. ``polygons`` is a dict that maps each class to a
            list of polygons, or just a list if all polygons have the class "words". Other keys, such as
            ``img_dimensions``, are ignored.
        use_polygons: Whether to keep all four points. If ``False``, boxes are axis-aligned and enclose the points.
        **kwargs: As for `RecognitionDataset`.

    Raises:
        SourceNotFoundError, OpenError: See `RecognitionDataset`.
        InvalidArgumentError: The ``polygons`` of a page are missing or invalid.

    Example:
        >>> import json
        >>> from pathlib import Path
        >>> from mediatensor.ocr.datasets import DetectionDataset
        >>> word = [[80, 56], [160, 56], [160, 112], [80, 112]]
        >>> size = Path("boxes.json").write_text(json.dumps({"page.png": {"polygons": [word]}}))
        >>> DetectionDataset(".", "boxes.json")[0].target["words"].round(2).tolist()
        [[0.10000000149011612, 0.10000000149011612, 0.20000000298023224, 0.20000000298023224]]
    """

    def _boxes_and_classes(self, label: Any, use_polygons: bool, place: str) -> tuple[Array, list[str]]:
        return self.format_polygons(entry(label, "polygons", place), use_polygons, np.float32, place)

    def format_polygons(
        self, polygons: list[Any] | dict[str, list[Any]], use_polygons: bool, np_dtype: Any, place: str = "the page"
    ) -> tuple[Array, list[str]]:
        """Return the boxes of one page and the class name of each, and add the names to ``class_names``.

        Args:
            polygons: A list of polygons, or a dict from class names to lists of polygons. A polygon has four points
                ``[x, y]`` in pixels.
            use_polygons: Whether to keep all four points. If ``False``, boxes are axis-aligned and enclose the points.
            np_dtype: NumPy dtype of the boxes.
            place: Name of the page in error messages.

        Returns:
            The pair (boxes, names): an array of N boxes in pixels, and a list of N class names. The array is (N, 4) as
            (xmin, ymin, xmax, ymax) or, with ``use_polygons``, (N, 4, 2).

        Raises:
            InvalidArgumentError: ``polygons`` has another type, or a polygon does not have four points.
        """
        by_class = {CLASS_NAME: polygons} if isinstance(polygons, list) else polygons
        if not isinstance(by_class, dict) or not all(isinstance(one, list) for one in by_class.values()):
            raise InvalidArgumentError(
                f"'polygons' of {place} must be a list, or a dict of lists by class (got {shown(polygons)})."
            )
        self._class_names += by_class
        quads = [quads_of(own, place, np_dtype) for own in by_class.values()]
        classes = [name for name, own in by_class.items() for _ in own]
        return boxes_of(np.concatenate([*quads, np.zeros((0, 4, 2), np_dtype)]), use_polygons), classes


class LayoutDataset(_BoxesByClass):
    """Page images with the layout regions of each class, such as titles and tables.

    The target of a sample is a dict from class names to float32 arrays of boxes: (N, 4) as (xmin, ymin, xmax, ymax) or,
    with ``use_polygons``, four corners (N, 4, 2). Coordinates are fractions of the page's width and height.

    Args:
        img_folder: Folder of the pages.
        label_path: A JSON file, ``{"page.png": {"polygons": [...], "classes": [...]}, ...}``, with polygons of four
            points ``[x, y]`` in pixels, and the class name of each polygon.
        use_polygons, **kwargs: As for `DetectionDataset`.

    Raises:
        SourceNotFoundError, OpenError: See `RecognitionDataset`.
        InvalidArgumentError: The ``polygons`` or ``classes`` of a page are missing or invalid.

    Example:
        >>> import json
        >>> from pathlib import Path
        >>> from mediatensor.ocr.datasets import LayoutDataset
        >>> label = {"polygons": [[[0, 0], [400, 0], [400, 56], [0, 56]]], "classes": ["title"]}
        >>> size = Path("layout.json").write_text(json.dumps({"page.png": label}))
        >>> LayoutDataset(".", "layout.json").class_names
        ['title']
    """

    def _boxes_and_classes(self, label: Any, use_polygons: bool, place: str) -> tuple[Array, list[str]]:
        polygons, classes = entries_of(label, "polygons", place), entries_of(label, "classes", place)
        return self.format_polygons(polygons, classes, use_polygons, np.float32, place)

    def format_polygons(
        self, polygons: list[Any], class_names: list[str], use_polygons: bool, np_dtype: Any, place: str = "the page"
    ) -> tuple[Array, list[str]]:
        """Return the boxes of one page and the class name of each, and add the names to the dataset's ``class_names``.

        Args:
            polygons: Polygons of four points ``[x, y]`` in pixels.
            class_names: The class name of each polygon.
            use_polygons, np_dtype, place: As in `DetectionDataset.format_polygons`, which
                returns the same pair.

        Raises:
            InvalidArgumentError: The numbers of polygons and classes differ, or a polygon does not have four points.
        """
        if len(polygons) != len(class_names):
            raise InvalidArgumentError(f"{place} has {len(polygons)} polygons and {len(class_names)} classes.")
        if not all(isinstance(name, str) for name in class_names):
            raise InvalidArgumentError(f"Classes of {place} must be names (got {shown(class_names)}).")
        self._class_names += class_names
        return boxes_of(quads_of(polygons, place, np_dtype), use_polygons), class_names


class OCRDataset(AbstractDataset):
    """Page images with the boxes and texts of their words.

    The target of a sample is a dict ``{"boxes": ..., "labels": [...]}``: a float32 array of N boxes, and a list of N
    texts. The array is (N, 4) as (xmin, ymin, xmax, ymax) or, with ``use_polygons``, (N, 4, 2). Coordinates are
    fractions of the page's width and height.

    Args:
        img_folder: Folder of the pages.
        label_file: A JSON file, ``{"page.png": {"typed_words": [{"value": "one", "geometry": [xmin, ymin, xmax, ymax]},
            ...]}, ...}``, with coordinates in fractions of the page's width and height. Only the first four numbers of
            ``geometry`` are used.
        use_polygons: Whether to represent each box by its four corners (x, y), clockwise from the top left.
        **kwargs: As for `RecognitionDataset`.

    Raises:
        SourceNotFoundError, OpenError: See `RecognitionDataset`.
        InvalidArgumentError: The ``typed_words`` of a page are missing or invalid.

    Example:
        >>> import json
        >>> from pathlib import Path
        >>> from mediatensor.ocr.datasets import OCRDataset
        >>> words = [{"value": "Delivery", "geometry": [0.1, 0.05, 0.25, 0.1]}]
        >>> size = Path("pages.json").write_text(json.dumps({"page.png": {"typed_words": words}}))
        >>> OCRDataset(".", "pages.json")[0].target["labels"]
        ['Delivery']
    """

    def __init__(
        self, img_folder: str | Path, label_file: str | Path, use_polygons: bool = False, **kwargs: Any
    ) -> None:
        super().__init__(img_folder, **kwargs)
        self.data: list[tuple[Path, dict[str, Any]]] = []
        for name, label, place in labels_by_picture(self.root, label_file):
            words = entries_of(label, "typed_words", place)
            geometries = [entries_of(word, "geometry", place)[:4] for word in words]
            texts = [entry(word, "value", place) for word in words]
            if not all(isinstance(text, str) for text in texts):
                raise InvalidArgumentError(f"Each 'value' of {place} must be a text (got {shown(texts)}).")
            boxes = boxes_of(corners_of(geometries, place), use_polygons)
            self.data.append((Path(name), {"boxes": boxes, "labels": texts}))


class TableStructureDataset(AbstractDataset):
    """Images of tables with their cells.

    The target of a sample is ``{"cells": ..., "logic": ...}``. ``cells`` is a float32 array of boxes: (N, 4) as (xmin,
    ymin, xmax, ymax) or, with ``use_polygons``, (N, 4, 2). Coordinates are fractions of the image's width and height.
    ``logic`` is int64 (N, 4): the first column, last column, first row and last row of each cell, counted from 0.

    Args:
        img_folder: Folder of the images.
        label_path: A JSON file, ``{"table.png": {"cells": [...], "logic": [[0, 0, 0, 1], ...]}, ...}``, with cells as
            polygons of four points ``[x, y]`` in pixels. ``logic`` has the first column, last column, first row and
            last row of each cell.
        use_polygons: Whether to keep all four points of a cell. If ``False``, boxes are axis-aligned and enclose the
            points.
        **kwargs: ``img_transforms`` and ``sample_transforms``, functions that change a sample; see `AbstractDataset`.
            They receive samples whose target is only the array of cell boxes.

    Raises:
        SourceNotFoundError: (a FileNotFoundError) The folder, the file or an image is missing.
        OpenError: The file is not JSON.
        InvalidArgumentError: The ``cells`` or ``logic`` of an image are missing or invalid, or a transform has removed
            cells.

    Example:
        >>> import json
        >>> from pathlib import Path
        >>> from mediatensor.ocr.datasets import TableStructureDataset
        >>> label = {"cells": [[[0, 0], [400, 0], [400, 56], [0, 56]]], "logic": [[0, 1, 0, 0]]}
        >>> size = Path("table.json").write_text(json.dumps({"page.png": label}))
        >>> TableStructureDataset(".", "table.json")[0].target["logic"].tolist()
        [[0, 1, 0, 0]]
    """

    def __init__(
        self, img_folder: str | Path, label_path: str | Path, use_polygons: bool = False, **kwargs: Any
    ) -> None:
        super().__init__(img_folder, **kwargs)
        self.data: list[tuple[str, dict[str, Array]]] = []
        for name, label, place in labels_by_picture(self.root, label_path):
            cells = boxes_of(quads_of(entries_of(label, "cells", place), place), use_polygons)
            rows = entries_of(label, "logic", place)
            if len(rows) != len(cells) or not all(_is_place_in_table(row) for row in rows):
                raise InvalidArgumentError(
                    f"'logic' of {place} must have four whole numbers for each of {len(cells)} cells: first and last "
                    f"column, first and last row (got {shown(rows)})."
                )
            self.data.append((name, {"cells": cells, "logic": np.array(rows, np.int64).reshape(-1, 4)}))

    def __getitem__(self, index: int) -> Sample:
        name, label = self.data[index]
        image = read_img_as_tensor(os.path.join(self.root, name))
        cells = convert_to_relative_coords(label["cells"], get_img_shape(image))
        sample = self._transform(Sample(image, None, cells))
        num_left = len(sample.target) if isinstance(sample.target, np.ndarray) else 0
        if num_left != len(cells):
            raise InvalidArgumentError(
                f"The transforms left {num_left} of {len(cells)} cells of {name!r}, so that their columns and "
                "rows are unknown: use transforms that keep the whole table."
            )
        return Sample(sample.image, None, {"cells": sample.target, "logic": label["logic"].copy()})


def _is_place_in_table(row: Any) -> bool:
    return isinstance(row, list) and len(row) == 4 and all(type(part) is int and 0 <= part < 1 << 31 for part in row)


class OrientationDataset(AbstractDataset):
    """Upright images, to train orientation classifiers with a transform that rotates them.

    The target of a sample is always ``np.array([0])``, the class index of upright images.

    Args:
        img_folder: Folder of the images. All files in it must be images, except files whose names start with a dot,
            which are ignored.
        **kwargs: ``img_transforms`` and ``sample_transforms``, functions that change a sample; see `AbstractDataset`.

    Raises:
        SourceNotFoundError: The folder does not exist.

    Example:
        >>> from pathlib import Path
        >>> from mediatensor.ocr.datasets import OrientationDataset
        >>> Path("upright").mkdir(exist_ok=True)
        >>> size = Path("upright/1.png").write_bytes(Path("page.png").read_bytes())
        >>> OrientationDataset("upright")[0].target.tolist()
        [0]
    """

    def __init__(self, img_folder: str | Path, **kwargs: Any) -> None:
        super().__init__(img_folder, **kwargs)
        self.data: list[tuple[str, Array]] = [(name, np.array([0])) for name in files_in(self.root)]
