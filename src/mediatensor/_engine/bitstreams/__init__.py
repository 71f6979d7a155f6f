"""What the packets of each codec say, without decoding them.

Units of H.264, HEVC, AV1, VP8, VP9, MPEG and FFV1: whether a packet holds a picture, whether another picture refers to
it, whether one was lost before it, and where a stream does not simply go on. Pure functions on bytes.
"""
