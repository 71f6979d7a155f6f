"""Parse packets without decoding them: pure functions on bytes.

They find out whether a packet has a frame, whether other frames refer to it, whether the packet before it is missing,
and where a stream is spliced.
"""
