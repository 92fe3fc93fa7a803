"""Data-parallel training on a Parquet file that no process could hold, with checkpoints.

    python examples/torch_distributed.py --make-rows 20000000 --steps 0          write the data
    torchrun --nproc-per-node 2 examples/torch_distributed.py --memory-limit 400  train

Each step takes the same rows of the file whatever the number of processes, so two give the result of one.
A process holds one row group at a time. If one is lost, the run ends; the same command goes on from the
checkpoint.
"""

import argparse
import os
import resource
import signal
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from atlas_splines.nn import AtlasModule

INPUTS = 8


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=Path("atlas-rows.parquet"))
    parser.add_argument("--checkpoint", type=Path, default=Path("atlas-run.pt"))
    parser.add_argument("--make-rows", type=int, help="write a file of so many rows first")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--batch", type=int, default=1000, help="rows of a step, over all processes")
    parser.add_argument("--every", type=int, default=100, help="steps from checkpoint to checkpoint")
    parser.add_argument("--sparse", action="store_true", help="sparse gradients and lazy Adam")
    parser.add_argument("--memory-limit", type=int, help="MB that each process may use for the data")
    return parser.parse_args()


# --- data -------------------------------------------------------------------------------------------------


def write_rows(path: Path, rows: int, group: int = 100_000) -> None:
    """Write random inputs and a function of them, a row group at a time."""
    random = np.random.default_rng(0)
    names = [f"x{j}" for j in range(INPUTS)] + ["y"]
    schema = pa.schema([(name, pa.float32()) for name in names])
    with pq.ParquetWriter(path, schema) as writer:
        for start in range(0, rows, group):
            X = random.random((min(group, rows - start), INPUTS)).astype(np.float32)
            y = np.sin(6 * X[:, 0]) * X[:, 1] + X[:, 2:].mean(axis=1)
            writer.write_table(pa.table(dict(zip(names, [*X.T, y], strict=True)), schema))


class Rows:
    """Batches of a Parquet file by step number; holds one row group."""

    def __init__(self, path: Path, batch: int, rank: int, world: int) -> None:
        self.file, self.batch = pq.ParquetFile(path), batch
        self.share = slice(rank * batch // world, (rank + 1) * batch // world)
        self.per_group = self.file.metadata.row_group(0).num_rows // batch
        self.groups = self.file.metadata.num_rows // (self.per_group * batch)
        self.group, self.values = -1, np.empty(0)

    def at(self, step: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Share of this process in the rows of a step: inputs and targets."""
        epoch, rest = divmod(step, self.groups * self.per_group)
        place, part = divmod(rest, self.per_group)
        group = np.random.default_rng(epoch).permutation(self.groups)[place]
        if group != self.group:
            table = self.file.read_row_group(group)
            self.group, self.values = group, np.column_stack([column.to_numpy() for column in table.columns])
        rows = torch.from_numpy(self.values[part * self.batch : (part + 1) * self.batch][self.share])
        return rows[:, :INPUTS], rows[:, INPUTS:]


# --- training ---------------------------------------------------------------------------------------------


class Run:
    """Module, optimiser and step number, and how they are saved."""

    def __init__(self, sparse: bool, checkpoint: Path) -> None:
        self.module = AtlasModule(INPUTS, terms=4, density=3, sparse=sparse)
        kind = torch.optim.SparseAdam if sparse else torch.optim.Adam
        self.optimizer = kind(list(self.module.parameters()), lr=0.01)
        self.step, self.checkpoint = 0, checkpoint
        if checkpoint.exists():
            saved = torch.load(checkpoint, weights_only=True)
            self.module.load_state_dict(saved["module"])
            self.optimizer.load_state_dict(saved["optimizer"])
            self.step = saved["step"]

    def save(self) -> None:
        """Write the checkpoint; whatever happens meanwhile, there is a whole one."""
        state = {
            "step": self.step,
            "module": self.module.state_dict(),
            "optimizer": self.optimizer.state_dict(),
        }
        unfinished = self.checkpoint.with_suffix(".unfinished")
        torch.save(state, unfinished)
        os.replace(unfinished, self.checkpoint)

    def train(self, rows: Rows, steps: int, every: int, rank: int, world: int) -> float:
        """Train up to a step; returns the last loss of this process."""
        call = DistributedDataParallel(self.module) if world > 1 else self.module
        loss = float("nan")
        while self.step < steps:
            X, y = rows.at(self.step)
            self.optimizer.zero_grad()
            error = nn.functional.mse_loss(call(X), y)  # of equal shares, so the mean of means is the mean
            error.backward()
            self.optimizer.step()
            self.step, loss = self.step + 1, error.item()
            if rank == 0 and (self.step % every == 0 or self.step == steps):
                self.save()
        return loss


def limit_memory(megabytes: int) -> None:
    """Let this process allocate so much more, and no more."""
    status = Path("/proc/self/status").read_text()
    used = int(status.split("VmData:")[1].split()[0]) * 1024
    resource.setrlimit(resource.RLIMIT_DATA, (used + megabytes * 2**20,) * 2)


def main() -> None:
    options = arguments()
    rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    torch.set_num_threads(1)
    if options.make_rows and rank == 0:
        write_rows(options.data, options.make_rows)
    if options.batch % world:
        sys.exit(f"--batch {options.batch} cannot be shared equally by {world} processes")
    if world > 1:
        dist.init_process_group("gloo")
        dist.barrier()
    print(f"worker {rank} is process {os.getpid()}", flush=True)
    run = Run(options.sparse, options.checkpoint)

    def give_up(*_: object) -> None:
        sys.exit(
            f"a worker was lost at step {run.step}: the run has ended; "
            f"the same command goes on from {options.checkpoint}"
        )

    signal.signal(signal.SIGTERM, give_up)  # this is how torchrun ends the others
    rows = Rows(options.data, options.batch, rank, world)
    if options.memory_limit:
        limit_memory(options.memory_limit)
    try:
        loss = run.train(rows, options.steps, options.every, rank, world)
    except RuntimeError as error:
        if world == 1 or not any(word in str(error) for word in ("onnection", "peer", "Gloo", "gloo")):
            raise
        give_up()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"worker {rank}: step {run.step}, loss {loss:.6f}, peak memory {peak:.0f} MB", flush=True)
    if world > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
