"""Base classes of datasets with the interface of docTR: images and targets, by index."""

from __future__ import annotations

import os
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from ..._engine.common.checks import shown
from ...errors import InvalidArgumentError
from ..io import read_img_as_tensor, tensor_from_numpy
from ..utils.common_types import Sample
from ._archives import Archive, dataset_folder, default_cache
from ._labels import existing_folder

__all__ = ["AbstractDataset", "VisionDataset"]

Transform: TypeAlias = Callable[[Sample], Sample]
PreTransform: TypeAlias = Callable[[Any, Any], tuple[Any, Any]]


class AbstractDataset(Dataset[Sample]):
    """Images in a folder, each with a target.

    To make a custom dataset, subclass this class and fill `data`.

    Args:
        root: Folder of the images.
        img_transforms: Transform that is called first with the sample. It should change only the image.
        sample_transforms: Transform that is called second with the sample.
        pre_transforms: Called with the image and its target before both become a sample.

    Attributes:
        data: One tuple per sample: the name of an image in `root` (or its pixels, an array (H, W, 3)), and its target.
        root: Folder of the images.
        img_transforms, sample_transforms: The transforms. They may be replaced.

    Raises:
        SourceNotFoundError: (a ValueError) The folder does not exist.

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
        """Return the image of a row, float32 (3, H, W) in [0, 1], and a copy of its target."""
        picture, target = self.data[index]
        _check_target(target)
        if isinstance(picture, np.ndarray):
            return tensor_from_numpy(picture, dtype=torch.float32), deepcopy(target)
        return read_img_as_tensor(os.path.join(self.root, picture), dtype=torch.float32), deepcopy(target)

    def extra_repr(self) -> str:
        """Return the text inside the brackets of the representation."""
        return ""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.extra_repr()})"

    @staticmethod
    def collate_fn(samples: list[Sample]) -> tuple[Tensor, list[Any]] | tuple[tuple[Tensor, Tensor], list[Any]]:
        """Make a batch, for ``DataLoader(collate_fn=...)``.

        Args:
            samples: Samples whose images have the same size.

        Returns:
            The images, (N, C, H, W), and the list of targets. If samples have masks, images and masks are a tuple.

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
    """Raise `InvalidArgumentError` (an AssertionError, as in docTR) if a target has an unknown type."""
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
    """A dataset that was published as a file. The file must be on this machine; nothing is downloaded.

    The file, or its unpacked folder, must be where docTR puts it: in ``datasets`` in the folder given by the
    environment variable ``DOCTR_CACHE_DIR``, or in ``~/.cache/doctr``. On first use, an archive is checked and unpacked
    next to itself.

    Args:
        url: URL of the published file.
        file_name: Name of the file in the folder; by default the name in the URL.
        file_hash: Start of the SHA-256 of the file; by default the text between "-" and "." in its name, if any.
        extract_archive: Whether the file is an archive to be unpacked to a folder, which becomes `root`.
        download: Has no effect. If the file is missing, the error explains where to get and put it.
        overwrite: Whether to unpack the archive again and replace its folder.
        cache_dir: Folder to use instead of ``~/.cache/doctr``.
        cache_subdir: Subfolder of the cache folder; by default ``datasets``.
        **kwargs: Arguments of `AbstractDataset` other than ``root``.

    Raises:
        SourceNotFoundError: (a ValueError) Neither the file nor the folder exists.
        OpenError: The archive is damaged, is not the published one, or has rejected members: links, paths outside its
            folder, or members beyond the limits of number and size.
        WriteError: The archive cannot be unpacked next to itself.

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
