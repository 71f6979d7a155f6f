"""Parse packets without decoding them: pure functions on bytes.

They cover units of H.264, HEVC, AV1, VP8, VP9, MPEG and FFV1: whether a packet holds a frame, whether other frames
refer to it, whether a packet before it is missing, and where a stream is spliced.
"""
