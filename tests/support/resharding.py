"""The reshard table of DOMAIN 3.10, and programs that reshard: for the tests that predict and those that compile."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import AbstractMesh, AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

from workbench.analysis.analyze import analyze
from workbench.public_plan import Plan
from workbench.reports.report import Report
from workbench.spmd.ask_partitioner import ask_partitioner
from workbench.tracing import trace, trace_training

MESH = "r:2 c:4"
CUBE = (64, 64, 64)

# from, to, collectives (kind, elements of the result on one device), classes of DOMAIN 3.5
TABLE = [
    ("[r, -, -]", "[r, -, -]", [], (1,)),
    ("[r, -, -]", "[-, r, -]", [("all-to-all", 131_072)], (4,)),
    ("[r, -, -]", "[-, -, -]", [("all-gather", 262_144)], (6,)),
    ("[-, -, -]", "[r, -, -]", [], (5,)),
    ("[r, -, -]", "[r+c, -, -]", [], (5,)),
    ("[r+c, -, -]", "[r, -, -]", [("all-gather", 131_072)], (6,)),
    ("[r, c, -]", "[r, -, -]", [("all-gather", 131_072)], (6,)),
    ("[r, -, -]", "[c, -, -]", [("collective-permute", 65_536)], (5, 3)),
    ("[r+c, -, -]", "[c+r, -, -]", [("collective-permute", 32_768)], (3,)),
    ("[r+c, -, -]", "[-, r+c, -]", [("all-to-all", 32_768)], (4,)),
    ("[r, c, -]", "[c, r, -]", [("all-to-all", 32_768), ("collective-permute", 32_768)], (7,)),
    ("[r, c, -]", "[-, r+c, -]", [("all-to-all", 32_768), ("collective-permute", 32_768)], (7,)),
    ("[r, -, c]", "[-, c+r, -]", [("all-gather", 131_072), ("all-gather", 262_144)], (8,)),
]

# elements of a dimension, from, to, and what is sent of them by kind: parts that are not full (shape [size, 64] on MESH)
UNEVEN = [
    (1, "[c, -]", "[-, -]", [("all-reduce", 1)]),  # the first part is all there is
    (2, "[c, -]", "[-, -]", [("all-reduce", 2)]),  # half of what is gathered would be padding
    (3, "[c, -]", "[-, -]", [("all-gather", 4)]),
    (3, "[r+c, -]", "[-, -]", [("all-reduce", 3)]),
    (5, "[r+c, -]", "[-, -]", [("all-gather", 8)]),
    (2, "[c, -]", "[r, -]", [("collective-permute", 1), ("collective-permute", 1), ("all-reduce", 1)]),
    (5, "[c, -]", "[r, -]", [("collective-permute", 2), ("collective-permute", 1), ("all-gather", 4)]),
    (6, "[c, -]", "[r, -]", [("collective-permute", 2), ("collective-permute", 1), ("all-gather", 4)]),
    (9, "[c, -]", "[r, -]", [("collective-permute", 3), ("collective-permute", 1), ("all-gather", 6)]),
    (6, "[r, -]", "[r+c, -]", [("collective-permute", 1)]),
    (5, "[r, -]", "[r+c, -]", [("collective-permute", 1)]),
]

# layout of weight-update sharding, argument elements on one device, and elements reduced and gathered in a step
WEIGHT_UPDATES = [
    ("batch:data", 135_168, {"reduce": 65_536}),
    ("batch:data; opt_state/**=[data, -]", 86_016, {"reduce": 65_536, "all-gather": 65_536}),
    ("batch:data; opt_state/**=[data, -]; params/**=[data, -]", 36_864, {"reduce": 65_536, "all-gather": 65_536}),
]


def resharded(before: str, after: str, shape: tuple[int, ...] = CUBE, mesh: str = MESH) -> Plan:
    """A program whose one value lies `before`, and is needed `after`."""
    dims = " ".join("abcd"[: len(shape)])
    program = trace(lambda x: jnp.sin(x) * 2, jax.ShapeDtypeStruct(shape, jnp.float32), dims={"x": dims}, name="resharded")
    return Plan(program, mesh, f"@sin={before}; @mul={after}")


def settled(plan: Plan) -> Report:
    """The report with XLA's own answer, asked in this process."""
    return analyze(plan, answer=ask_partitioner(plan))


_AUTO = AbstractMesh((2, 4), ("r", "c"), axis_types=(AxisType.Auto,) * 2)


def two_lines(x: jax.Array) -> jax.Array:
    """jax#21562 = xla#15207 in the axes of DOMAIN 3.10: both lines are the user's own."""
    x = jax.lax.with_sharding_constraint(x, NamedSharding(_AUTO, P("r", None, "c")))
    return jax.lax.with_sharding_constraint(x, NamedSharding(_AUTO, P(None, ("c", "r"))))


def reproducer() -> Plan:
    """The two-line reproducer of an involuntary full rematerialisation."""
    return Plan(trace(two_lines, jax.ShapeDtypeStruct(CUBE, jnp.float32), dims={"x": "a b c"}, name="two lines"), MESH, "x=[r, -, c]")


def weight_update(layout: str) -> Plan:
    """A 256 x 256 product trained with momentum on a batch of 32, over four devices."""

    def loss(params: dict[str, jax.Array], batch: dict[str, jax.Array]) -> jax.Array:
        return jnp.sum(jnp.square(batch["x"] @ params["w"] - batch["y"]))

    def data(_: int) -> dict[str, np.ndarray]:
        return {"x": np.ones((32, 256), np.float32), "y": np.ones((32, 256), np.float32)}

    weights = {"w": np.ones((256, 256), np.float32)}
    dims = {"w": "d_in d_out", "batch/x": "batch d_in", "batch/y": "batch d_out"}
    program = trace_training(loss, weights, data(0), dims=dims, name="momentum", optimizer=optax.sgd(0.1, momentum=0.9), data=data)
    return Plan(program, "data:4", layout)
