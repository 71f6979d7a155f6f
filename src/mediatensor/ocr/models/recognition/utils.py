"""Joining texts that overlap; docTR's module of this name."""

from __future__ import annotations

from ._wide_crops import merge_multi_strings, merge_strings

__all__ = ["merge_multi_strings", "merge_strings"]
