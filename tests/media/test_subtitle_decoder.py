"""`SubtitleDecoder`: texts and times compared with tables written by hand, and with the ffmpeg programs."""

from __future__ import annotations

import io
import json
import multiprocessing
import pickle
import random
import subprocess
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import media_subtitles

# Private: packets of arbitrary bytes, which no muxer writes, and limits that only long files reach.
from mediatensor.decoders import Subtitle, SubtitleDecoder, _subtitle_decoder, get_container_metadata
from mediatensor.decoders._subtitle_decoder import parse_text
from mediatensor.errors import (
    ClosedError,
    DecodeError,
    InvalidArgumentError,
    MediaTensorError,
    OpenError,
    OutOfRangeError,
    StreamError,
)
from processes import find_program

FILES = {
    "srt": (media_subtitles.SUBRIP, media_subtitles.SUBRIP_EXPECTED),
    "vtt": (media_subtitles.WEBVTT, media_subtitles.WEBVTT_EXPECTED),
    "ass": (media_subtitles.ASS, media_subtitles.ASS_EXPECTED),
}


def table(subtitles: list[Subtitle]) -> list[tuple[float, float, str]]:
    return [(subtitle.start_seconds, subtitle.end_seconds, subtitle.text) for subtitle in subtitles]


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return media_subtitles.write_mkv_with_everything(tmp_path_factory.mktemp("subtitles") / "everything.mkv")


@pytest.fixture
def subrip(tmp_path: Path) -> Path:
    path = tmp_path / "talk.srt"
    path.write_text(media_subtitles.SUBRIP, encoding="utf-8")
    return path


@pytest.mark.parametrize("extension", FILES)
@pytest.mark.parametrize("kind", ["path", "bytes", "file"])
def test_subtitle_file_is_read(extension: str, kind: str, tmp_path: Path) -> None:
    text, expected = FILES[extension]
    path = tmp_path / f"talk.{extension}"
    path.write_text(text, encoding="utf-8")
    source = {"path": path, "bytes": path.read_bytes(), "file": io.BytesIO(path.read_bytes())}[kind]
    decoder = SubtitleDecoder(source)
    assert table(decoder.get_all_subtitles()) == expected
    assert table(list(decoder)) == expected
    assert len(decoder) == len(expected)
    assert (decoder.stream_index, decoder.metadata.is_text) == (0, True)


@pytest.mark.parametrize(
    ("extension", "codec", "container"),
    [
        ("srt", "subrip", "mkv"), ("srt", "mov_text", "mp4"), ("srt", "mov_text", "mov"), ("srt", "ass", "mkv"),
        ("vtt", "webvtt", "mkv"), ("vtt", "webvtt", "webm"), ("ass", "ass", "mkv"),
    ],
)  # fmt: skip
def test_in_containers_that_ffmpeg_wrote(
    extension: str, codec: str, container: str, ffmpeg_program: str, tmp_path: Path
) -> None:
    text, expected = FILES[extension]
    source, path = tmp_path / f"talk.{extension}", tmp_path / f"talk.{container}"
    source.write_text(text, encoding="utf-8")
    copied = codec == {"srt": "subrip", "vtt": "webvtt", "ass": "ass"}[extension]
    subprocess.run(
        [ffmpeg_program, "-v", "error", "-i", str(source), "-c:s", "copy" if copied else codec, str(path)],
        check=True, timeout=60,
    )  # fmt: skip
    decoder = SubtitleDecoder(path)
    assert decoder.metadata.codec == codec
    found = table(decoder.get_all_subtitles())
    if not copied:
        # The program drops text in braces when it converts, and 3GPP text has no simultaneous subtitles.
        expected = [(start, end, words.replace(", {kept}", ",")) for start, end, words in expected]
        found = [(start, end, words.replace(", {kept}", ",")) for start, end, words in found]
        if codec == "mov_text":
            expected[0] = (1.0, 2.0, expected[0][2])
            with pytest.raises(InvalidArgumentError, match="always UTF-8"):
                SubtitleDecoder(path, encoding="cp1252")
    assert [words for _, _, words in found] == [words for _, _, words in expected]
    for moment in (0, 1):
        assert [row[moment] for row in found] == pytest.approx([row[moment] for row in expected], abs=0.0011)


def test_times_match_ffprobes_packets(everything: Path) -> None:
    ffprobe = find_program("ffprobe", "ffmpeg")
    command = [ffprobe, "-v", "quiet", "-select_streams", "2", "-show_packets", "-of", "json"]
    shown = subprocess.run([*command, everything], capture_output=True, check=False, timeout=60)
    packets = json.loads(shown.stdout)["packets"]
    starts = [float(packet["pts_time"]) for packet in packets]
    ends = [float(packet["pts_time"]) + float(packet["duration_time"]) for packet in packets]
    found = SubtitleDecoder(everything).get_all_subtitles()
    assert [subtitle.start_seconds for subtitle in found] == starts == [0.5, 1.25]
    assert [subtitle.end_seconds for subtitle in found] == ends == [1.0, 1.75]


def test_speaker_style_and_markup(tmp_path: Path) -> None:
    for extension, (text, _) in FILES.items():
        (tmp_path / f"talk.{extension}").write_text(text, encoding="utf-8")
    subrip, webvtt, ass = (SubtitleDecoder(tmp_path / f"talk.{extension}")[:] for extension in FILES)
    assert subrip[0].markup == "Hello <i>world</i>\nsecond line"
    assert (subrip[0].speaker, subrip[0].style) == (None, None)
    # The last subtitle has two speakers.
    assert [subtitle.speaker for subtitle in webvtt] == ["Bob Smith", None, None]
    assert webvtt[0].markup == "<v Bob Smith>Hello <i>world</i></v>\nsecond &amp; line &lt;3"
    assert [(subtitle.speaker, subtitle.style) for subtitle in ass] == [("Bob", "Default"), (None, "Alt")]
    assert ass[0].markup == "Hello {\\i1}world{\\i0}\\Nsecond, line"


def test_a_stream_is_chosen(everything: Path) -> None:
    assert table(SubtitleDecoder(everything).get_all_subtitles()) == [(0.5, 1.0, "Eins"), (1.25, 1.75, "Zwei")]
    assert table(SubtitleDecoder(everything, stream_index=3).get_all_subtitles()) == [(0.75, 1.5, "Un")]


def test_at_a_time_and_in_a_range(subrip: Path) -> None:
    decoder = SubtitleDecoder(subrip)

    def at(seconds: float) -> list[int]:
        return [decoder[:].index(subtitle) for subtitle in decoder.get_subtitles_played_at(seconds)]

    def within(*span: float | None) -> list[int]:
        return [decoder[:].index(subtitle) for subtitle in decoder.get_subtitles_played_in_range(*span)]

    # 0: [1, 2.5), 1: [2, 4), 2: [60.25, 61)
    assert [at(seconds) for seconds in (-1, 0.999, 1.0, 2.25, 2.5, 4.0, 60.25, 61.0, 1e9)] == [
        [], [], [0], [0, 1], [1], [], [2], [], [],
    ]  # fmt: skip
    assert within() == within(0.0, None) == within(-5.0, 1e9) == [0, 1, 2]
    assert (within(0.0, 1.0), within(0.0, 1.001), within(2.5, 60.25), within(4.0, 60.0)) == ([], [0], [1], [])
    assert within(3.0, 3.0) == []
    assert within(60.5) == [2]


def test_as_a_sequence(subrip: Path) -> None:
    decoder = SubtitleDecoder(subrip)
    assert decoder[0].text == decoder[-3].text == "Hello world\nsecond line"
    assert decoder[0].duration_seconds == 1.5
    assert [subtitle.text for subtitle in decoder[1:]] == [words for _, _, words in media_subtitles.SUBRIP_EXPECTED[1:]]
    assert list(reversed(decoder)) == decoder[::-1]
    for index in (3, -4):
        with pytest.raises(OutOfRangeError, match=str(index)):
            decoder[index]
    with pytest.raises(TypeError):
        decoder["0"]  # type: ignore[call-overload]


def test_returned_list_belongs_to_caller(subrip: Path) -> None:
    decoder = SubtitleDecoder(subrip)
    decoder.get_all_subtitles().clear()
    decoder[:].clear()
    assert len(decoder) == 3


def test_a_reversed_range(subrip: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="less than or equal"):
        SubtitleDecoder(subrip).get_subtitles_played_in_range(2.0, 1.0)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
def test_byte_order_marks_are_recognised(encoding: str) -> None:
    mark = "" if encoding in ("utf-8-sig", "utf-16") else "\ufeff"
    decoder = SubtitleDecoder((mark + media_subtitles.SUBRIP).encode(encoding))
    assert table(decoder.get_all_subtitles()) == media_subtitles.SUBRIP_EXPECTED


def test_other_encodings() -> None:
    data = "1\n00:00:01,000 --> 00:00:02,000\nGrüße, 5 €\n".encode("cp1252")
    with pytest.raises(DecodeError, match=r"1\.0 seconds is not in the encoding utf-8; pass the encoding of the file"):
        len(SubtitleDecoder(data))
    assert SubtitleDecoder(data, encoding="cp1252")[0].text == "Grüße, 5 €"
    with pytest.raises(DecodeError, match="ascii"):
        len(SubtitleDecoder(data, encoding="ascii"))


@pytest.mark.parametrize(
    ("codec", "line"),
    [("microdvd", "{{{0}}}{{{0}9}}Hello\n"), ("mpl2", "[{0}][{0}9]Hello\n")],
    ids=["microdvd", "mpl2"],
)
def test_text_decoded_by_ffmpeg_takes_no_encoding(codec: str, line: str) -> None:
    data = "".join(line.format(number) for number in range(1, 6)).encode()
    assert [subtitle.text for subtitle in SubtitleDecoder(data)] == ["Hello"] * 5
    with pytest.raises(InvalidArgumentError, match=f"codec {codec}, whose text is always UTF-8"):
        SubtitleDecoder(data, encoding="cp1252")


def test_missing_end_becomes_next_start() -> None:
    # The second subtitle ends before it starts, which is invalid; the next subtitle is at 7 seconds.
    text = (
        "1\n00:00:01,000 --> 00:00:02,000\nA\n\n2\n00:00:05,000 --> 00:00:04,000\nB\n\n"
        "3\n00:00:07,000 --> 00:00:08,000\nC\n\n4\n00:00:09,000 --> 00:00:01,000\nD\n"
    )
    found = table(SubtitleDecoder(text.encode()).get_all_subtitles())
    assert found == [(1.0, 2.0, "A"), (5.0, 7.0, "B"), (7.0, 8.0, "C"), (9.0, 9.0, "D")]


def test_subtitles_are_ordered_by_start() -> None:
    times = ["00:00:05,000 --> 00:00:06,000", "00:00:01,000 --> 00:00:09,000", "00:00:05,000 --> 00:00:05,500"]
    text = "\n".join(
        f"{number}\n{time}\n{word}\n" for number, (time, word) in enumerate(zip(times, "ABC", strict=True))
    )
    assert [subtitle.text for subtitle in SubtitleDecoder(text.encode())] == ["B", "A", "C"]


@pytest.mark.parametrize(
    ("stream_index", "message"), [(0, "not a stream of subtitles"), (9, "streams 0 to 3"), (-1, "streams 0 to 3")]
)
def test_other_streams_are_refused(stream_index: int, message: str, everything: Path) -> None:
    with pytest.raises(StreamError, match=message):
        SubtitleDecoder(everything, stream_index=stream_index)


def test_files_without_subtitles(clip: Path) -> None:
    with pytest.raises(StreamError, match=r"no stream of subtitles \(streams: video\)"):
        SubtitleDecoder(clip)
    with pytest.raises(OpenError):
        SubtitleDecoder(b"no subtitles, only words\n" * 20)


def test_image_subtitles_are_refused(tmp_path: Path) -> None:
    path = media_subtitles.write_subtitle_streams(tmp_path / "a.mkv", [("pictures", "default", 500)])
    with pytest.raises(StreamError, match=r"stream 0 are pictures \(dvd_subtitle\)"):
        SubtitleDecoder(path)
    assert get_container_metadata(path).best_subtitle_stream_index == 0


def test_default_stream_is_text_marked_default(tmp_path: Path) -> None:
    streams = [("pictures", "default", 500), ("first", "", 500), ("second", "default", 500), ("third", "default", 500)]
    path = media_subtitles.write_subtitle_streams(tmp_path / "a.mkv", streams)
    assert SubtitleDecoder(path)[0].text == "second"
    assert get_container_metadata(path).best_subtitle_stream_index == 2
    path = media_subtitles.write_subtitle_streams(tmp_path / "b.mkv", streams[:2])
    assert SubtitleDecoder(path)[0].text == "first"


def test_durations_that_are_missing(tmp_path: Path) -> None:
    streams = [("none", "", None), ("some", "", 3500)]
    path = media_subtitles.write_subtitle_streams(tmp_path / "a.mkv", streams)
    # The file ends with the subtitle that is shown longest.
    assert table(SubtitleDecoder(path)[:]) == [(0.0, 2.0, "none"), (2.0, 5.5, "none!")]
    assert table(SubtitleDecoder(path, stream_index=1)[:]) == [(0.0, 3.5, "some"), (2.0, 5.5, "some!")]


def test_a_codec_without_decoder(ffmpeg_program: str, subrip: Path, tmp_path: Path) -> None:
    path = tmp_path / "ttml.mp4"
    subprocess.run(
        [ffmpeg_program, "-v", "error", "-i", str(subrip), "-c:s", "ttml", str(path)], check=True, timeout=60
    )  # fmt: skip
    with pytest.raises(StreamError, match="no decoder"):
        SubtitleDecoder(path)


def test_limits(subrip: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_subtitle_decoder, "_MAX_NUM_SUBTITLES", 2)
    with pytest.raises(StreamError, match="limit of 2 subtitles"):
        len(SubtitleDecoder(subrip))
    monkeypatch.setattr(_subtitle_decoder, "_MAX_NUM_SUBTITLES", 3)
    assert len(SubtitleDecoder(subrip)) == 3
    monkeypatch.setattr(_subtitle_decoder, "_MAX_TOTAL_BYTES", 40)
    with pytest.raises(StreamError, match="40 bytes"):
        len(SubtitleDecoder(subrip))


def test_subtitles_are_read_on_first_access_and_the_file_is_closed(subrip: Path) -> None:
    def open_files() -> set[str]:
        folder = Path("/proc/self/fd")
        links = [entry.readlink() for entry in folder.iterdir() if entry.is_symlink()] if folder.is_dir() else []
        return {str(link) for link in links}

    decoder = SubtitleDecoder(subrip)
    assert str(subrip) not in open_files()
    assert len(decoder) == 3
    assert str(subrip) not in open_files()
    subrip.unlink()
    assert decoder[0].text.startswith("Hello")  # read once, and kept


def test_closed(subrip: Path) -> None:
    with SubtitleDecoder(subrip) as decoder:
        assert len(decoder) == 3
    for call in (decoder.get_all_subtitles, lambda: decoder[0], lambda: len(decoder)):
        with pytest.raises(ClosedError):
            call()
    assert decoder.metadata.codec == "subrip"


def test_pickled_before_and_after_reading(subrip: Path) -> None:
    decoder = SubtitleDecoder(subrip)
    assert pickle.loads(pickle.dumps(decoder))[:] == decoder[:]
    copy = pickle.loads(pickle.dumps(decoder))
    subrip.unlink()
    assert copy[:] == decoder[:]


def _texts(decoder: SubtitleDecoder, results: object) -> None:
    results.put([subtitle.text for subtitle in decoder])  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "method", [name for name in ("fork", "spawn") if name in multiprocessing.get_all_start_methods()]
)
def test_in_another_process(method: str, everything: Path) -> None:
    context = multiprocessing.get_context(method)
    results = context.Queue()
    process = context.Process(target=_texts, args=(SubtitleDecoder(everything), results))
    process.start()
    assert results.get(timeout=60) == ["Eins", "Zwei"]
    process.join(60)


def test_from_several_threads(everything: Path) -> None:
    decoder, found = SubtitleDecoder(everything), []
    threads = [threading.Thread(target=lambda: found.append(decoder[:])) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert found == [decoder[:]] * 4


@pytest.mark.parametrize("seed", range(4))
def test_damaged_files_give_subtitles_or_one_of_our_errors(seed: int, everything: Path) -> None:
    draw = random.Random(seed)
    originals = [everything.read_bytes(), *(text.encode() for text, _ in FILES.values())]
    for _ in range(50):
        data = bytearray(draw.choice(originals))
        for _ in range(draw.choice((1, 5, 25))):
            place = draw.randrange(len(data))
            data[place : place + draw.randrange(3)] = draw.randbytes(draw.randrange(4))
        try:
            subtitles = SubtitleDecoder(bytes(data)).get_all_subtitles()
        except MediaTensorError:
            continue
        assert all(subtitle.start_seconds <= subtitle.end_seconds for subtitle in subtitles)


# Markup and plain text by codec, from a table written by hand.


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
    assert parse_text(codec, packet.encode()).text == text


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
    assert parse_text("mov_text", packet).text == text


@pytest.mark.parametrize(
    ("markup", "speaker"),
    [("<v Ann>a", "Ann"), ("<v.loud.x Ann B>a</v>", "Ann B"), ("<v Ann>a <v Ann>b", "Ann"), ("<v Ann>a <v Bo>b", None),
     ("<v>a", None), ("<video>a", None), ("<v A &amp; B>a", "A & B")],
)  # fmt: skip
def test_speaker(markup: str, speaker: str | None) -> None:
    assert parse_text("webvtt", markup.encode()).speaker == speaker


@given(st.sampled_from(["subrip", "webvtt", "ass", "text", "mov_text"]), st.binary(max_size=200))
def test_any_bytes_are_text_or_not_unicode(codec: str, packet: bytes) -> None:
    try:
        parsed = parse_text(codec, packet)
    except UnicodeDecodeError:
        return
    assert parsed.text == parsed.text.strip()


@given(st.text(st.characters(exclude_characters="{}<>&\\\r", exclude_categories=("Cs",)), max_size=80))
def test_text_without_markup_is_itself(text: str) -> None:
    for codec in ("subrip", "webvtt", "text"):
        assert parse_text(codec, text.encode()).text == text.rstrip("\0").strip()
    assert parse_text("ass", f"0,0,Default,,0,0,0,,{text}".encode()).text == text.rstrip("\0").strip()


def test_pathological_markup_takes_no_time() -> None:
    for codec in ("subrip", "webvtt", "ass"):
        for piece in ("<", "{", "{\\", "<v ", "<a", "{\\p1}", "\\"):
            markup = "0,0,D,,0,0,0,," + piece * 100_000
            assert len(parse_text(codec, markup.encode()).text) <= len(markup)
