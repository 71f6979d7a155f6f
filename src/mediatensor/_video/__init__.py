"""The way from an index to a batch of frames.

`plan` says what to decode, `seeking` and `frame_stream` decode exactly that, `batch` converts it into one tensor,
`frame_cache` keeps what was decoded lately. `stream` is one video stream, opened; `exact` and `approximate` are the
two ways into it.
"""
