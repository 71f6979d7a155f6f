"""Pages as networks take them: tensors of whatever a caller gives, batches of one size, pages set upright.

* ``inputs``: paths, arrays, frames and images as page tensors, and the language of a text;
* ``preprocessing``: page tensors as batches for a network, and boxes back on their page;
* ``straightening``: the turn of a page, setting it upright, and boxes there and back.
"""
