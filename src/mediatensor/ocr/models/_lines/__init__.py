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
                            and check boxes, found in the ink of the page               ink

The names on the right are the modules that perform each step. ``page_lines`` performs all steps from cutting on. On
upright pages, however, ``turning`` already crops and reads the lines, because reading shows which way up a line is.
These readings are kept, and only the remaining steps are left to ``page_lines``.

A recogniser of single words needs fewer steps. Each line is divided into words at the gaps in its ink, and each word is
then cropped and read.

The networks are arguments of these functions. A recogniser must implement ``LineRecognizer``, and a classifier
``LineClassifier``.
"""
