"""Pages with words: what the published data sets of scenes, forms and receipts have in common.

A loader reads what its files say into `Page` objects. Here they become the rows of what was asked for: pages with boxes
and texts, pages with boxes, or the pictures of single words.
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

__all__ = ["ArchivedWords", "Page", "WordsInFolder"]


class Page(NamedTuple):
    """A page with its words.

    Attributes:
        picture: The name of its file in the folder of the data set.
        quads: The corners of its words in pixels, (N, 4, 2), from the top left one on in reading direction.
        labels: Their N texts; a single one if the whole picture is one word, whose characters are boxed.
    """

    picture: str
    quads: Array
    labels: list[str]


class _Words(AbstractDataset):
    """Pages with words, or the words alone."""

    train: bool
    #: Whether boxes are cut to whole pixels that are not negative.
    _IN_WHOLE_PIXELS = False

    def _fill(self, pages: Iterable[Page], use_polygons: bool, recognition_task: bool, detection_task: bool) -> None:
        crops = self._crops_folder(use_polygons) if recognition_task else None
        if crops is None:
            self.data = list(self._rows(pages, use_polygons, recognition_task, detection_task))
        else:
            self.data = list(self._from_crops(crops, pages, use_polygons))

    def _crops_folder(self, use_polygons: bool) -> Path | None:
        """Where the pictures of single words are kept as files; ``None`` if in memory."""
        return None

    def _rows(
        self, pages: Iterable[Page], use_polygons: bool, recognition_task: bool, detection_task: bool
    ) -> Iterator[tuple[Any, Any]]:
        """What becomes `data`."""
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
        """The pictures of the words of a page that can be learned from, with their texts."""
        texts = [self._text_to_learn(label) for label in page.labels]
        kept = [number for number, text in enumerate(texts) if text]
        if kept:
            crops = crop_bboxes_from_image(os.path.join(self.root, page.picture), boxes[kept])
            yield from ((crop, texts[number]) for crop, number in zip(crops, kept, strict=True) if crop.size)

    def _text_to_learn(self, label: str) -> str:
        """What a recogniser is to read of a word; "" if it is not to learn it."""
        return "" if " " in label else label

    def _from_crops(self, folder: Path, pages: Iterable[Page], use_polygons: bool) -> Iterator[tuple[str, str]]:
        """What becomes `data` when the pictures of words are kept as files, because there are too many for the memory.

        Args:
            folder: Where they are, as docTR keeps them: ``0.png`` with its text in ``0.txt`` and so on. If it does not
                exist, they are cut out and written.
            pages: The pages.
            use_polygons: Whether crops follow the polygons.
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
        except MediaTensorError:  # of a page that cannot be read
            raise
        except OSError as error:
            if not folder.is_dir():  # which another process may have written meanwhile
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
    """Pages with words from an archive that was published.

    Args:
        train: Whether the pages are those to train on; otherwise those to test with.
        use_polygons: Whether boxes keep their four points, (N, 4, 2); otherwise they are straight, (N, 4).
        recognition_task: Whether the samples are pictures of single words; their targets are the texts.
        detection_task: Whether the targets are the boxes alone, an array. By default targets are dicts of ``boxes`` and
            ``labels``. Boxes are relative, float32.
        **kwargs: ``download``, ``overwrite``, ``cache_dir``, ``cache_subdir`` of `VisionDataset`, and
            ``img_transforms`` and ``sample_transforms``.
    """

    #: The archives of both parts, as docTR's classes state them: URL, checksum, name.
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
        """The archive that has the part."""
        url, sha256, name = self.TRAIN if train else self.TEST
        return Archive(name, url, sha256)

    def _folder(self, unpacked: Path) -> Path:
        """Where in the unpacked archive the pictures are."""
        raise NotImplementedError

    def _pages(self, folder: Path) -> Iterator[Page]:
        """The pages of the part."""
        raise NotImplementedError


class WordsInFolder(_Words):
    """Pages with words from a folder of pictures and a file of labels.

    Args:
        img_folder: The folder of the pictures.
        label_path: The file of the labels.
        train: Whether the pages are those to train on; otherwise those to test with.
        use_polygons: Whether boxes keep their four points, (N, 4, 2); otherwise they are straight, (N, 4).
        recognition_task: Whether the samples are pictures of single words; their targets are the texts.
        detection_task: Whether the targets are the boxes alone, an array. By default targets are dicts of ``boxes`` and
            ``labels``. Boxes are relative, float32.
        **kwargs: ``img_transforms`` and ``sample_transforms``.
    """

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
        """The pages of the part."""
        raise NotImplementedError
