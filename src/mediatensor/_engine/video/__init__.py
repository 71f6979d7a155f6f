"""Decode a batch of frames with an index.

A call passes through these modules. Each module uses only the next one::

    VideoDecoder ─► exact ──────────► batch ─────────────► frame_stream ─────► batch
    (decoders)      queries, one      one plan (`plan`),   `packet_feed`,      convert into rows,
                    retry per call    cached frames first  codec, check        apply the error policy

`approximate` replaces `exact` if there is no index. `stream` is one open video stream, whose `handles` hold the state
of a call. `frame_cache` keeps decoded frames.
"""
