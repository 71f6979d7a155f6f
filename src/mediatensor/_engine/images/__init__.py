"""Decode still and animated images to pixels.

`formats` detects the format. `jpeg`, `png`, `gif` and `avif` parse headers. `reading` reads pixels in bands of rows.
`channels` converts them to the requested channels and bit depth. `decoding` makes a tensor. The image decoders and the
documents of `mediatensor.ocr` use this package.
"""
