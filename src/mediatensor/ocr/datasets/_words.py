"""Base classes of published datasets of pages with words: scenes, forms and receipts.

A dataset reads its files into `Page` objects. The base classes convert pages to rows: pages with boxes and texts, pages
with boxes, or images of single words.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from PIL import Image

from ..._engine.common.messages import progress
from ...errors import InvalidArgumentError, MediaTensorError, WriteError
from ._archives import Archive
from ._labels import Array, boxes_of, check_file, existing_folder, files_in, read_text
from .datasets import AbstractDataset, VisionDataset
from .utils import convert_target_to_relative, crop_bboxes_from_image


class Page(NamedTuple):
    """A page with its words.

    Attributes:
        picture: Name of the image in the folder of the dataset.
        quads: Corners of the words in pixels, (N, 4, 2), clockwise from the top left in reading direction.
        labels: The N texts. If the image is a single word, these are its characters.
    """

    picture: str
    quads: Array
    labels: list[str]


class _Words(AbstractDataset):
    """Pages with words, or images of single words."""

    train: bool
    # Whether box coordinates are truncated to whole numbers of at least 0.
    _IN_WHOLE_PIXELS = False

    def _fill(self, pages: Iterable[Page], use_polygons: bool, recognition_task: bool, detection_task: bool) -> None:
        crops = self._crops_folder(use_polygons) if recognition_task else None
        if crops is None:
            self.data = list(self._rows(pages, use_polygons, recognition_task, detection_task))
        else:
            self.data = list(self._from_crops(crops, pages, use_polygons))

    def _crops_folder(self, use_polygons: bool) -> Path | None:
        """Return the folder to write images of words to, or ``None`` to keep these images in memory."""
        return None

    def _rows(
        self, pages: Iterable[Page], use_polygons: bool, recognition_task: bool, detection_task: bool
    ) -> Iterator[tuple[Any, Any]]:
        for page in progress(pages, f"Preparing {type(self).__name__}", unit="page"):
            boxes = boxes_of(page.quads, use_polygons)
            if self._IN_WHOLE_PIXELS:
                boxes = boxes.astype(np.int64).clip(min=0)
            if recognition_task:
                yield from self._words_of(page, boxes)
            elif detection_task:
                yield page.picture, boxes
            else:
                yield page.picture, {"boxes": boxes, "labels": page.labels}

    def _words_of(self, page: Page, boxes: Array) -> Iterator[tuple[Any, str]]:
        """Yield the image and text of each word on a page, except words that are unsuitable for training."""
        texts = [self._text_to_learn(label) for label in page.labels]
        kept = [number for number, text in enumerate(texts) if text]
        if kept:
            crops = crop_bboxes_from_image(os.path.join(self.root, page.picture), boxes[kept])
            yield from ((crop, texts[number]) for crop, number in zip(crops, kept, strict=True) if crop.size)

    def _text_to_learn(self, label: str) -> str:
        """Return the text that a recogniser must learn for a word, or "" to leave the word out."""
        return "" if " " in label else label

    def _from_crops(self, folder: Path, pages: Iterable[Page], use_polygons: bool) -> Iterator[tuple[str, str]]:
        """Yield rows for `data` whose images of words are files, because all these images would not fit into memory.

        As in docTR, the text of ``0.png`` is in ``0.txt``, and so on. The folder is written if it does not exist.
        """
        if not folder.is_dir():
            self._write_crops(folder, self._rows(pages, use_polygons, True, False))
        pictures = [name for name in files_in(folder) if name.endswith(".png")]
        for name in sorted(pictures, key=lambda name: (len(name), name)):
            text = folder / f"{name.removesuffix('.png')}.txt"
            yield os.path.abspath(folder / name), read_text(text)

    def _write_crops(self, folder: Path, words: Iterable[tuple[Array, str]]) -> None:
        try:
            hidden = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
        except OSError as error:
            raise WriteError(f"{folder} cannot be written ({error}).") from error
        try:
            for number, (crop, text) in enumerate(words):
                Image.fromarray(crop).save(hidden / f"{number}.png")
                (hidden / f"{number}.txt").write_text(text, encoding="utf-8", newline="")
            hidden.chmod(0o755)
            hidden.rename(folder)
        except MediaTensorError:  # a page cannot be read
            raise
        except OSError as error:
            if not folder.is_dir():  # another process may have written it meanwhile
                raise WriteError(f"{folder} cannot be written ({error}).") from error
        finally:
            shutil.rmtree(hidden, ignore_errors=True)

    def extra_repr(self) -> str:
        return f"train={self.train}"


def _check_tasks(recognition_task: bool, detection_task: bool) -> None:
    if recognition_task and detection_task:
        raise InvalidArgumentError(
            "recognition_task and detection_task exclude each other; leave both out for pages with boxes and texts."
        )


class ArchivedWords(_Words, VisionDataset):
    """Pages with words from a published archive; see `FUNSD` for the arguments."""

    # For each part: URL, checksum and name of its archive, as in docTR.
    TRAIN: ClassVar[tuple[str, str | None, str]]
    TEST: ClassVar[tuple[str, str | None, str]]

    def __init__(
        self,
        train: bool = True,
        use_polygons: bool = False,
        recognition_task: bool = False,
        detection_task: bool = False,
        **kwargs: Any,
    ) -> None:
        _check_tasks(recognition_task, detection_task)
        archive = self._archive(train)
        super().__init__(
            archive.url,
            archive.name,
            archive.sha256,
            True,
            pre_transforms=None if recognition_task else convert_target_to_relative,
            **kwargs,
        )
        self.train = train
        folder = self._folder(Path(self.root))
        self.root = str(existing_folder(folder, f"folder of {type(self).__name__}"))
        self._fill(self._pages(folder), use_polygons, recognition_task, detection_task)

    def _archive(self, train: bool) -> Archive:
        """Return the archive of the training or test part."""
        url, sha256, name = self.TRAIN if train else self.TEST
        return Archive(name, url, sha256)

    def _folder(self, unpacked: Path) -> Path:
        """Return the folder of images in the unpacked archive."""
        raise NotImplementedError

    def _pages(self, folder: Path) -> Iterator[Page]:
        """Yield the pages of the training or test part."""
        raise NotImplementedError


class WordsInFolder(_Words):
    """Pages with words from a folder of images and a file of labels; see `WILDRECEIPT` for the arguments."""

    def __init__(
        self,
        img_folder: str | Path,
        label_path: str | Path,
        train: bool = True,
        use_polygons: bool = False,
        recognition_task: bool = False,
        detection_task: bool = False,
        **kwargs: Any,
    ) -> None:
        _check_tasks(recognition_task, detection_task)
        super().__init__(img_folder, pre_transforms=None if recognition_task else convert_target_to_relative, **kwargs)
        self._check_labels(label_path)
        self.train = train
        self._fill(self._pages(label_path), use_polygons, recognition_task, detection_task)

    def _check_labels(self, label_path: str | Path) -> None:
        check_file(label_path, "label file")

    def _pages(self, label_path: str | Path) -> Iterator[Page]:
        """Yield the pages of the training or test part."""
        raise NotImplementedError
