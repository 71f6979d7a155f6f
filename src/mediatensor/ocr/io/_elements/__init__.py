"""The tree of a recognised document: `elements` has the base class and the elements of text, `pages` the pages.

Elements convert themselves to and from the dictionaries that docTR exports (`export`, `from_dict`), and render their
text. This package depends neither on reading documents nor on other formats.
"""
