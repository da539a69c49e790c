"""The programs that searches are tried on: the zoo's smallest, a graph network, which is nobody's Transformer, and `Work` at any size."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import optax

import workbench as wb
from workbench.core.program import Program
from workbench.models import build

GRAPHS, NODES, EDGES, WIDTH, CLASSES, ROUNDS = 32, 64, 256, 64, 8, 4


@dataclass(frozen=True)
class Work:
    """A program by name, and how to build it; `quick` ones take seconds."""

    name: str
    make: Callable[[], Program]
    quick: bool = False


def graph_network() -> Program:
    """Rounds of messages along the edges of a batch of graphs (Gilmer et al. 2017, arXiv:1704.01212); nodes are classified."""

    @wb.layer
    def send(weights, nodes, edges):
        senders, receivers = edges[..., 0], edges[..., 1]
        sent = jnp.take_along_axis(nodes, senders[..., None], axis=1)
        messages = jax.nn.relu(jnp.einsum("gew,wh->geh", sent, weights["message"]))
        sums = jax.vmap(lambda each, to: jax.ops.segment_sum(each, to, NODES))(messages, receivers)
        return nodes + jnp.einsum("gnh,hw->gnw", sums, weights["update"])

    def loss(parameters, batch):
        nodes = jnp.einsum("gnf,fw->gnw", batch["nodes"], parameters["encode"])
        for weights in parameters["rounds"]:
            nodes = send(weights, nodes, batch["edges"])
        scores = jnp.einsum("gnw,wc->gnc", nodes, parameters["decode"])
        return optax.softmax_cross_entropy_with_integer_labels(scores, batch["labels"]).mean()

    matrix = jax.ShapeDtypeStruct((WIDTH, WIDTH), "float32")
    parameters = {
        "encode": jax.ShapeDtypeStruct((16, WIDTH), "float32"),
        "rounds": [{"message": matrix, "update": matrix} for _ in range(ROUNDS)],
        "decode": jax.ShapeDtypeStruct((WIDTH, CLASSES), "float32"),
    }
    batch = {
        "nodes": jax.ShapeDtypeStruct((GRAPHS, NODES, 16), "float32"),
        "edges": jax.ShapeDtypeStruct((GRAPHS, EDGES, 2), "int32"),
        "labels": jax.ShapeDtypeStruct((GRAPHS, NODES), "int32"),
    }
    dims = {
        "nodes": "batch nodes features",
        "edges": "batch edges ends",
        "labels": "batch nodes",
        "encode": "features width",
        "rounds/*/message": "width hidden",
        "rounds/*/update": "hidden width",
        "decode": "width classes",
    }
    return wb.trace_training(loss, parameters, batch, optimizer=optax.adam(1e-3), dims=dims, name="graph_network")


_OWN: Mapping[str, Callable[[], Program]] = {"graph_network": graph_network}


@cache
def program_of(name: str, arguments: tuple[tuple[str, Any], ...] = ()) -> Program:
    """A program by its name, traced once."""
    return _OWN[name]() if name in _OWN else build(name, **dict(arguments))
