"""Files that refer to other files and to the network, and an observer of such accesses."""

from __future__ import annotations

import ctypes
import os
import struct
from pathlib import Path

import pdf_files
from media_surgery import box

_IN_OPEN = 0x20
_PARENTS = (b"moov", b"trak", b"mdia", b"minf", b"dinf")


class OpenedFiles:
    """The files of a folder that this process, or any other, opened (Linux)."""

    def __init__(self, folder: Path) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self.descriptor = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self.descriptor < 0 or libc.inotify_add_watch(self.descriptor, os.fsencode(folder), _IN_OPEN) < 0:
            raise OSError(ctypes.get_errno(), "inotify")

    def close(self) -> None:
        os.close(self.descriptor)

    def names(self) -> list[str]:
        """Those opened since it was last asked."""
        try:
            events = os.read(self.descriptor, 1 << 16)
        except BlockingIOError:
            return []
        names, at = [], 0
        while at < len(events):
            (length,) = struct.unpack_from("I", events, at + 12)
            names.append(events[at + 16 : at + 16 + length].rstrip(b"\0").decode())
            at += 16 + length
        return names


# Media


def playlists(target: str) -> dict[str, bytes]:
    """Small files by name; each names ``target``, a path or a URL."""
    at = target.encode()
    return {
        "list.m3u8": b"#EXTM3U\n#EXT-X-VERSION:3\n#EXT-X-TARGETDURATION:9\n#EXTINF:9,\n" + at + b"\n#EXT-X-ENDLIST\n",
        "list_as.mp4": b"#EXTM3U\n#EXT-X-TARGETDURATION:9\n#EXTINF:9,\n" + at + b"\n#EXT-X-ENDLIST\n",
        "key.m3u8": b'#EXTM3U\n#EXT-X-TARGETDURATION:9\n#EXT-X-KEY:METHOD=AES-128,URI="' + at + b'"\n#EXTINF:9,\n' + at,
        "list.ffconcat": b"ffconcat version 1.0\nfile '" + at + b"'\n",
        "concat_as.ts": b"ffconcat version 1.0\nfile '" + at + b"'\n",
        "manifest.mpd": b'<?xml version="1.0"?>\n<MPD xmlns="urn:mpeg:dash:schema:mpd:2011" type="static" '
        b'mediaPresentationDuration="PT1S" profiles="urn:mpeg:dash:profile:isoff-on-demand:2011"><Period>'
        b'<AdaptationSet contentType="video"><Representation id="0" bandwidth="1000"><BaseURL>' + at + b"</BaseURL>"
        b'<SegmentBase indexRange="0-99"/></Representation></AdaptationSet></Period></MPD>',
        "session.sdp": b"v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nc=IN IP4 127.0.0.1\nt=0 0\nm=video 5004 RTP/AVP 96\n"
        b"a=rtpmap:96 H264/90000\na=control:" + at + b"\n",
        "movie.idx": b"# VobSub index file, v7 (do not modify this line!)\nsize: 720x576\nid: en, index: 0\n"
        b"timestamp: 00:00:01:000, filepos: 000000000\n",
        "asset.xml": b'<?xml version="1.0"?><AssetMap xmlns="http://www.smpte-ra.org/schemas/429-9/2007/AM"><AssetList>'
        b"<Asset><ChunkList><Chunk><Path>" + at + b"</Path></Chunk></ChunkList></Asset></AssetList></AssetMap>",
        "reference.asx": b'<asx version="3.0"><entry><ref href="' + at + b'"/></entry></asx>',
        "reference.asf": b"[Reference]\nRef1=" + at + b"\n",
        "list.pls": b"[playlist]\nFile1=" + at + b"\nNumberOfEntries=1\n",
        "link.svg": b'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" width="8" '
        b'height="8"><image width="8" height="8" xlink:href="' + at + b'"/></svg>',
        "entity.svg": b'<?xml version="1.0"?><!DOCTYPE svg [<!ENTITY x SYSTEM "' + at + b'">]>'
        b'<svg xmlns="http://www.w3.org/2000/svg"><text>&x;</text></svg>',
        "include.ass": b"[Script Info]\nScriptType: v4.00+\nAudio File: "
        + at
        + b"\nVideo File: "
        + at
        + b"\n[Events]\n"
        b"Format: Layer, Start, End, Style, Name, MarginL, MarginR, MarginV, Effect, Text\n"
        b"Dialogue: 0,0:00:00.00,0:00:01.00,Default,,0,0,0,,{\\1img(" + at + b")}shown\n",
        "include.sbg": b"-SE\nx: include " + at + b"\n00:00 x\n",
        "script.avs": b'AviSource("' + at + b'")\n',
    }


def movie_elsewhere(movie: bytes, path: str) -> bytes:
    """An MP4 file, its header last, whose data lie in another file, as QuickTime's aliases say it."""
    name = Path(path).name.encode()
    absolute = f"disk:{path.lstrip('/').replace('/', ':')}".encode()
    alias = bytes(10) + b"\4disk".ljust(28, b"\0") + bytes(12)
    alias += bytes([len(name)]) + name.ljust(63, b"\0") + bytes(16) + struct.pack(">HH", 0, 0) + bytes(16)
    alias += struct.pack(">HH", 2, len(absolute)) + absolute + bytes(len(absolute) % 2) + b"\xff\xff\0\0"
    alias = alias.ljust(160, b"\0")
    table = box(b"dref", struct.pack(">II", 0, 1), box(b"alis", bytes(4), alias))
    file = bytearray(movie)
    begin = file.rindex(b"dref") - 4
    (old,) = struct.unpack_from(">I", file, begin)
    file[begin : begin + old] = table
    for name_of_box in _PARENTS:
        at = file.rindex(name_of_box, 0, begin) - 4
        struct.pack_into(">I", file, at, struct.unpack_from(">I", file, at)[0] + len(table) - old)
    return bytes(file)


# Documents


def linked_pdf(file: str, url: str) -> bytes:
    """A page on which every kind of reference leads to a file or to the network; it shows "shown" by itself."""
    name, link = file.encode(), url.encode()
    outside = b"<</Length 0/F(%b)/FFilter/FlateDecode%%b>>stream\n\nendstream" % name
    objects = [
        b"<</Type/Catalog/Pages 2 0 R/OpenAction<</S/Launch/F(%b)/Next<</S/URI/URI(%b)>>>>/AA<</WC<</S/JavaScript"
        b"/JS(app.launchURL\\('%b'\\);)>>>>/Names<</EmbeddedFiles<</Names[(a)9 0 R]>>/JavaScript<</Names[(j)<<"
        b"/S/JavaScript/JS(this.submitForm\\('%b'\\);)>>]>>>>/AcroForm<</Fields[]/XFA[(template)8 0 R]>>"
        b"/URI<</Base(%b)>>>>" % (name, link, link, link, link),
        b"<</Type/Pages/Kids[4 0 R]/Count 1>>",
        b"<</Type/Font/Subtype/TrueType/BaseFont/Elsewhere/FontDescriptor<</FontName/E/Flags 32/FontFile2 6 0 R>>>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 200 100]/Contents[5 0 R 6 0 R]/AA<</O<</S/GoToR/F(%b)/D[0/Fit]>>>>"
        b"/Resources<</Font<</F 3 0 R>>/XObject<</I 7 0 R/R 10 0 R>>>>/Annots[<</Type/Annot/Subtype/Link"
        b"/Rect[0 0 200 100]/A<</S/ImportData/F(%b)>>>><</Type/Annot/Subtype/Screen/Rect[0 0 9 9]/A<</S/Rendition"
        b"/R<</S/MR/C<</S/MCD/D(%b)>>>>>>>>]>>" % (name, name, link),
        pdf_files.stream(b"BT /F 24 Tf 10 40 Td (shown) Tj ET /I Do /R Do"),
        outside % b"",
        outside % b"/Type/XObject/Subtype/Image/Width 8/Height 8/ColorSpace/DeviceGray/BitsPerComponent 8",
        pdf_files.stream(b'<template><subform><image href="%b"/></subform></template>' % link),
        b"<</Type/Filespec/F(%b)/UF(%b)/FS/URL>>" % (name, link),
        b"<</Type/XObject/Subtype/Form/BBox[0 0 9 9]/Length 0/Ref<</F(%b)/Page 0>>>>stream\n\nendstream" % name,
    ]
    return pdf_files.assembled(objects)
