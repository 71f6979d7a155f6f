"""Parse packets without decoding them: pure functions on bytes.

The functions parse units of H.264, HEVC, AV1, VP8, VP9, MPEG and FFV1. They find out whether a packet has a frame,
whether other frames refer to it, whether the packet before it is missing, and where a stream is spliced.
"""
