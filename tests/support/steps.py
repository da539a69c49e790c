"""A step made by hand: kernels under a roof, a graph of them, and what is alive at each moment."""

from dataclasses import replace

from tests.support.details import with_details
from tests.support.programs import mlp_report
from workbench.core.sharding import Sharding
from workbench.core.tensor import Role
from workbench.hardware.catalogue import parse_hardware
from workbench.public_plan import Plan
from workbench.reports.device_memory import Alive, Memory, MemoryCurve
from workbench.reports.kernel import COMPUTE, Event, Graph, GraphNode, GraphSend, Kernel, Timeline
from workbench.reports.report import Report
from workbench.reports.step_time import StepTime

KIB = 1024
CURVE = MemoryCurve(
    ("layers/0/mlp", "layers/1/mlp", "loss", "grad/loss", "grad/layers/1/mlp", "grad/layers/0/mlp", "optimizer/add"),
    {
        Role.PARAMETER: (2 * KIB,) * 7,
        Role.GRADIENT: (0, 0, 0, 0, KIB, 2 * KIB, 0),
        Role.ACTIVATION: (2048, 4096, 6144, 5120, 2048, 0, 0),
    },
)
ALIVE = (
    Alive("layers/1/mlp/dot_general", Role.ACTIVATION, 4 * KIB, 2),
    Alive("params/layers/0/w1", Role.PARAMETER, KIB, 1),
    Alive("params/layers/1/w1", Role.PARAMETER, KIB, 1),
    Alive("loss/exp", Role.ACTIVATION, 2 * KIB, 1),
)
KERNELS = (
    Kernel("grad/layers/mlp/dot_general", "dot_general", "toy.py:7", "bfloat16", 12, 8_000_000_000, 0, 12_000_000, 50e-6, 15e-6, 1e-6),
    Kernel("layers/mlp/dot_general", "dot_general", "toy.py:7", "bfloat16", 12, 4_000_000_000, 0, 12_000_000, 25e-6, 15e-6, 1e-6),
    Kernel("optimizer/add", "add", "toy.py:9", "float32", 1, 0, 1_000_000, 96_000_000, 1e-6, 120e-6, 1e-6),
    Kernel("layers/copy", "copy", "toy.py:8", "float32", 1, 0, 0, 48_000_000, 0.0, 60e-6, 1e-6),
)


def node(path: str, seconds: float, sharding: str = "[data, -]", count: int = 1, **fields) -> GraphNode:
    kind = path.rpartition("/")[2]
    return GraphNode(path, kind, "toy.py:7", count, (16, 32), "float32", ("batch", "d_ff"), Sharding.parse(sharding), seconds, **fields)


GRAPH = Graph(
    nodes=(
        node("layers/0/norm/reduce", 1e-6),
        node("layers/0/mlp/up/dot_general", 40e-6, "[data, model]"),
        node("layers/0/mlp/down/dot_general", 30e-6),
        node("layers/1/norm/reduce", 1e-6),
        node("layers/1/mlp/up/dot_general", 40e-6, "[data, model]"),
        node("layers/1/mlp/down/dot_general", 30e-6),
        node("loss/exp", 2e-6),
        node("grad/loss/mul", 3e-6),
        node("batch/x", 0.0, is_input=True),
    ),
    edges=((8, 0), (0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 6), (6, 7), (5, 7), (8, 2)),
    sends=(
        GraphSend("all-reduce", ("model",), 2, 2, "layers/0/mlp/down/dot_general", "toy.py:7", 1, 4096, 9e-6, 9e-6),
        GraphSend("all-reduce", ("model",), 5, 5, "layers/1/mlp/down/dot_general", "toy.py:7", 1, 4096, 9e-6, 9e-6),
        GraphSend("all-gather", ("data",), 5, 6, "layers/1/mlp/down/dot_general", "toy.py:7", 1, 2048, 5e-6, 1e-6),
        GraphSend("all-gather", ("data",), -1, 1, "layers/0/mlp/up/dot_general", "toy.py:7", 1, 1024, 2e-6, 0.0),
    ),
)
EVENTS = (
    Event(COMPUTE, 0.0, 1e-3, "layers/mlp/dot_general", "dot_general", 12),
    Event("model", 1e-3, 3e-6, "layers/mlp/dot_general", "all-reduce", 4, 3e-6),
    Event("data", 1e-3, 8e-6, "grad/layers/mlp/dot_general", "all-reduce", 1, 2e-6),
)


def step_report() -> Report:
    """Two layers on eight TPUs, every lazy part made up."""
    report = mlp_report()
    plan = Plan(report.plan.program, report.plan.mesh, report.plan.layout, hardware=parse_hardware("TPU v5e 2x4"))
    found = replace(
        report,
        plan=plan,
        memory=Memory({Role.PARAMETER: 2 * KIB, Role.ACTIVATION: 6 * KIB}, capacity=16 * KIB),
        step_time=StepTime(
            "TPU v5e 2x4", arithmetic=0.9e-3, memory=0.18e-3, launch=26e-6, exposed=14e-6, hidden=60e-6, mfu=0.3, hfu=0.3, calibrated="runs"
        ),
    )
    return with_details(
        found,
        memory_curve=CURVE,
        alive=ALIVE,
        alive_at=lambda place: ALIVE[: 1 + place % 4],
        kernels=KERNELS,
        graph=GRAPH,
        timeline=Timeline(1.12e-3, EVENTS),
    )
