"""Parse compressed packets without decoding them. Pure functions on bytes.

The parsers detect whether a packet has a frame, whether other frames refer to that frame, whether the previous packet
is missing, and where two streams were joined.
"""
