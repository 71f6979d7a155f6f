"""Clips of sound: every codec in every container where it is found."""

from __future__ import annotations

import wave
from dataclasses import replace
from pathlib import Path
from typing import Any

from media_audio_surgery import flac_with_seek_table, with_id3_picture, without_first_mp3_frame
from media_audio_writing import SoundSpec, encoded_samples

UNKNOWN_PADDING = "the file does not say how much of the last frame is padding"
_FULL_BLOCKS = "FFmpeg's Vorbis encoder ends with a full block and says so"
_ALIGNED = "the muxer fills up to eight bytes"
_TRIMMED_TWICE = "FFmpeg trims the last frame of ALAC in CAF, which is short already"


def _pcm(codec: str, container: str, special: str = "plain samples", **changes: Any) -> SoundSpec:
    return replace(SoundSpec(special, codec, container, is_lossless=True), **changes)


def _lossless(codec: str, container: str, special: str, **changes: Any) -> SoundSpec:
    return _pcm(codec, container, special, **changes)


def _write_with_wave_module(spec: SoundSpec, path: Path) -> None:
    """Without FFmpeg: by Python's own library."""
    samples = encoded_samples(spec)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(spec.num_channels)
        file.setsampwidth(2)
        file.setframerate(spec.rate)
        file.writeframes(samples.T.astype("<i2").tobytes())


_WIDE: dict[str, Any] = {"sample_fmt": "s32", "num_bits": 24}

PCM_CLIPS: dict[str, SoundSpec] = {
    "pcm_u8_wav": _pcm("pcm_u8", "wav", "unsigned", rate=8000, num_channels=1),
    "pcm_s16_wav": _pcm("pcm_s16le", "wav"),
    "pcm_s16_wave_module": _pcm("pcm_s16le", "wav", "not by FFmpeg", sample_fmt="s16", build=_write_with_wave_module),
    "pcm_s24_wav": _pcm("pcm_s24le", "wav", "EXTENSIBLE, 5.1", rate=48000, num_channels=6, num_samples=60001, **_WIDE),
    "pcm_s32_wav": _pcm("pcm_s32le", "wav", "more bits than float32 has", rate=96000, num_samples=96123),
    "pcm_f32_wav": _pcm("pcm_f32le", "wav"),
    "pcm_f64_wav": _pcm("pcm_f64le", "wav", "more bits than float32 has", rate=48000, num_channels=1),
    "pcm_s16_wav_71": _pcm("pcm_s16le", "wav", "eight channels", rate=48000, num_channels=8, num_samples=50001),
    "pcm_s16_w64": _pcm("pcm_s16le", "w64", excess=_ALIGNED),
    "pcm_s16_rf64": _pcm("pcm_s16le", "wav", "RF64", extension="rf64.wav", muxer_options={"rf64": "always"}),
    "pcm_s16_mkv": _pcm("pcm_s16le", "matroska", "times in milliseconds", extension="mkv"),
    "pcm_f32_mkv_71": _pcm("pcm_f32le", "matroska", "", extension="mkv", num_channels=8, rate=11025),
    "pcm_s24_mov": _pcm("pcm_s24le", "mov", rate=48000, **_WIDE),
    "pcm_s16be_mov": _pcm("pcm_s16be", "mov", "", rate=22050, num_channels=1),
    "pcm_s16_mp4": _pcm("pcm_s16le", "mp4", "ISO's own PCM boxes", rate=48000),
    "pcm_s16be_aiff": _pcm("pcm_s16be", "aiff"),
    "pcm_s24be_aiff": _pcm("pcm_s24be", "aiff", **_WIDE),
    "pcm_s16_avi": _pcm("pcm_s16le", "avi", rate=22050),
    "pcm_s24be_caf": _pcm("pcm_s24be", "caf", rate=48000, **_WIDE),
    "pcm_f32be_caf": _pcm("pcm_f32be", "caf"),
    "pcm_s16be_au": _pcm("pcm_s16be", "au"),
    "pcm_s16_nut": _pcm("pcm_s16le", "nut"),
    "pcm_bluray": _pcm(
        "pcm_bluray",
        "mpegts",
        "",
        extension="m2ts",
        rate=48000,
        sample_fmt="s16",
        num_samples=96000,
        muxer_options={"mpegts_m2ts_mode": "1"},
    ),
    "pcm_alaw_wav": _pcm("pcm_alaw", "wav", "logarithmic", rate=8000, num_channels=1, is_lossless=False),
    "pcm_mulaw_wav": _pcm("pcm_mulaw", "wav", "logarithmic", rate=8000, is_lossless=False),
    "pcm_mulaw_au": _pcm("pcm_mulaw", "au", "logarithmic", rate=8000, num_channels=1, is_lossless=False),
    "pcm_alaw_mov": _pcm("pcm_alaw", "mov", "logarithmic", rate=11025, num_channels=1, is_lossless=False),
}

_BLOCKS = {"frame_size": "256"}

LOSSLESS_CLIPS: dict[str, SoundSpec] = {
    "flac": _lossless("flac", "flac", "no seek table"),
    "flac_s24": _lossless(
        "flac", "flac", "24 bits at 96 kHz", rate=96000, num_samples=96123, no_program="it finds no frame", **_WIDE
    ),
    "flac_small_blocks": _lossless("flac", "flac", "blocks of 256", options=_BLOCKS),
    "flac_seek_table": _lossless(
        "flac", "flac", "a seek point every half second", options=_BLOCKS, patch=flac_with_seek_table
    ),
    "flac_mono_16k": _lossless("flac", "flac", "as speech data sets are", rate=16000, num_channels=1),
    "flac_71": _lossless("flac", "flac", "eight channels", rate=48000, num_channels=8, num_samples=40001),
    "flac_mkv": _lossless("flac", "matroska", "", extension="mkv"),
    "flac_ogg": _lossless("flac", "ogg", ""),
    "flac_mp4": _lossless("flac", "mp4", "", rate=48000),
    "alac_m4a": _lossless("alac", "ipod", "", extension="m4a", sample_fmt="s16p"),
    "alac_m4a_s24": _lossless("alac", "ipod", "", extension="m4a", rate=48000, sample_fmt="s32p", num_bits=24),
    "alac_mov_51": _lossless("alac", "mov", "", num_channels=6, rate=22050, sample_fmt="s16p"),
    "alac_caf": _lossless("alac", "caf", "", sample_fmt="s16p", excess=_TRIMMED_TWICE, no_program=_TRIMMED_TWICE),
    "wavpack_s16": _lossless("wavpack", "wv", "", sample_fmt="s16p"),
    "wavpack_float": _lossless("wavpack", "wv", "32-bit float", sample_fmt="fltp", rate=48000),
    "wavpack_mkv": _lossless("wavpack", "matroska", "", extension="mkv", sample_fmt="s16p"),
    "tta": _lossless("tta", "tta", "frames of about a second", sample_fmt="s16"),
}


def _mp3(special: str, container: str = "mp3", bit_rate: str = "128k", **changes: Any) -> SoundSpec:
    return replace(SoundSpec(special, "libmp3lame", container, "", options={"b": bit_rate}), **changes)


_QUALITY = {"flags": "+qscale", "global_quality": str(4 * 118)}
_RESERVOIR: dict[str, Any] = {"num_channels": 1, "bit_rate": "32k"}

MPEG_CLIPS: dict[str, SoundSpec] = {
    "mp3_cbr": _mp3("constant bit rate, LAME header"),
    "mp3_cbr_320k": _mp3("no use of the bit reservoir", bit_rate="320k", rate=48000),
    "mp3_reservoir_22k": _mp3("long bit reservoir", rate=22050, **_RESERVOIR),
    "mp3_reservoir_16k": _mp3("long bit reservoir", rate=16000, **{**_RESERVOIR, "bit_rate": "24k"}),
    "mp3_8k": _mp3("MPEG 2.5", rate=8000, **{**_RESERVOIR, "bit_rate": "16k"}),
    "mp3_vbr": _mp3("variable bit rate with a table of positions", options=_QUALITY),
    "mp3_abr": _mp3("average bit rate", options={"abr": "1", "b": "96k"}, rate=32000),
    "mp3_vbr_no_header": _mp3(
        "variable bit rate, first frame lost",
        options=_QUALITY,
        patch=without_first_mp3_frame,
        delay=1105,
        excess=UNKNOWN_PADDING,
    ),
    "mp3_cbr_no_header": _mp3("no LAME header", muxer_options={"write_xing": "0"}, delay=1105, excess=UNKNOWN_PADDING),
    "mp3_picture": _mp3("a picture of 300 KB in front", patch=with_id3_picture),
    "mp3_mp4": _mp3("", "mp4", excess=UNKNOWN_PADDING),
    "mp3_mkv": _mp3("", "matroska", extension="mkv", program_delay=1105),
    "mp3_avi": _mp3("", "avi", delay=1105, excess=UNKNOWN_PADDING),
    "mp3_flv": _mp3("", "flv", delay=1105, excess=UNKNOWN_PADDING),
    "mp3_ts": _mp3("", "mpegts", extension="ts", delay=1105, excess=UNKNOWN_PADDING),
    "mp3_wav": _mp3("", "wav", extension="mp3.wav", delay=1105, excess=UNKNOWN_PADDING),
    # FFmpeg's decoder of layer II rounds to 16 bits and carries the error on, from sample to sample.
    "mp2": SoundSpec("", "mp2", "mp2", rate=48000, delay=481, excess=UNKNOWN_PADDING, range_snr_db=75.0),
    "mp2_ts": SoundSpec("", "mp2", "mpegts", "ts", program_snr_db=80.0, delay=481, excess=UNKNOWN_PADDING),
    "mp2_mpg": SoundSpec("program stream", "mp2", "mpeg", "mpg", rate=48000, delay=481, excess=UNKNOWN_PADDING),
}


# Noise substitution: the decoder draws the noise of noisy bands, from a generator that runs on from frame to frame.
_NO_MADE_UP_NOISE = {"aac_pns": "0"}


def _aac(special: str, container: str, **changes: Any) -> SoundSpec:
    spec = SoundSpec(special, "aac", container, options=_NO_MADE_UP_NOISE)
    return replace(spec, program_snr_db=120.0, **changes)


AAC_CLIPS: dict[str, SoundSpec] = {
    "aac_m4a": _aac("gapless by its edit list", "ipod", extension="m4a"),
    "aac_m4a_51": _aac("six channels", "ipod", extension="m4a", rate=48000, num_channels=6, num_samples=70001),
    "aac_m4a_71": _aac("eight channels", "ipod", extension="m4a", rate=48000, num_channels=8, num_samples=50001),
    "aac_m4a_8k": _aac("", "ipod", extension="m4a", rate=8000, num_channels=1),
    "aac_m4a_noise": _aac("noise substitution", "ipod", extension="m4a", options={}, range_snr_db=20.0),
    "aac_m4a_low": _aac("much of it", "ipod", extension="m4a", options={"b": "48k"}, range_snr_db=3.0),
    "aac_mov": _aac("", "mov", rate=48000),
    "aac_fragments": _aac(
        "fragments, no edit list",
        "mp4",
        delay=1024,
        muxer_options={"movflags": "frag_every_frame+empty_moov", "min_frag_duration": "300000"},
    ),
    "aac_fragments_delay_moov": _aac(
        "fragments and an edit list",
        "mp4",
        muxer_options={"movflags": "delay_moov+dash", "frag_duration": "400000"},
        program_delay=1024,
    ),
    "aac_adts": _aac("no times at all", "adts", extension="aac", delay=1024, excess=UNKNOWN_PADDING),
    "aac_ts": _aac("", "mpegts", extension="ts", delay=1024, excess=UNKNOWN_PADDING),
    "aac_latm_ts": _aac(
        "", "mpegts", extension="ts", muxer_options={"mpegts_flags": "latm"}, delay=1024, excess=UNKNOWN_PADDING
    ),
    "aac_flv": _aac("", "flv", delay=1024, excess=UNKNOWN_PADDING),
    "aac_mkv": _aac("", "matroska", extension="mkv", rate=48000, program_delay=1024, excess=UNKNOWN_PADDING),
}


def _opus(special: str, container: str, **changes: Any) -> SoundSpec:
    spec = SoundSpec(special, "libopus", container, rate=48000, sample_fmt="flt", range_snr_db=80.0)
    return replace(spec, **{"program_snr_db": 110.0, **changes})


_SURROUND = {"mapping_family": "1"}

XIPH_CLIPS: dict[str, SoundSpec] = {
    "opus_ogg": _opus("frames of 20 ms", "ogg", extension="opus"),
    "opus_2ms_ogg": _opus("frames of 2.5 ms", "ogg", options={"frame_duration": "2.5"}),
    "opus_10ms_ogg": _opus("frames of 10 ms", "ogg", num_channels=1, options={"frame_duration": "10"}),
    "opus_60ms_webm": _opus("frames of 60 ms", "webm", num_channels=1, options={"frame_duration": "60"}),
    "opus_voice_ogg": _opus(
        "linear prediction; 16 kHz in, 48 kHz out",
        "ogg",
        rate=16000,
        decoded_rate=48000,
        num_channels=1,
        options={"application": "voip", "b": "16k"},
        program_snr_db=None,
    ),
    "opus_mkv": _opus("", "matroska", extension="mkv"),
    "opus_webm": _opus("", "webm"),
    "opus_mp4": _opus("", "mp4"),
    "opus_ts": _opus("", "mpegts", extension="ts", delay=312, excess=UNKNOWN_PADDING),
    "opus_51_mkv": _opus(
        "six channels", "matroska", extension="mkv", num_channels=6, options=_SURROUND, num_samples=70001
    ),
    "opus_51_ogg": _opus("six channels", "ogg", num_channels=6, options=_SURROUND, num_samples=70001),
    "opus_71_mp4": _opus("eight channels", "mp4", num_channels=8, options=_SURROUND, num_samples=50001),
    "vorbis_ogg": SoundSpec("blocks of two sizes", "vorbis", "ogg", excess=_FULL_BLOCKS, program_snr_db=75.0),
    "vorbis_48k_ogg": SoundSpec("", "vorbis", "ogg", rate=48000, excess=_FULL_BLOCKS, program_snr_db=75.0),
    "vorbis_webm": SoundSpec("", "vorbis", "webm", excess=_FULL_BLOCKS, program_snr_db=75.0),
    "vorbis_mkv": SoundSpec("", "vorbis", "matroska", "mkv", excess=_FULL_BLOCKS, program_snr_db=75.0),
}

_51: dict[str, Any] = {"num_channels": 6, "layout": "5.1(side)", "num_samples": 70001, "options": {"b": "448k"}}


def _ac3(codec: str, container: str, special: str = "", **changes: Any) -> SoundSpec:
    spec = SoundSpec(special, codec, container, rate=48000, delay=256, excess=UNKNOWN_PADDING)
    return replace(spec, program_snr_db=100.0, **changes)


OTHER_CLIPS: dict[str, SoundSpec] = {
    "ac3_51": _ac3("ac3", "ac3", "no times at all", **_51),
    "ac3_44k": _ac3("ac3", "ac3", "frames of two sizes", rate=44100),
    "ac3_ts": _ac3("ac3", "mpegts", extension="ts"),
    "ac3_51_mkv": _ac3("ac3", "matroska", extension="mkv", delay=0, program_delay=256, **_51),
    "ac3_mp4": _ac3("ac3", "mp4", delay=0),
    "eac3": _ac3("eac3", "eac3"),
    "eac3_mkv": _ac3("eac3", "matroska", extension="mkv", delay=0, program_delay=256),
    "eac3_51_mp4": _ac3("eac3", "mp4", delay=0, **_51),
    "wmav2_asf": SoundSpec(
        "",
        "wmav2",
        "asf",
        "wma",
        options={"b": "128k"},
        delay=-2048,
        excess=UNKNOWN_PADDING,
        program_snr_db=120.0,
    ),
    "wmav1_asf": SoundSpec(
        "",
        "wmav1",
        "asf",
        "wma",
        22050,
        1,
        options={"b": "64k"},
        delay=-1024,
        excess=UNKNOWN_PADDING,
        program_snr_db=120.0,
    ),
    "amr_nb": SoundSpec("speech", "libopencore_amrnb", "amr", "", 8000, 1, delay=40, excess=UNKNOWN_PADDING),
    "amr_nb_3gp": SoundSpec("delay stated ten samples too long", "libopencore_amrnb", "3gp", "", 8000, 1, shift=-10),
    "adpcm_ima_wav": SoundSpec("", "adpcm_ima_wav", "wav", rate=22050, excess=UNKNOWN_PADDING, program_snr_db=50.0),
    "adpcm_ms_wav": SoundSpec("", "adpcm_ms", "wav", "", 22050, 1, excess=UNKNOWN_PADDING),
    "adpcm_ima_mov": SoundSpec("", "adpcm_ima_qt", "mov", excess=UNKNOWN_PADDING),
    "adpcm_swf_flv": SoundSpec("", "adpcm_swf", "flv", rate=22050, excess=UNKNOWN_PADDING),
    "g722": SoundSpec("no header", "g722", "g722", "", 16000, 1, delay=22, excess=UNKNOWN_PADDING),
    "g722_wav": SoundSpec("", "g722", "wav", "g722.wav", 16000, 1, delay=22, excess=UNKNOWN_PADDING),
    "nellymoser_flv": SoundSpec(
        "",
        "nellymoser",
        "flv",
        "",
        22050,
        1,
        delay=128,
        excess=UNKNOWN_PADDING,
        program_snr_db=120.0,
    ),
}
