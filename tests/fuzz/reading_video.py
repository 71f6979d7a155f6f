"""Frames of a damaged video, and whether each of them is one that a plain decode of the same file has."""

from __future__ import annotations

import io
import random
from collections import defaultdict
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from mediatensor.decoders import AudioVideoDecoder, VideoDecoder, get_container_metadata
from mediatensor.errors import MediaTensorError

from .answers import Answers, WrongAnswerError
from .plain_decodes import carries_state, checksum, damaged_times, decoded_from_key_frames, left_to_memory, plain_decode

__all__ = ["is_left_to_memory", "read_video", "source_of"]

# Rough limits of decoding in a case. A small file can have large frames, or many.
_MAX_PIXELS_OF_FRAME = 1 << 21
_MAX_PIXELS = 1 << 26


class Shown(NamedTuple):
    """A frame that was given: its number, its time, the checksum of its pixels, and whether its number is final."""

    number: int
    pts_seconds: float
    checksum: int
    is_final: bool


def source_of(rng: random.Random, path: Path) -> object:
    """A file as one of the things that readers take."""
    return rng.choice((lambda: path, lambda: str(path), path.read_bytes, lambda: io.BytesIO(path.read_bytes())))()


def read_video(answers: Answers, rng: random.Random, path: Path, folder: Path) -> None:
    source = source_of(rng, path)
    policy = rng.choice(("raise", "raise", "raise", "skip", "nearest"))
    answers.ask("container", lambda: get_container_metadata(source))
    num_threads = rng.choice((1, 1, 3, None))
    decoder = answers.ask(
        "open",
        lambda: VideoDecoder(source, dimension_order="NHWC", on_error=policy, num_ffmpeg_threads=num_threads),
    )
    if decoder is None:
        return
    with decoder:
        shown = _frames(answers, rng, decoder)
        index = answers.ask("index", lambda: decoder.frame_index)
        again = path.read_bytes() if isinstance(source, io.BytesIO) else source
        if shown and policy == "raise" and index is not None:
            _compare(answers, again, decoder.stream_index, shown, index, has_threads=num_threads != 1)
        if index is not None:
            numbers = sorted({frame.number for frame in shown if frame.number < len(index)})[:6]
            answers.ask("bytes", decoder.get_frame_bytes)
            answers.ask("vectors", lambda: decoder.get_motion_vectors_at(numbers))
            answers.ask("quantisers", lambda: decoder.get_qp_at(numbers))
    if rng.random() < 0.2:
        _read_beside_sound(answers, source)


def _frames(answers: Answers, rng: random.Random, decoder: VideoDecoder) -> list[Shown]:
    """Request frames as programs do: one, several, a range, by time, all of them."""
    shown: list[Shown] = []
    count = answers.ask("len", lambda: len(decoder))
    facts = answers.ask("metadata", lambda: decoder.metadata)
    if not count or facts is None:
        return shown
    is_large = (facts.width or 0) * (facts.height or 0) > _MAX_PIXELS_OF_FRAME
    numbers = [rng.randrange(count) for _ in range(0 if is_large else 4)]
    for number in (numbers or [0]) + ([] if is_large else [0, count - 1]):
        is_final = decoder.frame_index.settled
        frame = answers.ask(f"frame {number}", partial(decoder.get_frame_at, number))
        if frame is not None:
            shown.append(Shown(number, frame.pts_seconds, checksum(frame.data.numpy()), is_final))
    if is_large:
        return shown
    is_final = decoder.frame_index.settled
    start, step = rng.randrange(count), rng.choice((1, 1, 2, 5))
    batch = answers.ask("range", lambda: decoder.get_frames_in_range(start, start + 6 * step, step))
    if batch is not None:
        shown += _of_batch(batch, list(range(start, count, step)), is_final)
    seconds = float(facts.begin_stream_seconds) + rng.random() * float(facts.duration_seconds or 0)
    answers.ask("played", lambda: decoder.get_frame_played_at(seconds))
    if count <= 60 and rng.random() < 0.5:
        is_final = decoder.frame_index.settled
        whole = answers.ask("whole", lambda: decoder.get_all_frames())
        if whole is not None:
            shown += _of_batch(whole, list(range(len(whole))), is_final)
    return shown


def _of_batch(batch: Any, numbers: list[int], is_final: bool) -> list[Shown]:
    rows = zip(numbers, batch.pts_seconds.tolist(), batch.data, strict=False)
    return [Shown(number, time, checksum(data.numpy()), is_final) for number, time, data in rows]


def is_left_to_memory(kind: str, path: Path) -> bool:
    """Whether a video has pictures that are whatever was in memory, so that they need not be the same twice."""
    if kind != "video":
        return False
    try:
        with VideoDecoder(path) as decoder:
            return bool(left_to_memory(path, decoder.stream_index))
    except MediaTensorError:
        return False


def _compare(
    answers: Answers, source: object, stream_index: int, shown: list[Shown], index: Any, *, has_threads: bool
) -> None:
    """Every frame must be one of a plain decode, and shown at its time; if decoding settled the index, the same one."""
    plain = plain_decode(source, stream_index, _MAX_PIXELS)
    if plain is None:
        return
    by_time: dict[float | None, set[int]] = defaultdict(set)
    times = [frame.pts_seconds for frame in plain if frame.pts_seconds is not None]
    can_be_right = times == sorted(times)  # else frames keep their order and get other times
    for frame in plain:
        by_time[frame.pts_seconds if can_be_right else None].add(frame.checksum)
    in_time = {frame for frame in shown if frame.checksum in by_time.get(frame.pts_seconds, ())}
    wrong = {frame for frame in shown if frame not in in_time and frame.checksum not in by_time.get(None, ())}
    wrong -= _explained(answers, source, stream_index, wrong, by_time, has_threads=has_threads)
    if wrong:
        what = "at another time" if {one.checksum for one in wrong} <= {one.checksum for one in plain} else "nowhere"
        raise WrongAnswerError(f"{len(wrong)} of {len(shown)} frames: {what} in a plain decode, such as {min(wrong)}")
    if index.settled and len(index) != len(plain):
        raise WrongAnswerError(f"the settled index has {len(index)} frames, a plain decode {len(plain)}")
    if index.settled:
        astray = {frame for frame in shown if frame.is_final and plain[frame.number].checksum != frame.checksum}
        astray -= _explained(answers, source, stream_index, astray, by_time, has_threads=has_threads)
        if astray:
            raise WrongAnswerError(f"frame {min(astray)} is not the one that a plain decode shows in its place")


def _explained(
    answers: Answers,
    source: object,
    stream_index: int,
    wrong: set[Shown],
    by_time: dict[float | None, set[int]],
    *,
    has_threads: bool,
) -> set[Shown]:
    """Return frames that may differ from a plain decode because of the behaviour of codecs.

    Where data is missing, a frame may show old memory of the codec. After damage, some codecs return nothing, even if
    the rest of the file is intact, and some detect damage only after earlier frames (FLV1 learns properties of its
    encoder): a decode from a key frame then gives another result. Of several threads of H.264 the next one may be
    through with a picture before it is marked as damaged, and it is then given as they have concealed it.
    """
    if not wrong:
        return wrong
    known = set().union(*by_time.values())
    by_chance = left_to_memory(source, stream_index)
    explained = {frame for frame in wrong if frame.pts_seconds in by_chance or None in by_chance}
    if explained != wrong:
        found = decoded_from_key_frames(source, stream_index)
        damaged = damaged_times(source, stream_index) - {None}
        for frame in wrong - explained:
            start = found.get((frame.pts_seconds, frame.checksum))
            is_of_damage = any(start <= time <= frame.pts_seconds for time in damaged) if start is not None else False
            is_unmarked = has_threads and frame.pts_seconds in damaged and frame.checksum not in known
            if is_unmarked or is_of_damage or (start is not None and frame.pts_seconds not in by_time):
                explained.add(frame)
    if explained != wrong and carries_state(source, stream_index):
        explained |= {frame for frame in wrong if frame.checksum not in known}  # no other frame in its place
    answers.is_left_to_codec |= bool(explained)
    return explained


def _read_beside_sound(answers: Answers, source: object) -> None:
    decoder = answers.ask("both", lambda: AudioVideoDecoder(source))
    if decoder is not None:
        with decoder:
            answers.ask("clip", lambda: decoder.get_played_in_range(0.0, 0.2))
