"""The tree of a document that was read, as data: `elements` (their base class, and text) and `pages`.

Elements export themselves into dictionaries as docTR does (`export`, `from_dict`) and render their text. They depend
neither on the documents that pages are read from, nor on other formats.
"""
