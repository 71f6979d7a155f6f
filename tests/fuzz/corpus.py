"""The sound files that cases begin with, by kind, from the generators of the other tests."""

from __future__ import annotations

import gzip
import io
import json
import pickle
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from PIL import Image

import images
import media
import media_audio
import media_subtitles
import pdf_files
import wav_files
from images_gif import GifPicture, gif
from mediatensor.decoders import VideoDecoder
from tar_files import tar_bytes

from .arguments import call_seeds, fixed
from .corpus_datasets import manifest_seeds, state_seeds
from .corpus_stills import still_seeds

__all__ = ["KINDS", "seed_file", "seed_names"]

Make = Callable[[Path], bytes]

# One clip for each way of storing, predicting and numbering frames.
_VIDEOS = (
    "mp4", "mp4_faststart", "mp4_fragmented", "mov", "mkv", "ts", "m2ts", "mpg", "flv", "avi", "nut", "raw_h264",
    "live_webm", "live_mkv", "vfr_mp4", "edit_list_two_parts", "edit_list_trims_key_frame", "missing_pts_ts",
    "all_equal_pts_mkv", "ts_concatenated", "size_change_ts", "cropped", "rotated_90_mkv", "audio_beside_video",
    "two_video_streams_mkv", "cover_art_mp4", "h264_open_gop", "h264_field_pairs_mp4", "h264_field_pairs_ts",
    "h264_10bit", "h264_slices", "hevc_open_gop_mkv", "hevc_open_gop_ts", "hevc_raw", "hevc_temporal_layers",
    "vp8", "vp8_alpha", "vp8_ivf", "vp9", "vp9_hidden_frames", "vp9_hidden_frames_ivf", "av1", "av1_obu",
    "av1_hierarchical", "mpeg1_program_stream", "mpeg2_ts", "mpeg2_mxf", "mpeg4_avi", "mpeg4_packed_b_frames",
    "mpeg4_mp4", "msmpeg4_avi", "wmv2_asf", "h263_3gp", "flv1", "rv20", "svq1", "mjpeg_avi", "mjpeg_odd_mov", "prores",
    "dnxhr", "cineform", "jpeg2000", "ffv1_gop", "huffyuv", "utvideo", "magicyuv", "snow", "png_mov", "qtrle",
    "cinepak", "zmbv", "flashsv", "raw_avi", "raw_y4m", "v210", "still_png", "still_jpeg", "still_webp", "gif", "apng",
)  # fmt: skip

_SOUNDS = (
    "pcm_s16_wav", "pcm_s24_mov", "pcm_s16_mkv", "pcm_s16be_aiff", "pcm_s24be_caf", "pcm_s16be_au", "pcm_s16_avi",
    "pcm_bluray", "pcm_alaw_wav", "flac", "flac_seek_table", "flac_ogg", "flac_mp4", "flac_mkv", "alac_m4a", "alac_caf",
    "wavpack_s16", "tta", "mp3_cbr", "mp3_vbr", "mp3_reservoir_22k", "mp3_cbr_no_header", "mp3_mkv", "mp3_flv", "mp2",
    "mp2_mpg", "aac_m4a", "aac_fragments", "aac_adts", "aac_ts", "aac_latm_ts", "aac_flv", "aac_mkv", "opus_ogg",
    "opus_webm", "opus_mp4", "opus_51_mkv", "vorbis_ogg", "vorbis_webm", "ac3_51", "eac3_51_mp4", "wmav2_asf", "amr_nb",
    "adpcm_ima_wav", "adpcm_ms_wav", "g722", "nellymoser_flv", "av_mp4", "av_ts_late",
)  # fmt: skip
_NUM_SAMPLES = 12_345

_INDEXES = ("h264_b_pyramid", "h264_field_pairs_ts", "mp4_fragmented", "missing_pts_ts", "one_frame")


def _video(name: str) -> Make:
    return lambda folder: media.make(name, folder).read_bytes()


def _sound(name: str) -> Make:
    # Shorter than in other tests: a case reads it several times.
    spec = replace(media_audio.ALL_CLIPS[name], num_samples=_NUM_SAMPLES)
    return lambda folder: media_audio.make_as(spec, f"short_{name}", folder).read_bytes()


def _wav_seeds() -> dict[str, Make]:
    sound = wav_files.noise(400, 2)
    coded = {name: wav_files.pack(name, sound) for name in wav_files.CODECS}
    plain = {name: wav_files.wav(name, sound) for name in wav_files.CODECS}
    s16, s24 = coded["pcm_s16le"], coded["pcm_s24le"]
    ds64 = wav_files.chunk(b"ds64", (len(s16) + 80).to_bytes(8, "little") + len(s16).to_bytes(8, "little") + bytes(12))
    fmt = wav_files.fmt(1, 16, 2)
    # A size that says "see ds64".
    unsized = b"data" + b"\xff" * 4 + s16
    others = {
        "extensible": wav_files.riff(wav_files.extensible(1, 24, 20, 2, mask=3), wav_files.chunk(b"data", s24)),
        "rifx": wav_files.riff(
            wav_files.fmt(1, 16, 2, order=">"), wav_files.chunk(b"data", s16, ">"), magic=b"RIFX", order=">"
        ),
        "rf64": wav_files.riff(ds64, fmt, unsized, magic=b"RF64"),
        "w64": wav_files.w64((b"fmt ", fmt[8:]), (b"data", s16)),
        "list": wav_files.riff(wav_files.chunk(b"LIST", b"INFO" + bytes(9)), fmt, wav_files.chunk(b"data", s16)),
    }
    return {name: fixed(data) for name, data in (plain | others).items()}


def _image_seeds() -> dict[str, Make]:
    picture, other = images.picture(), images.picture(9, 7, 4)
    whole = Image.fromarray(picture)
    frames = [Image.fromarray(np.roll(images.picture(15, 21, 4), number, axis=0)) for number in range(3)]
    moving = {"save_all": True, "append_images": frames[1:]}
    indices = np.random.default_rng(1).integers(0, 16, (12, 15))
    palette = np.random.default_rng(0).integers(0, 256, (16, 3))
    made = {
        "jpeg": images.encoded(picture, "JPEG"),
        "progressive_jpeg": images.encoded(picture, "JPEG", progressive=True, exif=images.exif(6)),
        "cmyk_jpeg": images.encoded(whole.convert("CMYK"), "JPEG"),
        "gif": gif((12, 15), [GifPicture(indices), GifPicture(indices[:5, 3:], 2, 4, 3, 2)], palette),
        "webp": images.encoded(picture, "WEBP"),
        "webp_lossless": images.encoded(picture, "WEBP", lossless=True),
        "animated_webp": images.encoded(frames[0], "WEBP", **moving),
        "bmp": images.encoded(picture, "BMP"),
        "bmp_palette": images.encoded(whole.quantize(17), "BMP"),
        "apng": images.apng((23, 37), [(images.picture(channels=4), 0, 0, 0, 0), (other, 3, 4, 1, 1)], 6),
    }
    for color_type, depth in images.PNG_KINDS:
        if color_type != 3:
            pixels = images.samples({0: 1, 2: 3, 4: 2, 6: 4}[color_type], depth)
            made[f"png_{color_type}_{depth}"] = images.png(pixels, color_type, depth, interlaced=depth == 8)
    made["png_palette"] = images.encoded(whole.quantize(17), "PNG")
    return {name: fixed(data) for name, data in made.items()}


def _document_seeds() -> dict[str, Make]:
    texts = [pdf_files.text_page((10, 20 + 30 * page, f"Page {page}"), size=12) for page in range(3)]
    small = pdf_files.document(texts, box="0 0 120 90", entries="/Rotate 90")
    drawn = pdf_files.document([b"0.5 g 5 5 60 40 re f 0 0 m 90 70 l S"], box="0 0 90 70")
    made = {
        "pdf_text": small,
        "pdf_drawn": drawn,
        "pdf_form": pdf_files.annotated(b"", [pdf_files.Annotation("name", 100, 600, "Widget")]),
        "pdf_encrypted": pdf_files.encrypted(texts[0], b""),
        "pdf_images": _pages("PDF"),
        "tiff": _pages("TIFF"),
        "tiff_lzw": _pages("TIFF", compression="tiff_lzw"),
        "tiff_jpeg": _pages("TIFF", compression="jpeg"),
        "tiff_group4": images.encoded(Image.fromarray(images.picture()).convert("1"), "TIFF", compression="group4"),
        "tiff_deflate": images.encoded(images.picture(), "TIFF", compression="tiff_adobe_deflate"),
    }
    return {name: fixed(data) for name, data in made.items()}


def _pages(kind: str, **options: str) -> bytes:
    # Saving leaves settings of its encoder in an image, so that no two files may share one.
    first, *others = (Image.fromarray(np.roll(images.picture(), number, axis=1)) for number in range(2))
    return images.encoded(first, kind, save_all=True, append_images=others, **options)


def _subtitle_seeds() -> dict[str, Make]:
    texts = {"srt": media_subtitles.SUBRIP, "vtt": media_subtitles.WEBVTT, "ass": media_subtitles.ASS}

    def streams(folder: Path) -> bytes:
        kinds = [("one", "default", 500), ("<i>two</i>", "", None), ("pictures", "forced", 900)]
        return media_subtitles.write_subtitle_streams(_draft(folder, "mkv"), kinds).read_bytes()

    def everything(folder: Path) -> bytes:
        return media_subtitles.write_mkv_with_everything(_draft(folder, "mkv")).read_bytes()

    plain = {name: fixed(text.encode()) for name, text in texts.items()}
    return {**plain, "streams": streams, "everything": everything}


def _draft(folder: Path, extension: str) -> Path:
    return Path(tempfile.mkdtemp(dir=folder)) / f"draft.{extension}"


def _index(name: str) -> Make:
    def make(folder: Path) -> bytes:
        path = _draft(folder, "index")
        with VideoDecoder(media.make(name, folder), on_error="skip", on_size_change="scale") as decoder:
            decoder.get_all_frames()
            decoder.frame_index.save(path)
        return path.read_bytes()

    return make


def _mappings(folder: Path) -> bytes:
    with VideoDecoder(media.make("h264_b_pyramid", folder)) as decoder:
        index = decoder.frame_index
        rows = zip(index.pts.tolist(), index.duration.tolist(), index.is_key.tolist(), strict=True)
    frames = [{"pts": pts, "duration": duration, "key_frame": int(is_key)} for pts, duration, is_key in rows]
    return json.dumps({"frames": frames}).encode()


def _saved(value: object, *, is_archive: bool = True) -> bytes:
    file = io.BytesIO()
    torch.save(value, file, _use_new_zipfile_serialization=is_archive)
    return file.getvalue()


def _weights_seeds() -> dict[str, Make]:
    state = {"weight": torch.arange(12.0).reshape(3, 4), "bias": torch.zeros(3)}
    return {
        "archive": fixed(_saved(state)),
        "old_format": fixed(_saved(state, is_archive=False)),
        "pickle": fixed(pickle.dumps({"weight": [1, 2.5, "three", (4, None)]}, protocol=2)),
        "onnx": fixed(_onnx_model()),
    }


def _onnx_model() -> bytes:
    """A convolution and a linear layer, as protocol buffers."""

    def varint(number: int) -> bytes:
        low, number = number & 127, number >> 7
        return bytes([low | 128]) + varint(number) if number else bytes([low])

    def field(number: int, content: bytes | int) -> bytes:
        if isinstance(content, int):
            return varint(number << 3) + varint(content)
        return varint(number << 3 | 2) + varint(len(content)) + content

    def tensor(name: bytes, *shape: int) -> bytes:
        values = np.arange(np.prod(shape), dtype="<f4").tobytes()
        return b"".join(field(1, size) for size in shape) + field(2, 1) + field(8, name) + field(9, values)

    def node(op: bytes, *names: bytes) -> bytes:
        return b"".join(field(1, name) for name in names) + field(2, op.lower()) + field(4, op)

    graph = field(1, node(b"Conv", b"x", b"w", b"b")) + field(1, node(b"Gemm", b"conv", b"v", b"c"))
    for name, shape in ((b"w", (4, 3, 3, 3)), (b"b", (4,)), (b"v", (2, 4)), (b"c", (2,))):
        graph += field(5, tensor(name, *shape))
    return field(1, 8) + field(7, graph) + field(14, field(1, b"characters") + field(2, b"a\nb"))


def _tar_seeds() -> dict[str, Make]:
    members = [(f"{number}.{kind}", b"%d" % number * 30) for number in range(4) for kind in ("mp4", "cls", "json")]
    long = [("f" * 120 + f"/{number}.mp4", b"x" * 700) for number in range(2)]
    formats = {"ustar": 0, "gnu": 1, "pax": 2}
    made = {f"tar_{name}": tar_bytes(members + (long if code else []), format=code) for name, code in formats.items()}
    made["tar_gz"] = gzip.compress(made["tar_gnu"], mtime=0)
    return {name: fixed(data) for name, data in made.items()}


def _exports_seeds() -> dict[str, Make]:
    box: dict[str, object] = {"geometry": [[0.1, 0.1], [0.4, 0.2]], "objectness_score": 0.5}
    unturned = {"value": 0, "confidence": None}
    words = [{"value": text, "confidence": 0.5, "crop_orientation": unturned, **box} for text in ("a<b>&", "a\tb\n")]
    block = {"lines": [{"words": words, **box}], "artefacts": [], **box}
    page = {"blocks": [block], "page_idx": 0, "dimensions": [30, 40], "orientation": unturned,
            "language": {"value": None, "confidence": None}}  # fmt: skip
    kie = {**page, "predictions": {"total": words, "date": []}}
    del kie["blocks"]
    line = {"text": "a<b>&", "geometry": box["geometry"], "confidence": 0.5}
    extent = {"first_frame": 3, "last_frame": 9, "start_seconds": 0.1, "end_seconds": 0.33}
    place = {"frame": 3, "seconds": 0.1, "geometry": box["geometry"]}
    track = {**line, **extent, "kind": "caption", "lines": [line], "appears": "at once", "places": [place],
             "alternatives": [{"text": "{b}", "share": 0.25}]}  # fmt: skip
    reading = {"schema": "mediatensor.ocr.video.VideoReading", "version": 1, "name": "a.mp4", "height": 30, "width": 40,
               "num_frames": 300, "begin_seconds": 0.0, "end_seconds": 10.0, "problems": ["Frame 7."],
               "tracks": [track, {**track, "kind": "overlay", "text": "b --> &", "lines": [], "places": []}],
               "slides": [{"number": 1, **extent, "page": page}]}  # fmt: skip
    documents = {"document": [page, {**page, "page_idx": 1}], "kie": [kie]}
    exported = {name: {"pages": pages} for name, pages in documents.items()} | {"video_reading": reading}
    return {name: fixed(json.dumps(export).encode()) for name, export in exported.items()}


# Of each kind that the command reads.
_COMMAND_VIDEOS = ("mp4", "mkv", "ts", "vfr_mp4", "two_video_streams_mkv", "rotated_90_mkv", "gif", "cover_art_mp4")
_COMMAND_SOUNDS = ("pcm_s16_wav", "aac_m4a", "opus_webm")


def _command_seeds() -> dict[str, Make]:
    subtitles = _subtitle_seeds()
    seeds = {name: _video(name) for name in _COMMAND_VIDEOS} | {name: _sound(name) for name in _COMMAND_SOUNDS}
    return seeds | {name: subtitles[name] for name in ("srt", "everything")}


#: Names of files, by kind, with the functions that generate them.
KINDS: Mapping[str, Callable[[], dict[str, Make]]] = {
    "video": lambda: {name: _video(name) for name in _VIDEOS},
    "audio": lambda: {name: _sound(name) for name in _SOUNDS},
    "wav": _wav_seeds,
    "image": _image_seeds,
    "document": _document_seeds,
    "subtitle": _subtitle_seeds,
    "index": lambda: {name: _index(name) for name in _INDEXES},
    "mappings": lambda: {"ffprobe": _mappings},
    "weights": _weights_seeds,
    "tar": _tar_seeds,
    "exports": _exports_seeds,
    "still": still_seeds,
    "rows": manifest_seeds,
    "state": state_seeds,
    "calls": call_seeds,
    "command": _command_seeds,
}

_seeds: dict[str, dict[str, Make]] = {}
_made: dict[tuple[str, str], bytes] = {}


def seed_names(kind: str) -> list[str]:
    """Names of the sound files of a kind."""
    if kind not in _seeds:
        _seeds[kind] = KINDS[kind]()
    return sorted(_seeds[kind])


def seed_file(kind: str, name: str, folder: Path) -> bytes:
    """Return an intact file, generated once per process; ``folder`` caches expensive ones for the next process."""
    if (kind, name) not in _made:
        seed_names(kind)
        _made[kind, name] = _seeds[kind][name](folder)
    return _made[kind, name]
