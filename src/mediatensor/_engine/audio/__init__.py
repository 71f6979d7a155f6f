"""Decode audio streams to tensors of samples.

The section "Follow a range of audio" in docs/architecture.md shows the steps from a requested time range to its
samples. `reader` also reads samples directly from WAV files.
"""
