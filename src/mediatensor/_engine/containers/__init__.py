"""Parse containers: bytes in, tables out.

The module parses MP4 and related formats, Matroska, MP3, WAV, Vorbis in Ogg, joined files and truncated files. All
functions are pure: they parse bytes that the caller has read, and validate every number.
"""
