"""Recipes for the vocabularies of languages not written in Latin letters.

A recipe is a list of words: the name of a part or of a vocabulary defined before, or code points as in
:mod:`._vocab_parts`. Their order is the order of the classes of a network trained on the vocabulary.
"""

from __future__ import annotations

__all__ = ["SCRIPT_LANGUAGES"]

SCRIPT_LANGUAGES: dict[str, str] = {
    "russian": "generic_cyrillic_letters russian_cyrillic_letters russian_signs digits punctuation currency 20BD",
    "belarusian": (
        "generic_cyrillic_letters russian_cyrillic_letters digits punctuation currency 045E 0069 040E 0049 20BD"
    ),
    "ukrainian": "generic_cyrillic_letters digits punctuation currency 0491 0456-0457 0454 0490 0406-0407 0404 20B4",
    "tatar": "russian 04D8-04D9 0496-0497 04A2-04A3 04E8-04E9 04AE-04AF",
    "tajik": (
        "generic_cyrillic_letters russian_cyrillic_letters russian_signs digits punctuation currency 0492-0493 "
        "049A-049B 04B2-04B3 04B6-04B7 04E2-04E3 04EE-04EF"
    ),
    "kazakh": (
        "generic_cyrillic_letters russian_cyrillic_letters russian_signs digits punctuation currency 04D8-04D9 "
        "0492-0493 049A-049B 04A2-04A3 04E8-04E9 04B0-04B1 04AE-04AF 04BA-04BB 0406 0456 20B8"
    ),
    "kyrgyz": (
        "generic_cyrillic_letters russian_cyrillic_letters russian_signs digits punctuation currency 04A2-04A3 "
        "04E8-04E9 04AE-04AF"
    ),
    "bulgarian": "generic_cyrillic_letters russian_signs digits punctuation currency",
    "macedonian": (
        "generic_cyrillic_letters digits punctuation currency 0403 0453 0405 0455 0408 0458 0409 0459 040A 045A 040C "
        "045C 040F 045F"
    ),
    "mongolian": (
        "generic_cyrillic_letters russian_cyrillic_letters russian_signs digits punctuation currency 04E8-04E9 "
        "04AE-04AF 1810-1819 20AE"
    ),
    "yakut": (
        "generic_cyrillic_letters russian_cyrillic_letters russian_signs digits punctuation currency 0494-0495 "
        "04A4-04A5 04E8-04E9 04BA-04BB 04AE-04AF 20BD"
    ),
    "serbian_cyrillic": (
        "0430-0438 043A-0448 0410-0418 041A-0428 004A 006A 0402 0452 0409 0459 040A 045A 040B 045B 040F 045F digits "
        "punctuation currency"
    ),
    "uzbek_cyrillic": (
        "generic_cyrillic_letters russian_cyrillic_letters russian_signs digits punctuation currency 040E 045E "
        "049A-049B 0492-0493 04B2-04B3"
    ),
    "greek": (
        "punctuation ancient_greek currency 03AC-03AF 03CA 0390 03CC-03CD 03CB 03B0 03CE 0386 0388-038A 03AA 038C "
        "038E 03AB 038F"
    ),
    "greek_extended": (
        "greek 0376-0377 03DC-03DD 1F00-1F15 1F18-1F1D 1F20-1F45 1F48-1F4D 1F50-1F57 1F59 1F5B 1F5D 1F5F-1F70 1F72 "
        "1F74 1F76 1F78 1F7A 1F7C 1F80-1FAF 1FB2-1FB4 1FB6-1FB7 1FBA 1FBC 1FC2-1FC4 1FC6-1FC8 1FCA 1FCC 1FD2-1FD3 "
        "1FD6-1FD7 1FDA 1FE2-1FE7 1FEA 1FEC 1FF2-1FF4 1FF6-1FF8 1FFA 1FFC"
    ),
    "hebrew": (
        "digits punctuation hebrew_consonants hebrew_vowels hebrew_punctuation hebrew_cantillations hebrew_specials "
        "20AA"
    ),
    "arabic": "digits arabic_digits arabic_letters persian_letters arabic_diacritics arabic_punctuation punctuation",
    "persian": "arabic",
    "urdu": "persian 0679 0688 0691 06BA 06BE 06D2 06C1 06C3",
    "pashto": "persian 067C 0689 0693 0696 069A 0681 0685 06BC 06D0 06CD",
    "kurdish": "persian 06B5 0695 06C6 06CE 06D5",
    "uyghur": "persian 06D5 06D0 06C6-06C8 06AD 06BE",
    "sindhi": "persian 0680 067F 067A 067D 06A6 0684 0683 0687 068F 068C 068A 068D 0699 06B3 06B1 06BB 06BE",
    "devanagari": (
        "devanagari_consonants devanagari_vowels devanagari_digits devanagari_matras devanagari_virama "
        "devanagari_punctuation punctuation 20B9"
    ),
    "hindi": "devanagari",
    "sanskrit": "devanagari",
    "marathi": "devanagari",
    "nepali": "devanagari",
    "gujarati": (
        "gujarati_consonants gujarati_vowels gujarati_digits gujarati_matras gujarati_virama gujarati_punctuation "
        "punctuation gujarati_signs 0AF1"
    ),
    "bengali": (
        "bengali_consonants bengali_vowels bengali_digits bengali_matras bengali_virama bengali_punctuation "
        "punctuation bengali_signs 09F3"
    ),
    "tamil": (
        "tamil_consonants tamil_vowels tamil_digits tamil_matras tamil_virama tamil_punctuation punctuation "
        "tamil_fractions tamil_signs 20B9"
    ),
    "telugu": (
        "telugu_consonants telugu_vowels telugu_digits telugu_matras telugu_virama telugu_punctuation punctuation "
        "telugu_signs 20B9"
    ),
    "kannada": (
        "kannada_consonants kannada_vowels kannada_digits kannada_matras kannada_virama kannada_punctuation "
        "punctuation kannada_signs 20B9"
    ),
    "sinhala": (
        "sinhala_consonants sinhala_vowels sinhala_digits sinhala_matras sinhala_virama sinhala_punctuation "
        "punctuation sinhala_signs 20B9"
    ),
    "malayalam": (
        "malayalam_consonants malayalam_vowels malayalam_digits malayalam_matras malayalam_virama punctuation "
        "malayalam_signs 20B9"
    ),
    "punjabi": (
        "punjabi_consonants punjabi_vowels punjabi_digits punjabi_matras punjabi_virama punjabi_punctuation "
        "punctuation punjabi_signs 20B9"
    ),
    "odia": (
        "odia_consonants odia_vowels odia_digits odia_matras odia_virama odia_punctuation punctuation odia_signs 20B9"
    ),
    "khmer": (
        "khmer_consonants khmer_vowels khmer_digits khmer_matras khmer_virama khmer_diacritics khmer_punctuation "
        "punctuation 17DB"
    ),
    "armenian": "0531-0556 0559 0560-0588 digits punctuation 055A-055F 0589-058A 058F",
    "sudanese": "digits sudanese_digits sudanese_consonants sudanese_vowels sudanese_diacritics punctuation",
    "thai": (
        "digits 0E50-0E59 punctuation 0E4F 0E5A-0E5B 0E46 0E2F 0E01-0E2E 0E30 0E32-0E33 0E40-0E45 0E31 0E34-0E3A "
        "0E47-0E4E 0E3F"
    ),
    "lao": (
        "digits 0ED0-0ED9 punctuation 0EC6 0EDE-0EDF 0EAF 0E81-0E82 0E84 0E86-0E8A 0E8C-0EA3 0EA5 0EA7-0EAE 0EB0 "
        "0EB2-0EB3 0EBD 0EC0-0EC4 0EDC-0EDD 0EB1 0EB4-0EBC 0EC8-0ECD"
    ),
    "burmese": (
        "digits burmese_digits burmese_consonants burmese_vowels burmese_diacritics burmese_virama burmese_punctuation"
    ),
    "javanese": (
        "digits javanese_digits javanese_consonants javanese_vowels javanese_diacritics javanese_virama "
        "javanese_punctuation punctuation"
    ),
    "georgian": "digits 10A0-10C5 10C7 10CD 10D0-10FA 10FC-10FF punctuation 10FB 20BE",
    "ethiopic": (
        "1200-1248 124A-124D 1250-1256 1258 125A-125D 1260-1288 128A-128D 1290-12B0 12B2-12B5 12B8-12BE 12C0 "
        "12C2-12C5 12C8-12D6 12D8-1310 1312-1315 1318-135A 1380-138F 1369-137C"
    ),
    "japanese": (
        "digits 3041-3096 309D-309F 30A1-30FA 30FC-30FF joyo_kanji punctuation 3002 30FB 301C 00B0 2014 3001 "
        "300C-3011 309B 300B 300A 3009 3008 currency"
    ),
    "korean": (
        "digits AC00-D7A3 punctuation 3002 30FB 301C 00B0 2014 3001 300C-3011 309B 300B 300A 3009 3008 currency 20A9"
    ),
    "simplified_chinese": (
        "digits 3400-3442 3444-4269 3443 426A-4DBF punctuation 3002 30FB 301C 00B0 2014 3001 300C-3011 309B 300B 300A "
        "3009 3008 currency"
    ),
}
