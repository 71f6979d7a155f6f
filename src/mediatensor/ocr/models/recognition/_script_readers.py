"""Recognisers of lines in scripts that the default recogniser cannot read.

`FILE` has the weights of a recogniser of Cyrillic, Greek and Vietnamese letters, in half precision. It is the default
recogniser, which ``benchmarks/calibration/script_reader.py`` trained further on rendered lines. It reads only lines
that the script classifier assigns to one of these scripts, so it does not affect the text of other lines.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from torch import nn

from ...._engine.common.checks import path_text, shown
from ....errors import InvalidArgumentError
from .._networks.transfers import uncompiled_module
from .._networks.weights import check_file, compare_checksum, is_checkpoint, load_checkpoint
from .onnx_lines import load_line_recognizer
from .ppocr import CtcLineRecognizer

FILE = Path(__file__).with_name("script_reader.pt")
FILE_SHA256 = "71792a5fcef75114ad226ad882557ff3ce08d75ed552e8ef44684ce71ddb68ad"
# Ranges of the letters of each script in `FILE`. All lines can also have Latin letters without accents.
_LETTERS = {
    "Cyrillic": ((0x400, 0x500),),
    "Greek": ((0x370, 0x400),),
    "Vietnamese": ((0xC0, 0x250), (0x1E00, 0x1F00)),
}


def readers_by_script(
    readers: Mapping[str, str | os.PathLike[str] | nn.Module | None] | None, recogniser: nn.Module
) -> dict[str, CtcLineRecognizer]:
    """Load the recognisers for the scripts that the main recogniser cannot read, and return them by script.

    Args:
        readers: A model or the path of a file for each script, or ``None`` to leave a script unread. The recogniser in
            `FILE` reads its scripts if ``readers`` does not name them. Each file is loaded only once.
        recogniser: The main recogniser, which reads all other lines, and detects scripts that it cannot read. If it
            does not detect scripts, there are no readers.
    """
    given = {} if readers is None else readers
    if not isinstance(given, Mapping) or not all(isinstance(script, str) for script in given):
        raise InvalidArgumentError(f"script_readers={shown(readers)}: give a dict of readers by the name of a script.")
    classifier = getattr(uncompiled_module(recogniser), "script_classifier", None)
    if classifier is None:
        if not given:
            return {}
        raise InvalidArgumentError(
            "script_readers need the default recogniser with its published weights and all of its characters, which "
            "finds scripts: give pretrained=True, and no vocab. To read everything by one model, give it as reco_arch."
        )
    known = sorted(name for name in classifier.names if name)
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise InvalidArgumentError(f"script_readers for {', '.join(unknown)}: scripts are {', '.join(known)}.")
    found = {} if given.keys() >= _LETTERS.keys() else built_in_readers()
    loaded: dict[str, nn.Module] = {}
    for script, reader in given.items():
        if reader is None:
            found.pop(script, None)
            continue
        if not isinstance(reader, nn.Module):
            name = path_text(f"the reader for {script}", reader)
            if name not in loaded:
                is_trained = is_checkpoint(name)
                loaded[name] = load_checkpoint(name, "recognition") if is_trained else load_line_recognizer(name)
            reader = loaded[name]
        if not isinstance(uncompiled_module(reader), CtcLineRecognizer):
            raise InvalidArgumentError(
                f"the reader for {script} is a {type(reader).__name__}: give a recogniser of lines, such as one that "
                "fit has trained or that load_line_recognizer returns, or the path of its file."
            )
        found[script] = cast(CtcLineRecognizer, reader.eval())
    return found


def leave_out_of_state(predictor: nn.Module) -> None:
    """Leave the parameters of ``predictor.script_readers`` out of the state dict of a predictor.

    Readers are loaded from their own files. A predictor without readers can therefore load the state of one with them.
    """
    predictor.register_state_dict_post_hook(_remove_readers)  # type: ignore[no-untyped-call]
    predictor.register_load_state_dict_post_hook(_expect_no_readers)  # type: ignore[no-untyped-call]


def _remove_readers(predictor: nn.Module, state: dict[str, Any], prefix: str, _: Any) -> None:
    for name in [name for name in state if name.startswith(f"{prefix}script_readers.")]:
        del state[name]


def _expect_no_readers(predictor: nn.Module, incompatible: Any) -> None:
    missing = incompatible.missing_keys
    missing[:] = [name for name in missing if "script_readers." not in name]


def built_in_readers(path: Path = FILE) -> dict[str, CtcLineRecognizer]:
    """Load the recogniser in `FILE`, or in a file that will replace it, and return a reader for each of its scripts.

    The readers share all layers except the last. Apart from unaccented Latin letters, the last layer of a reader has
    the letters of only one script, because many letters of different scripts look the same.
    """
    if path == FILE:
        compare_checksum(check_file(FILE), FILE_SHA256)
    model = cast(CtcLineRecognizer, load_checkpoint(path, "recognition"))
    others = [character for character in model.characters if not character.isalpha() or character.isascii()]
    readers = {}
    for script, ranges in _LETTERS.items():
        own = [c for c in model.characters if c.isalpha() and any(low <= ord(c) < high for low, high in ranges)]
        readers[script] = model.with_vocab([*others, *own])
    return readers
