"""Pages as networks take them: tensors of whatever a caller gives, batches of one size, pages set upright.

* ``inputs``: paths, arrays, frames and pictures as page tensors, and the language of what was read;
* ``preprocessing``: page tensors as batches for a network, and boxes back on their page;
* ``straightening``: by how much a page is turned, turning it upright, and boxes there and back.

The way of each line through a page is in ``_lines``.
"""
