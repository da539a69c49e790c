"""Programs and reports made by hand, for tests of what stands below the tracer."""

from dataclasses import replace

from workbench.core.program import Operation, Program, Reference, Step
from workbench.core.tensor import Role, Tensor
from workbench.public_plan import Plan
from workbench.reports.collective import Collective
from workbench.reports.device_memory import Memory
from workbench.reports.diagnostic import Diagnostic
from workbench.reports.placement import Placement
from workbench.reports.report import Report
from workbench.reports.step_time import Flops, StepTime


def no_step() -> Step:
    """A step that nobody may call."""
    return Step(call=lambda *_: (), initialize=lambda *_: (), feed=lambda _: ())


def program(*arguments: Tensor, operations: tuple[Operation, ...] = (), name: str = "toy", **fields) -> Program:
    """A program of these arguments that no compiler has seen."""
    fields = {"results": (), "carried": (), "module": b"", "lowered": b"", "fingerprint": name, "step": no_step(), **fields}
    return Program(name, arguments, operations=operations, **fields)


def parameter(path: str, **dims: int) -> Tensor:
    return Tensor(path, tuple(dims.values()), "float32", tuple(dims), Role.PARAMETER)


def batch(path: str, **dims: int) -> Tensor:
    return replace(parameter(path, **dims), role=Role.INPUT)


def moment(path: str, **dims: int) -> Tensor:
    return replace(parameter(path, **dims), role=Role.OPTIMIZER_STATE)


def operation(path: str, **dims: int) -> Operation:
    return Operation(path, "stablehlo.dot_general", tuple(dims.values()), "float32", tuple(dims), "toy.py:7")


def mlp() -> Program:
    """Two layers of d_model=8, d_ff=32 over a batch of 16, trained with a moment for each weight."""
    shapes = {
        f"{layer}/{weight}": dims
        for layer in ("layers/0", "layers/1")
        for weight, dims in {"w1": {"d_model": 8, "d_ff": 32}, "w2": {"d_ff": 32, "d_model": 8}}.items()
    }
    return program(
        *(parameter(f"params/{path}", **dims) for path, dims in shapes.items()),
        Tensor("opt_state/0/count", (), "int32", (), Role.OPTIMIZER_STATE),
        *(moment(f"opt_state/0/mu/{path}", **dims) for path, dims in shapes.items()),
        batch("batch/x", batch=16, d_model=8),
        operations=(operation("mlp/dot_general", batch=16, d_ff=32), operation("mlp/out/dot_general", batch=16, d_model=8)),
        name="mlp",
        reference=Reference("tests.support.importable:mlp"),
    )


def mlp_report(layout: str = "batch:data; d_ff:model") -> Report:
    """A report with every part filled, figures made up."""
    plan = Plan(mlp(), "data:4 model:2", layout)
    placements = tuple(Placement(tensor, at, plan.mesh) for tensor, at in zip(plan.program.arguments, plan.argument_shardings, strict=True))
    return Report(
        plan,
        placements,
        (),
        collectives=(
            Collective("all-reduce", ("model",), 512, 512, 2, "layers/0/mlp/dot_general", "toy.py:9"),
            Collective("all-reduce", ("model",), 512, 512, 2, "layers/1/mlp/dot_general", "toy.py:9"),
            Collective("all-reduce", ("data",), 2048, 3072, 1, "grad/layers/0/mlp/dot_general", "toy.py:9"),
        ),
        memory=Memory({Role.PARAMETER: 2048, Role.OPTIMIZER_STATE: 2052, Role.GRADIENT: 0, Role.ACTIVATION: 1536}),
        flops=Flops(unique=98_304, per_device=12_288, devices=8),
        traffic=8_192,
        step_time=StepTime("8 × CPU", arithmetic=1e-6, memory=2e-6, launch=0.0, exposed=3e-5, hidden=0.0),
        diagnostics=(
            Diagnostic("idle-axis", "params/layers/*/w1", "`data` is unused by this tensor, so 4 devices hold the same part of it.", ()),
        ),
    )
