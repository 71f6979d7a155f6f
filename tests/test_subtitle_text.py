"""Markup to plain text, codec by codec, against a table drawn by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mediatensor.decoders._subtitle_decoder import words_of_packet


@pytest.mark.parametrize(
    ("codec", "packet", "text"),
    [
        ("subrip", "a\r\nb", "a\nb"),
        ("subrip", "<I>a</I> <font face='x'>b</FONT>", "a b"),
        ("subrip", "1 < 2 and 3 > 2 <3", "1 < 2 and 3 > 2 <3"),
        ("subrip", "{\\an8}top {y:i}slanted {C:$0000ff}red {x} {1}", "top slanted red {x} {1}"),
        ("subrip", "path C:\\new\\Notes &amp;", "path C:\\new\\Notes &amp;"),
        ("subrip", "<unclosed", "<unclosed"),
        ("subrip", "  padded \n", "padded"),
        ("webvtt", "<c.red.bold>a</c><00:01.500>b", "ab"),
        ("webvtt", "&lt;i&gt; &amp;amp; &nbsp;x", "<i> &amp; \xa0x"),
        ("webvtt", "a <b", "a"),
        ("webvtt", "{kept}", "{kept}"),
        ("text", "<i>{kept}</i>", "<i>{kept}</i>"),
        ("ass", "0,0,Default,,0,0,0,,a, b, c", "a, b, c"),
        ("ass", "0,0,Default,,0,0,0,,{\\b1}a{\\b0}{comment}b", "ab"),
        ("ass", "0,0,Default,,0,0,0,,{unclosed", "{unclosed"),
        ("ass", "0,0,Default,,0,0,0,,a\\Nb\\nc\\d\\", "a\nb c\\d\\"),
        ("ass", "0,0,Default,,0,0,0,,{\\p1}m 0 0{\\p0}a{\\pos(1,2)}b{\\p2}m 1 1", "ab"),
        ("ass", "too,few,fields", ""),
        ("microdvd", "0,0,Default,,0,0,0,,{\\i1}a{\\i0}", "a"),
    ],
)
def test_plain_text(codec: str, packet: str, text: str) -> None:
    assert words_of_packet(codec, packet.encode()).text == text


@pytest.mark.parametrize(
    ("packet", "text"),
    [
        (b"\0\x05Hello", "Hello"),
        (b"\0\x02HiXXXX", "Hi"),  # boxes follow
        (b"\0\x00", ""),
        (b"", ""),
        (b"\xff\xffcut", "cut"),
        (b"\0\x06\xfe\xff\0H\0i", "Hi"),
        (b"\0\x05{a}\\N", "{a}\\N"),
    ],
)
def test_timed_text(packet: bytes, text: str) -> None:
    assert words_of_packet("mov_text", packet).text == text


@pytest.mark.parametrize(
    ("markup", "speaker"),
    [("<v Ann>a", "Ann"), ("<v.loud.x Ann B>a</v>", "Ann B"), ("<v Ann>a <v Ann>b", "Ann"), ("<v Ann>a <v Bo>b", None),
     ("<v>a", None), ("<video>a", None), ("<v A &amp; B>a", "A & B")],
)  # fmt: skip
def test_speaker(markup: str, speaker: str | None) -> None:
    assert words_of_packet("webvtt", markup.encode()).speaker == speaker


@given(st.sampled_from(["subrip", "webvtt", "ass", "text", "mov_text"]), st.binary(max_size=200))
def test_any_bytes_are_words_or_not_unicode(codec: str, packet: bytes) -> None:
    try:
        words = words_of_packet(codec, packet)
    except UnicodeDecodeError:
        return
    assert words.text == words.text.strip()


@given(st.text(st.characters(exclude_characters="{}<>&\\\r", exclude_categories=("Cs",)), max_size=80))
def test_text_without_markup_is_itself(text: str) -> None:
    for codec in ("subrip", "webvtt", "text"):
        assert words_of_packet(codec, text.encode()).text == text.rstrip("\0").strip()
    assert words_of_packet("ass", f"0,0,Default,,0,0,0,,{text}".encode()).text == text.rstrip("\0").strip()


def test_pathological_markup_takes_no_time() -> None:
    for codec in ("subrip", "webvtt", "ass"):
        for piece in ("<", "{", "{\\", "<v ", "<a", "{\\p1}", "\\"):
            words_of_packet(codec, ("0,0,D,,0,0,0,," + piece * 100_000).encode())
