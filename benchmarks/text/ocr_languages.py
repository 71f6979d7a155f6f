"""Our own sentences in the languages that the default reader may claim: ``TEXTS`` and ``LANGUAGES``.

`mediatensor.ocr.drawing` has them, of everyday kinds: a letter, a bill, news, instructions, direct speech, opening
hours, words with rare letters.

>>> LANGUAGES["sv"], TEXTS["sv"][1]
('Swedish', 'Beloppet 1 284,50 kr ska betalas inom trettio dagar till vårt bankgiro.')
>>> is_spaced("ja")
False
"""

from __future__ import annotations

from mediatensor.ocr import drawing
from mediatensor.ocr.drawing import is_spaced as is_spaced

# Sentences for training only, in scripts or with accents that the default reader does not claim.
_NOT_CLAIMED = ("ru", "uk", "bg", "sr", "el", "vi")

#: English names by ISO 639 code, with the script where a language has two.
LANGUAGES = {code: name for code, name in drawing.LANGUAGES.items() if code not in _NOT_CLAIMED}
#: The sentences by the same codes.
TEXTS = {code: drawing.TEXTS[code] for code in LANGUAGES}
