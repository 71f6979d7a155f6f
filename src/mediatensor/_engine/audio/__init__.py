"""Decode a range of an audio stream to samples.

    seconds ──plan──► ranges of samples ──stream──► decoded slices ──batch──► one tensor

`stream` seeks, demuxes, decodes and cuts, using `reader` (bare MP3 and AAC, Ogg Vorbis, joined files). `pre_roll`
computes where decoding must start, and `plan` also maps time stamps to sample numbers: both are pure functions. `wav`
reads samples directly from WAV files, and `sample_grid` reads samples by number from any audio decoder.
"""
