"""The way from a stream of sound to samples.

    seconds ──plan──► samples of the output, and of the stream ──stream──► slices ──batch──► one tensor

`stream` seeks, demuxes, decodes and cuts. It stands on `reader` (bare MP3 and AAC, Ogg Vorbis, joined files) and is
told by `pre_roll` and `opus` where decoding has to start and by `sample_clock` which sample a time stamp means. A
`handle` is a stream that is open, lent to one call at a time. `wav` reads samples straight from the bytes of WAV files,
and `sample_grid` takes samples by number from any decoder of sound.

`plan`, `pre_roll`, `opus` and `sample_clock` are pure. Only `sample_grid` knows decoders, by what all of them can do.
"""
