"""Give a network the planes of a video as its codec decodes them, Y'CbCr, without RGB: a demuxer, a decoder, a network.

    python examples/planes_to_network.py              a video that it makes
    python examples/planes_to_network.py talk.mp4

RGB is three planes of full size that are computed from one and two quarters. A network that takes these as they are
spares the conversion and half of the memory. Packets are read in one thread and decoded in another, while the network
works in the main one. It prints where the picture changes most.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from queue import Queue
from threading import Thread

import torch
from torch import Tensor, nn

import sample_media
from mediatensor.decoders import Demuxer, Packet, RawFrame, VideoStream


class PlanesNetwork(nn.Module):
    """Features of a frame from its planes: luma is halved by its own stem, so that chroma of 4:2:0 joins it there."""

    def __init__(self, num_features: int = 16) -> None:
        super().__init__()
        self.luma = nn.Conv2d(1, num_features, kernel_size=4, stride=2, padding=1)
        self.chroma = nn.Conv2d(2, num_features, kernel_size=3, padding=1)
        self.rest = nn.Sequential(
            nn.ReLU(), nn.Conv2d(num_features, num_features, 3, stride=4), nn.AdaptiveAvgPool2d(4)
        )

    def forward(self, luma: Tensor, chroma: Tensor) -> Tensor:
        """Features (N, 16 * num_features) of luma (N, 1, H, W) and chroma (N, 2, H / 2, W / 2)."""
        features: Tensor = self.rest(self.luma(luma) + self.chroma(chroma))
        return features.flatten(1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("video", nargs="?", type=Path)
    parser.add_argument("--folder", type=Path, default=Path("example-pictures"))
    args = parser.parse_args()
    torch.manual_seed(0)
    network = PlanesNetwork().eval()
    times, features = [], []
    with Demuxer(args.video or sample_media.talk(args.folder)) as demuxer:
        for frame in decoded(demuxer):
            times.append(frame.pts_seconds)
            with torch.inference_mode():
                features.append(network(*luma_and_chroma(frame))[0])
    changes = (torch.stack(features[1:]) - torch.stack(features[:-1])).norm(dim=1)
    print(f"{len(times)} frames, features of {features[0].numel()} numbers each")
    for number in changes.topk(min(3, len(changes))).indices.sort().values.tolist():
        print(f"{times[number + 1]:7.2f} s: another picture")


def decoded(demuxer: Demuxer) -> Iterator[RawFrame]:
    """The frames of a demuxer's first stream, whose packets another thread reads."""
    (stream,) = demuxer.streams
    assert isinstance(stream, VideoStream)
    decoder = stream.make_decoder("cpu")
    # No more than 64: the packets of a long video do not fit into memory.
    packets: Queue[Packet | None] = Queue(64)
    reader = Thread(target=read, args=(demuxer, packets), daemon=True)
    reader.start()
    while (packet := packets.get()) is not None:
        yield from decoder.decode(packet)
    yield from decoder.drain()
    reader.join()


def read(demuxer: Demuxer, packets: Queue[Packet | None]) -> None:
    """Put all packets into the queue, and always ``None`` at the end."""
    try:
        for packet in demuxer:
            packets.put(packet)
    finally:
        packets.put(None)


def luma_and_chroma(frame: RawFrame) -> tuple[Tensor, Tensor]:
    """Planes of 4:2:0 as the network takes them, in [0, 1]: a copy, since the codec still refers to the planes."""
    if not frame.pixel_format.startswith(("yuv420p", "yuvj420p")):
        raise SystemExit(f"This network takes 4:2:0, and the video is {frame.pixel_format}.")
    largest = 2**frame.bit_depth - 1
    luma, blue, red = (plane.to(torch.float32) / largest for plane in frame.planes)
    # An odd size has one more line of chroma than half of the luma that the stem makes.
    height, width = frame.height // 2, frame.width // 2
    return luma[None, None], torch.stack((blue, red))[None, :, :height, :width]


if __name__ == "__main__":
    main()
