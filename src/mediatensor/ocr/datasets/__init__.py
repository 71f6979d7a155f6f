"""Character sets, and strings as class numbers; docTR's module of this name, less its data sets."""

from __future__ import annotations

from .utils import decode_sequence, encode_sequences, encode_string, translate
from .vocabs import VOCABS

__all__ = ["VOCABS", "decode_sequence", "encode_sequences", "encode_string", "translate"]
