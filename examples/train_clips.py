"""Train a small 3D network on clips of videos, stop in the middle of an epoch, resume, and end with the same weights.

    python examples/train_clips.py            # some minutes on two cores
    python examples/train_clips.py --quick    # about half a minute

It trains twice: once without interruption, and once in a process that stops, followed by another one that resumes from
the last checkpoint. `Training.run` is the loop; `Training.save` and `Training.resume` implement resuming.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
from functools import partial
from pathlib import Path

import torch
from torch.nn.functional import cross_entropy

from mediatensor.datasets import Batch, DataLoader, StallMeter, ToDevice
from mediatensor.samplers import clips_at_regular_indices
from moving_shapes import MotionNet, clips, count_correct, write_videos
from pictures import draw_training


class Training:
    """A network, and everything else that changes while it learns.

    Args:
        options: Arguments of the command line.
        checkpoint: The file to save to. If it exists, training resumes from it.
    """

    def __init__(self, options: argparse.Namespace, checkpoint: Path) -> None:
        torch.manual_seed(options.seed)
        self.options, self.checkpoint = options, checkpoint
        train_set = clips(options.folder / "train", clips_per_video=2)
        test_set = clips(options.folder / "test", partial(clips_at_regular_indices, num_clips=1, num_frames_per_clip=8))
        workers = {"num_workers": options.workers, "persistent_workers": options.workers > 0}
        loader = DataLoader(train_set, options.batch_size, shuffle=True, seed=options.seed, **workers)
        self.loader = ToDevice(loader, options.device)
        self.test_loader = ToDevice(DataLoader(test_set, batch_size=16), options.device)
        self.model = MotionNet(dropout=0.1).to(options.device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)
        num_steps = options.epochs * len(self.loader)
        self.schedule = torch.optim.lr_scheduler.LinearLR(self.optimizer, 1.0, 0.0, total_iters=num_steps)
        self.meter = StallMeter(device=options.device)
        self.step = 0
        self.accuracies: list[float] = []
        if checkpoint.exists():
            self.resume()

    def save(self) -> None:
        """Write the checkpoint; one that cannot be finished leaves the last one as it is."""
        state = {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "schedule": self.schedule.state_dict(),
            "loader": self.loader.state_dict(),
            # Dropout draws random numbers, on the device where it runs.
            "random": (torch.get_rng_state(), torch.cuda.get_rng_state_all()),
            "step": self.step,
            "accuracies": self.accuracies,
        }
        unfinished = self.checkpoint.with_suffix(".unfinished")
        torch.save(state, unfinished)
        unfinished.replace(self.checkpoint)

    def resume(self) -> None:
        """Have everything be as it was when the checkpoint was written."""
        state = torch.load(self.checkpoint, map_location="cpu")
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.schedule.load_state_dict(state["schedule"])
        self.loader.load_state_dict(state["loader"])
        torch.set_rng_state(state["random"][0])
        torch.cuda.set_rng_state_all(state["random"][1])
        self.step, self.accuracies = state["step"], state["accuracies"]
        print(f"  resumed after step {self.step}, in epoch {self.loader.epoch + 1}")

    def run(self, *, stop_after_step: int | None = None) -> None:
        """Train until the last epoch is done. At ``stop_after_step``, the process ends without saving."""
        for _ in range(self.loader.epoch, self.options.epochs):
            for batch in self.meter.watch(self.loader):
                self.train_on(batch)
                if self.step % self.options.save_every == 0:
                    self.save()
                if self.step == stop_after_step:
                    print(f"  stopped after step {self.step}, in epoch {self.loader.epoch + 1}", flush=True)
                    sys.exit()
            self.accuracies.append(self.accuracy())
            print(f"  epoch {self.loader.epoch}: {self.accuracies[-1]:.1%} correct", flush=True)
        self.save()

    def train_on(self, batch: Batch) -> None:
        loss = cross_entropy(self.model(batch.frames.data), batch.label)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.schedule.step()
        self.step += 1

    def accuracy(self, *, shuffle_frames: bool = False) -> float:
        """Which part of the videos held out is named correctly, from 0 to 1."""
        num_correct, num_clips = count_correct(self.model, self.test_loader, shuffle_frames=shuffle_frames)
        return num_correct / num_clips


def train_and_stop(options: argparse.Namespace, checkpoint: Path, step: int) -> None:
    """Train in a process that is interrupted."""
    be_deterministic()
    Training(options, checkpoint).run(stop_after_step=step)


def be_deterministic() -> None:
    """Make computations deterministic, even on a GPU."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer videos and epochs")
    parser.add_argument("--folder", type=Path, default=Path("moving-shapes"), help="where videos and results go")
    parser.add_argument("--workers", type=int, default=2, help="processes that decode; 0 to decode in this one")
    parser.add_argument("--epochs", type=int, help="how often to read the training set")
    parser.add_argument("--seed", type=int, default=0, help="decides the first weights and the order of the clips")
    parser.add_argument("--device", default="cpu", help="where to train: cpu, cuda ...")
    options = parser.parse_args()
    options.videos_per_class, options.batch_size, options.save_every = (20, 4, 12) if options.quick else (50, 8, 30)
    options.epochs = options.epochs or (4 if options.quick else 10)
    options.folder /= "quick" if options.quick else "full"
    return options


def main() -> int:
    options = parse_options()
    be_deterministic()
    write_videos(options.folder / "train", options.videos_per_class, seed=0)
    write_videos(options.folder / "test", options.videos_per_class // 2, seed=1)
    whole_path, interrupted_path = options.folder / "whole.pt", options.folder / "interrupted.pt"
    whole_path.unlink(missing_ok=True)
    interrupted_path.unlink(missing_ok=True)

    print("Without interruption:")
    whole = Training(options, whole_path)
    with whole.meter:
        whole.run()

    print("In a process that stops in the middle of an epoch:", flush=True)
    steps_per_epoch = whole.step // options.epochs
    stop_step = int((options.epochs // 2 + 0.6) * steps_per_epoch)
    arguments = (options, interrupted_path, stop_step)
    process = multiprocessing.get_context("spawn").Process(target=train_and_stop, args=arguments)
    process.start()
    process.join()

    print("In another process:")
    resumed = Training(options, interrupted_path)
    resumed.run()

    weights, others = whole.model.state_dict(), resumed.model.state_dict()
    are_equal = all(torch.equal(weights[name], others[name]) for name in weights)
    print(f"same weights with and without interruption: {'yes' if are_equal else 'no'}")
    print(f"accuracy: {resumed.accuracy():.3f}")
    print(f"accuracy with the frames of each clip shuffled: {resumed.accuracy(shuffle_frames=True):.3f}")
    print(whole.meter)
    draw_training(
        options.folder / "training.png",
        clips(options.folder / "train"),
        {"without interruption": whole.accuracies, "stopped and resumed": resumed.accuracies},
        stopped_in_epoch=stop_step / steps_per_epoch,
    )
    return 0 if are_equal else 1


if __name__ == "__main__":
    sys.exit(main())
