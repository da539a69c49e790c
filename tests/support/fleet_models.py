"""Small models of different shapes, optimizers and data order, and what each is when it is trained alone."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax

import workbench as wb
from workbench.core.program import Program
from workbench.engine.fleet.shard_units import LOSS, ModelUnits
from workbench.tracing.grad_accumulation.micro_batch_marks import micro_batch_weight
from workbench.tracing.stage_partition.partition_network import partition_network, starts_at
from workbench.tracing.stage_partition.trace_network import network_of


def batches(width: int, seed: int, rows: int = 8):
    def data(step):
        if step >= 40:
            raise IndexError(step)
        noise = np.random.default_rng(1000 * seed + step)
        x, y = noise.normal(size=(2, rows, width)).astype(np.float32)
        return {"x": x, "y": y, "mask": (noise.random(rows) < 0.7).astype(np.float32)}

    return data


def perceptron(width: int = 16, layers: int = 4, optimizer=None, seed: int = 0, tied: bool = False, masked: bool = False) -> Program:
    """Layers with a skip from the first to the last; `tied`: the last has the first one's weights; `masked`: a mean over a mask."""

    def init(key):
        keys = jax.random.split(key, layers)
        return {f"layer_{i}": {"w": jax.random.normal(keys[i], (width, width)) * 0.3, "b": jnp.zeros(width)} for i in range(layers - tied)}

    def loss(params, batch):
        x, first = batch["x"], None
        for i in range(layers):
            with jax.named_scope(f"layer_{i}"):
                layer = params[f"layer_{0 if tied and i == layers - 1 else i}"]
                x = jnp.tanh(x @ layer["w"] + layer["b"])
                first = x if first is None else first
                x = x + first if i == layers - 1 else x
        error = jnp.square(x - batch["y"]).mean(-1)
        if masked:
            return (error * batch["mask"]).sum() / micro_batch_weight(batch["mask"].sum())
        return error.mean()

    params = jax.eval_shape(init, jax.random.key(0))
    data = batches(width, seed)
    return wb.trace_training(loss, params, data(0), optimizer=optimizer or optax.sgd(0.1), init=init, data=data, name=f"perceptron {width}")


@functools.cache
def programs() -> dict[str, Program]:
    return {
        "sgd": perceptron(),
        "adam": perceptron(24, 6, optax.adam(1e-2), seed=1),
        "momentum": perceptron(8, 3, optax.sgd(0.05, momentum=0.9), seed=2, tied=True),
        "masked": perceptron(16, 5, optax.adamw(3e-3), seed=3, masked=True),
    }


def alone(program: Program, mini_batches: int, seed: int = 0) -> tuple[list[float], dict[str, np.ndarray]]:
    """Losses and parameters of plain training: one compiled step, everything on one device."""
    step = program.step
    state = list(jax.jit(step.initialize)(jax.random.key(seed), step.given))
    call = compiled_step(program)
    losses = []
    for i in range(mini_batches):
        results = call(*state, *step.feed(i))
        state = list(results[: len(state)])
        losses.append(float(results[step.loss]))
    paths = [tensor.path for tensor in program.arguments]
    return losses, {path: np.asarray(leaf) for path, leaf in zip(paths, state, strict=False) if path.startswith("params")}


@functools.lru_cache
def compiled_step(program: Program):
    return jax.jit(program.step.call)


@functools.lru_cache
def compiled_units(program: Program, cuts: tuple[str, ...]):
    network = network_of(program)
    units = ModelUnits(program, partition_network(network, starts_at(network, cuts)))
    return units, [jax.jit(each.call) for each in units.functions]


def alone_in_units(program: Program, cuts: tuple[str, ...], mini_batches: int, seed: int = 0) -> tuple[list[float], dict]:
    """The same, shard unit by shard unit: one after the other, all arrays in one dictionary on one device. What a compiler fuses, and so
    how it rounds, is that of the units; who runs them where is not."""
    units, calls = compiled_units(program, cuts)
    step = program.step
    arrays = dict(units.initial(jax.jit(step.initialize)(jax.random.key(seed), step.given)))
    losses = []
    for i in range(mini_batches):
        arrays |= {("batch", n): leaf for n, leaf in enumerate(step.feed(i))}
        for each, call in zip(units.functions, calls, strict=True):
            arrays |= dict(zip(each.writes, call(*(arrays[key] for key in each.reads)), strict=True))
        losses.append(float(arrays[LOSS]))
    return losses, {key[1]: np.asarray(array) for key, array in arrays.items() if key[0] == "piece"}
