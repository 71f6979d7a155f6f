"""Generate images of characters and words, drawn in the fonts that are installed on this machine."""

from __future__ import annotations

import random
from functools import lru_cache
from typing import Any

from PIL import Image, ImageDraw

from ..._engine.common.checks import shown, whole_number
from ..._engine.common.messages import warn_once
from ...errors import InvalidArgumentError, OutOfRangeError
from ..drawing import Face, find_faces
from ..io import tensor_from_pil
from ..utils.fonts import get_font
from .datasets import AbstractDataset, Transform

__all__ = ["CharacterGenerator", "WordGenerator", "synthesize_text_img"]

_Color = tuple[int, int, int]

# Preferred fonts: plain fonts with many characters.
_FIRST = (
    *("DejaVuSans", "NotoSans-Regular", "LiberationSans-Regular", "FreeSans", "FreeMono"),
    *("Arial Unicode", "Helvetica", "Arial", "arial", "segoeui", "tahoma"),
)
# Height and width of an image relative to its ink, as in docTR.
_HEIGHTS, _WIDTHS = 1.3, 1.1
_SIZE = 32
# The font that Pillow includes.
_PILLOW = Face("Pillow", "")


def synthesize_text_img(
    text: str,
    font_size: int = _SIZE,
    font_family: str | None = None,
    background_color: _Color | None = None,
    text_color: _Color | None = None,
) -> Image.Image:
    """Draw a text on a plain background. The image is slightly larger than the drawn text.

    Args:
        text: The text.
        font_size: Size of the font in pixels per em.
        font_family: Name of an installed font, or path of a font file. By default, an installed font with at least one
            character of the text. If there is none, the font that comes with Pillow.
        background_color: Background colour, (red, green, blue) from 0 to 255. The default is black.
        text_color: Text colour, in the same form. The default is white.

    Returns:
        A Pillow image in RGB. For a single character, it is square.

    Raises:
        SourceNotFoundError: The font does not exist.

    Example:
        >>> from mediatensor.ocr.datasets.generator import synthesize_text_img
        >>> synthesize_text_img("word", 32).mode
        'RGB'
    """
    face = _fonts_for(text)[0] if font_family is None else _find_font(font_family)
    return _draw_text(text, face, font_size, background_color or (0, 0, 0), text_color or (255, 255, 255))


def _draw_text(
    text: str, face: Face, size: int = _SIZE, background: _Color = (0, 0, 0), colour: _Color = (255, 255, 255)
) -> Image.Image:
    font = face.at(size)
    left, top, right, bottom = font.getbbox(text)
    width, height = right - left, bottom - top
    wide, high = max(round(_WIDTHS * width), 1), max(round(_HEIGHTS * height), 1)
    if len(text) <= 1:
        wide = high = max(wide, high)
    picture = Image.new("RGB", (wide, high), background)
    # Centre the ink rather than the origin of the text.
    place = (round((wide - width) / 2 - left), round((high - height) / 2 - top))
    ImageDraw.Draw(picture).text(place, text, font=font, fill=colour)
    return picture


def _find_font(family: str) -> Face:
    """Return the installed font called ``family``, or the font in the file ``family``."""
    font = get_font(family, _SIZE)
    return Face(family, str(getattr(font, "path", family)), int(getattr(font, "index", 0)))


@lru_cache(maxsize=64)
def _fonts_for(text: str) -> tuple[Face, ...]:
    """Return installed fonts, preferred ones first, that together have as many characters of the text as possible."""
    faces: list[Face] = []
    lacking = set(text)
    for face in sorted(find_faces(), key=_preference):
        if not lacking:
            break
        found = {letter for letter in lacking if face.has(letter)}
        if found:
            faces.append(face)
            lacking -= found
    return tuple(faces) or (_PILLOW,)


def _preference(face: Face) -> tuple[int, bool, str]:
    """Return a sort key: fonts in ``_FIRST`` come first, then regular fonts, then bold and italic ones."""
    place = _FIRST.index(face.name) if face.name in _FIRST else len(_FIRST)
    return place, "-" in face.name and not face.name.endswith("-Regular"), face.name


class _TextGenerator(AbstractDataset):
    """Base class of generators: draws each text in a font that has all its characters, and warns if there is none."""

    def __init__(
        self,
        vocab: str,
        num_samples: int,
        font_family: str | list[str] | None,
        img_transforms: Transform | None,
        sample_transforms: Transform | None,
    ) -> None:
        if not isinstance(vocab, str) or not vocab:
            raise InvalidArgumentError(f"vocab must be a text with at least one character (got {shown(vocab)}).")
        self.vocab = vocab
        self._num_samples = whole_number("num_samples", num_samples, at_least=0)
        self.font_family: list[str | None] = [*font_family] if isinstance(font_family, list) else [font_family]
        named = [family for family in self.font_family if family is not None]
        self._faces = tuple(map(_find_font, named)) or _fonts_for(vocab)
        self._letters = {face: "".join(letter for letter in vocab if face.has(letter)) for face in self._faces}
        lacking = "".join(sorted(set(vocab).difference(*self._letters.values())))
        if lacking:
            warn_once(
                f"No font has {lacking[:100]!r} of the vocabulary, so that these {len(lacking)} characters are drawn "
                "wrongly: give font_family a font that has them."
            )
        self.img_transforms = img_transforms
        self.sample_transforms = sample_transforms
        self._pre_transforms = None
        self._cached: list[tuple[Image.Image, Any]] = []

    def __len__(self) -> int:
        return self._num_samples

    def _read_sample(self, index: int) -> tuple[Any, Any]:
        if not -self._num_samples <= index < self._num_samples:
            raise OutOfRangeError(f"There is no sample {index}: there are {self._num_samples}.")
        index %= self._num_samples
        picture, target = self._cached[index % len(self._cached)] if self._cached else self._draw_sample(index)
        return tensor_from_pil(picture), target

    def _draw_sample(self, index: int) -> tuple[Image.Image, Any]:
        raise NotImplementedError

    def _face_for(self, text: str) -> Face:
        """Choose a random font that has all characters of the text. If there is none, choose among all fonts."""
        fitting = [face for face in self._faces if set(text) <= set(self._letters[face])]
        return random.choice(fitting or self._faces)


class CharacterGenerator(_TextGenerator):
    """Images of single characters, to train classifiers.

    Indexing returns a `Sample`: an image, float32 (3, H, W) in [0, 1], with a white character on black. The target is
    the index of the character in the vocabulary. Samples go through the vocabulary in order, and start again at its
    end. Each character is drawn in a random font. ``random.seed()`` makes the choice of fonts reproducible.

    Args:
        vocab: The characters of the vocabulary.
        num_samples: Number of samples.
        cache_samples: Whether to draw each character in each font when the dataset is created, and keep the images.
            Samples then go through these images, which are ordered by character.
        font_family: Name of an installed font, path of a font file, or a list of these. By default, installed fonts
            that together have as many characters of the vocabulary as possible.
        img_transforms: A function that takes a `Sample` and returns a `Sample`. It is called before
            ``sample_transforms``, and should change only the image.
        sample_transforms: A function that takes a `Sample` and returns a `Sample`. It is called after
            ``img_transforms``.

    Raises:
        InvalidArgumentError: The vocabulary is empty, or ``num_samples`` is negative.
        SourceNotFoundError: A font does not exist. This is a ``ValueError``.

    Example:
        >>> from mediatensor.ocr.datasets import CharacterGenerator
        >>> characters = CharacterGenerator("abdef", num_samples=100)
        >>> len(characters), characters[6].target
        (100, 1)
    """

    def __init__(
        self,
        vocab: str,
        num_samples: int,
        cache_samples: bool = False,
        font_family: str | list[str] | None = None,
        img_transforms: Transform | None = None,
        sample_transforms: Transform | None = None,
    ) -> None:
        super().__init__(vocab, num_samples, font_family, img_transforms, sample_transforms)
        for number, character in enumerate(self.vocab if cache_samples else ""):
            fitting = [face for face in self._faces if character in self._letters[face]]
            self._cached += [(_draw_text(character, face), number) for face in fitting or self._faces[:1]]

    def _draw_sample(self, index: int) -> tuple[Image.Image, int]:
        number = index % len(self.vocab)
        character = self.vocab[number]
        return _draw_text(character, self._face_for(character)), number


class WordGenerator(_TextGenerator):
    """Images of words of random characters, to train text recognisers.

    Indexing returns a `Sample`: an image, float32 (3, H, W) in [0, 1], with a white word on black. The target is its
    text. Each access generates a new word with Python's ``random``. With the same ``random.seed()``, the words are
    always the same, and docTR generates the same words.

    Args:
        vocab: The characters of the vocabulary.
        min_chars: Minimum number of characters in a word.
        max_chars: Maximum number of characters in a word.
        num_samples: Number of samples.
        cache_samples: Whether to draw all words when the dataset is created, and keep the images. An index then always
            returns the same word.
        font_family, img_transforms, sample_transforms: As for `CharacterGenerator`.

    Raises:
        InvalidArgumentError: The vocabulary is empty, or a number of characters or samples is out of range.
        SourceNotFoundError: A font does not exist. This is a ``ValueError``.

    Example:
        >>> from mediatensor.ocr.datasets import WordGenerator
        >>> words = WordGenerator("abdef", min_chars=1, max_chars=8, num_samples=100)
        >>> 1 <= len(words[0].target) <= 8
        True
    """

    def __init__(
        self,
        vocab: str,
        min_chars: int,
        max_chars: int,
        num_samples: int,
        cache_samples: bool = False,
        font_family: str | list[str] | None = None,
        img_transforms: Transform | None = None,
        sample_transforms: Transform | None = None,
    ) -> None:
        super().__init__(vocab, num_samples, font_family, img_transforms, sample_transforms)
        least = whole_number("min_chars", min_chars, at_least=1)
        self.wordlen_range = (least, whole_number("max_chars", max_chars, at_least=least))
        if cache_samples:
            # As in docTR, all words are chosen before their fonts.
            texts = [self._generate_text() for _ in range(num_samples)]
            self._cached = [(_draw_text(text, self._face_for(text)), text) for text in texts]

    def _draw_sample(self, index: int) -> tuple[Image.Image, str]:
        text = self._generate_text()
        return _draw_text(text, self._face_for(text)), text

    def _generate_text(self) -> str:
        text = self._generate_string(*self.wordlen_range)
        if not any(set(text) <= set(letters) for letters in self._letters.values()):
            # No font has all characters, so choose only characters of a single font.
            choices = [letters for letters in self._letters.values() if letters]
            if choices:
                letters = random.choice(choices)
                text = "".join(random.choice(letters) for _ in text)
        return text

    def _generate_string(self, min_chars: int, max_chars: int) -> str:
        num_chars = random.randint(min_chars, max_chars)
        return "".join(random.choice(self.vocab) for _ in range(num_chars))
