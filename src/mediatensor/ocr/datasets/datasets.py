"""Base classes of datasets with docTR's interface: each index gives an image and its target.

A class for a published dataset of pages (scenes, forms, receipts) reads the published files into `Page` objects. Its
base class converts these into the samples that the user asked for: pages with boxes and texts, pages with boxes only,
or images of single words.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import Dataset

from ..._engine.common.checks import shown
from ..._engine.common.messages import progress
from ...errors import InvalidArgumentError, MediaTensorError, WriteError
from ..io import read_img_as_tensor, tensor_from_numpy
from ..utils.common_types import Nested, Sample
from ._files import (
    Archive,
    Array,
    boxes_of,
    check_file,
    dataset_folder,
    default_cache,
    existing_folder,
    files_in,
    hidden_folder,
    inner_folder,
    read_text,
)
from .utils import convert_target_to_relative, crop_bboxes_from_image

__all__ = ["AbstractDataset", "VisionDataset"]

Transform: TypeAlias = Callable[[Sample], Sample]
PreTransform: TypeAlias = Callable[[Any, Any], tuple[Any, Any]]


class AbstractDataset(Nested, Dataset[Sample]):
    """Images in a folder, each with a target.

    Indexing returns a `Sample`: an image, float32 (3, H, W) in [0, 1], and its target. To make a custom dataset,
    subclass this class and fill `data`.

    Args:
        root: Folder of the images.
        img_transforms: A function that takes a `Sample` and returns a `Sample`. It is called before
            ``sample_transforms``, and should change only the image.
        sample_transforms: A function that takes a `Sample` and returns a `Sample`. It is called after
            ``img_transforms``.
        pre_transforms: A function that takes an image and its target, and returns both. It is called before they become
            a sample.

    Attributes:
        data: A list with a tuple (image, target) for each sample. The image is the name of a file in `root`, or an
            array (H, W, 3) of pixels. The target is a text, an array, a pair of an array and a list, or a dict with
            ``boxes`` and ``labels``.
        root: Folder of the images.
        img_transforms, sample_transforms: The transforms. You can assign new ones at any time.

    Raises:
        SourceNotFoundError: The folder does not exist. This is a ``ValueError``.

    Example:
        >>> from mediatensor.ocr.datasets.datasets import AbstractDataset
        >>> pages = AbstractDataset(".")
        >>> pages.data = [("page.png", "a page")]
        >>> pages[0].image.shape, pages[0].target
        (torch.Size([3, 560, 800]), 'a page')
    """

    def __init__(
        self,
        root: str | Path,
        img_transforms: Transform | None = None,
        sample_transforms: Transform | None = None,
        pre_transforms: PreTransform | None = None,
    ) -> None:
        existing_folder(root, "folder of pictures")
        self.root: str | Path = root
        self.img_transforms = img_transforms
        self.sample_transforms = sample_transforms
        self._pre_transforms = pre_transforms
        self.data: list[Any] = []

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> Sample:
        image, target = self._read_sample(index)
        if self._pre_transforms is not None:
            image, target = self._pre_transforms(image, target)
        return self._transform(Sample(image, None, target))

    def _transform(self, sample: Sample) -> Sample:
        if self.img_transforms is not None:
            sample = self.img_transforms(sample)
        if self.sample_transforms is not None:
            sample = self.sample_transforms(sample)
        return sample

    def _read_sample(self, index: int) -> tuple[Any, Any]:
        """Return the image, float32 (3, H, W) in [0, 1], and a copy of the target for one entry of `data`."""
        picture, target = self.data[index]
        _check_target(target)
        if isinstance(picture, np.ndarray):
            return tensor_from_numpy(picture, dtype=torch.float32), deepcopy(target)
        return read_img_as_tensor(os.path.join(self.root, picture), dtype=torch.float32), deepcopy(target)

    @staticmethod
    def collate_fn(samples: list[Sample]) -> tuple[Tensor, list[Any]] | tuple[tuple[Tensor, Tensor], list[Any]]:
        """Make a batch of samples, for ``DataLoader(collate_fn=...)``.

        Args:
            samples: The samples. Their images must all have the same size.

        Returns:
            The pair (images, targets): a tensor (N, C, H, W), and a list of N targets. If the samples have masks,
            ``images`` is itself a pair of two tensors: the images, and the masks (N, H, W).

        Raises:
            InvalidArgumentError: Images have different sizes, or only some have a mask.

        Example:
            >>> import torch
            >>> from mediatensor.ocr.datasets import RecognitionDataset
            >>> from mediatensor.ocr.utils import Sample
            >>> words = [Sample(torch.zeros(3, 32, 128), target=text) for text in ("one", "two")]
            >>> images, targets = RecognitionDataset.collate_fn(words)
            >>> images.shape, targets
            (torch.Size([2, 3, 32, 128]), ['one', 'two'])
        """
        targets = [sample.target for sample in samples]
        masks = [sample.mask for sample in samples if sample.mask is not None]
        if masks and len(masks) < len(samples):
            raise InvalidArgumentError(f"{len(masks)} of {len(samples)} samples have a mask; all or none must.")
        sizes = {tuple(sample.image.shape) for sample in samples}
        if len(sizes) > 1:
            raise InvalidArgumentError(
                f"Images of a batch must have one size (got {', '.join(map(str, sorted(sizes)))}): give the data set "
                "sample_transforms=Resize(...)."
            )
        images = torch.stack([sample.image for sample in samples])
        return ((images, torch.stack(masks)), targets) if masks else (images, targets)


def _check_target(target: Any) -> None:
    """Raise `InvalidArgumentError` (which is an AssertionError, as in docTR) if a target has an unsupported type."""
    if isinstance(target, dict):
        is_known = "boxes" in target and "labels" in target
    elif isinstance(target, tuple):
        is_known = len(target) == 2 and isinstance(target[0], str | np.ndarray) and isinstance(target[1], list)
    else:
        is_known = isinstance(target, str | np.ndarray)
    if not is_known:
        raise InvalidArgumentError(
            "A target must be a text, an array, a tuple of an array and a list, or a dict with 'boxes' and 'labels' "
            f"(got {shown(target)})."
        )


class VisionDataset(AbstractDataset):
    """A dataset that was published as a file. The file must be on this machine: nothing is downloaded.

    The file, or its unpacked folder, must be in docTR's cache folder for datasets. This is
    ``$DOCTR_CACHE_DIR/datasets``, or ``~/.cache/doctr/datasets`` if the environment variable is not set. On first use,
    an archive is unpacked into the same folder. If the checksum of the archive is known, it is verified first.

    Args:
        url: URL of the published file.
        file_name: Name of the file in the cache folder; by default, the name in the URL.
        file_hash: First hex digits of the file's SHA-256; by default, the text between "-" and "." in its name, if any.
        extract_archive: Whether the file is an archive to unpack. If so, `root` is the unpacked folder. If not, `root`
            is the folder that contains the file.
        download: Has no effect. If the file is missing, the error explains where to get it and where to put it.
        overwrite: Whether to unpack the archive even if its folder already exists. The old folder is replaced.
        cache_dir: Cache folder to use instead of ``$DOCTR_CACHE_DIR`` or ``~/.cache/doctr``.
        cache_subdir: Subfolder of the cache folder to use instead of ``datasets``.
        **kwargs: Arguments of `AbstractDataset` other than ``root``.

    Raises:
        SourceNotFoundError: Neither the file nor the folder exists. This is a ``ValueError``.
        OpenError: The archive is damaged, differs from the published one, or has members that are rejected: links,
            paths outside its folder, or too many files (4,000,000) or unpacked bytes (256 GiB, or 1 GiB plus 100 times
            the size of the archive).
        WriteError: The archive cannot be unpacked into the folder that contains it.

    Example:
        >>> from mediatensor.ocr.datasets.datasets import VisionDataset
        >>> VisionDataset("https://example.org/words.zip", download=True)  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ...
        mediatensor.errors.SourceNotFoundError: The files of VisionDataset are not on this machine, ...
    """

    def __init__(
        self,
        url: str,
        file_name: str | None = None,
        file_hash: str | None = None,
        extract_archive: bool = False,
        download: bool = False,
        overwrite: bool = False,
        cache_dir: str | Path | None = None,
        cache_subdir: str | None = None,
        **kwargs: Any,
    ) -> None:
        # Files in docTR's storage have names such as "models?id=v0.4.0/artefacts.zip&src=0".
        name = file_name if file_name is not None else os.path.basename(url).partition("&")[0]
        if os.path.basename(name) != name or not name:
            raise InvalidArgumentError(f"file_name must be the name of a file, without folders (got {shown(name)}).")
        folder = (default_cache() if cache_dir is None else Path(cache_dir)) / (cache_subdir or "datasets")
        found = dataset_folder(
            type(self).__name__, folder, Archive(name, url, file_hash), unpack=extract_archive, overwrite=overwrite
        )
        super().__init__(found if extract_archive else found.parent, **kwargs)


class Page(NamedTuple):
    """A page with its words.

    Attributes:
        picture: Name of the image in the folder of the dataset.
        quads: The four corners of each word in pixels, (N, 4, 2): clockwise, starting at the top left of the text.
        labels: Text of each word. If the image shows one word, ``quads`` and ``labels`` are for its characters.
    """

    picture: str
    quads: Array
    labels: list[str]


class _Words(AbstractDataset):
    """Base class of datasets whose samples are pages with all their words, or images of single words."""

    train: bool
    # Whether coordinates of boxes are truncated to integers of at least 0.
    _IN_WHOLE_PIXELS = False

    def _fill(self, pages: Iterable[Page], use_polygons: bool, recognition_task: bool, detection_task: bool) -> None:
        crops = self._crops_folder(use_polygons) if recognition_task else None
        if crops is None:
            self.data = list(self._rows(pages, use_polygons, recognition_task, detection_task))
        else:
            self.data = list(self._from_crops(crops, pages, use_polygons))

    def _crops_folder(self, use_polygons: bool) -> Path | None:
        """Return the folder in which to store images of single words, or ``None`` to keep them in memory."""
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
        """Yield (image, text) for each word on a page, except words that are unsuitable for training a recogniser."""
        texts = [self._text_to_learn(label) for label in page.labels]
        kept = [number for number, text in enumerate(texts) if text]
        if kept:
            crops = crop_bboxes_from_image(os.path.join(self.root, page.picture), boxes[kept])
            yield from ((crop, texts[number]) for crop, number in zip(crops, kept, strict=True) if crop.size)

    def _text_to_learn(self, label: str) -> str:
        """Return the text that a recogniser should learn for a word with this label, or "" to leave the word out."""
        return "" if " " in label else label

    def _from_crops(self, folder: Path, pages: Iterable[Page], use_polygons: bool) -> Iterator[tuple[str, str]]:
        """Yield (image path, text) for each word. The images are in ``folder``, as memory could not hold them all.

        If ``folder`` does not exist, it is first created. As in docTR, ``0.txt`` has the text of ``0.png``, and so on.
        """
        if not folder.is_dir():
            self._write_crops(folder, self._rows(pages, use_polygons, True, False))
        pictures = [name for name in files_in(folder) if name.endswith(".png")]
        for name in sorted(pictures, key=lambda name: (len(name), name)):
            text = folder / f"{name.removesuffix('.png')}.txt"
            yield os.path.abspath(folder / name), read_text(text)

    def _write_crops(self, folder: Path, words: Iterable[tuple[Array, str]]) -> None:
        with hidden_folder(folder, f"{folder} cannot be written") as hidden:
            try:
                for number, (crop, text) in enumerate(words):
                    Image.fromarray(crop).save(hidden / f"{number}.png")
                    (hidden / f"{number}.txt").write_text(text, encoding="utf-8", newline="")
                hidden.chmod(0o755)
                hidden.rename(folder)
            except MediaTensorError:  # a page cannot be read
                raise
            except OSError as error:
                if not folder.is_dir():  # otherwise, another process has written it in the meantime
                    raise WriteError(f"{folder} cannot be written ({error}).") from error

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
    # Instead, if both parts are in one archive. Its name is ``FILE_NAME``, or by default the name in the URL.
    URL: ClassVar[str]
    SHA256: ClassVar[str]
    # For each part, the folder of images in the archive. The archive may have been unpacked without this folder.
    _FOLDERS: ClassVar[tuple[str, str]]

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
        if hasattr(self, "URL"):
            return Archive(getattr(self, "FILE_NAME", os.path.basename(self.URL)), self.URL, self.SHA256)
        url, sha256, name = self.TRAIN if train else self.TEST
        return Archive(name, url, sha256)

    def _folder(self, unpacked: Path) -> Path:
        """Return the folder of the training or test images in the unpacked archive."""
        return inner_folder(unpacked, self._FOLDERS[0 if self.train else 1])

    def _pages(self, folder: Path) -> Iterator[Page]:
        """Read the labels in ``folder``, and yield the pages of the part (training or test) that was requested."""
        raise NotImplementedError


class WordsInFolder(_Words):
    """Pages with words, from a folder of images and a label file; see `WILDRECEIPT` for the arguments."""

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
        """Read the label file, and yield the pages of the part (training or test) that was requested."""
        raise NotImplementedError
