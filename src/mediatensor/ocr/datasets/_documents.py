"""Published datasets of documents: forms, receipts, and pages with artefacts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ..._engine.common.checks import shown
from ...errors import InvalidArgumentError
from ._files import (
    boxes_of,
    corners_of,
    entries_of,
    entry,
    files_in,
    inner_folder,
    labels_by_picture,
    parsed_json,
    picture_in,
    quads_of,
    read_json,
    read_lines,
    text_of,
)
from .datasets import ArchivedWords, Page, VisionDataset, WordsInFolder


class FUNSD(ArchivedWords):
    """Scanned forms with words: `FUNSD <https://guillaumejaume.github.io/FUNSD/>`_, 149 training and 50 test pages.

    The cache folder (by default ``~/.cache/doctr/datasets``; see `VisionDataset`) must contain ``funsd.zip``, or the
    unpacked folder ``funsd`` with the folder ``dataset``. Words without text are left out.

    By default, each sample is a page. Its target is a dict with ``boxes``, a float32 array in fractions of the page's
    width and height, and ``labels``, a list with the text of each box.

    Args:
        train: Whether to load the training part instead of the test part.
        use_polygons: Whether boxes are four corners (x, y), (N, 4, 2), clockwise from the top left. If ``False``, they
            are axis-aligned, (N, 4): (xmin, ymin, xmax, ymax).
        recognition_task: Whether each sample is the image of one word, with the text of the word as target. Texts that
            are unsuitable for training, such as ticked boxes, are left out.
        detection_task: Whether the target is only the array of boxes. It cannot be combined with ``recognition_task``.
        **kwargs: Further arguments of `VisionDataset`: ``download``, ``overwrite``, ``cache_dir``, ``cache_subdir``,
            ``img_transforms`` and ``sample_transforms``.

    Raises:
        SourceNotFoundError: The files are not on this machine. The message explains where to get and put them.
        OpenError, InvalidArgumentError: A file is damaged.

    Example:
        >>> from mediatensor.ocr.datasets import FUNSD
        >>> FUNSD(train=True, cache_dir="nothing here")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ...
        mediatensor.errors.SourceNotFoundError: The files of FUNSD are not on this machine, ...
    """

    URL = "https://guillaumejaume.github.io/FUNSD/dataset.zip"
    SHA256 = "c31735649e4f441bcbb4fd0f379574f7520b42286e80b01d80b445649d54761f"
    FILE_NAME = "funsd.zip"

    def _folder(self, unpacked: Path) -> Path:
        part = "training_data" if self.train else "testing_data"
        return inner_folder(unpacked, "dataset") / part / "images"

    def _pages(self, folder: Path) -> Iterator[Page]:
        for picture, words, place in _annotated_words(folder, "annotations", "form"):
            quads = corners_of([entry(word, "box", place) for word in words], place)
            yield Page(picture, quads, [word["text"] for word in words])

    def _text_to_learn(self, label: str) -> str:
        # Ticked boxes, a Greek omicron and private-use characters are annotations, not printed text.
        return "" if re.search("[ ☑☐\u03bf\uf702\uf703]", label) else label.replace("\N{EN DASH}", "-")


class SROIE(ArchivedWords):
    """Scanned receipts with their lines: `SROIE <https://rrc.cvc.uab.es/?ch=13>`_, 626 training and 360 test pages.

    The cache folder (by default ``~/.cache/doctr/datasets``; see `VisionDataset`) must contain
    ``sroie2019_train_task1.zip`` or ``sroie2019_test.zip``, or the unpacked folder of this name (without ``.zip``) with
    ``images`` and ``annotations``. Each text is a whole line, with spaces.

    Arguments, targets and errors are the same as for `FUNSD`: ``train``, ``use_polygons``, ``recognition_task``,
    ``detection_task``, and further arguments of `VisionDataset`.
    """

    TRAIN = (
        "https://doctr-static.mindee.com/models?id=v0.1.1/sroie2019_train_task1.zip&src=0",
        "d4fa9e60abb03500d83299c845b9c87fd9c9430d1aeac96b83c5d0bb0ab27f6f",
        "sroie2019_train_task1.zip",
    )
    TEST = (
        "https://doctr-static.mindee.com/models?id=v0.1.1/sroie2019_test.zip&src=0",
        "41b3c746a20226fddc80d86d4b2a903d43b5be4f521dd1bbe759dbf8844745e2",
        "sroie2019_test.zip",
    )

    def _folder(self, unpacked: Path) -> Path:
        return unpacked / "images"

    def _pages(self, folder: Path) -> Iterator[Page]:
        for picture in files_in(folder):
            file = folder.parent / "annotations" / f"{Path(picture).stem}.txt"
            points, labels = [], []
            # Files are in UTF-8 or Latin-1. Commas and quotation marks in texts have no special meaning.
            for place, line in read_lines(file, or_latin=True):
                *numbers, label = line.split(",", 8)
                if len(numbers) != 8:
                    raise InvalidArgumentError(f"{place} must be eight numbers and a text, separated by commas.")
                points.append(_pairs(numbers, place))
                labels.append(label)
            yield Page(picture, quads_of(points, str(file)), labels)

    def _text_to_learn(self, label: str) -> str:
        return label


class CORD(ArchivedWords):
    """Photographed receipts with words: `CORD <https://github.com/clovaai/cord>`_, 800 training and 100 test pages.

    The cache folder (by default ``~/.cache/doctr/datasets``; see `VisionDataset`) must contain ``cord_train.zip`` or
    ``cord_test.zip``, or the unpacked folder of this name (without ``.zip``) with ``image`` and ``json``. Words without
    text are left out.

    Arguments, targets and errors are the same as for `FUNSD`: ``train``, ``use_polygons``, ``recognition_task``,
    ``detection_task``, and further arguments of `VisionDataset`.
    """

    TRAIN = (
        "https://doctr-static.mindee.com/models?id=v0.1.1/cord_train.zip&src=0",
        "45f9dc77f126490f3e52d7cb4f70ef3c57e649ea86d19d862a2757c9c455d7f8",
        "cord_train.zip",
    )
    TEST = (
        "https://doctr-static.mindee.com/models?id=v0.1.1/cord_test.zip&src=0",
        "8c895e3d6f7e1161c5b7245e3723ce15c04d84be89eaa6093949b75a66fb3c58",
        "cord_test.zip",
    )
    _IN_WHOLE_PIXELS = True

    def _folder(self, unpacked: Path) -> Path:
        return unpacked / "image"

    def _pages(self, folder: Path) -> Iterator[Page]:
        for picture, words, place in _annotated_words(folder, "json", "valid_line"):
            points = [_corners(entry(word, "quad", place), place) for word in words]
            yield Page(picture, quads_of(points, place), [word["text"] for word in words])


class WILDRECEIPT(WordsInFolder):
    """Photographed receipts with their words: `WildReceipt <https://arxiv.org/abs/2103.14470>`_.

    The unpacked contents of ``wildreceipt.tar`` must be on this machine.

    Args:
        img_folder: The folder ``wildreceipt``. The image names in the label file are relative to this folder.
        label_path: The file ``train.txt`` or ``test.txt`` in this folder. Each of its lines is a JSON object that
            describes one page.
        train: Whether ``label_path`` is the training part. This affects only the repr of the dataset.
        use_polygons, recognition_task, detection_task: Select the form of the boxes and targets, as for `FUNSD`.
        **kwargs: ``img_transforms`` and ``sample_transforms``, functions that change a sample; see `AbstractDataset`.

    Raises:
        SourceNotFoundError: The folder, the file or a page is missing.
        OpenError, InvalidArgumentError: The file is damaged.

    Example:
        >>> import json
        >>> from pathlib import Path
        >>> from mediatensor.ocr.datasets import WILDRECEIPT
        >>> words = [{"box": [80, 56, 160, 56, 160, 112, 80, 112], "text": "one"}]
        >>> size = Path("train.txt").write_text(json.dumps({"file_name": "page.png", "annotations": words}))
        >>> WILDRECEIPT(".", "train.txt")[0].target["labels"]
        ['one']
    """

    _IN_WHOLE_PIXELS = True

    def _pages(self, label_path: str | Path) -> Iterator[Page]:
        for place, line in read_lines(label_path):
            label = parsed_json(line, place)
            picture = picture_in(self.root, entry(label, "file_name", place), place)
            words = entries_of(label, "annotations", place)
            points = [_pairs(entries_of(word, "box", place), place) for word in words]
            yield Page(picture, quads_of(points, place), [text_of(word, "text", place) for word in words])


class DocArtefacts(VisionDataset):
    """Generated pages with text and artefacts (logos, codes, photographs), 2700 training and 300 test pages.

    The cache folder (by default ``~/.cache/doctr/datasets``; see `VisionDataset`) must contain
    ``artefact_detection-13fab8ce.zip``, or the unpacked folder ``artefact_detection-13fab8ce`` with ``train`` and
    ``val``.

    The target of a sample is a dict of ``boxes`` and ``labels``. ``boxes`` is a float32 array in fractions of the
    page's width and height: (N, 4) as (xmin, ymin, xmax, ymax) or, with ``use_polygons``, (N, 4, 2). ``labels`` is an
    int64 array (N,): the class of each box as an index into `CLASSES`.

    Args:
        train, use_polygons, **kwargs: As for `FUNSD`.

    Raises:
        SourceNotFoundError: The files are not on this machine. The message explains where to get and put them.
        OpenError, InvalidArgumentError: A file is damaged, or the numbers of labels and images differ.

    Example:
        >>> from mediatensor.ocr.datasets import DocArtefacts
        >>> DocArtefacts.CLASSES
        ['background', 'qr_code', 'bar_code', 'logo', 'photo']
    """

    URL = "https://doctr-static.mindee.com/models?id=v0.4.0/artefact_detection-13fab8ce.zip&src=0"
    SHA256 = "13fab8ced7f84583d9dccd0c634f046c3417e62a11fe1dea6efbbaba5052471b"
    CLASSES = ["background", "qr_code", "bar_code", "logo", "photo"]  # noqa: RUF012  # a list, as in docTR

    def __init__(self, train: bool = True, use_polygons: bool = False, **kwargs: Any) -> None:
        super().__init__(self.URL, None, self.SHA256, True, **kwargs)
        self.train = train
        part = Path(self.root) / ("train" if train else "val")
        self.root = str(part / "images")
        self.data = []
        for name, objects, place in labels_by_picture(self.root, part / "labels.json"):
            if not isinstance(objects, list):
                raise InvalidArgumentError(f"{place} must be a list of objects (got {shown(objects)}).")
            classes = [text_of(found, "label", place) for found in objects]
            unknown = sorted(set(classes) - set(self.CLASSES))
            if unknown:
                raise InvalidArgumentError(
                    f"{place} has the class {unknown[0]!r}; known are {', '.join(self.CLASSES)}."
                )
            boxes = boxes_of(corners_of([entry(found, "geometry", place) for found in objects], place), use_polygons)
            numbers = np.array([self.CLASSES.index(name) for name in classes], np.int64)
            self.data.append((name, {"boxes": boxes, "labels": numbers}))
        num_pictures = len(files_in(self.root))
        if num_pictures != len(self.data):
            raise InvalidArgumentError(f"{part} has labels of {len(self.data)} pictures, and {num_pictures} pictures.")

    def extra_repr(self) -> str:
        return f"train={self.train}"


def _annotated_words(folder: Path, labels: str, key: str) -> Iterator[tuple[str, list[Any], str]]:
    """Yield (image name, words that have a text, label file) for each image that has a JSON file of lists of words."""
    for picture in files_in(folder):
        place = str(folder.parent / labels / f"{Path(picture).stem}.json")
        groups = entries_of(read_json(place), key, place)
        words = [word for group in groups for word in entries_of(group, "words", place) if text_of(word, "text", place)]
        yield picture, words, place


def _corners(quad: Any, place: str) -> list[list[Any]]:
    return [[entry(quad, f"{axis}{corner}", place) for axis in "xy"] for corner in range(1, 5)]


def _pairs(numbers: list[Any], place: str) -> list[list[float]]:
    try:
        x1, y1, x2, y2, x3, y3, x4, y4 = map(float, numbers)
    except (ValueError, TypeError):
        raise InvalidArgumentError(f"The box of {place} must be eight numbers (got {shown(numbers)}).") from None
    return [[x1, y1], [x2, y2], [x3, y3], [x4, y4]]
