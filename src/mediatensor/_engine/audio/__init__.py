"""Decode a range of an audio stream to samples: see "Follow a range of audio" in docs/architecture.md.

`wav` reads samples directly from WAV files, and `sample_grid` reads samples by number from any audio decoder.
"""
