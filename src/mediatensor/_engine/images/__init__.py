"""Decode still and animated images: `reading` gives bands of rows, `channels` converts them, `decoding` joins them."""
