"""Parse container formats, such as MP4, Matroska, Ogg and WAV.

The parsers are pure functions of bytes that the caller has read. They check every number, because files can be damaged
or malicious.
"""
