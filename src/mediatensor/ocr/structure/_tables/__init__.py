"""Tables of a page, found by its rules and by the gaps between its words."""
