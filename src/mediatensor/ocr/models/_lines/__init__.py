"""Read the text lines of a page: crop detected lines, correct their orientation, recognise them, split them into words.

::

    quads of lines          (N, 4, 2), relative, as the detector found them             cutting
         |
         v
    turning ............... which way up is the page, and each line?                    turning
         |                  a vote of shapes, a classifier, and readings in two directions
         v
    cutting ............... each line upright, at one height, in batches of one width   cutting
         |
         v
    reading ............... the network scores a class at each step of the line         reading
         |                  repeated classes become one character, blanks are dropped   characters
         |                  doubtful characters are chosen to fit their neighbours      characters
         |                  lines in scripts that the network cannot read are detected  reading
         v
    spacing ............... missed spaces are added where the ink has a gap             words, ink
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
