"""The ways in which `pipeline.py` runs a step: each `Way(micro_batches)` is made ready, `run(steps)` says seconds and the last loss."""

import importlib.util
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Protocol, Self

import jax
import jax.numpy as jnp
import optax
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import workbench as wb
from benchmarks import pipeline_network as network
from workbench.engine.mpmd.mpmd_step import compile_mpmd
from workbench.engine.spmd.compiled_step import compile_step, spmd_plan

STAGES = network.STAGES


class Way(Protocol):
    def run(self, steps: int) -> tuple[float, float]: ...


def layer(weights, x):
    """[products, width, width] and [rows, width]."""
    return jax.lax.scan(lambda x, weight: (jnp.tanh(x @ weight), None), x, weights)[0]


def mean_square(x, batch):
    return jnp.mean((x - batch["y"]) ** 2)


def plan(micro_batches: int, schedule: str, engine: str) -> wb.Plan:
    program = wb.trace_training(
        wb.scanned_loss(layer, mean_square),
        {"layers": network.weights()},
        network.batch(micro_batches),
        optimizer=optax.sgd(network.RATE),
        dims={"batch/*": "batch features"},
        name="chains of products",
    )
    pipeline = f"stages:{STAGES} micro_batches:{micro_batches} schedule:{schedule} remat:never engine:{engine}"
    return wb.Plan(program, f"stage:{STAGES}", "", pipeline=pipeline)


class Mpmd:
    """Our engine that compiles each stage for its own device; PyTorch's schedule, 1F1B."""

    def __init__(self, micro_batches: int) -> None:
        self.step = compile_mpmd(plan(micro_batches, "1f1b", "mpmd"))
        self.values = self.step.begin()
        self.step.feed(self.values, 0)

    def run(self, steps: int) -> tuple[float, float]:
        start = time.perf_counter()
        for i in range(steps):
            loss = float(self.step.advance(self.values, i + 1))
        return time.perf_counter() - start, loss


class Spmd:
    """Our engine of one program for all devices, the shifting buffer."""

    def __init__(self, micro_batches: int) -> None:
        self.step = compile_step(spmd_plan(plan(micro_batches, "gpipe", "spmd")))
        self.arguments = self.step.arguments(0)

    def run(self, steps: int) -> tuple[float, float]:
        start = time.perf_counter()
        for i in range(steps):
            loss = float(self.step.advance(self.arguments, i + 1)[self.step.program.step.loss])
        return time.perf_counter() - start, loss


class ByHand:
    """GPipe as one would write it with `shard_map` and `ppermute`: in each turn a device works and hands its result to the next one."""

    def __init__(self, micro_batches: int) -> None:
        mesh = jax.make_mesh((STAGES,), ("stage",), axis_types=(AxisType.Auto,))
        self.places = NamedSharding(mesh, P("stage")), NamedSharding(mesh, P())
        self.batch = network.batch(micro_batches)
        loss = jax.shard_map(
            partial(_loss_by_hand, micro_batches), mesh=mesh, in_specs=(P("stage"), P(), P()), out_specs=P(), check_vma=False
        )

        def step(weights, batch):
            parts = {name: leaf.reshape(micro_batches, network.ROWS, network.WIDTH) for name, leaf in batch.items()}
            value, gradient = jax.value_and_grad(loss)(weights, parts["x"], parts["y"])
            return weights - network.RATE * gradient, value

        self.step = jax.jit(step, in_shardings=self.places, out_shardings=self.places, donate_argnums=0)
        self.weights = jax.device_put(network.weights(), self.places[0])
        self.fed = jax.device_put(self.batch, self.places[1])

    def run(self, steps: int) -> tuple[float, float]:
        start = time.perf_counter()
        for _ in range(steps):
            self.weights, loss = self.step(self.weights, self.fed)
            self.fed = jax.device_put(self.batch, self.places[1])  # the next batch, while the devices work
            jax.block_until_ready((self.weights, loss))
            value = float(loss)
        return time.perf_counter() - start, value


def _loss_by_hand(micro_batches, weights, x, y):
    """On each device: `weights` of its own layers; micro-batches [micro_batches, rows, width] on all."""
    stage = jax.lax.axis_index("stage")
    to_next = [(i, i + 1) for i in range(STAGES - 1)]

    def turn(carry, t):
        arrived, total = carry
        result = jnp.where(stage == 0, x[jnp.minimum(t, micro_batches - 1)], arrived)
        for i in range(weights.shape[0]):
            result = layer(weights[i], result)
        done = t - (STAGES - 1)
        error = jnp.mean((result - y[jnp.maximum(done, 0)]) ** 2)
        total += jnp.where((stage == STAGES - 1) & (done >= 0), error, 0.0)
        return (jax.lax.ppermute(result, "stage", to_next), total), None

    (_, total), _ = jax.lax.scan(turn, (jnp.zeros_like(x[0]), jnp.zeros(())), jnp.arange(micro_batches + STAGES - 1))
    return jax.lax.psum(total, "stage") / micro_batches


class Torch:
    """PyTorch's pipelining in two processes; one pair for all numbers of micro-batches."""

    def __enter__(self) -> Self:
        self.folder = tempfile.TemporaryDirectory()
        command = [sys.executable, str(Path(__file__).with_name("pipeline_torch.py"))]
        self.stages = [
            subprocess.Popen(
                [*command, str(rank), f"{self.folder.name}/rendezvous"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
            )
            for rank in range(STAGES)
        ]
        return self

    def __exit__(self, *_: object) -> None:
        for stage in self.stages:
            stage.stdin.close()
        for stage in self.stages:
            stage.wait(30)
            stage.stdout.close()
        self.folder.cleanup()

    def run(self, micro_batches: int, steps: int) -> tuple[float, float]:
        for stage in self.stages:
            stage.stdin.write(f"{micro_batches} {steps}\n")
        answer = self.stages[-1].stdout.readline().split()
        if not answer:
            raise SystemExit("PyTorch's processes ended without an answer: what they said is above.")
        return float(answer[0]), float(answer[1])


def has_torch() -> bool:
    return importlib.util.find_spec("torch") is not None
