"""Two rounds of messages by Jraph's graph network, with layers of dm-haiku; nodes are classified."""

import jax.numpy as jnp
import optax

import workbench as wb
from benchmarks.corpus.layouts import StatedLayout
from benchmarks.corpus.program import ThirdPartyProgram
from benchmarks.corpus.third_party.glue import mean_cross_entropy, spec
from workbench.core.program import Program

GRAPHS, NODES, EDGES, WIDTH, CLASSES = 64, 4096, 16_384, 256, 64


def build() -> Program:
    import haiku as hk
    import jraph

    def update():
        return jraph.concatenated_args(hk.nets.MLP([WIDTH, WIDTH], activate_final=True))

    def forward(graph):
        graph = jraph.GraphMapFeatures(hk.Linear(WIDTH), hk.Linear(WIDTH), hk.Linear(WIDTH))(graph)
        for _ in range(2):
            graph = jraph.GraphNetwork(update_edge_fn=update(), update_node_fn=update(), update_global_fn=update())(graph)
        return hk.Linear(CLASSES)(graph.nodes)

    graph = jraph.GraphsTuple(
        nodes=spec((NODES, 128)),
        edges=spec((EDGES, 64)),
        senders=spec((EDGES,), "int32"),
        receivers=spec((EDGES,), "int32"),
        globals=spec((GRAPHS, 32)),
        n_node=spec((GRAPHS,), "int32"),
        n_edge=spec((GRAPHS,), "int32"),
    )

    def loss(model, batch):
        return mean_cross_entropy(model(batch["graph"]), jnp.maximum(batch["labels"], 0))

    batch = {"graph": graph, "labels": spec((NODES,), "int32")}
    dims = {"graph/nodes": "nodes in_node", "graph/edges": "edges in_edge", "senders": "edges", "receivers": "edges", "labels": "nodes"}
    return wb.from_haiku(forward, loss, batch, optimizer=optax.adam(1e-3), dims=dims, name="jraph_network")


PROGRAM = ThirdPartyProgram(
    "jraph_network",
    "graph network",
    ("jraph", "dm-haiku"),
    build,
    data_parallel=StatedLayout("data:8", "nodes:data; edges:data"),
    tensor_parallel=StatedLayout("data:2 model:4", "nodes:data; edges:data; mlp/~/linear_0/w=[-, model]; mlp/~/linear_1/w=[model, -]"),
    zero_3=StatedLayout("data:8", "nodes:data; edges:data; params/**/w=[data, -]"),
)
