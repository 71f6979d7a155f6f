"""The compared loaders: ours, and common alternatives. Each library is imported only when it is used."""

from __future__ import annotations

import importlib
import importlib.metadata
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset

from .loaders_sets import LoaderCase, frame_folder

OURS = "mediatensor"
FOLDERS = "JPEG frames, Pillow"
#: The two ways of the target.
RIVALS = ("torchcodec", "torchcodec, decoders kept")


class Way(ABC):
    """A way to load clips, with its library imported."""

    @abstractmethod
    def loader(self, case: LoaderCase) -> Iterable[Any]:
        """Return the loader of an epoch."""

    @abstractmethod
    def frames(self, batch: Any) -> torch.Tensor:
        """Return the frames of a batch, uint8 (B, T, C, H, W)."""

    @abstractmethod
    def versions(self) -> dict[str, str]:
        """Return versions by the name of the software."""


def our_dataset(case: LoaderCase, *, is_fast: bool = False, **options: Any) -> Any:
    """Return `VideoClips` for a case; with ``is_fast``, frames are resized during colour conversion."""
    from mediatensor.datasets import VideoClips
    from mediatensor.transforms import Resize

    resizing = {} if case.size is None else {"transforms": [Resize(case.size, fast=is_fast)]}
    return VideoClips(
        case.paths,
        num_frames_per_clip=case.num_frames_per_clip,
        num_indices_between_frames=case.num_indices_between_frames,
        rows_per_file=case.rows_per_file,
        decoder_options=resizing,
        **options,
    )


def our_batches(case: LoaderCase, dataset: Any) -> Any:
    """Return the batches of a case."""
    from mediatensor.datasets import RowBatches

    return RowBatches(dataset, case.batch_size, shuffle=_our_shuffle(case))


def planned(case: LoaderCase) -> LoaderCase:
    """Add the starts of clips to a case, and the row order of mediatensor's loader."""
    from mediatensor.datasets._rows.recipe import OpenFiles  # workers of other libraries read cases without it

    dataset = our_dataset(case)
    with OpenFiles(max_open=1) as files:
        starts = tuple(int(dataset.spec(row, epoch=0).position(files)) for row in range(len(dataset)))
    batches = tuple(tuple(key.row for key in batch) for batch in our_batches(case, dataset))
    return replace(case, starts=starts, batches=batches)


def _our_shuffle(case: LoaderCase) -> Any:
    from mediatensor.datasets import Shuffle

    return Shuffle(case.rows_together) if case.rows_together else False


class OurWay(Way):
    """`VideoClips` and `DataLoader`.

    The few files represent a large set, in which a worker rarely reads the same file twice in a short time. Therefore
    it keeps at most two files open.

    Args:
        is_fast: Whether frames are resized during colour conversion, which gives other pixels than two passes.
    """

    def __init__(self, *, is_fast: bool = False) -> None:
        importlib.import_module("mediatensor.datasets")
        self._is_fast = is_fast

    def loader(self, case: LoaderCase) -> Iterable[Any]:
        from mediatensor.datasets import DataLoader

        dataset = our_dataset(case, is_fast=self._is_fast, max_open_files=2)
        return DataLoader(dataset, case.batch_size, shuffle=_our_shuffle(case), num_workers=case.num_workers)

    def frames(self, batch: Any) -> torch.Tensor:
        frames: torch.Tensor = batch.frames.data
        return frames

    def versions(self) -> dict[str, str]:
        return {"mediatensor": str(importlib.import_module("mediatensor").__version__), **_versions("torch", "av")}


class TorchDatasetWay(Way):
    """A custom ``Dataset`` and torch's DataLoader, which stacks the clips.

    Args:
        dataset: Makes the dataset.
        package: Import name of the loading package.
        distribution: Distribution name, for its version.
    """

    def __init__(self, dataset: Callable[[LoaderCase], Dataset[Any]], package: str, distribution: str = "") -> None:
        importlib.import_module(package)
        self._dataset, self._distribution = dataset, distribution or package

    def loader(self, case: LoaderCase) -> Iterable[Any]:
        return torch.utils.data.DataLoader(
            self._dataset(case),
            batch_sampler=case.batches,  # type: ignore[arg-type] # lists of rows; the order is the same for all ways
            num_workers=case.num_workers,
        )

    def frames(self, batch: Any) -> torch.Tensor:
        frames: torch.Tensor = batch["video"]
        return frames

    def versions(self) -> dict[str, str]:
        return _versions("torch", self._distribution)


def _versions(*packages: str) -> dict[str, str]:
    return {package: importlib.metadata.version(package) for package in packages}


@dataclass
class TorchcodecClips(Dataset[dict[str, Any]]):
    """A decoder for each clip, as in the documentation of torchcodec.

    Attributes:
        case: What to read.
        seek_mode: Seek mode of the decoders.
        keeps_decoders: Whether a worker keeps the decoders of all files.
    """

    case: LoaderCase
    seek_mode: str = "exact"
    keeps_decoders: bool = False

    def __post_init__(self) -> None:
        self._decoder = cache(self._open) if self.keeps_decoders else self._open

    def __len__(self) -> int:
        return len(self.case.starts)

    def __getitem__(self, row: int) -> dict[str, Any]:
        samplers = importlib.import_module("torchcodec.samplers")
        start = self.case.starts[row]
        clips = samplers.clips_at_random_indices(
            self._decoder(self.case.path(row)),
            num_clips=1,
            num_frames_per_clip=self.case.num_frames_per_clip,
            num_indices_between_frames=self.case.num_indices_between_frames,
            # torchcodec samples from this range, which only contains mediatensor's clip.
            sampling_range_start=start,
            sampling_range_end=start + 1,
        )
        return {"video": clips.data[0], "label": row // self.case.rows_per_file}

    def _open(self, path: str) -> Any:
        decoders, transforms = (importlib.import_module(f"torchcodec.{name}") for name in ("decoders", "transforms"))
        resizing = {} if self.case.size is None else {"transforms": [transforms.Resize(self.case.size)]}
        return decoders.VideoDecoder(path, seek_mode=self.seek_mode, **resizing)


class SpdlWay(Way):
    """SPDL's pipeline, which has threads instead of processes: each demuxes a file and decodes the clip's frames."""

    def __init__(self) -> None:
        importlib.import_module("spdl.io")
        importlib.import_module("spdl.pipeline")

    def loader(self, case: LoaderCase) -> Iterator[Any]:
        builder: Any = importlib.import_module("spdl.pipeline").PipelineBuilder()
        threads = max(1, case.num_workers)
        pipeline = (
            builder.add_source([row for batch in case.batches for row in batch])
            .pipe(partial(_spdl_clip, case), concurrency=threads, output_order="input")
            .aggregate(case.batch_size)
            .pipe(torch.stack)
            .add_sink(2 * threads)
            .build(num_threads=threads + 1)
        )
        with pipeline.auto_stop():
            yield from pipeline

    def frames(self, batch: Any) -> torch.Tensor:
        frames: torch.Tensor = batch.permute(0, 1, 4, 2, 3)
        return frames

    def versions(self) -> dict[str, str]:
        return _versions("torch", "spdl")


def _spdl_clip(case: LoaderCase, row: int) -> torch.Tensor:
    io: Any = importlib.import_module("spdl.io")
    packets = io.demux_video(case.path(row))
    height, width = case.size or (None, None)
    resizing = io.get_video_filter_desc(
        scale_width=width, scale_height=height, scale_algo="bilinear", scale_mode=None, pix_fmt="rgb24"
    )
    frames = io.sample_decode_video(packets, case.indices(row), filter_desc=resizing)
    clip: torch.Tensor = io.to_torch(io.convert_frames(frames))
    return clip


@dataclass
class PyAVClips(Dataset[dict[str, Any]]):
    """Open, seek by time, decode up to the clip, convert its frames, stack them."""

    case: LoaderCase

    def __len__(self) -> int:
        return len(self.case.starts)

    def __getitem__(self, row: int) -> dict[str, Any]:
        wanted = self.case.indices(row)
        frames = [frame.transpose(2, 0, 1) for frame in self._decode(self.case.path(row), wanted)]
        return {"video": torch.from_numpy(np.stack(frames)), "label": row // self.case.rows_per_file}

    def _decode(self, path: str, wanted: list[int]) -> Iterator[Any]:
        import av

        size: Any = {} if self.case.size is None else {"height": self.case.size[0], "width": self.case.size[1]}
        with av.open(path) as container:
            stream = container.streams.video[0]
            frame_ticks = 1 / (stream.average_rate * stream.time_base)  # type: ignore[operator]
            container.seek((stream.start_time or 0) + round(wanted[0] * frame_ticks), stream=stream)
            for frame in container.decode(stream):
                index = round((frame.pts - (stream.start_time or 0)) / frame_ticks)  # type: ignore[operator]
                if index in wanted:
                    yield frame.to_ndarray(format="rgb24", **size)
                if index >= wanted[-1]:
                    return


@dataclass
class FrameFolderClips(Dataset[dict[str, Any]]):
    """Frames stored beforehand as JPEG files of the final size, read like torchvision's folders."""

    case: LoaderCase

    def __len__(self) -> int:
        return len(self.case.starts)

    def __getitem__(self, row: int) -> dict[str, Any]:
        assert self.case.size is not None, "the frames were written in a size"
        folder = frame_folder(self.case.path(row), self.case.size)
        frames = [_pillow_tensor(folder / f"{i:05}.jpg") for i in self.case.indices(row)]
        return {"video": torch.stack(frames), "label": row // self.case.rows_per_file}


def _pillow_tensor(path: Any) -> torch.Tensor:
    from PIL import Image

    with Image.open(path) as image:
        return torch.from_numpy(np.array(image.convert("RGB"))).permute(2, 0, 1)


@dataclass(frozen=True)
class WayChoice:
    """A way, before its library is imported.

    Attributes:
        create: Imports the library; raises ImportError, OSError or RuntimeError if it cannot be used.
        rows_together: Order of reading; see `LoaderCase`.
        needs_size: Whether it can only read with a size.
    """

    create: Callable[[], Way]
    rows_together: int = 1
    needs_size: bool = False


def _torchcodec_anew() -> Way:
    return TorchDatasetWay(TorchcodecClips, "torchcodec")


def _torchcodec_kept() -> Way:
    return TorchDatasetWay(partial(TorchcodecClips, seek_mode="approximate", keeps_decoders=True), "torchcodec")


#: In the order of the reports.
WAYS: dict[str, WayChoice] = {
    OURS: WayChoice(OurWay),
    f"{OURS}, 4 rows together": WayChoice(OurWay, 4),
    f"{OURS}, fast resize": WayChoice(partial(OurWay, is_fast=True)),
    f"{OURS}, fast resize, 4 rows together": WayChoice(partial(OurWay, is_fast=True), 4),
    RIVALS[0]: WayChoice(_torchcodec_anew),
    RIVALS[1]: WayChoice(_torchcodec_kept),
    f"{RIVALS[1]}, 4 rows together": WayChoice(_torchcodec_kept, 4),
    "SPDL": WayChoice(SpdlWay),
    "PyAV, seek and decode": WayChoice(lambda: TorchDatasetWay(PyAVClips, "av")),
    FOLDERS: WayChoice(lambda: TorchDatasetWay(FrameFolderClips, "PIL.Image", "pillow"), needs_size=True),
}
