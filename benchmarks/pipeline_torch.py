"""One stage of the network under PyTorch's `torch.distributed.pipelining`: a process a stage, gloo between them, one thread each.

`pipeline.py` starts two of these and tells both on their standard input what to do: a line `MICRO_BATCHES STEPS` runs so many steps, and
the last stage answers with a line `SECONDS LOSS`, the time from one barrier to the next and the last loss.

    python benchmarks/pipeline_torch.py RANK RENDEZVOUS_FILE
"""

import sys
import time
from functools import cache
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe

from benchmarks import pipeline_network as network


class Layers(torch.nn.Module):
    """The layers of one stage."""

    def __init__(self, weights: torch.Tensor) -> None:
        super().__init__()
        self.weights = torch.nn.ParameterList(torch.nn.Parameter(each.clone()) for each in weights.reshape(-1, *weights.shape[2:]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for weight in self.weights:
            x = torch.tanh(x @ weight)
        return x


class Trainer:
    """This stage's part of a training run with so many micro-batches."""

    def __init__(self, rank: int, micro_batches: int) -> None:
        own = network.LAYERS // network.STAGES
        layers = Layers(torch.from_numpy(network.weights()[rank * own : (rank + 1) * own]))
        stage = PipelineStage(layers, rank, network.STAGES, torch.device("cpu"))
        schedule = Schedule1F1B if micro_batches >= network.STAGES else ScheduleGPipe  # of so few the same, and the former refuses them
        self.schedule = schedule(stage, micro_batches, loss_fn=torch.nn.functional.mse_loss)
        self.optimizer = torch.optim.SGD(layers.parameters(), lr=network.RATE)
        self.is_first = rank == 0
        arrays = network.batch(micro_batches)
        self.x, self.y = torch.from_numpy(arrays["x"]), torch.from_numpy(arrays["y"])

    def step(self) -> float:
        """One step; the loss on the last stage."""
        losses: list[torch.Tensor] = []
        self.optimizer.zero_grad()
        if self.is_first:
            self.schedule.step(self.x)
        else:
            self.schedule.step(target=self.y, losses=losses)
        self.optimizer.step()
        return torch.stack(losses).mean().item() if losses else 0.0


def main() -> None:
    rank, rendezvous = int(sys.argv[1]), sys.argv[2]
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=network.STAGES)
    trainer = cache(lambda micro_batches: Trainer(rank, micro_batches))
    for line in sys.stdin:
        micro_batches, steps = map(int, line.split())
        trained = trainer(micro_batches)
        dist.barrier()
        start = time.perf_counter()
        losses = [trained.step() for _ in range(steps)]
        dist.barrier()
        if rank == network.STAGES - 1:
            print(time.perf_counter() - start, losses[-1], flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
