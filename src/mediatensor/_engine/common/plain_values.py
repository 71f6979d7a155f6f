"""Convert values to JSON."""

from __future__ import annotations

import json
import math
from dataclasses import fields, is_dataclass
from fractions import Fraction
from typing import Any


def to_json(value: Any) -> Any:
    """Convert a value for JSON. Fractions become ``"a/b"``, and non-finite numbers become null.

    >>> to_json({"rate": Fraction(30000, 1001), "gain": math.nan, "sizes": (1, 2)})
    {'rate': '30000/1001', 'gain': None, 'sizes': [1, 2]}
    """
    if is_dataclass(value) and not isinstance(value, type):
        return {spec.name: to_json(getattr(value, spec.name)) for spec in fields(value)}
    if isinstance(value, dict):
        return {key: to_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_json(item) for item in value]
    if isinstance(value, Fraction):
        return f"{value.numerator}/{value.denominator}"
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def json_bytes(value: Any, indent: int | None = None) -> bytes:
    """Return a value as JSON in UTF-8, which every reader accepts: values that are not finite are null.

    Text that has no UTF-8, such as names of files in another encoding, is written with escapes and reads back equal.

    >>> json_bytes({"gain": math.nan, "name": "caf\\udce9"}), json_bytes("café").decode()
    (b'{"gain": null, "name": "caf\\\\udce9"}', '"café"')
    """
    plain = to_json(value)
    try:
        return json.dumps(plain, ensure_ascii=False, indent=indent, allow_nan=False).encode()
    except UnicodeEncodeError:
        return json.dumps(plain, indent=indent, allow_nan=False).encode()
