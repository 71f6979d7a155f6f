"""Decode a batch of frames with an index. docs/architecture.md has a picture ("Follow a frame").

`approximate` replaces `exact` if there is no index. `stream` is one open video; `handles` hold the state of a call.
`frame_cache` keeps decoded frames.
"""
