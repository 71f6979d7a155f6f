"""The character sets of recognition networks: `VOCABS`.

Names, characters and their order are as in docTR, so class ``i`` of a network trained with docTR is ``vocab[i]``. Parts
of languages have names, too (``"digits"``, ``"hebrew_vowels"``, ...).

>>> from mediatensor.ocr.datasets.vocabs import VOCABS
>>> len(VOCABS["french"]), VOCABS["french"][:12]
(126, '0123456789ab')
"""

from __future__ import annotations

import re
import string

__all__ = ["VOCABS"]

_CODE_POINTS = re.compile("([0-9A-F]{4,6})(?:-([0-9A-F]{4,6}))?")

# Languages of the multilingual vocabulary in addition to languages in Latin script.
_MULTILINGUAL_SCRIPTS = (
    "russian belarusian ukrainian tatar tajik kazakh kyrgyz bulgarian macedonian mongolian yakut serbian_cyrillic "
    "uzbek_cyrillic greek hebrew"
)


# Characters of scripts as code points. Many of them combine with the preceding character or look like a Latin letter,
# and an editor could change them. ``0660-0669`` is a range that includes both ends.
_SCRIPT_PARTS: dict[str, str] = {
    "generic_cyrillic_letters": "0430-0449 044C 044E-044F 0410-0429 042C 042E-042F",
    "russian_cyrillic_letters": "0451 044B 044D 0401 042B 042D",
    "russian_signs": "044A 042A",
    "ancient_greek": "03B1-03C1 03C3-03C4 03C2 03C5-03C9 0391-03A1 03A3-03A9",
    "arabic_diacritics": "064B-0652 0655 0653-0654 065A",
    "arabic_digits": "0660-0669",
    "arabic_letters": "0621-063A 0640-064A 0671",
    "arabic_punctuation": "061F 061B 00AB 00BB 2014 060C",
    "persian_letters": "067E 0686 0698 06A2 06A4 06AF 06A9 06CC",
    "bengali_consonants": "0995-09A8 09AA-09B0 09B2 09B6-09B9 09DC-09DD 09DF 09F0-09F1 09FC",
    "bengali_vowels": "0985-098C 098F-0990 0993-0994 09E0-09E1",
    "bengali_digits": "09E6-09EF",
    "bengali_matras": "09BE-09C3 09C7-09C8 09CB-09CC 09D7",
    "bengali_virama": "09CD",
    "bengali_punctuation": "09BD 09CE 09FD 09FA-09FB",
    "bengali_signs": "0981-0983 09BC",
    "gujarati_consonants": "0A95-0AA8 0AAA-0AB0 0AB2-0AB3 0AB5-0AB9",
    "gujarati_vowels": "0A85-0A8D 0A8F-0A91 0A93-0A94",
    "gujarati_digits": "0AE6-0AEF",
    "gujarati_matras": "0A81-0A83 0ABC 0ABE-0AC5 0AC7-0AC9 0ACB-0ACC 0AE2-0AE3 0AFA-0AFF",
    "gujarati_virama": "0ACD",
    "gujarati_punctuation": "0ABD 0965",
    "gujarati_signs": "0AD0 0AF0",
    "devanagari_consonants": "0915-0928 092A-0930 0932 0935-0939 0934 0929 0933 0958-095F 0931 097A-097E",
    "devanagari_vowels": "0905-0914 0960-0961 0972 0904 0975-0976 0973-0974 0977-0979",
    "devanagari_digits": "0966-096F",
    "devanagari_matras": "093C 0902 0901 0903 0951-0952 093E-094C 0962-0963 094F 094E",
    "devanagari_virama": "094D",
    "devanagari_punctuation": "0964-0965 0970 093D A8F2",
    "devanagari_signs": "0950",
    "punjabi_consonants": "0A15-0A28 0A2A-0A30 0A32 0A35-0A36 0A38-0A39 0A59-0A5B 0A5E 0A5C 0A33",
    "punjabi_vowels": "0A05-0A0A 0A0F-0A10 0A13-0A14 0A72-0A73",
    "punjabi_digits": "0A66-0A6F",
    "punjabi_matras": "0A02 0A3C 0A3E-0A42 0A47-0A48 0A4B-0A4C 0A51 0A70-0A71 0A75",
    "punjabi_virama": "0A4D",
    "punjabi_punctuation": "0964-0965",
    "punjabi_signs": "0A74",
    "tamil_consonants": "0B95 0B99-0B9A 0B9E-0B9F 0BA3-0BA4 0BA8 0BAA 0BAE-0BB0 0BB2 0BB5 0BB4 0BB3 0BB1 0BA9",
    "tamil_vowels": "0B85-0B8A 0B8E-0B90 0B92-0B94",
    "tamil_digits": "0BE6-0BEF",
    "tamil_matras": "0BBE-0BC2 0BC6-0BC8 0BCA-0BCC",
    "tamil_virama": "0BCD",
    "tamil_punctuation": "0BF0-0BF2",
    "tamil_signs": "0B83 0BD0",
    "tamil_fractions": "0BF3-0BFA",
    "telugu_consonants": "0C15-0C28 0C2A-0C33 0C35-0C39 0C34",
    "telugu_digits": "0C66-0C6F 0C78-0C7B",
    "telugu_vowels": "0C05-0C0C 0C0E-0C10 0C12-0C14 0C60-0C61",
    "telugu_matras": "0C3E-0C44 0C46-0C48 0C4A-0C4C 0C62-0C63",
    "telugu_virama": "0C4D",
    "telugu_punctuation": "0C3D",
    "telugu_signs": "0C01-0C03",
    "kannada_consonants": "0C95-0CA8 0CAA-0CB0 0CB2 0CB5-0CB9 0CB3",
    "kannada_vowels": "0C85-0C8B 0960 0C8C 0CE1 0C8E-0C90 0C92-0C94",
    "kannada_digits": "0CE6-0CEF",
    "kannada_matras": "0CBE-0CC4 0CC6-0CC8 0CCA-0CCC",
    "kannada_virama": "0CCD",
    "kannada_punctuation": "0964-0965 0CF1-0CF2",
    "kannada_signs": "0C82-0C83 0C81",
    "sinhala_consonants": "0D9A-0D9E 0DA0-0DA4 0DA7-0DAB 0DAD-0DB1 0DB4-0DB8 0DBA-0DBB 0DBD 0DC0-0DC6",
    "sinhala_vowels": "0D85-0D96",
    "sinhala_digits": "0DE6-0DEF",
    "sinhala_matras": "0DCF-0DD4 0DD6 0DD9-0DDE",
    "sinhala_virama": "0DCA",
    "sinhala_punctuation": "0DF4",
    "sinhala_signs": "0D82-0D83",
    "malayalam_consonants": "0D15-0D28 0D2A-0D39",
    "malayalam_vowels": "0D05-0D0B 0D60 0D0C 0D61 0D0E-0D10 0D12-0D14",
    "malayalam_digits": "0D66-0D6F",
    "malayalam_matras": "0D3E-0D44 0D62-0D63 0D46-0D48 0D4A-0D4C",
    "malayalam_virama": "0D4D",
    "malayalam_signs": "0D03 0D79 0D3D 0D4F 0D02",
    "odia_consonants": "0B15-0B28 0B2A-0B30 0B32-0B33 0B35-0B39 0B5F 0B71 0B5C-0B5D",
    "odia_vowels": "0B05-0B0C 0B0F-0B10 0B13-0B14 0B61 0B60",
    "odia_digits": "0B66-0B6F 0B72-0B77",
    "odia_matras": "0B3E-0B44 0B47-0B48 0B4B-0B4C 0B62-0B63",
    "odia_virama": "0B4D",
    "odia_punctuation": "0B3D",
    "odia_signs": "0B02-0B03 0B01 0B3C 0B70",
    "khmer_consonants": "1780-17A2",
    "khmer_vowels": "17A3-17B3",
    "khmer_digits": "17E0-17E9",
    "khmer_matras": "17B6-17C5",
    "khmer_diacritics": "17C6-17D1 17D3 17DD",
    "khmer_virama": "17D2",
    "khmer_punctuation": "17D4-17D6 17D8-17DA 17D7 17DC",
    "burmese_consonants": "1000-1021 1050-1055 105A-105D 1061 1065-1066 106E-1070 1075-1081 108E",
    "burmese_vowels": "1023-1027 1029-102A 103F",
    "burmese_digits": "1040-1049 1090-1099",
    "burmese_diacritics": "1037-1038 1036 102B-1035 103B-103E",
    "burmese_virama": "1039-103A",
    "burmese_punctuation": "104A-104F 1064 1057",
    "javanese_consonants": "A98F-A9B2",
    "javanese_vowels": "A984-A98E A9B4-A9BC",
    "javanese_digits": "A9D0-A9D9",
    "javanese_diacritics": "A980-A983 A9B3 A9BD-A9BF",
    "javanese_virama": "A9C0",
    "javanese_punctuation": "A9C8-A9CD A9CF",
    "sudanese_consonants": "1B8A-1BA0 1BAE-1BAF 1BBA-1BBF",
    "sudanese_vowels": "1B83-1B89",
    "sudanese_digits": "1BB0-1BB9",
    "sudanese_diacritics": "1B80-1B82 1BA1-1BAD",
    "hebrew_cantillations": "0591-05AF",
    "hebrew_consonants": "05D0-05EA",
    "hebrew_specials": "05EF-05F2 FB1D-FB36 FB38-FB3C FB3E FB40-FB41 FB43-FB44 FB46-FB4F",
    "hebrew_punctuation": "05BD-05C6 05F3-05F4",
    "hebrew_vowels": "05B0-05BB 05C7",
}

_LATIN_LANGUAGES: dict[str, tuple[str, str]] = {
    # name: (characters of "english" that the language lacks, characters that are appended in this order)
    "albanian": ("", "çëÇË"),
    "afrikaans": ("", "èëïîôûêÈËÏÎÔÛÊ"),
    "azerbaijani": ("wW", "çəğöşüÇƏĞÖŞÜ₼"),
    "basque": ("", "ñçÑÇ"),
    "bosnian": ("qwxyQWXY", "čćđšžČĆĐŠŽ"),
    "catalan": ("", "àèéíïòóúüçÀÈÉÍÏÒÓÚÜÇ"),
    "croatian": ("", "ČčĆćĐđŠšŽž"),
    "czech": ("", "áčďéěíňóřšťúůýžÁČĎÉĚÍŇÓŘŠŤÚŮÝŽ"),
    "danish": ("", "æøåÆØÅ"),
    "dutch": ("", "áéíóúüñÁÉÍÓÚÜÑ"),
    "estonian": ("", "šžõäöüŠŽÕÄÖÜ"),
    "esperanto": ("qwxyQWXY", "ĉĝĥĵŝŭĈĜĤĴŜŬ₷"),
    "french": ("", "àâéèêëîïôùûüçÀÂÉÈÊËÎÏÔÙÛÜÇ"),
    "finnish": ("", "äöÄÖ"),
    "frisian": ("qxQX", "âêôûúÂÊÔÛÚƒƑ"),
    "galician": ("jkwJKW", "ñÑçÇ"),
    "german": ("", "äöüßÄÖÜẞ"),
    "hausa": ("pqvxPQVX", "ɓɗƙƴƁƊƘƳ₦"),
    "hungarian": ("", "áéíóöúüÁÉÍÓÖÚÜ"),
    "icelandic": ("cqwCQW", "ðáéíóúýþæöÐÁÉÍÓÚÝÞÆÖ"),
    "indonesian": ("", ""),
    "irish": ("", "áéíóúÁÉÍÓÚ"),
    "italian": ("", "àèéìíîòóùúÀÈÉÌÍÎÒÓÙÚ"),
    "latvian": ("qwxQWX", "āčēģīķļņšūžĀČĒĢĪĶĻŅŠŪŽ"),
    "lithuanian": ("qwxQWX", "ąčęėįšųūžĄČĘĖĮŠŲŪŽ"),
    "luxembourgish": ("", "äöüéëÄÖÜÉË"),
    "maori": ("bcdfjloqsvxyzBCDFJLOQSVXYZ", "āēīōūĀĒĪŌŪ"),
    "malagasy": ("cquwxCQUWX", "ôñÔÑ"),
    "malay": ("", ""),
    "maltese": ("cyCY", "ċġħżĊĠĦŻ"),
    "montenegrin": ("qwxyQWXY", "čćšžźČĆŠŚŽŹ"),
    "norwegian": ("", "æøåÆØÅ"),
    "polish": ("", "ąćęłńóśźżĄĆĘŁŃÓŚŹŻ"),
    "portuguese": ("", "áàâãéêíïóôõúüçÁÀÂÃÉÊÍÏÓÔÕÚÜÇ"),
    "quechua": ("bdfgjvxzBDFGJVXZ", "ñÑĉĈçÇ"),
    "romanian": ("", "ăâîșțĂÂÎȘȚ"),
    "scottish_gaelic": ("jkqvwxyzJKQVWXYZ", "àèìòùÀÈÌÒÙ"),
    "serbian_latin": ("", "čćđžšČĆĐŽŠ"),
    "slovak": ("", "ôäčďľňšťžáéíĺóŕúýÔÄČĎĽŇŠŤŽÁÉÍĹÓŔÚÝ"),
    "slovene": ("qwxyQWXY", "čćđšžČĆĐŠŽ"),
    "somali": ("pvzPVZ", ""),
    "spanish": ("", "áéíóúüñÁÉÍÓÚÜÑ¡¿"),
    "swahili": ("qxQX", ""),
    "swedish": ("", "åäöÅÄÖ"),
    "tagalog": ("cqwxCQWX", "ñÑ₱"),
    "turkish": ("qwxQWX", "çğıöşüâîûÇĞİÖŞÜÂÎÛ₺"),
    "uzbek_latin": ("wW", "çğɉñöşÇĞɈÑÖŞ"),
    "vietnamese": (
        "",
        (
            "áàảạãăắằẳẵặâấầẩẫậđéèẻẽẹêếềểễệóòỏõọôốồổộỗơớờởợỡúùủũụưứừửữựíìỉĩịýỳỷỹỵ"
            "ÁÀẢẠÃĂẮẰẲẴẶÂẤẦẨẪẬĐÉÈẺẼẸÊẾỀỂỄỆÓÒỎÕỌÔỐỒỔỘỖƠỚỜỞỢỠÚÙỦŨỤƯỨỪỬỮỰÍÌỈĨỊÝỲỶỸỴ₫"
        ),
    ),
    "welsh": ("kqvxzKQVXZ", "âêîôŵŷÂÊÎÔŴŶ"),
    "yoruba": ("cqvxzCQVXZ", "ẹọṣẸỌṢ₦"),
    "zulu": ("", ""),
}

_SCRIPT_LANGUAGES: dict[str, str] = {
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

_JOYO_KANJI = (
    "亜哀挨愛曖悪握圧扱宛嵐安案暗以衣位囲医依委威為畏胃尉異移萎偉椅彙意違維慰遺緯域育一壱逸茨芋引印因咽姻員院淫陰飲隠韻右宇羽"
    "雨唄鬱畝浦運雲永泳英映栄営詠影鋭衛易疫益液駅悦越謁閲円延沿炎怨宴媛援園煙猿遠鉛塩演縁艶汚王凹央応往押旺欧殴桜翁奥横岡屋億"
    "憶臆虞乙俺卸音恩温穏下化火加可仮何花佳価果河苛科架夏家荷華菓貨渦過嫁暇禍靴寡歌箇稼課蚊牙瓦我画芽賀雅餓介回灰会快戒改怪拐"
    "悔海界皆械絵開階塊楷解潰壊懐諧貝外劾害崖涯街慨蓋該概骸垣柿各角拡革格核殻郭覚較隔閣確獲嚇穫学岳楽額顎掛潟括活喝渇割葛滑褐"
    "轄且株釜鎌刈干刊甘汗缶完肝官冠巻看陥乾勘患貫寒喚堪換敢棺款間閑勧寛幹感漢慣管関歓監緩憾還館環簡観韓艦鑑丸含岸岩玩眼頑顔願"
    "企伎危机気岐希忌汽奇祈季紀軌既記起飢鬼帰基寄規亀喜幾揮期棋貴棄毀旗器畿輝機騎技宜偽欺義疑儀戯擬犠議菊吉喫詰却客脚逆虐九久"
    "及弓丘旧休吸朽臼求究泣急級糾宮救球給嗅窮牛去巨居拒拠挙虚許距魚御漁凶共叫狂京享供協況峡挟狭恐恭胸脅強教郷境橋矯鏡競響驚仰"
    "暁業凝曲局極玉巾斤均近金菌勤琴筋僅禁緊錦謹襟吟銀区句苦駆具惧愚空偶遇隅串屈掘窟熊繰君訓勲薫軍郡群兄刑形系径茎係型契計恵啓"
    "掲渓経蛍敬景軽傾携継詣慶憬稽憩警鶏芸迎鯨隙劇撃激桁欠穴血決結傑潔月犬件見券肩建研県倹兼剣拳軒健険圏堅検嫌献絹遣権憲賢謙鍵"
    "繭顕験懸元幻玄言弦限原現舷減源厳己戸古呼固股虎孤弧故枯個庫湖雇誇鼓錮顧五互午呉後娯悟碁語誤護口工公勾孔功巧広甲交光向后好"
    "江考行坑孝抗攻更効幸拘肯侯厚恒洪皇紅荒郊香候校耕航貢降高康控梗黄喉慌港硬絞項溝鉱構綱酵稿興衡鋼講購乞号合拷剛傲豪克告谷刻"
    "国黒穀酷獄骨駒込頃今困昆恨根婚混痕紺魂墾懇左佐沙査砂唆差詐鎖座挫才再災妻采砕宰栽彩採済祭斎細菜最裁債催塞歳載際埼在材剤財"
    "罪崎作削昨柵索策酢搾錯咲冊札刷刹拶殺察撮擦雑皿三山参桟蚕惨産傘散算酸賛残斬暫士子支止氏仕史司四市矢旨死糸至伺志私使刺始姉"
    "枝祉肢姿思指施師恣紙脂視紫詞歯嗣試詩資飼誌雌摯賜諮示字寺次耳自似児事侍治持時滋慈辞磁餌璽鹿式識軸七叱失室疾執湿嫉漆質実芝"
    "写社車舎者射捨赦斜煮遮謝邪蛇尺借酌釈爵若弱寂手主守朱取狩首殊珠酒腫種趣寿受呪授需儒樹収囚州舟秀周宗拾秋臭修袖終羞習週就衆"
    "集愁酬醜蹴襲十汁充住柔重従渋銃獣縦叔祝宿淑粛縮塾熟出述術俊春瞬旬巡盾准殉純循順準潤遵処初所書庶暑署緒諸女如助序叙徐除小升"
    "少召匠床抄肖尚招承昇松沼昭宵将消症祥称笑唱商渉章紹訟勝掌晶焼焦硝粧詔証象傷奨照詳彰障憧衝賞償礁鐘上丈冗条状乗城浄剰常情場"
    "畳蒸縄壌嬢錠譲醸色拭食植殖飾触嘱織職辱尻心申伸臣芯身辛侵信津神唇娠振浸真針深紳進森診寝慎新審震薪親人刃仁尽迅甚陣尋腎須図"
    "水吹垂炊帥粋衰推酔遂睡穂随髄枢崇数据杉裾寸瀬是井世正生成西声制姓征性青斉政星牲省凄逝清盛婿晴勢聖誠精製誓静請整醒税夕斥石"
    "赤昔析席脊隻惜戚責跡積績籍切折拙窃接設雪摂節説舌絶千川仙占先宣専泉浅洗染扇栓旋船戦煎羨腺詮践箋銭潜線遷選薦繊鮮全前善然禅"
    "漸膳繕狙阻祖租素措粗組疎訴塑遡礎双壮早争走奏相荘草送倉捜挿桑巣掃曹曽爽窓創喪痩葬装僧想層総遭槽踪操燥霜騒藻造像増憎蔵贈臓"
    "即束足促則息捉速側測俗族属賊続卒率存村孫尊損遜他多汰打妥唾堕惰駄太対体耐待怠胎退帯泰堆袋逮替貸隊滞態戴大代台第題滝宅択沢"
    "卓拓託濯諾濁但達脱奪棚誰丹旦担単炭胆探淡短嘆端綻誕鍛団男段断弾暖談壇地池知値恥致遅痴稚置緻竹畜逐蓄築秩窒茶着嫡中仲虫沖宙"
    "忠抽注昼柱衷酎鋳駐著貯丁弔庁兆町長挑帳張彫眺釣頂鳥朝貼超腸跳徴嘲潮澄調聴懲直勅捗沈珍朕陳賃鎮追椎墜通痛塚漬坪爪鶴低呈廷弟"
    "定底抵邸亭貞帝訂庭逓停偵堤提程艇締諦泥的笛摘滴適敵溺迭哲鉄徹撤天典店点展添転塡田伝殿電斗吐妬徒途都渡塗賭土奴努度怒刀冬灯"
    "当投豆東到逃倒凍唐島桃討透党悼盗陶塔搭棟湯痘登答等筒統稲踏糖頭謄藤闘騰同洞胴動堂童道働銅導瞳峠匿特得督徳篤毒独読栃凸突届"
    "屯豚頓貪鈍曇丼那奈内梨謎鍋南軟難二尼弐匂肉虹日入乳尿任妊忍認寧熱年念捻粘燃悩納能脳農濃把波派破覇馬婆罵拝杯背肺俳配排敗廃"
    "輩売倍梅培陪媒買賠白伯拍泊迫剝舶博薄麦漠縛爆箱箸畑肌八鉢発髪伐抜罰閥反半氾犯帆汎伴判坂阪板版班畔般販斑飯搬煩頒範繁藩晩番"
    "蛮盤比皮妃否批彼披肥非卑飛疲秘被悲扉費碑罷避尾眉美備微鼻膝肘匹必泌筆姫百氷表俵票評漂標苗秒病描猫品浜貧賓頻敏瓶不夫父付布"
    "扶府怖阜附訃負赴浮婦符富普腐敷膚賦譜侮武部舞封風伏服副幅復福腹複覆払沸仏物粉紛雰噴墳憤奮分文聞丙平兵併並柄陛閉塀幣弊蔽餅"
    "米壁璧癖別蔑片辺返変偏遍編弁便勉歩保哺捕補舗母募墓慕暮簿方包芳邦奉宝抱放法泡胞俸倣峰砲崩訪報蜂豊飽褒縫亡乏忙坊妨忘防房肪"
    "某冒剖紡望傍帽棒貿貌暴膨謀頰北木朴牧睦僕墨撲没勃堀本奔翻凡盆麻摩磨魔毎妹枚昧埋幕膜枕又末抹万満慢漫未味魅岬密蜜脈妙民眠矛"
    "務無夢霧娘名命明迷冥盟銘鳴滅免面綿麺茂模毛妄盲耗猛網目黙門紋問冶夜野弥厄役約訳薬躍闇由油喩愉諭輸癒唯友有勇幽悠郵湧猶裕遊"
    "雄誘憂融優与予余誉預幼用羊妖洋要容庸揚揺葉陽溶腰様瘍踊窯養擁謡曜抑沃浴欲翌翼拉裸羅来雷頼絡落酪辣乱卵覧濫藍欄吏利里理痢裏"
    "履璃離陸立律慄略柳流留竜粒隆硫侶旅虜慮了両良料涼猟陵量僚領寮療瞭糧力緑林厘倫輪隣臨瑠涙累塁類令礼冷励戻例鈴零霊隷齢麗暦歴"
    "列劣烈裂恋連廉練錬呂炉賂路露老労弄郎朗浪廊楼漏籠六録麓論和話賄脇惑枠湾腕"
)


def _from_recipe(recipe: str, known: dict[str, str]) -> str:
    """Expand a recipe, which consists of names of known vocabularies, code points, and ranges of code points."""
    characters = []
    for word in recipe.split():
        code_points = _CODE_POINTS.fullmatch(word)
        if code_points is None:
            characters.append(known[word])
        else:
            first, last = code_points[1], code_points[2] or code_points[1]
            characters.extend(map(chr, range(int(first, 16), int(last, 16) + 1)))
    return "".join(characters)


def _build_vocabs() -> dict[str, str]:
    """Build all vocabularies by name. Later vocabularies refer to earlier ones."""
    vocabs = {
        "latex": "".join(sorted(set(string.ascii_letters + string.digits + "\\{}^_=+-<>()[]/.,| "))),
        "digits": string.digits,
        "ascii_letters": string.ascii_letters,
        "punctuation": string.punctuation,
        "currency": "£€¥¢฿",
    }
    for name, recipe in _SCRIPT_PARTS.items():
        vocabs[name] = _from_recipe(recipe, vocabs)
    vocabs["latin"] = vocabs["digits"] + vocabs["ascii_letters"] + vocabs["punctuation"]
    vocabs["english"] = vocabs["latin"] + "°" + vocabs["currency"]
    for name, (lacking, added) in _LATIN_LANGUAGES.items():
        vocabs[name] = vocabs["english"].translate(dict.fromkeys(map(ord, lacking))) + added
    known = vocabs | {"joyo_kanji": _JOYO_KANJI}
    for name, recipe in _SCRIPT_LANGUAGES.items():
        known[name] = vocabs[name] = _from_recipe(recipe, known)
    latin = "".join(vocabs[name] for name in ("english", *_LATIN_LANGUAGES))
    # Keep each character once, at its first position.
    vocabs["multilingual"] = "".join(dict.fromkeys(latin + "§" + _from_recipe(_MULTILINGUAL_SCRIPTS, vocabs)))
    return vocabs


VOCABS: dict[str, str] = _build_vocabs()
"""Every vocabulary by name: the characters in the order of a network's classes."""
