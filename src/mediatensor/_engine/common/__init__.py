"""Helpers for all other packages of the library. They do not depend on any of these packages."""
