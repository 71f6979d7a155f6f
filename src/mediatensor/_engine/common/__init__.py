"""Helpers for all packages. They use no other package."""
