"""What containers say: bytes in, tables out.

MP4 and its relatives, MP3, WAV, and files that were joined end to end. Everything here is pure: it parses bytes that
somebody else has read, and never trusts a number in them.
"""
