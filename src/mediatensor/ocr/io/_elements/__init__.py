"""The elements below a page: words, lines, blocks, tables, and what all elements share."""
