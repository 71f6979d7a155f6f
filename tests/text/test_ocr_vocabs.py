"""Vocabularies are docTR's, character for character, and strings go through them and back."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pytest

from mediatensor.errors import InvalidArgumentError
from mediatensor.ocr.datasets import VOCABS, decode_sequence, encode_sequences, encode_string, translate
from ocr_records import read_record

RECORDED: dict[str, list[Any]] = read_record("recognition_vocabs")


def test_every_vocabulary_is_docTRs_in_its_order() -> None:
    ours = {name: [len(v), hashlib.sha256(v.encode()).hexdigest()[:16]] for name, v in VOCABS.items()}
    assert ours == RECORDED


@pytest.mark.parametrize(
    ("text", "vocab", "expected"),
    [
        ("f orêt", "latin", "foret"),
        ("Éclair\t5€", "french", "Éclair5€"),
        ("Ärger", "french", "Arger"),
        ("Ł€", "latin", "■■"),
        ("", "latin", ""),
    ],
)
def test_translate_replaces_unknown_characters(text: str, vocab: str, expected: str) -> None:
    assert translate(text, vocab) == expected


def test_translate_names_an_unknown_vocabulary() -> None:
    with pytest.raises(KeyError, match="klingon"):
        translate("a", "klingon")
    assert translate("a本", "latin", unknown_char="?") == "a?"


def test_strings_survive_encoding_and_decoding() -> None:
    text = VOCABS["multilingual"][::-7]
    encoded = encode_string(text, VOCABS["multilingual"])
    assert decode_sequence(encoded, VOCABS["multilingual"]) == text
    assert decode_sequence(np.array(encoded, dtype=np.int16), VOCABS["multilingual"]) == text
    assert decode_sequence([], "ab") == ""


def test_encoding_error_names_missing_characters() -> None:
    with pytest.raises(InvalidArgumentError, match="'df'"):
        encode_string("abdfd", "abc")


@pytest.mark.parametrize("classes", [[0, 2], [-1], np.array([0.5]), "ab", 3])
def test_decoding_rejects_invalid_classes(classes: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="input_seq"):
        decode_sequence(classes, "ab")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [[0, 1, 2, 9], [2, 9, 9, 9]]),
        ({"target_size": 6}, [[0, 1, 2, 9, 9, 9], [2, 9, 9, 9, 9, 9]]),
        ({"target_size": 2}, [[0, 1], [2, 9]]),
        ({"target_size": 6, "dynamic_seq_length": True}, [[0, 1, 2, 9], [2, 9, 9, 9]]),
        ({"sos": 7}, [[7, 0, 1, 2, 9], [7, 2, 9, 9, 9]]),
        ({"sos": 7, "pad": 8}, [[7, 0, 1, 2, 9, 8], [7, 2, 9, 8, 8, 8]]),
        ({"sos": 7, "pad": 8, "target_size": 3}, [[7, 0, 1], [7, 2, 9]]),
    ],
)
def test_sequences_become_rows_of_classes(options: dict[str, Any], expected: list[list[int]]) -> None:
    rows = encode_sequences(["abc", "c"], "abc", eos=9, **options)
    assert rows.dtype == np.int32
    assert rows.tolist() == expected


@pytest.mark.parametrize("mark", ["eos", "sos", "pad"])
def test_marks_must_be_outside_the_vocabulary(mark: str) -> None:
    with pytest.raises(InvalidArgumentError, match=f"{mark}=1 is the class of 'b'"):
        encode_sequences(["a"], "abc", **{"eos": 3, mark: 1})
