"""What containers say: bytes in, tables out.

MP4 and its relatives, Matroska, MP3, WAV, Vorbis in Ogg, files that were joined end to end, and files that break off.
Everything here is pure: it parses bytes that somebody else has read, and never trusts a number in them.
"""
