"""What the engine costs: its step time over that of the same step written by hand with `jit` and `NamedSharding`s.

A tiny GPT (four layers, Adam) on eight virtual CPU devices, batch on `data:4`, heads and hidden layer on `model:2`. Both compile the
same loss and optimizer, feed the same batches and wait for every result; they take turns step by step in one process, so that
whatever else the machine does falls on both alike. The figure is the ratio of the medians; the goal is 1.02 or less.

    python benchmarks/run_overhead.py --quick --json
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from statistics import median

os.environ.setdefault("JAX_NUM_CPU_DEVICES", "8")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import optax
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import workbench as wb
from workbench.engine.spmd.compiled_step import compile_step
from workbench.models import gpt
from workbench.models.data import english_text
from workbench.models.gpt_config import PRESETS

CONFIG = PRESETS["tiny"]
MESH = (("data", 4), ("model", 2))
LAYOUT = "batch:data; heads:model; d_ff:model"
SPLIT = {
    "wq": P(None, None, "model", None),
    "wk": P(None, None, "model", None),
    "wv": P(None, None, "model", None),
    "wo": P(None, "model", None, None),
    "w1": P(None, None, "model"),
    "w2": P(None, "model", None),
}
"""Specs of the stacked layers' weights, as a person would write them; all others are whole."""


def by_hand() -> Iterator[float]:
    """Losses of the step written with JAX alone; each `next` is one step."""
    mesh = jax.make_mesh([size for _, size in MESH], [name for name, _ in MESH], axis_types=(AxisType.Auto,) * len(MESH))
    loss, optimizer, data = gpt.make_loss(CONFIG), optax.adamw(CONFIG.learning_rate), english_text.batches(CONFIG.batch, CONFIG.seq)

    def start(key):
        params = gpt.init(key, CONFIG, scan=True)
        return params, optimizer.init(params)

    def step(state, batch):
        params, moments = state
        value, gradient = jax.value_and_grad(loss)(params, batch)
        updates, moments = optimizer.update(gradient, moments, params)
        return (optax.apply_updates(params, updates), moments), value

    def sharding(path, _):
        return NamedSharding(mesh, SPLIT.get(jax.tree_util.keystr(path[-1:], simple=True), P()))

    shardings = jax.tree_util.tree_map_with_path(sharding, jax.eval_shape(start, jax.random.key(0)))
    batch_sharding = NamedSharding(mesh, P("data"))
    jitted = jax.jit(step, in_shardings=(shardings, batch_sharding), out_shardings=(shardings, None), donate_argnums=0)
    state = jax.jit(start, out_shardings=shardings)(jax.random.key(0))
    for i in range(sys.maxsize):
        state, value = jax.block_until_ready(jitted(state, jax.device_put(data(i), batch_sharding)))
        yield float(value)


def with_engine() -> Iterator[float]:
    """Losses of the same step from a plan; each `next` is one step of `engine.execute`'s loop."""
    mesh = " ".join(f"{name}:{size}" for name, size in MESH)
    step = compile_step(wb.Plan(gpt.build(preset="tiny"), mesh, LAYOUT))
    arguments = step.arguments(0)
    for i in range(sys.maxsize):
        yield float(step.advance(arguments, i + 1)[step.program.step.loss])


def seconds(advance: Callable[[], float]) -> float:
    start = time.perf_counter()
    advance()
    return time.perf_counter() - start


def measure(steps: int) -> dict[str, float]:
    hand, engine = by_hand(), with_engine()
    for i in range(3):
        losses = next(hand), next(engine)
        if abs(losses[0] - losses[1]) > 1e-4 * abs(losses[0]):
            raise SystemExit(
                f"The two are not the same step: at step {i} the losses are {losses[0]} by hand and {losses[1]} with the engine."
            )
    times: dict[str, list[float]] = {"hand": [], "engine": []}
    turns = {"hand": partial(next, hand), "engine": partial(next, engine)}
    for i in range(steps):
        for name in ("hand", "engine") if i % 2 else ("engine", "hand"):
            times[name].append(seconds(turns[name]))
    hand_ms, engine_ms = (median(times[name]) * 1e3 for name in ("hand", "engine"))
    return {"ratio": engine_ms / hand_ms, "engine_ms": engine_ms, "hand_ms": hand_ms, "steps": steps}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="under 45 seconds")
    parser.add_argument("--json", action="store_true", help="the last line is one JSON object")
    options = parser.parse_args()
    figures = measure(100 if options.quick else 600)
    print(f"{figures['engine_ms']:.2f} ms with the engine, {figures['hand_ms']:.2f} ms by hand: ratio {figures['ratio']:.3f} (goal 1.02)")
    if options.json:
        print(json.dumps({key: round(value, 4) for key, value in figures.items()}))


if __name__ == "__main__":
    main()
