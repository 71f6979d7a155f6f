"""Train on several processes, each with its share of the clips; stop anywhere, and resume with another number of them.

    torchrun --standalone --nproc-per-node 2 examples/train_torchrun.py --stop-after-step 150
    torchrun --standalone --nproc-per-node 2 examples/train_torchrun.py    # resumes; --nproc-per-node 1 works as well

Everything is as in `train_clips.py`, but for the lines that have to do with ranks: `DataLoader` takes the share of its
process by itself, and its state is the same on all of them, so that rank 0 can save it for any number of ranks.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from functools import partial
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

from mediatensor.datasets import Batch, DataLoader
from mediatensor.samplers import clips_at_regular_indices
from moving_shapes import MotionNet, clips, count_correct, write_videos

# Of all ranks together, so that a step is of the same clips with any number of ranks.
CLIPS_PER_STEP = 8


class Training:
    """One rank of a training.

    Args:
        options: Arguments of the command line.
    """

    def __init__(self, options: argparse.Namespace) -> None:
        torch.manual_seed(0)
        self.options, self.checkpoint = options, options.folder / "checkpoint.pt"
        train_set = clips(options.folder / "train", clips_per_video=2)
        test_set = clips(options.folder / "test", partial(clips_at_regular_indices, num_clips=1, num_frames_per_clip=8))
        # All ranks must make equal numbers of steps, or they would wait for each other: drop_last.
        batch_size = CLIPS_PER_STEP // dist.get_world_size()
        workers = {"num_workers": options.workers, "persistent_workers": options.workers > 0}
        self.loader = DataLoader(train_set, batch_size, shuffle=True, drop_last=True, **workers)
        self.test_loader = DataLoader(test_set, batch_size=16)
        self.model = DistributedDataParallel(MotionNet())
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)
        self.step = 0
        self.rows: list[int] = []  # what all ranks have read of the epoch
        if self.checkpoint.exists():
            self.resume()

    def save(self) -> None:
        """Have rank 0 write the checkpoint."""
        if dist.get_rank() == 0:
            state = {
                "model": self.model.module.state_dict(),
                "optimizer": self.optimizer.state_dict(),
                "loader": self.loader.state_dict(),
                "step": self.step,
                "rows": self.rows,
            }
            unfinished = self.checkpoint.with_suffix(".unfinished")
            torch.save(state, unfinished)
            unfinished.replace(self.checkpoint)

    def resume(self) -> None:
        """Have everything be as it was when the checkpoint was written, by however many ranks."""
        state = torch.load(self.checkpoint)
        self.model.module.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.loader.load_state_dict(state["loader"])
        self.step, self.rows = state["step"], state["rows"]
        say(f"resumed after step {self.step}, in epoch {self.loader.epoch + 1}")

    def run(self) -> None:
        """Train until the last epoch is done. At ``--stop-after-step``, the processes end without saving."""
        for _ in range(self.loader.epoch, self.options.epochs):
            for batch in self.loader:
                self.train_on(batch)
                if self.step % self.options.save_every == 0:
                    self.save()
                if self.step == self.options.stop_after_step:
                    say(f"stopped after step {self.step}, in epoch {self.loader.epoch + 1}")
                    sys.exit()
            num_rows = len(self.loader.dataset)
            each_once = "each once" if sorted(self.rows) == list(range(num_rows)) else "NOT EACH ONCE"
            say(f"epoch {self.loader.epoch}: {self.accuracy():.1%} correct; read {num_rows} clips, {each_once}")
            self.rows = []
        self.save()

    def train_on(self, batch: Batch) -> None:
        loss = cross_entropy(self.model(batch.frames.data), batch.label)
        self.optimizer.zero_grad()
        loss.backward()  # takes the mean of the gradients of all ranks
        self.optimizer.step()
        self.step += 1
        self.rows += [row for rows in gathered(batch.row) for row in rows.tolist()]

    def accuracy(self) -> float:
        """Which part of the videos held out is named correctly, from 0 to 1; each rank tries its share."""
        counts = torch.tensor(count_correct(self.model.module, self.test_loader))
        dist.all_reduce(counts)
        return float(counts[0] / counts[1])


def gathered(values: torch.Tensor) -> list[torch.Tensor]:
    """The values of all ranks."""
    everybodys = [torch.empty_like(values) for _ in range(dist.get_world_size())]
    dist.all_gather(everybodys, values)
    return everybodys


def say(text: str) -> None:
    if dist.get_rank() == 0:
        print(text, flush=True)


def fingerprint(model: torch.nn.Module) -> str:
    """Return text that is equal only for equal weights."""
    weights = b"".join(weight.numpy().tobytes() for weight in model.state_dict().values())
    return hashlib.sha256(weights).hexdigest()[:16]


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer videos and epochs")
    parser.add_argument("--folder", type=Path, default=Path("moving-shapes"), help="where videos and results go")
    parser.add_argument("--workers", type=int, default=1, help="processes that decode, of each rank; 0 for none")
    parser.add_argument("--epochs", type=int, help="how often to read the training set")
    parser.add_argument("--stop-after-step", type=int, help="stop there, in the middle of an epoch")
    options = parser.parse_args()
    options.videos_per_class, options.save_every = (20, 8) if options.quick else (50, 30)
    options.epochs = options.epochs or (4 if options.quick else 10)
    options.folder /= "torchrun-quick" if options.quick else "torchrun"
    return options


def main() -> None:
    options = parse_options()
    torch.use_deterministic_algorithms(True)
    dist.init_process_group("gloo")
    if dist.get_rank() == 0:
        write_videos(options.folder / "train", options.videos_per_class, seed=0)
        write_videos(options.folder / "test", options.videos_per_class // 2, seed=1)
    dist.barrier()
    try:
        training = Training(options)
        training.run()
        say(f"fingerprint of the weights: {fingerprint(training.model.module)}")
    finally:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
