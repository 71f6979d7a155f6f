"""`RowSpec`: everything that a sample depends on, in one picklable object."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from .._stages import stage
from ._default_device import tensors_on_cpu
from ._items import Item
from ._open_files import OpenFiles
from ._recipe import Recipe
from ._samples import Sample
from ._seeding import derived_seed, seeded

__all__ = ["RowSpec"]


@dataclass(frozen=True)
class RowSpec:
    """Everything that a sample depends on: wherever and whenever it is loaded, the same bits come out.

    Attributes:
        item: The file.
        part: Which of the file's rows it is, from 0 on.
        recipe: How a sample is made of the file: the sampler, the transforms.
        seed: The seed of the dataset.
        epoch: The epoch.
        row: The index in the dataset.
        attempt: 0, or which replacement it is of a row that failed.

    Example:
        >>> import pickle
        >>> from mediatensor.datasets import VideoClips
        >>> spec = VideoClips(["video.mp4"], num_frames_per_clip=8).spec(0)
        >>> pickle.loads(pickle.dumps(spec)).load().frames.data.shape
        torch.Size([8, 3, 360, 640])
    """

    item: Item
    part: int
    recipe: Recipe
    seed: int
    epoch: int
    row: int
    attempt: int = 0

    @property
    def random_seed(self) -> int:
        """What the generators are seeded with while the sample is made."""
        return derived_seed(self.seed, self.epoch, self.row, self.attempt)

    def load(self, files: OpenFiles | None = None) -> Sample:
        """Read the sample.

        Args:
            files: Where open files are kept between calls; by default the file is closed afterwards.

        Raises:
            MediaTensorError: if the file cannot be read.
            TypeError: if the recipe gives something else than a `Sample`.
        """
        if files is None:
            with OpenFiles(max_open=1) as own_files:
                return self.load(own_files)
        with (
            tensors_on_cpu(),
            files.borrow(self.item, self.recipe) as opened,
            seeded(self.random_seed),
            stage("transform"),
        ):
            sample = self.recipe.read(opened, self.item, self.part)
        if not isinstance(sample, Sample):
            raise TypeError(f"{type(self.recipe).__name__}.read must return a Sample (got {type(sample).__name__}).")
        columns = {name: value for name, value in self.item.extra.items() if name not in self.recipe.used_columns}
        return dataclasses.replace(
            sample,
            label=self.item.label if sample.label is None else sample.label,
            source=self.item.name,
            row=self.row,
            epoch=self.epoch,
            extra={**columns, **sample.extra},
        )

    def position(self, files: OpenFiles) -> float:
        """Where in the file reading is going to begin."""
        if type(self.recipe).position is Recipe.position:
            return float(self.part)  # nothing of the file is needed to tell
        with tensors_on_cpu(), files.borrow(self.item, self.recipe) as opened, seeded(self.random_seed):
            return self.recipe.position(opened, self.item, self.part)
