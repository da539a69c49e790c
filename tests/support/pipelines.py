"""Tiny networks that pipelines find hard: unequal layers, skips, dropout, layers computed again, loops, batch normalisation, masks, tied
and stacked weights."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.ad_checkpoint import checkpoint_name

from workbench.core.program import Program
from workbench.tracing import trace_training
from workbench.tracing.grad_accumulation.micro_batch_marks import micro_batch_weight, moving_average

WIDTH, BATCH = 4, 8
ADAMW, ADAM, SGD = optax.adamw(1e-2), optax.adam(1e-2), optax.sgd(0.1)


def _weights(layers: int, seed: int = 0) -> list[dict[str, Any]]:
    random = np.random.default_rng(seed)
    return [
        {"w": (0.5 * random.standard_normal((WIDTH, WIDTH))).astype("float32"), "b": np.full(WIDTH, 0.1, "float32")} for _ in range(layers)
    ]


def _batch(**more: Any) -> dict[str, Any]:
    random = np.random.default_rng(1)
    return {"x": random.standard_normal((BATCH, WIDTH)).astype("float32"), "y": np.ones((BATCH, WIDTH), "float32"), **more}


def _dense(weights: dict[str, Any], x: Any) -> Any:
    return jnp.tanh(x @ weights["w"] + weights["b"])


def chain(optimizer: Any = ADAMW) -> Program:
    def loss(params, batch):
        x = batch["x"]
        for number, weights in enumerate(params["layers"]):
            with jax.named_scope(f"layers/{number}"):
                x = _dense(weights, x)
        with jax.named_scope("loss"):
            return jnp.mean((x - batch["y"]) ** 2)

    return trace_training(loss, {"layers": _weights(4)}, _batch(), optimizer=optimizer, dims={"batch/*": "batch ..."}, name="chain")


def stacked(optimizer: Any = ADAM) -> Program:
    """Layers scanned over stacked weights, whose first also reads the table that the head reads; computed in bfloat16-like casts."""

    def loss(params, batch):
        with jax.named_scope("embedding"):
            x = batch["x"] @ params["table"]
        with jax.named_scope("layers"):
            x, norms = jax.lax.scan(lambda x, weights: (_dense(weights, x), (x * x).mean()), x, params["layers"])
        with jax.named_scope("head"):
            x = x @ params["table"].T
        with jax.named_scope("loss"):
            return jnp.mean((x - batch["y"]) ** 2) + 0.1 * norms.sum()

    layers = jax.tree.map(lambda *each: np.stack(each), *_weights(3))
    params = {"table": _weights(1, seed=7)[0]["w"], "layers": layers}
    return trace_training(loss, params, _batch(), optimizer=optimizer, dims={"batch/*": "batch ..."}, name="stacked")


def skips() -> Program:
    """A small U-Net: what the way down makes, the way up reads, last first."""

    def loss(params, batch):
        x, passed = batch["x"], []
        for number, weights in enumerate(params["down"]):
            with jax.named_scope(f"down/{number}"):
                x = _dense(weights, x)
                passed.append(x)
        for number, weights in enumerate(params["up"]):
            with jax.named_scope(f"up/{number}"):
                x = _dense(weights, x + passed.pop())
        with jax.named_scope("loss"):
            return jnp.mean((x - batch["y"]) ** 2)

    params = {"down": _weights(2), "up": _weights(2, seed=3)}
    return trace_training(loss, params, _batch(), optimizer=optax.sgd(0.1), dims={"batch/*": "batch ..."}, name="skips")


def dropout() -> Program:
    """A key for the whole batch: each micro-batch folds its number in."""

    def loss(params, batch):
        keys = jax.random.split(batch["key"], len(params["layers"]))
        x = batch["x"]
        for number, weights in enumerate(params["layers"]):
            with jax.named_scope(f"layers/{number}"):
                x = _dense(weights, x) * jax.random.bernoulli(keys[number], 0.7, x.shape)
        with jax.named_scope("loss"):
            return jnp.mean((x - batch["y"]) ** 2)

    batch = _batch(key=np.asarray([3, 4], "uint32"))
    names = {"batch/x": "batch ...", "batch/y": "batch ...", "batch/key": "word"}
    return trace_training(loss, {"layers": _weights(3)}, batch, optimizer=optax.sgd(0.1), dims=names, name="dropout")


def checkpointed(policy: Any = None, prevent_cse: Any = True) -> Program:
    """Layers that are computed again in the backward pass under `policy`, each with a second one inside and dropout of its own."""

    def layer(weights: dict[str, Any], x: Any, key: Any) -> Any:
        hidden = jax.checkpoint(_dense)({"w": weights["w"], "b": weights["b"]}, x)
        x, scale = jax.lax.optimization_barrier((hidden * jax.random.bernoulli(key, 0.7, x.shape), weights["scale"]))
        return checkpoint_name(x @ weights["out"], "mixed") * scale + x

    def loss(params, batch):
        keys = jax.random.split(batch["key"], len(params["layers"]))
        x = batch["x"]
        for number, weights in enumerate(params["layers"]):
            with jax.named_scope(f"layers/{number}"):
                x = jax.checkpoint(layer, policy=policy, prevent_cse=prevent_cse)(weights, x, keys[number])
        with jax.named_scope("loss"):
            return jnp.mean((x - batch["y"]) ** 2)

    layers = [{**one, "out": two["w"], "scale": two["b"] + 0.9} for one, two in zip(_weights(3), _weights(3, seed=5), strict=True)]
    batch = _batch(key=np.asarray([3, 4], "uint32"))
    names = {"batch/x": "batch ...", "batch/y": "batch ...", "batch/key": "word"}
    return trace_training(loss, {"layers": layers}, batch, optimizer=optax.sgd(0.1), dims=names, name="checkpointed")


def recurrent() -> Program:
    """Layers that use their weights in each iteration of a loop, every other one computed again."""

    def loss(params, batch):
        x = batch["x"]
        for number, weights in enumerate(params["layers"]):
            with jax.named_scope(f"layers/{number}"):
                step = jax.checkpoint(_dense) if number % 2 else _dense
                x, each = jax.lax.scan(lambda x, scale, step=step, w=weights: (step(w, x) * scale, x), x, np.asarray([1.0, 0.9], "float32"))
                x = x + each.sum(axis=0)
        with jax.named_scope("loss"):
            return jnp.mean((x - batch["y"]) ** 2)

    return trace_training(loss, {"layers": _weights(3)}, _batch(), optimizer=SGD, dims={"batch/*": "batch ..."}, name="recurrent")


def _label(path: Any, _: Any) -> str:
    return "average" if path[0].key == "statistics" else "trained"


def batch_norm() -> Program:
    """Each micro-batch by its own statistics; running means of x and x * x, updated once a mini-batch."""

    def loss(params, batch):
        x = batch["x"]
        for number, weights in enumerate(params["layers"]):
            with jax.named_scope(f"layers/{number}"):
                x = _dense(weights, x)
                mean, square = x.mean(0), (x * x).mean(0)
                x = moving_average(x, params["statistics"][number]["mean"], mean)
                x = moving_average(x, params["statistics"][number]["square"], square)
                x = (x - mean) * jax.lax.rsqrt(square - mean * mean + 1e-3)
        with jax.named_scope("loss"):
            return jnp.mean((x - batch["y"]) ** 2)

    statistics = [{"mean": np.zeros(WIDTH, "float32"), "square": np.ones(WIDTH, "float32")} for _ in range(3)]
    params = {"layers": _weights(3), "statistics": statistics}
    optimizer = optax.multi_transform(
        {"trained": optax.adam(1e-2), "average": optax.sgd(0.1)}, lambda tree: jax.tree_util.tree_map_with_path(_label, tree)
    )
    return trace_training(loss, params, _batch(), optimizer=optimizer, dims={"batch/*": "batch ..."}, name="batch norm")


def masked(optimizer: Any = SGD) -> Program:
    """The mean over the examples that count: none in the first micro-batch of four, all in the last."""

    def loss(params, batch):
        x = batch["x"]
        for number, weights in enumerate(params["layers"]):
            with jax.named_scope(f"layers/{number}"):
                x = _dense(weights, x)
        with jax.named_scope("loss"):
            each = ((x - batch["y"]) ** 2).mean(-1)
            return (each * batch["mask"]).sum() / micro_batch_weight(batch["mask"].sum() + 1e-6)

    mask = np.asarray([0, 1, 1, 0, 1, 1, 1, 1], "float32")
    batch = _batch(mask=mask)
    return trace_training(loss, {"layers": _weights(3)}, batch, optimizer=optimizer, dims={"batch/*": "batch ..."}, name="masked")


ALL: dict[str, Callable[[], Program]] = {
    each.__name__: each for each in (chain, stacked, skips, dropout, checkpointed, recurrent, batch_norm, masked)
}
