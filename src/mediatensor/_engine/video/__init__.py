"""Decode a batch of frames with an index: see "Follow a frame" in docs/architecture.md.

`approximate` replaces `exact` if there is no index. `stream` is one open video stream, whose `handles` hold the state
of a call. `frame_cache` keeps decoded frames.
"""
