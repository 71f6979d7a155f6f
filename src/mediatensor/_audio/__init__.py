"""The way from a stream of sound to samples.

`ranges` and `positions` say which samples are meant and which sample a time stamp means, `reader` and `stream` decode
them, `batch` makes one tensor of them. `wav` reads samples straight from the bytes of WAV files.
"""
