"""What a run of the tests cost, by package, beside the budgets in `tests/time_budgets.toml`; and how fast the machine is.

A package is a folder of `tests`; `tests` has the files beside them and `docstrings` the examples of `workbench`. Budgets are seconds of
set-up, call and tear-down, summed over all processes of a run, on a machine with the reference's speed control. A package that takes half
as much again is named at the end of the run, and no run fails by it.
"""

import statistics
import time
import tomllib
from collections import Counter
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

FILE = Path(__file__).parents[1] / "time_budgets.toml"
SLACK = 1.5
"""A package is named where it takes more than this times its budget."""


class RunTimes:
    """A plug-in of the process that reports: it sums the phases of all tests by package, and measures the machine at start and end."""

    def __init__(self) -> None:
        self._controls: list[float] = []
        self._seconds: Counter[str] = Counter()

    def pytest_report_header(self, config: pytest.Config) -> str | None:
        if not config.getoption("numprocesses", None):  # a few tests, which should begin at once
            return None
        self._controls.append(speed_control())
        return f"speed control: {self._controls[-1]:.2f} s to compile a fixed program, {read_budgets()[0]:.2f} s on the reference machine"

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[package_of(report.nodeid)] += report.duration

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self._controls:
            return
        self._controls.append(speed_control())
        terminalreporter.write_line(f"speed control: {self._controls[0]:.2f} s at the start, {self._controls[-1]:.2f} s at the end")
        for line in over_budget(self._seconds, statistics.mean(self._controls)):
            terminalreporter.write_line(line)


def speed_control() -> float:
    """Seconds that XLA:CPU takes to compile the gradient of a chain of 24 products, which is in no cache: the less of two."""
    return min(_compile_seconds(width) for width in (56, 64))


def _compile_seconds(width: int) -> float:
    def loss(weights: list[jax.Array], x: jax.Array) -> jax.Array:
        for weight in weights:
            x = jnp.tanh(x @ weight) / (1 + jnp.abs(x))
        return jnp.sum(x)

    weight = jax.ShapeDtypeStruct((width, width), jnp.float32)
    lowered = jax.jit(jax.grad(loss)).lower([weight] * 24, weight)
    cached = jax.config.jax_enable_compilation_cache
    jax.config.update("jax_enable_compilation_cache", False)
    try:
        start = time.perf_counter()
        lowered.compile()
        return time.perf_counter() - start
    finally:
        jax.config.update("jax_enable_compilation_cache", cached)


def read_budgets() -> tuple[float, dict[str, float]]:
    """The reference's speed control, and the seconds of each package on it."""
    document = tomllib.loads(FILE.read_text(encoding="utf-8"))
    return document["speed_control"], document["packages"]


def package_of(nodeid: str) -> str:
    """`engine` of `tests/engine/test_worker.py::test_...`."""
    top, _, rest = nodeid.partition("::")[0].partition("/")
    return "docstrings" if top == "workbench" else rest.partition("/")[0] if "/" in rest else "tests"


def over_budget(seconds: dict[str, float], control: float) -> list[str]:
    """A line for each package that took more than half again of its budget on a machine with this speed control."""
    reference, budgets = read_budgets()
    scale = control / reference
    return [
        f"tests of {package} took {took:.0f} s; their budget is {budgets.get(package, 0) * scale:.0f} s on this machine"
        f" ({budgets.get(package, 0):.0f} s x {scale:.2f}): see CONTRIBUTING, Add a test without adding a minute"
        for package, took in sorted(seconds.items())
        if took > SLACK * budgets.get(package, 0) * scale
    ]
