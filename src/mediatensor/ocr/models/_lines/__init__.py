"""A line's whole way through a page: found by a detector, cut out, turned, read, and split into words.

::

    quads of lines          (N, 4, 2), relative, as the detector found them             geometry
         |
         v
    turning ............... which way up is the page, and each line?                    turning
         |                  its shape, a classifier, how well it reads both ways: a vote
         v
    cutting ............... each line upright, at one height, in batches of one width   cutting
         |
         v
    reading ............... a network sees a class at each step of the line             reading
         |                  repeated classes become one character, blanks none          characters
         |                  doubtful characters: what fits in with those beside them    spelling
         |                  is it a script that the network cannot read?                scripts
         v
    spacing ............... spaces that the network almost saw, where the ink has a gap    spaces
         |
         v
    splitting ............. spaces say where words end, ink says where their boxes are  words_of_lines
         |
         v
    words of the page       texts, confidences, boxes, characters; lines left unread    page_lines

``page_lines`` goes the whole way for a page. Recognisers of single words take a shorter one, in ``page_words``: the
box of a word is cut out and read; a line is cut into words at the gaps in its ink first.

Networks come in from above: a recogniser is whatever fits ``LineRecognizer``, a classifier ``LineClassifier``.
"""

from .characters import BLANK, CtcCharacters, ctc_best_path, is_east_asian, is_look_alike, with_zeros
from .confidence import word_confidence
from .cutting import (
    LineBatch,
    cut_lines,
    cut_words,
    network_input,
    padded_width,
    page_part,
    sampling_grid,
    spans_of,
    to_float,
    upload_spans,
)
from .geometry import (
    TALL_RATIO,
    WHOLE_CROP,
    as_quads,
    box_quads,
    in_pixels,
    line_sizes,
    lines_are_tall,
    longest_lines,
    page_quads,
    place_boxes,
    scores_of,
    side_lengths,
    signed_turn,
    straight_boxes,
    turned,
)
from .page_lines import (
    Readings,
    join_sideways_letters,
    page_turn,
    read_page_lines,
    read_straight_lines,
    turn_of_read_page,
    turn_of_sideways_page,
    turns_of_straight_lines,
    turns_on_turned_page,
)
from .page_words import ClassWords, FoundLine, characters_of, cut_lines_into_words, no_words, read_page_words
from .reading import MAX_LINE_WIDTH, LineReading, LineRecognizer, SeenBatch, read_lines, readings_of, see_batch
from .scripts import ScriptClassifier, fingerprint, script_classifier_for
from .spaces import MissingSpace, missing_spaces
from .spelling import NUM_ALTERNATIVES, folded, is_spelled, shape_of, spelled
from .turning import (
    TURNS,
    LineClassifier,
    LineEvidence,
    decide_line_turns,
    line_evidence,
    upside_down_crops,
    upside_down_probabilities,
    vote_page_turn,
)
from .words_of_lines import (
    LineCharacters,
    LineWord,
    boxes_between_gaps,
    ink_map,
    ink_of_line,
    inks_of_lines,
    leaves_ink_over,
    split_line,
)

__all__ = [
    "BLANK",
    "MAX_LINE_WIDTH",
    "NUM_ALTERNATIVES",
    "TALL_RATIO",
    "TURNS",
    "WHOLE_CROP",
    "ClassWords",
    "CtcCharacters",
    "FoundLine",
    "LineBatch",
    "LineCharacters",
    "LineClassifier",
    "LineEvidence",
    "LineReading",
    "LineRecognizer",
    "LineWord",
    "MissingSpace",
    "Readings",
    "ScriptClassifier",
    "SeenBatch",
    "as_quads",
    "box_quads",
    "boxes_between_gaps",
    "characters_of",
    "ctc_best_path",
    "cut_lines",
    "cut_lines_into_words",
    "cut_words",
    "decide_line_turns",
    "fingerprint",
    "folded",
    "in_pixels",
    "ink_map",
    "ink_of_line",
    "inks_of_lines",
    "is_east_asian",
    "is_look_alike",
    "is_spelled",
    "join_sideways_letters",
    "leaves_ink_over",
    "line_evidence",
    "line_sizes",
    "lines_are_tall",
    "longest_lines",
    "missing_spaces",
    "network_input",
    "no_words",
    "padded_width",
    "page_part",
    "page_quads",
    "page_turn",
    "place_boxes",
    "read_lines",
    "read_page_lines",
    "read_page_words",
    "read_straight_lines",
    "readings_of",
    "sampling_grid",
    "scores_of",
    "script_classifier_for",
    "see_batch",
    "shape_of",
    "side_lengths",
    "signed_turn",
    "spans_of",
    "spelled",
    "split_line",
    "straight_boxes",
    "to_float",
    "turn_of_read_page",
    "turn_of_sideways_page",
    "turned",
    "turns_of_straight_lines",
    "turns_on_turned_page",
    "upload_spans",
    "upside_down_crops",
    "upside_down_probabilities",
    "vote_page_turn",
    "with_zeros",
    "word_confidence",
]
