"""Decode a range of an audio stream to samples. docs/architecture.md has a picture ("Follow a range of audio").

`wav` reads samples directly from WAV files, and `sample_grid` reads samples by number from any audio decoder.
"""
