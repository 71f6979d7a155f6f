"""Datasets of text lines and pages whose images are generated when a row is read."""

from __future__ import annotations

import os
import random
from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ..._engine.common.checks import finite_number, whole_number
from ...datasets import Item, MediaDataset, Recipe, Sample
from ...errors import InvalidArgumentError
from ..drawing import (
    LANGUAGES,
    PAGE_KINDS,
    STYLES,
    DrawnPage,
    Face,
    draw_random_line,
    draw_random_page,
    find_faces,
    random_text,
)

# The character set of lines is collected from this many texts. Texts with other characters are not drawn.
_NUM_TEXTS = 3000
_MAX_TRIES = 100


class DrawnLines(MediaDataset):
    """Dataset of generated images of text lines with their texts; created by `drawn_lines`.

    Attributes:
        characters: All characters that may occur in the texts, as a frozenset.

    Example:
        >>> from mediatensor.ocr.training import DrawnLines, drawn_lines
        >>> isinstance(drawn_lines(10), DrawnLines)
        True
    """

    def __init__(self, num_lines: int, recipe: _DrawnLineRecipe, **dataset_options: Any) -> None:
        self.characters = recipe.drawn_characters
        name = f"drawn lines in {', '.join(recipe.languages)}"
        super().__init__([Item(b"", name=name)], recipe, rows_per_file=num_lines, **dataset_options)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} {self.items[0].name})"

    def limited_to(self, characters: Iterable[str]) -> DrawnLines:
        """Return a copy of the dataset whose texts contain no characters other than ``characters``.

        Args:
            characters: The allowed characters. Include a space if the texts may contain spaces.

        Example:
            >>> from mediatensor.ocr.training import drawn_lines
            >>> sorted(drawn_lines(10, characters="012").limited_to("1 23").characters)
            [' ', '1', '2']
        """
        other = copy(self)
        assert isinstance(self.recipe, _DrawnLineRecipe)
        other.characters = self.characters.intersection(characters)
        other.recipe = replace(self.recipe, drawn_characters=other.characters)
        return other


@dataclass(frozen=True)
class _Faces:
    faces: tuple[Face, ...]

    def close(self) -> None:
        """Do nothing, because fonts are not open files. Everything that a recipe opens must have this method."""


@dataclass(frozen=True)
class _DrawnLineRecipe(Recipe):
    languages: tuple[str, ...]
    characters: str | None
    texts: tuple[str, ...]
    style: str
    fonts: tuple[str, ...] | None
    drawn_characters: frozenset[str]

    def open(self, item: Item) -> _Faces:
        return _Faces(find_faces(self.fonts))

    def read(self, opened: _Faces, item: Item, part: int) -> Sample:
        rng = random.Random(random.getrandbits(64))
        for number in range(2 * _MAX_TRIES):
            # If no usual text has only these characters, draw texts that are made of them.
            is_usual = number < _MAX_TRIES
            line = draw_random_line(
                rng,
                languages=self.languages,
                characters=self.characters if is_usual else "".join(sorted(self.drawn_characters)),
                faces=opened.faces,
                style=self.style,
                texts=self.texts,
            )
            if self.drawn_characters.issuperset(line.text):
                break
        return Sample(image=torch.from_numpy(line.image).permute(2, 0, 1).contiguous(), label=line.text)


def drawn_lines(
    num_lines: int = 1000,
    *,
    languages: Sequence[str] = ("en",),
    characters: str | None = None,
    texts: Iterable[str] = (),
    style: str = "mixed",
    fonts: Iterable[str | os.PathLike[str]] | None = None,
    seed: int | None = None,
) -> DrawnLines:
    """Return a dataset of images of text lines that are generated when they are read. Each epoch has different lines.

    Each item is a `Sample`. ``Sample.image`` is a tensor uint8 (3, H, W), and ``Sample.label`` is the text. Texts
    include prices, dates, codes and addresses. Fonts, sizes, colours and kinds of paper vary, and so do the simulated
    scanners and cameras. Use such lines if you have few real lines to train on, or as rehearsal data for `fit` (its
    argument ``keep``). The same seed gives the same lines.

    Args:
        num_lines: Number of lines per epoch.
        languages: Codes of the languages of the texts, such as ``"en"``, from `mediatensor.ocr.drawing.LANGUAGES`. All
            are equally likely.
        characters: Allowed characters, in addition to spaces; ``None`` allows all characters.
        texts: Your own lines of text. Images show parts of them instead of the built-in texts.
        style: Appearance of lines, one of `mediatensor.ocr.drawing.STYLES`, such as ``"scan"``. ``"mixed"`` chooses a
            random style for each line.
        fonts: Font files and folders of font files; by default the fonts installed on this machine. With the default,
            the same seed gives different lines on machines with other fonts.
        seed: Random seed; see `MediaDataset` for ``None``.

    Raises:
        InvalidArgumentError: An argument is invalid.

    Example:
        >>> from mediatensor.ocr.training import drawn_lines
        >>> lines = drawn_lines(100, languages=["de"], style="clean")
        >>> line = lines[0]
        >>> line.image.dtype, isinstance(line.label, str)
        (torch.uint8, True)
    """
    whole_number("num_lines", num_lines, at_least=1)
    known = _check_languages(languages)
    _check_style(style)
    user_texts = tuple(texts)
    source = random.Random(0)
    seen = {c for _ in range(_NUM_TEXTS) for c in random_text(source, known, characters, user_texts)}
    recipe = _DrawnLineRecipe(known, characters, user_texts, style, _font_files(fonts), frozenset(seen))
    return DrawnLines(num_lines, recipe, seed=seed)


class DrawnPages(MediaDataset):
    """Dataset of generated page images with the boxes of their words or lines; created by `drawn_pages`.

    Example:
        >>> from mediatensor.ocr.training import DrawnPages, drawn_pages
        >>> isinstance(drawn_pages(10), DrawnPages)
        True
    """

    def __init__(self, num_pages: int, recipe: _DrawnPageRecipe, **dataset_options: Any) -> None:
        name = f"drawn pages in {', '.join(recipe.languages)}"
        super().__init__([Item(b"", name=name)], recipe, rows_per_file=num_pages, **dataset_options)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} {self.items[0].name})"


@dataclass(frozen=True)
class _DrawnPageRecipe(Recipe):
    kind: str
    languages: tuple[str, ...]
    texts: tuple[str, ...]
    style: str
    size: tuple[int, int] | None
    text_unit: str
    margin: float
    fonts: tuple[str, ...] | None

    def open(self, item: Item) -> _Faces:
        return _Faces(find_faces(self.fonts))

    def read(self, opened: _Faces, item: Item, part: int) -> Sample:
        page = draw_random_page(
            random.Random(random.getrandbits(64)),
            kind=self.kind,
            languages=self.languages,
            size=self.size,
            faces=opened.faces,
            style=self.style,
            texts=self.texts,
        )
        boxes = _boxes_of(page, self.text_unit, self.margin)
        return Sample(image=torch.from_numpy(page.image).permute(2, 0, 1).contiguous(), extra={"boxes": boxes})


def drawn_pages(
    num_pages: int = 1000,
    *,
    kind: str = "mixed",
    languages: Sequence[str] = ("en",),
    texts: Iterable[str] = (),
    style: str = "mixed",
    size: tuple[int, int] | None = None,
    text_unit: str = "word",
    margin: float = 0.12,
    fonts: Iterable[str | os.PathLike[str]] | None = None,
    seed: int | None = None,
) -> DrawnPages:
    """Return a dataset of page images that are generated when they are read. Each epoch has different pages.

    Each item is a `Sample`. ``Sample.image`` is a tensor uint8 (3, H, W). ``Sample.extra["boxes"]`` has the quadrangles
    of all words or lines, float64 (N, 4, 2), relative to the page: top left, top right, bottom right, bottom left in
    reading direction, as in `PageDataset`. Pages include letters, forms, receipts, tables, columns, reports, slides and
    captions. A few pages are empty. Use such pages to train detectors and orientation classifiers if you have only few
    real pages. The same seed gives the same pages.

    Args:
        num_pages: Number of pages per epoch.
        kind: Kind of the pages, one of `mediatensor.ocr.drawing.PAGE_KINDS`, such as ``"receipt"``. ``"mixed"`` chooses
            a random kind for each page.
        languages: Codes of the languages of the texts, such as ``"en"``, from `mediatensor.ocr.drawing.LANGUAGES`. Each
            page is in one language.
        texts: Your own lines of text, which the pages show instead of the built-in sentences.
        style: Appearance of pages, one of `mediatensor.ocr.drawing.STYLES`, such as ``"scan"``. ``"mixed"`` chooses a
            random style for each page.
        size: (width, height) of all pages in pixels; by default a random size for each page.
        text_unit: Whether ``extra["boxes"]`` has a box around each ``"word"`` or each ``"line"``.
        margin: Margin around the ink of a word or line, in line heights. With the default, boxes are similar to boxes
            drawn by people.
        fonts, seed: As for `drawn_lines`.

    Raises:
        InvalidArgumentError: An argument is invalid.

    Example:
        >>> from mediatensor.ocr.training import drawn_pages
        >>> pages = drawn_pages(100, kind="letter", size=(400, 600), style="clean")
        >>> page = pages[0]
        >>> page.image.shape, page.extra["boxes"].shape[1:]
        (torch.Size([3, 600, 400]), (4, 2))
    """
    whole_number("num_pages", num_pages, at_least=1)
    known = _check_languages(languages)
    _check_style(style)
    if kind not in PAGE_KINDS:
        raise InvalidArgumentError(f"kind must be one of {', '.join(PAGE_KINDS)} (got {kind!r}).")
    if text_unit not in ("word", "line"):
        raise InvalidArgumentError(f"text_unit must be 'word' or 'line' (got {text_unit!r}).")
    if not 0 <= finite_number("margin", margin) <= 1:
        raise InvalidArgumentError(f"margin must be from 0 to 1 (got {margin!r}).")
    recipe = _DrawnPageRecipe(kind, known, tuple(texts), style, size, text_unit, margin, _font_files(fonts))
    return DrawnPages(num_pages, recipe, seed=seed)


def _check_languages(languages: Sequence[str]) -> tuple[str, ...]:
    known = (languages,) if isinstance(languages, str) else tuple(languages)
    if not known or not set(known) <= set(LANGUAGES):
        raise InvalidArgumentError(f"languages={list(known)}: choose from {', '.join(LANGUAGES)}.")
    return known


def _check_style(style: str) -> None:
    if style not in STYLES:
        raise InvalidArgumentError(f"style must be one of {', '.join(STYLES)} (got {style!r}).")


def _font_files(fonts: Iterable[str | os.PathLike[str]] | None) -> tuple[str, ...] | None:
    return None if fonts is None else tuple(os.fspath(font) for font in fonts)


def _boxes_of(page: DrawnPage, text_unit: str, margin: float) -> NDArray[np.float64]:
    """Return the quadrangles around words or lines, with a margin, relative to the page. Those outside are left out."""
    parts = [(part, line) for line in page.lines for part in (line.words if text_unit == "word" else [line])]
    quads = np.array([part.polygon for part, _ in parts], np.float64).reshape(-1, 4, 2)
    lines = np.array([line.polygon for _, line in parts], np.float64).reshape(-1, 4, 2)
    space = margin * np.linalg.norm(lines[:, 3] - lines[:, 0], axis=1)[:, None, None]
    along = quads[:, 1] - quads[:, 0] + quads[:, 2] - quads[:, 3]
    down = quads[:, 3] - quads[:, 0] + quads[:, 2] - quads[:, 1]
    along, down = (way / np.linalg.norm(way, axis=1, keepdims=True).clip(1e-9) for way in (along, down))
    outwards = np.stack([-along - down, along - down, along + down, down - along], axis=1)
    relative = (quads + space * outwards) / (page.image.shape[1], page.image.shape[0])
    centres = relative.mean(axis=1)
    inside: NDArray[np.float64] = relative[((centres > 0) & (centres < 1)).all(axis=1)]
    return inside.clip(0, 1)
