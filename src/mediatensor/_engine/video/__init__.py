"""The way from an index to a batch of frames.

One call passes these stations, each of which knows only the next::

    VideoDecoder ─► exact ──────────► batch ─────────────► frame_stream ─────► batch
    (decoders)      the index, one    one plan (`plan`),   seek (`seeking`),   convert into rows, and
                    retry a call      kept pictures first  feed, drain, check  do as the error policy says

`approximate` takes the place of `exact` where there is no index. `stream` is one video stream, opened, whose `handles`
hold what one call works with; `frame_cache` keeps decoded pictures; `damage` finds the holes that a call reaches over;
`fallback` says why the CPU decodes.
"""
