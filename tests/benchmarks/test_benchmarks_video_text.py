"""The benchmark of text in video: its clips are what their truth says, and its scores follow their definition."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from benchmarks.text import video_text
from benchmarks.text.video_text_clips import ClipPlan, draw_clip
from benchmarks.text.video_text_readers import merge_equal
from benchmarks.text.video_text_scores import Event, TextInTime, parse_srt, score_clip

from mediatensor.decoders import VideoDecoder

_SMALL = ClipPlan("small", faces=("DejaVuSans-Bold",), size=(320, 180), ground="gradient", seconds=4, seed=3)


def _drawn(plan: ClipPlan, folder: Path) -> tuple[VideoDecoder, dict[str, Any]]:
    path = draw_clip(plan, folder)
    return VideoDecoder(path), json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))


def _truth(**entries: Any) -> dict[str, Any]:
    events = [
        {"text": "Mind the gap", "start": 1.0, "end": 2.0},
        {"text": "between train\nand platform", "start": 2.0, "end": 3.0},
        {"text": "Thank you", "start": 5.0, "end": 6.0},
    ]
    return {"fps": 25, "seconds": 8.0, "events": events} | entries


def test_scores_by_hand() -> None:
    found = [
        Event(1.04, 2.0, "<i>Mind</i>  the gap"),  # exact, a frame late
        Event(2.0, 2.2, "between"),  # next to the longer one: a phantom
        Event(2.2, 3.08, "between train and platforn"),  # one letter wrong, five frames late, two frames long
        Event(7.0, 7.5, "Exit"),  # a phantom
        Event(3.5, 4.0, "  "),  # nothing
    ]
    score = score_clip(_truth(), found)
    assert (score.captions, score.exact, score.missed, score.phantoms) == (3, 1, 1, 2)
    assert (score.edits, score.characters) == (1 + len("Thank you"), 12 + 26 + 9)
    assert score.onsets == pytest.approx([1, 5])
    assert score.offsets == pytest.approx([0, 2])
    assert (score.onsets_near, score.offsets_near) == (1, 1)
    assert [mistake.read for mistake in score.mistakes] == ["between train and platforn", "", "between", "Exit"]
    fading = score_clip(_truth(style="fade"), found)
    assert (fading.onsets_near, fading.offsets_near) == (1, 2)
    total = score + score
    assert (total.captions, total.exact_rate, len(total.onsets)) == (6, 1 / 3, 4)


def test_long_overlaps_are_paired_first_and_an_invented_text_costs_no_more_than_a_miss() -> None:
    whole = Event(1.0, 3.0, "x" * 200)
    score = score_clip(_truth(), [whole])
    assert (score.missed, score.phantoms) == (2, 0)
    assert score.edits == score.characters == 47


def test_kinds_and_slides() -> None:
    decoys = [
        {"text": "20:14:00", "kind": "overlay", "box": [0.7, 0, 1, 0.2]},
        {"text": "GATE 4", "kind": "scene", "box": None},
    ]
    box, corner = (0.3, 0.8, 0.7, 0.9), (0.8, 0.05, 0.9, 0.1)
    tracks = [
        TextInTime(1.0, 2.0, "Mind the gap", "caption", box),
        TextInTime(2.0, 3.0, "and platform", "caption", box),  # a line of a caption
        TextInTime(5.0, 6.0, "Thank you", "scene", box),
        TextInTime(0.0, 8.0, "20:17:31", "overlay", corner),  # by its place
        TextInTime(4.0, 5.0, "GATE 4", "caption", box),
        TextInTime(4.0, 5.0, "leaves of grass", "scene", box),  # not known
    ]
    score = score_clip(_truth(decoys=decoys), [], tracks)
    assert (score.kinds, score.kinds_right) == (5, 3)
    plain = score_clip(_truth(decoys=["GATE 4"]), [], [tracks[4]._replace(kind="overlay"), tracks[3]])
    assert (plain.kinds, plain.kinds_right) == (1, 1)
    slides = [{"text": "One", "start": 0.0, "end": 3.0}, {"text": "Two", "start": 3.0, "end": 8.0}]
    score = score_clip(_truth(slides=slides), [], slides=[(0.0, 3.0), (3.2, 5.0), (5.0, 8.0)])
    assert (score.slides, score.slides_right, score.false_slides) == (2, 1, 1)


def test_neighbours_merge_and_files_are_parsed() -> None:
    read = [(0.0, "a"), (0.25, "a"), (0.5, ""), (0.75, "a"), (1.0, "b")]
    assert merge_equal(read, 0.25) == [Event(0.0, 0.5, "a"), Event(0.75, 1.0, "a"), Event(1.0, 1.25, "b")]
    text = (
        "\ufeff1\r\n00:00:01,500 --> 01:00:02,250\r\nMind\r\nthe gap\r\n\r\n2\r\n00:00:03.000 --> 00:00:04.000\r\n\r\n"
    )
    assert parse_srt(text) == [Event(1.5, 3602.25, "Mind\nthe gap"), Event(3.0, 4.0, "")]


@pytest.mark.slow
def test_a_run_scores_given_files_and_says_who_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    clips, predicted, output = tmp_path / "clips", tmp_path / "predicted", tmp_path / "results"
    clips.mkdir()
    predicted.mkdir()
    _, truth = _drawn(_SMALL, clips)
    event = truth["events"][0]
    times = [f"00:00:{event[key]:06.3f}".replace(".", ",") for key in ("start", "end")]
    (predicted / "small.srt").write_text(f"1\n{times[0]} --> {times[1]}\n{event['text']}\n", encoding="utf-8")
    arguments = ["--clips", str(clips), "--predicted", str(predicted), "-o", str(output), "--readers", "videocr"]
    video_text.main(arguments)
    document = json.loads((output / "video_text.json").read_text())
    figures = document["clips"][0]["readers"]["given files"]
    assert (figures["exact"], figures["phantoms"], figures["onsets"]) == (1, 0, pytest.approx([0], abs=0.03))
    assert figures["missed"] == len(truth["events"]) - 1
    assert "videocr: failed on small" in document["notes"][0]
    assert (output / "video_text.md").read_text() in capsys.readouterr().out


def test_what_was_read_before_is_not_read_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    clips, answers = tmp_path / "clips", tmp_path / "answers"
    clips.mkdir()
    answers.mkdir()
    _, truth = _drawn(_SMALL, clips)
    status = (clips / "small.mp4").stat()
    events = [[event["start"], event["end"], event["text"]] for event in truth["events"]]
    answer = {"captions": events, "tracks": [], "slides": [], "wall": 8.0, "cpu": 2.0, "rss_mib": 9.0, "versions": {}}
    path = answers / "small.videocr.json"
    path.write_text(json.dumps(answer | {"clip": [status.st_size, status.st_mtime_ns]}))
    arguments = ["--clips", str(clips), "--answers", str(answers), "--readers", "videocr"]
    video_text.main(arguments)
    row = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("| videocr |"))
    assert row.startswith(f"| videocr | {len(events)} / {len(events)} | 0.00 | 0 | 0 | 100.0 (0.0) |")
    assert row.endswith("| 0.50 | 0.50 | 9 |")
    path.write_text(json.dumps(answer | {"clip": [1, 2]}))  # another clip of this name
    video_text.main(arguments)
    assert "failed on small" in capsys.readouterr().out
