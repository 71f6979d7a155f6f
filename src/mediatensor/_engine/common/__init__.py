"""Helpers that every package may use and that use no other package."""
