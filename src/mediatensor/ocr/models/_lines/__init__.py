"""A line's way through a page: found by a detector, cut out, turned, read, and split into words.

::

    quads of lines          (N, 4, 2), relative, as the detector found them             cutting
         |
         v
    turning ............... which way up is the page, and each line?                    turning
         |                  its shape, a classifier, how well it reads both ways: a vote
         v
    cutting ............... each line upright, at one height, in batches of one width   cutting
         |
         v
    reading ............... the network scores a class at each step of the line         reading
         |                  repeated classes become one character, blanks none          characters
         |                  doubtful characters: the one that fits its neighbours       characters
         |                  is it a script that the network cannot read?                reading
         v
    spacing ............... missed spaces, where the ink has a gap                      words, ink
         |
         v
    splitting ............. spaces end words, ink gives their boxes                     words, ink
         |
         v
    words of the page       texts, confidences, boxes, characters; unread lines         page_lines

``page_lines`` goes the whole way for a page. Recognisers of single words take a shorter one: the box of a word is cut
out and read; a line is first cut into words at the gaps in its ink.

Networks come in from above: a recogniser is whatever fits ``LineRecognizer``, a classifier ``LineClassifier``.
"""
