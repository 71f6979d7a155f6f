"""`check_dataset` finds audio files that end earlier than their headers state, and accuses no others."""

from __future__ import annotations

import io
import re
import struct
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import av
import pytest

import media_audio
from lazy_modules import import_on_use
from media_surgery import replace_edit_list
from mediatensor.datasets import DatasetReport, Finding, check_dataset

pyarrow = import_on_use("pyarrow", reason="writes manifests")
parquet = import_on_use("pyarrow.parquet", reason="writes manifests")

#: Audio whose header states its length, and the options of the muxer.
STATES_LENGTH: dict[str, dict[str, str]] = {
    "pcm_s16_wav": {},
    "pcm_s16_rf64": {},
    "mp3_cbr": {},
    "mp3_vbr": {},
    "mp3_8k": {},
    "flac": {},
    "flac_mono_16k": {},
    "alac_m4a": {"movflags": "faststart"},
    "aac_m4a": {"movflags": "faststart"},
    "aac_m4a_8k": {"movflags": "faststart"},
    "wavpack_s16": {},
    "tta": {},
    "pcm_s16be_aiff": {},
    "pcm_s16_w64": {},
}


def packets_of(data: bytes) -> list[Any]:
    with av.open(io.BytesIO(data)) as container:
        return [packet for packet in container.demux(audio=0) if packet.size]


def cut_between_packets(data: bytes) -> bytes:
    """The first half of the packets of a file, with its header as it was."""
    packets = packets_of(data)
    return data[: packets[len(packets) // 2].pos]


def seconds_of(data: bytes) -> float:
    return float(sum(packet.duration * packet.time_base for packet in packets_of(data)))


def findings_of(data: bytes, folder: Path, **options: Any) -> list[Finding]:
    path = folder / "checked"
    path.write_bytes(data)
    return list(check_dataset([path], kind="audio", num_workers=0, **options).files[0].findings)


@pytest.mark.parametrize("name", STATES_LENGTH)
def test_files_cut_between_packets_are_bad(name: str, tmp_path: Path) -> None:
    spec = media_audio.SOUND_CLIPS[name]
    spec = replace(spec, muxer_options=spec.muxer_options | STATES_LENGTH[name])
    whole = media_audio.make_as(spec, f"whole_{name}", tmp_path).read_bytes()
    assert findings_of(whole, tmp_path) == []
    part = cut_between_packets(whole)
    for decode in (True, False):
        found = findings_of(part, tmp_path, decode=decode)
        assert {finding.kind for finding in found} == {"cut-off"}
        texts = [
            re.match(r"the header states (.*) s of audio, but (.*) s can be decoded$", one.message) for one in found
        ]
        ((promised, decodable),) = [map(float, text.groups()) for text in texts if text]
        # The demuxer of MP4 does not count the encoder's delay, of up to a packet.
        assert promised == pytest.approx(seconds_of(whole), abs=0.14)
        assert decodable == pytest.approx(seconds_of(part), abs=0.14)
        assert found[-1].start_seconds == pytest.approx(decodable, abs=0.01)
        assert found[-1].end_seconds == pytest.approx(promised, abs=0.01)


def with_wav_size(size: int) -> Callable[[bytes], bytes]:
    def patch(data: bytes) -> bytes:
        at = data.index(b"data") + 4
        return data[:at] + struct.pack("<I", size) + data[at + 4 :]

    return patch


def with_no_flac_total(data: bytes) -> bytes:
    at = data.index(b"fLaC") + 8 + 13  # the last 36 bits of 64 are the number of samples
    return data[:at] + bytes([data[at] & 0xF0]) + bytes(4) + data[at + 5 :]


#: Audio whose header does not state its length, because it was not known when the header was written.
UNSTATED: dict[str, tuple[str, Callable[[bytes], bytes] | None]] = {
    "wav, size 0": ("pcm_s16_wav", with_wav_size(0)),
    "wav, all ones": ("pcm_s16_wav", with_wav_size(0xFFFFFFFF)),
    "wav, all ones without the header": ("pcm_s16_wav", with_wav_size(0xFFFFFFFF - 36)),
    "wav, size of sox": ("pcm_s16_wav", with_wav_size(0x7FFFF000)),
    "wav, size of arecord": ("pcm_s16_wav", with_wav_size(0x80000000)),
    "flac": ("flac", with_no_flac_total),
    "mp3": ("mp3_vbr_no_header", None),
    "ogg": ("vorbis_ogg", None),
}


@pytest.mark.parametrize("case", UNSTATED)
def test_files_that_do_not_state_their_length_are_not_accused(case: str, tmp_path: Path) -> None:
    name, patch = UNSTATED[case]
    whole = media_audio.make(name, tmp_path).read_bytes()
    whole = whole if patch is None else patch(whole)
    assert findings_of(whole, tmp_path) == []
    assert findings_of(cut_between_packets(whole), tmp_path) == []


def test_missing_fragments_are_not_stated(tmp_path: Path) -> None:
    data = media_audio.make("aac_fragments", tmp_path).read_bytes()
    fragments = [match.start() - 4 for match in re.finditer(b"moof", data)]
    assert len(fragments) > 1
    assert findings_of(data[: fragments[len(fragments) // 2]], tmp_path) == []


def test_wav_size_of_the_whole_file_is_not_accused(tmp_path: Path) -> None:
    data = media_audio.make("pcm_s16_wav", tmp_path).read_bytes()
    assert findings_of(with_wav_size(len(data))(data), tmp_path) == []


@pytest.mark.parametrize("edits", [((500, 10 * 1024),), ((400, -1), (700, 1024)), ((300, 1024), (300, 40 * 1024))])
def test_edit_lists_are_not_missing_audio(edits: tuple[tuple[int, int], ...], tmp_path: Path) -> None:
    spec = replace(media_audio.SOUND_CLIPS["aac_m4a"], patch=replace_edit_list(*edits))
    data = media_audio.make_as(spec, f"edits_{len(edits)}_{edits[0][0]}", tmp_path).read_bytes()
    assert [one.kind for one in findings_of(data, tmp_path) if one.kind in DatasetReport.bad_kinds] == []


CLIP_OF_EACH_KIND = {(spec.container, spec.codec): name for name, spec in media_audio.SOUND_CLIPS.items()}


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(CLIP_OF_EACH_KIND.values(), id="a clip of each kind"),
        pytest.param(media_audio.SOUND_CLIPS, id="all", marks=pytest.mark.slow),
    ],
)
def test_no_clip_is_accused(names: Iterable[str], tmp_path: Path) -> None:
    paths = [media_audio.make(name, tmp_path) for name in names]
    report = check_dataset(paths, kind="audio", num_workers=0)
    found = [(Path(file.name).name, finding) for file in report.files for finding in file.findings]
    planted = {"sound-gap": "gap_", "sound-length": "late", "silent": "silence", "duplicate": "", "odd-sound": ""}
    assert [finding for name, finding in found if planted.get(finding.kind, "/") not in name] == []


@pytest.mark.parametrize("name", ["flac", "opus_ogg", "wavpack_s16", "mp3_cbr"])
def test_joined_files_are_not_accused(name: str, tmp_path: Path) -> None:
    data = media_audio.make(name, tmp_path).read_bytes()
    for decode in (True, False):
        assert findings_of(2 * data, tmp_path, decode=decode) == []


def test_damage_after_the_stated_end_is_found(tmp_path: Path) -> None:
    data = media_audio.make("aac_adts", tmp_path).read_bytes()
    packets = packets_of(data)
    middle = packets[len(packets) // 2]
    found = findings_of(data[: middle.pos + middle.size // 2], tmp_path)
    assert [finding.kind for finding in found] == ["corrupt-sound"]


def test_small_values_in_tables_are_compared_and_checked(tmp_path: Path) -> None:
    data = media_audio.make("aac_m4a_8k", tmp_path).read_bytes()
    assert len(data) < 1 << 16
    table = pyarrow.table({"audio": [data, data, data[: len(data) // 2]]})
    parquet.write_table(table, tmp_path / "rows.parquet")
    report = check_dataset(tmp_path / "rows.parquet", kind="audio", num_workers=0)
    kinds = [{finding.kind for finding in file.findings} for file in report.files]
    assert kinds == [set(), {"duplicate"}, {"cut-off", "unreadable"}]
