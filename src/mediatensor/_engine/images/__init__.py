"""Decode still and animated images: `reading` yields bands of rows, `channels` converts them, `decoding` joins them."""
