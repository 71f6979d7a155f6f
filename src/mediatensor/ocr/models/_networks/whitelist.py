"""Restricting a recogniser to some of the characters it knows."""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Protocol, runtime_checkable

import torch
from torch import nn
from torch.utils.hooks import RemovableHandle

from ...._engine.common.checks import shown
from ....errors import InvalidArgumentError

__all__ = ["WhitelistHandle", "add_whitelist"]

_STRATEGIES = ("mask", "nearest")
_MAPPINGS = ("anyascii", "weights")
_LETTER_WITH_MARK = re.compile(r"(?:LATIN|CYRILLIC) (SMALL|CAPITAL) LETTER (?:DOTLESS )?(\w+)(?: WITH .+)?")


class WhitelistHandle:
    """Ends the restriction that :func:`add_whitelist` set; also a context manager that ends it on leaving.

    Args:
        hooks: what to remove.

    Example:
        >>> from mediatensor.ocr.models import crnn_mobilenet_v3_small
        >>> from mediatensor.ocr.models.utils import add_whitelist
        >>> model = crnn_mobilenet_v3_small(pretrained_backbone=False)
        >>> handle = add_whitelist(model, "0123456789")
        >>> handle.remove()
    """

    def __init__(self, hooks: Iterable[RemovableHandle]) -> None:
        self._hooks = tuple(hooks)

    def remove(self) -> None:
        """Let the model read its whole vocabulary again; more than once does no harm."""
        for hook in self._hooks:
            hook.remove()

    def __enter__(self) -> WhitelistHandle:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()


@dataclass(frozen=True)
class _Restriction:
    """A change of the scores: some classes give theirs to another class, then only allowed classes stay."""

    forbidden: torch.Tensor
    sources: torch.Tensor
    targets: torch.Tensor
    _placed: dict[torch.device, tuple[torch.Tensor, ...]] = field(default_factory=dict, repr=False)

    def _on(self, device: torch.device) -> tuple[torch.Tensor, ...]:
        """All three on the device of the scores, where they are copied once."""
        if device not in self._placed:
            self._placed[device] = tuple(part.to(device) for part in (self.forbidden, self.sources, self.targets))
        return self._placed[device]

    def __call__(self, module: nn.Module, inputs: Any, scores: torch.Tensor) -> torch.Tensor:
        """The forward hook of the layer that scores the classes."""
        forbidden, sources, targets = self._on(scores.device)
        if len(sources):
            given = scores[..., sources]
            scores = scores.scatter_reduce(-1, targets.expand(given.shape), given, reduce="amax", include_self=True)
        return scores.masked_fill(forbidden, float("-inf"))


def add_whitelist(
    model: nn.Module,
    vocabs: str | Iterable[str],
    *,
    strategy: str = "mask",
    mapping: str | Mapping[str, str] | None = None,
) -> WhitelistHandle:
    """Let a recogniser read only some of the characters of its vocabulary.

    The scores of the other characters are set to minus infinity where the network computes them, so networks that read
    one character after the other never go on from a forbidden one. The end of a word, and the blank of CTC,
    stays. The restriction is a hook on the model's last layer and holds for every thread that uses the model, from
    the next call on, until it is removed; set it before threads start. Several add up.

    Args:
        model: a recogniser whose ``score_layer()`` returns its last layer and the class of ``vocab[0]``, as those of
            docTR do here, or a predictor that has one (``reco_predictor.model`` or ``model``).
        vocabs: the characters that are allowed: a string or several. Those that the model does not know are ignored.
        strategy: ``"mask"``: the best allowed character wins. ``"nearest"``: each forbidden character gives its score
            to the allowed one that is closest, so that ``ä`` is read as ``a``.
        mapping: which is closest, for ``"nearest"``: ``"anyascii"`` (or None), the same letter without its marks;
            ``"weights"``, the one whose weights in the last layer point most nearly the same way; or a dict of
            forbidden to allowed characters that goes before the letters.

    Returns:
        What ends the restriction: call ``remove()``, or use it in a ``with`` statement.

    Raises:
        InvalidArgumentError: an argument has another value, the model is no recogniser, or no allowed character is in
            its vocabulary.

    Example::

        with add_whitelist(model, VOCABS["digits"]):
            model(crops)["preds"]
    """
    _check_strategy(strategy, mapping)
    recognizer = _recognizer_of(model)
    try:
        allowed = frozenset("".join(vocabs))
    except TypeError:
        raise InvalidArgumentError(f"vocabs must be a string or several (got {shown(vocabs)}).") from None
    vocab: str = recognizer.vocab  # type: ignore[assignment]
    if allowed.isdisjoint(vocab):
        raise InvalidArgumentError(
            f"vocabs has none of the {len(vocab)} characters of {type(recognizer).__name__}; expected some of them"
        )
    layer, offset = _score_layer(recognizer)
    if strategy == "mask":
        closest: dict[str, str] = {}
    elif mapping == "weights":
        closest = _closest_by_weights(vocab, allowed, layer.weight.detach()[offset : offset + len(vocab)])
    else:
        closest = _closest_by_letter(vocab, allowed) | (dict(mapping) if isinstance(mapping, Mapping) else {})
    restriction = _restriction(vocab, allowed, closest, layer.out_features, offset)
    return WhitelistHandle([layer.register_forward_hook(restriction)])


def _check_strategy(strategy: str, mapping: str | Mapping[str, str] | None) -> None:
    if strategy not in _STRATEGIES:
        raise InvalidArgumentError(f"strategy={strategy!r}; expected one of {_STRATEGIES}")
    if mapping is not None and strategy == "mask":
        raise InvalidArgumentError("mapping is for strategy='nearest' only")
    if not (mapping is None or isinstance(mapping, Mapping) or mapping in _MAPPINGS):
        raise InvalidArgumentError(f"mapping={mapping!r}; expected one of {_MAPPINGS}, a dict or None")


def _recognizer_of(model: nn.Module) -> nn.Module:
    """The recogniser itself, or the one inside a predictor."""
    for candidate in (model, getattr(getattr(model, "reco_predictor", model), "model", None)):
        if isinstance(candidate, nn.Module) and isinstance(getattr(candidate, "vocab", None), str):
            return candidate
    raise InvalidArgumentError(
        f"model is a {type(model).__name__} without a recogniser; expected a recognition model or a predictor with one"
    )


@runtime_checkable
class _NamesItsScores(Protocol):
    def score_layer(self) -> tuple[nn.Linear, int]: ...


def _score_layer(recognizer: nn.Module) -> tuple[nn.Linear, int]:
    """The layer that scores the classes, and the class of the first character of the vocabulary."""
    if not isinstance(recognizer, _NamesItsScores):
        raise InvalidArgumentError(
            f"{type(recognizer).__name__} does not tell which layer scores its characters; expected a method "
            "score_layer() that returns the layer and the class of vocab[0]"
        )
    return recognizer.score_layer()


def _restriction(
    vocab: str, allowed: frozenset[str], closest: Mapping[str, str], classes: int, offset: int
) -> _Restriction:
    class_of = {char: offset + index for index, char in enumerate(vocab)}
    moved = [
        (class_of[char], class_of[target])
        for char, target in closest.items()
        if char not in allowed and target in allowed and char in class_of and target in class_of
    ]
    forbidden = torch.zeros(classes, dtype=torch.bool)
    forbidden[[class_of[char] for char in vocab if char not in allowed]] = True
    pairs = torch.tensor(moved, dtype=torch.int64).reshape(-1, 2)
    return _Restriction(forbidden, pairs[:, 0], pairs[:, 1])


def _closest_by_letter(vocab: str, allowed: frozenset[str]) -> dict[str, str]:
    """For each forbidden character the allowed one that is the same bare letter, if there is one."""
    by_letter: dict[str, str] = {}
    for char in vocab:
        # The bare letter itself stands for all its forms; else the first form.
        if char in allowed and (_bare_letter(char) == char or _bare_letter(char) not in by_letter):
            by_letter[_bare_letter(char)] = char
    closest = {}
    for char in vocab:
        bare = _bare_letter(char)
        target = by_letter.get(bare) or by_letter.get(bare.lower())
        if char not in allowed and target is not None:
            closest[char] = target
    return closest


@functools.lru_cache(maxsize=4096)
def _bare_letter(char: str) -> str:
    """A character without accents and strokes; a Cyrillic letter whose name is that of a Latin one becomes that."""
    base = unicodedata.normalize("NFKD", char)[:1]
    named = _LETTER_WITH_MARK.fullmatch(unicodedata.name(base, ""))
    if named is None or len(named[2]) > 1:
        return base
    return named[2].lower() if named[1] == "SMALL" else named[2]


def _closest_by_weights(vocab: str, allowed: frozenset[str], rows: torch.Tensor) -> dict[str, str]:
    """For each forbidden character the allowed one whose weights have the greatest cosine similarity."""
    kept = [index for index, char in enumerate(vocab) if char in allowed]
    dropped = [index for index, char in enumerate(vocab) if char not in allowed]
    directions = nn.functional.normalize(rows.float(), dim=1)
    nearest = (directions[dropped] @ directions[kept].T).argmax(dim=1).tolist()
    return {vocab[index]: vocab[kept[best]] for index, best in zip(dropped, nearest, strict=True)}
