"""What all data sets have in common: pictures with their truth by number, as docTR gives them."""

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
    """Pictures in a folder, each with a target.

    To make a data set of one's own, derive from this class and fill `data`.

    Args:
        root: The folder of the pictures.
        img_transforms: Called with the sample first. It should change the image only.
        sample_transforms: Called with the sample then.
        pre_transforms: Called with the image and its target before a sample is made of them.

    Attributes:
        data: One tuple for each sample: the name of a picture in `root`, or its pixels as an array (H, W, 3); and its
            target.
        root: The folder.
        img_transforms, sample_transforms: As given; they may be set later.

    Raises:
        SourceNotFoundError: (a ValueError) if there is no such folder.

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
        return self._transformed(Sample(image, None, target))

    def _transformed(self, sample: Sample) -> Sample:
        if self.img_transforms is not None:
            sample = self.img_transforms(sample)
        if self.sample_transforms is not None:
            sample = self.sample_transforms(sample)
        return sample

    def _read_sample(self, index: int) -> tuple[Any, Any]:
        """The picture of a row, float32 (3, H, W) in [0, 1], and a copy of its target."""
        picture, target = self.data[index]
        _check_target(target)
        if isinstance(picture, np.ndarray):
            return tensor_from_numpy(picture, dtype=torch.float32), deepcopy(target)
        return read_img_as_tensor(os.path.join(self.root, picture), dtype=torch.float32), deepcopy(target)

    def extra_repr(self) -> str:
        """What stands between the brackets when the data set is printed."""
        return ""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.extra_repr()})"

    @staticmethod
    def collate_fn(samples: list[Sample]) -> tuple[Tensor, list[Any]] | tuple[tuple[Tensor, Tensor], list[Any]]:
        """Make a batch, for ``DataLoader(collate_fn=...)``.

        Args:
            samples: Samples with images of one size.

        Returns:
            The images (N, C, H, W), or the images and their masks if they have such, and the list of their targets.

        Raises:
            InvalidArgumentError: if images have different sizes, or only some have a mask.

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
    """See that a target is of a type that data sets have.

    Raises:
        InvalidArgumentError: (an AssertionError, as in docTR) if it is not.
    """
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
    """A data set that was published as a file, which the user has. Nothing is downloaded.

    The file, or the folder that it was unpacked to, is looked for where docTR puts it: in ``datasets`` in the folder
    that the environment variable ``DOCTR_CACHE_DIR`` names, or in ``~/.cache/doctr``. An archive is compared with its
    checksum and unpacked beside itself when it is first needed.

    Args:
        url: Where the file was published.
        file_name: Its name in the folder; by default that in the URL.
        file_hash: The beginning of its SHA-256; by default what stands between "-" and "." in its name, if anything.
        extract_archive: Whether it is an archive, to be unpacked to a folder that becomes `root`.
        download: Has no effect: where docTR would download, the error says what to get and where to put it.
        overwrite: Whether the archive is unpacked again, in place of what is in its folder.
        cache_dir: A folder other than ``~/.cache/doctr``.
        cache_subdir: The folder in it; by default ``datasets``.
        **kwargs: Arguments of `AbstractDataset` other than ``root``.

    Raises:
        SourceNotFoundError: (a ValueError) if neither the file nor the folder is there.
        OpenError: if the archive is damaged, is another one than was published, or has members that are refused:
            links, paths out of its folder, or more or larger ones than the limits allow.
        WriteError: if the archive cannot be unpacked beside itself.

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
        # docTR's own storage has names such as "models?id=v0.4.0/artefacts.zip&src=0".
        name = file_name if file_name is not None else os.path.basename(url).partition("&")[0]
        if os.path.basename(name) != name or not name:
            raise InvalidArgumentError(f"file_name must be the name of a file, without folders (got {shown(name)}).")
        folder = (default_cache() if cache_dir is None else Path(cache_dir)) / (cache_subdir or "datasets")
        found = dataset_folder(
            type(self).__name__, folder, Archive(name, url, file_hash), unpack=extract_archive, overwrite=overwrite
        )
        super().__init__(found if extract_archive else found.parent, **kwargs)
