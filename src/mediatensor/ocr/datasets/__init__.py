"""Vocabularies, and strings encoded as class numbers: the module of docTR without its data sets."""

from __future__ import annotations

from .utils import decode_sequence, encode_sequences, encode_string, translate
from .vocabs import VOCABS

__all__ = ["VOCABS", "decode_sequence", "encode_sequences", "encode_string", "translate"]
