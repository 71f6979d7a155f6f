"""Keep what the default networks compute, for tests that read the same pages many times, or with many predictors."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

__all__ = ["features_remembered_in_module", "features_remembered_in_test", "known"]

_MAX_BYTES = 128 << 20
#: The features of each input, by a digest of it and of the network.
known: dict[bytes, Tensor] = {}


def _remember_features() -> Iterator[None]:
    """Let the text detector and the recogniser compute the result of each input once in a process, for equal weights.

    Everything else is computed each time. Tests of threads, devices, compilers or hooks inside of networks cannot use
    this.
    """
    # Most test processes need no networks.
    from mediatensor.ocr.models.detection.ppocr import PPOCRDetector
    from mediatensor.ocr.models.recognition.ppocr import PPOCRRecognizer

    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(PPOCRDetector, "logits", _remembering(PPOCRDetector.logits))
        monkeypatch.setattr(PPOCRRecognizer, "features", _remembering(PPOCRRecognizer.features))
        yield


@pytest.fixture(scope="module")
def features_remembered_in_module() -> Iterator[None]:
    """Remember features within a module: another one reads other pages."""
    yield from _remember_features()
    known.clear()


features_remembered_in_test = pytest.fixture(_remember_features, name="features_remembered_in_test")


def _remembering(compute: Callable[[Any, Tensor], Tensor]) -> Callable[[Any, Tensor], Tensor]:
    def remember(network: Any, x: Tensor) -> Tensor:
        if torch.is_grad_enabled():
            return compute(network, x)
        # Networks with other weights differ in some of these parameters.
        weights = torch.cat([parameter.flatten()[:4].float() for parameter in network.parameters()])
        digest = hashlib.blake2b(f"{compute.__qualname__} {x.shape} {x.dtype}".encode())
        for values in (x, weights):
            digest.update(values.contiguous().view(torch.uint8).numpy())
        key = digest.digest()
        if key not in known:
            if sum(features.nbytes for features in known.values()) > _MAX_BYTES:
                known.clear()
            known[key] = compute(network, x).clone()
        return known[key].clone()

    return remember
