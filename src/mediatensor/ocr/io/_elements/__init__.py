"""The elements of a recognised document, which form a tree: document, pages, blocks, lines, words, characters.

`elements` has the base class, and the elements of text. `pages` has pages with their layout regions, tables and fields.
Elements can export themselves as dictionaries in docTR's format, restore themselves from such dictionaries, and render
their text. This package imports neither the modules that read documents nor those that write other formats.
"""
