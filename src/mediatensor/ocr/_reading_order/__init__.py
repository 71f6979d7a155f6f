"""Determine the reading order of boxes on a page, from rows, columns of text and layout labels."""
