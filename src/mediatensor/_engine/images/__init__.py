"""Still and animated images: from bytes to pixels.

`formats` tells what a file is, `jpeg`, `png`, `gif` and `avif` parse its headers, `reading` reads its pixels in bands
of rows, `channels` brings them to the channels and the depth that were asked for, and `decoding` makes a tensor. The
image decoders and the documents of `mediatensor.ocr` stand on it. It knows nothing of either.
"""
