"""Shared by tests of predictors: predictors that are kept, small pages, words of documents, and logged messages."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, lru_cache
from typing import Any

import numpy as np
import torch
from torch import nn

from mediatensor.ocr.io.elements import Document, Page, Word
from mediatensor.ocr.models import ocr_predictor
from ocr_onnx_sessions import require_weights
from ocr_pages import RenderedPage, render_text

__all__ = ["LINES", "geometries", "logged_messages", "reader", "text_page", "words_of"]

LINES = ("Invoice 2041", "Total: 1,250.00", "Thank you!")


@lru_cache(maxsize=8)
def _made(options: tuple[tuple[str, Any], ...]) -> Any:
    require_weights()
    predictor = ocr_predictor(pretrained=True, **{"shorter_side": 192, **dict(options)})
    if options:
        _share_weights(predictor, _made(()))
    return predictor


def _share_weights(predictor: nn.Module, owner: nn.Module) -> None:
    """Let parameters that equal those of another network use the same memory: 40 MB for each predictor."""
    of_owner = dict(owner.named_parameters())
    for name, parameter in predictor.named_parameters():
        if (same := of_owner.get(name)) is not None and torch.equal(parameter, same):
            parameter.data = same.data


def reader(**options: Any) -> Any:
    """The default predictor, which enlarges small pages less than usual; the last eight are kept."""
    return _made(tuple(sorted(options.items())))


@cache
def text_page(*lines: str, font_size: float = 14) -> RenderedPage:
    """A small page with these lines on it, by default :data:`LINES`."""
    return render_text(lines or LINES, dpi=100, font_size=font_size, margin=30)


def words_of(document: Document | Page) -> list[Word]:
    """In the order of the document."""
    pages = document.pages if isinstance(document, Document) else [document]
    return [word for page in pages for block in page.blocks for line in block.lines for word in line.words]


def geometries(words: list[Word]) -> np.ndarray:
    """(N, 2, 2) or (N, 4, 2)."""
    return np.array([word.geometry for word in words])


@contextmanager
def logged_messages() -> Iterator[list[str]]:
    """Collect what the library logs within the block. The plugin of pytest that does so costs time at every test."""
    messages: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: messages.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("mediatensor")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield messages
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
