"""The packet decoder: the codec of one stream, how it is set up, fed, flushed and given up."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import av

from .opening import error_text

__all__ = [
    "MAX_PIXELS",
    "PacketDecoder",
    "UndecodablePacketError",
    "codec_has_threads",
    "configure_audio_codec",
    "configure_video_codec",
    "keep_from_parent",
    "let_rest",
]

# Largest picture that is decoded, in pixels. A header of a few bytes can ask for terabytes.
MAX_PIXELS = 1 << 28

# FFV1 conceals damage without a word, from whichever picture the same thread decoded before. MPEG-4's frame threads
# race for the score by which it tells damage from the padding bug of some encoders, and for the time step that direct
# prediction of fields needs. Those of VP3 and its descendants take over each other's quantizers only if numbers differ
# that have nothing to do with each other (FFmpeg compares all of one picture's with the second one of another's), so
# that a picture may be decoded with those of three before.
_THREAD_TYPES = {"ffv1": "SLICE", "mpeg4": "SLICE", "theora": "NONE", "vp3": "NONE", "vp4": "NONE"}

# Flags of FFmpeg's AV_CODEC_CAP by the kind of threads; codecs of other libraries take either kind.
_THREAD_CAPABILITIES = {"AUTO": 1 << 12 | 1 << 13 | 1 << 15, "SLICE": 1 << 13 | 1 << 15, "NONE": 0}

# What makes a codec refuse damage; MPEG-4 overlooks what it takes for a padding bug unless leftover bits count, too.
_STRICT = "explode"
_STRICT_BY_CODEC = {"mpeg4": "explode+buffer"}

# What makes a codec refuse damage that its checksums show; the others conceal or skip it as the ffmpeg program does.
_CHECKED = {"err_detect": "crccheck+explode"}
_AUDIO_OPTIONS = {"flac": _CHECKED, "wavpack": _CHECKED, "tta": _CHECKED}
# AC-3 fills what was not coded with noise; with this it depends on the frame alone, not on where decoding began.
_AUDIO_OPTIONS |= {"ac3": {"cons_noisegen": "1"}, "eac3": {"cons_noisegen": "1"}}


class UndecodablePacketError(Exception):
    """The codec refused a packet; the next ones may still decode."""


def configure_video_codec(context: Any, num_threads: int, *, is_strict: bool) -> None:
    """Set up a codec of pictures that is not open yet.

    Args:
        context: PyAV's codec context.
        num_threads: Threads of the codec; 0 lets FFmpeg decide.
        is_strict: Whether it refuses packets in which it finds errors, instead of concealing them.
    """
    context.thread_count = num_threads if codec_has_threads(context) else 1
    context.thread_type = "NONE" if num_threads == 1 else _THREAD_TYPES.get(context.name, "AUTO")
    strict = _STRICT_BY_CODEC.get(context.name, _STRICT)
    context.options = {"max_pixels": str(MAX_PIXELS), "err_detect": strict if is_strict else "0"}


def configure_audio_codec(context: Any, num_threads: int) -> None:
    """Set up a codec of sound that is not open yet."""
    context.thread_count = num_threads
    context.thread_type = "NONE" if num_threads == 1 else "FRAME"
    context.options = dict(_AUDIO_OPTIONS.get(context.name, {}))


def codec_has_threads(context: Any) -> bool:
    """Whether a codec of pictures decodes faster with several threads, and right."""
    kind = _THREAD_TYPES.get(context.name, "AUTO")
    return bool(context.codec.capabilities & _THREAD_CAPABILITIES[kind])


class PacketDecoder:
    """The codec of one stream: packets go in, frames come out.

    Args:
        context: PyAV's codec context, configured.
    """

    def __init__(self, context: Any) -> None:
        self._context = context
        self._process = os.getpid()

    @property
    def is_open(self) -> bool:
        """Whether the codec was opened, which the first packet does."""
        return bool(self._context.is_open)

    def decode(self, packet: Any | None) -> Sequence[Any]:
        """Feed one packet (``None`` drains the codec) and take the frames that come out, in the codec's order.

        Raises:
            UndecodablePacketError: if the codec refuses the packet.
        """
        try:
            return self._context.decode(packet)  # type: ignore[no-any-return]
        except av.EOFError:
            return []
        except (av.FFmpegError, ValueError) as error:
            raise UndecodablePacketError(error_text(error)) from error

    def flush(self) -> None:
        """Forget everything that was fed: the next packet comes from another place of the stream."""
        self._context.flush_buffers()

    def close(self) -> None:
        """Give up the codec."""
        context, self._context = self._context, None
        if self._process != os.getpid():
            keep_from_parent(context)
        elif context is not None:
            let_rest(context)


def let_rest(context: Any) -> None:
    """Wait until the threads of a codec have nothing to do; to be called before it is freed.

    Freeing waits for them, too, but holds the interpreter's lock meanwhile. They want that lock where the application
    has PyAV hand over what FFmpeg logs (``av.logging.set_level``), and each would wait for the other for good. Flushing
    waits without the lock.
    """
    if context.is_open and context.thread_count != 1:
        context.flush_buffers()


_kept_from_parent: list[Any] = []


def keep_from_parent(codecs: Any) -> None:
    """In a forked child, keep codecs of the parent for good: freeing them would wait for threads not copied."""
    _kept_from_parent.append(codecs)
