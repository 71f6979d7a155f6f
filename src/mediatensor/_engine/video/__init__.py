"""Decode the frames that a call requests. docs/architecture.md shows the steps in a picture ("Follow a frame").

`exact` finds frames with a frame index. `approximate` finds them without an index. `open_video` has the state of one
open video. A handle (`handles`) has the reader and the codec that one call uses while it runs, and keeps decoded
frames.
"""
