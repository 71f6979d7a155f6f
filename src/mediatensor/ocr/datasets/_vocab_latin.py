"""The vocabularies of languages in Latin letters, told by how they differ from the English one.

The order of the languages is the one in which they contribute their characters to the multilingual vocabulary.
"""

from __future__ import annotations

__all__ = ["LATIN_LANGUAGES"]

LATIN_LANGUAGES: dict[str, tuple[str, str]] = {
    # name: (characters of "english" that it lacks, characters appended in this order)
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
