"""The language of a text."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from ....errors import MissingDependencyError

__all__ = ["get_language"]

# Texts up to this length, in characters, say a language only if it is reasonably sure.
_SHORT_TEXT = 5
_SHORT_TEXT_CONFIDENCE = 0.2


@lru_cache(maxsize=1)
def _language_profiles() -> Any:
    """The profiles of langdetect in a factory of our own: its shared one would be seeded for the whole process."""
    try:
        from langdetect.detector_factory import PROFILES_DIRECTORY, DetectorFactory
    except ImportError:
        raise MissingDependencyError(
            'Detecting the language needs langdetect: pip install "mediatensor[language]".'
        ) from None
    factory = DetectorFactory()
    factory.load_profile(PROFILES_DIRECTORY)
    return factory


def get_language(text: str) -> tuple[str, float]:
    """Tell the language of a text; the same text always gives the same answer.

    Args:
        text: The text.

    Returns:
        Its ISO 639 code and the confidence in [0, 1]; ``("unknown", 0.0)`` where there are no letters, one character
        only, or a few and no language is likely.

    Raises:
        MissingDependencyError: if langdetect is not installed.
    """
    factory = _language_profiles()
    from langdetect.lang_detect_exception import LangDetectException

    detector = factory.create()
    detector.seed = 0
    detector.append(text.lower())
    try:
        best = detector.get_probabilities()[0]
    except (LangDetectException, IndexError):
        return "unknown", 0.0
    if len(text) <= 1 or (len(text) <= _SHORT_TEXT and best.prob <= _SHORT_TEXT_CONFIDENCE):
        return "unknown", 0.0
    return str(best.lang), float(best.prob)
