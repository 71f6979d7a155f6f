"""Expected frames: fingerprints from a plain linear decode with PyAV, stored next to the clips."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .case import Image, Size

# Pixels of every 8th row and column are kept, to distinguish a rounding difference from a wrong frame.
_SAMPLE_STEP = 8


@dataclass(frozen=True)
class Reference:
    """Expected frames of a file: by index, a fingerprint of all pixels, and some pixels."""

    digests: dict[int, str]
    samples: dict[int, NDArray[np.uint8]]


@dataclass
class Comparison:
    """Compared frames, identical frames, and the largest difference of the other frames, in levels of 256."""

    compared: int = 0
    identical: int = 0
    largest_difference: int = 0

    def add(self, image: Image, reference: Reference, index: int) -> None:
        """Compare another frame."""
        self.compared += 1
        if _digest(image) == reference.digests[index]:
            self.identical += 1
            return
        found, expected = _sample(image), reference.samples[index]
        same_shape = found.shape == expected.shape
        difference = int(np.abs(found.astype(int) - expected).max()) if same_shape else 255
        self.largest_difference = max(self.largest_difference, difference)


def make_reference(path: Path, indices: Collection[int], size: Size | None) -> None:
    """Decode a file from its beginning, and write the fingerprints of some frames next to it.

    Args:
        path: The file.
        indices: Frames that are needed, in presentation order.
        size: (height, width) to scale to with bilinear interpolation, if any.
    """
    store = _store(path, size)
    known = load_reference(path, size) if store.exists() else Reference({}, {})
    if missing := set(indices) - set(known.digests):
        found = _decode(path, missing, size)
        _save(Reference(known.digests | found.digests, known.samples | found.samples), store)


def load_reference(path: Path, size: Size | None) -> Reference:
    """What `make_reference` left."""
    with np.load(_store(path, size)) as stored:
        indices = stored["indices"].tolist()
        samples = dict(zip(indices, stored["samples"], strict=True))
        return Reference(dict(zip(indices, stored["digests"].tolist(), strict=True)), samples)


def _store(path: Path, size: Size | None) -> Path:
    return path.with_suffix(f".reference-{'x'.join(map(str, size)) if size else 'full'}.npz")


def _decode(path: Path, indices: set[int], size: Size | None) -> Reference:
    import av  # workers of other libraries import this module, and must not load a second FFmpeg
    from av.video.reformatter import Interpolation, VideoReformatter

    digests, samples = {}, {}
    to_rgb, to_size = VideoReformatter(), VideoReformatter()
    last = max(indices)
    with av.open(str(path)) as container:
        container.streams.video[0].thread_type = "AUTO"
        for i, frame in enumerate(container.decode(video=0)):
            if i in indices:
                # Two steps, because one step gives different pixels.
                converted: Any = to_rgb.reformat(frame, format="rgb24", interpolation=Interpolation.BICUBIC, threads=1)
                if size is not None:
                    height, width = size
                    converted = to_size.reformat(
                        converted, width=width, height=height, interpolation=Interpolation.BILINEAR, threads=1
                    )
                image = converted.to_ndarray()
                digests[i], samples[i] = _digest(image), _sample(image)
            if i == last:
                break
    return Reference(digests, samples)


def _digest(image: Image) -> str:
    """Equal only for equal pixels."""
    return hashlib.sha1(np.ascontiguousarray(image).data, usedforsecurity=False).hexdigest()


def _sample(image: Image) -> NDArray[np.uint8]:
    return np.ascontiguousarray(image[::_SAMPLE_STEP, ::_SAMPLE_STEP])


def _save(reference: Reference, store: Path) -> None:
    indices = sorted(reference.digests)
    np.savez_compressed(
        store,
        indices=np.array(indices),
        digests=np.array([reference.digests[i] for i in indices]),
        samples=np.stack([reference.samples[i] for i in indices]),
    )
