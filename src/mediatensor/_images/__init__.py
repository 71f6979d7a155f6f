"""Still and animated images: from bytes to pixels.

`formats` tells what a file is, `reading` reads its pixels in bands, `channels` brings them to the channels and depth
that were asked for, `decoding` makes a tensor. Decoders and documents both stand on it.
"""
