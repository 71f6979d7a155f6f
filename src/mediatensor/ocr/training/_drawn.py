"""Lines that are drawn when they are asked for, as rows of a dataset."""

from __future__ import annotations

import os
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ..._common.checks import whole_number
from ...datasets import Item, MediaDataset, Recipe, Sample
from ...errors import InvalidArgumentError
from ..drawing import LANGUAGES, STYLES, Face, draw_random_line, find_faces, random_text

__all__ = ["DrawnLines", "drawn_lines"]

#: From so many texts it is known which characters lines have; those with others are not drawn.
_NUM_TEXTS = 3000
_MAX_TRIES = 100


class DrawnLines(MediaDataset):
    """Drawn lines with their texts; see `drawn_lines`.

    Attributes:
        characters: All characters that the texts may have.

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


@dataclass(frozen=True)
class _Faces:
    """The faces that lines are drawn in."""

    faces: tuple[Face, ...]

    def close(self) -> None:
        """Nothing is open."""


@dataclass(frozen=True)
class _DrawnLineRecipe(Recipe):
    """How a line is drawn; see `drawn_lines`."""

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
        for _ in range(_MAX_TRIES):
            line = draw_random_line(
                rng,
                languages=self.languages,
                characters=self.characters,
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
    seed: int = 0,
) -> DrawnLines:
    """Lines that are drawn when they are asked for: other ones in each epoch, the same ones for the same seed.

    ``Sample.image`` is uint8 (3, H, W), ``Sample.label`` the text. Prices, dates, codes and addresses are among the
    texts, and faces, sizes, colours, papers, scanners and cameras vary. They are for training where there are few real
    lines, and for `fit(keep=...)`.

    Args:
        num_lines: The rows of an epoch.
        languages: Languages of the texts, see `mediatensor.ocr.drawing.LANGUAGES`; each is as likely.
        characters: What texts may consist of, besides spaces; ``None`` for anything.
        texts: Lines of your own, parts of which are drawn in place of ours.
        style: How lines look, one of `mediatensor.ocr.drawing.STYLES`.
        fonts: Font files, and folders of them; by default those of the machine. Other machines have other ones, and
            draw other lines.
        seed: Decides what is drawn.

    Raises:
        InvalidArgumentError: if an argument is not among the accepted ones.

    Example:
        >>> from mediatensor.ocr.training import drawn_lines
        >>> lines = drawn_lines(100, languages=["de"], style="clean")
        >>> line = lines[0]
        >>> line.image.dtype, isinstance(line.label, str)
        (torch.uint8, True)
    """
    whole_number("num_lines", num_lines, at_least=1)
    languages = (languages,) if isinstance(languages, str) else tuple(languages)
    unknown = sorted(set(languages) - set(LANGUAGES))
    if unknown or not languages:
        raise InvalidArgumentError(f"languages={list(languages)}: choose of {', '.join(LANGUAGES)}.")
    if style not in STYLES:
        raise InvalidArgumentError(f"style must be one of {', '.join(STYLES)} (got {style!r}).")
    own = tuple(texts)
    source = random.Random(0)
    seen = {c for _ in range(_NUM_TEXTS) for c in random_text(source, languages, characters, own)}
    files = None if fonts is None else tuple(os.fspath(font) for font in fonts)
    return DrawnLines(num_lines, _DrawnLineRecipe(languages, characters, own, style, files, frozenset(seen)), seed=seed)
