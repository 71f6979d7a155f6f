"""Read the text lines of a page: crop detected lines, correct their orientation, recognise them, split them into words.

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

For upright pages, ``turning`` crops and reads the lines to find their turns, and ``page_lines`` does the remaining
steps. Recognisers of single words need fewer steps: lines are cut into words at gaps in their ink, then each word box
is cropped and read.

Networks are passed in: a recogniser implements ``LineRecognizer``, a classifier implements ``LineClassifier``.
"""
