"""A search as one waits for it: the first plan, how often the picture changes, how soon it stops, how soon it follows a changed wish.

- `first_s`: the longest of the models' times to a first plan, from the call of a search on, tracing and the space included; `space_s` of it
  before the search runs, `model` the one it was;
- `states_per_s` and `longest_wait_s` between two states, of the search of GPT-3;
- `cancel_s`: from the moment it is cancelled to its return, the median and the longest of `CANCELS`, at moments drawn at random;
- `again_s`: the fastest plan is forbidden by a pin (its size of `model`), and the search goes on from its result: seconds until a plan
  stands within 5 % of what no plan can beat. `afresh_s`: the same without the result.
"""

import random
import statistics
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from benchmarks.search_programs import program_of
from workbench.public_plan import Plan
from workbench.search.find_plans import find_plans
from workbench.search.search_result import SearchResult
from workbench.search.search_state import SearchState

MODELS = (
    ("gpt", (), "TPU v5e 2x4"),
    ("two_layer", (), "TPU v5e 2x4"),
    ("mnist", (), "8 H100"),
    ("mixture", (), "8 H100"),
    ("t5", (), "8 H100"),
    ("conformer", (), "TPU v5e 2x4"),
    ("unet", (), "8 A100"),
    ("decoder", (), "TPU v5e 2x4"),
    ("graph_network", (), "8 H100"),
    ("gpt", (("preset", "gpt3-175b"), ("batch", 1536)), "TPU v5p 8x16x16"),
)
LARGE = MODELS[-1]
CANCELS = 12
_WITHIN_5 = 0.05


def interaction(*, quick: bool) -> dict[str, Any]:
    """All of the above; with `quick` less of each."""
    first = max((_first_plan(each) for each in (MODELS[:2] + MODELS[-1:] if quick else MODELS)), key=lambda found: found["first_s"])
    plan = _plan_of(LARGE)
    states: list[float] = []
    begin = time.perf_counter()
    result = find_plans(plan, within=10 if quick else 30, on_progress=lambda _: states.append(time.perf_counter() - begin))
    waits = [after - before for before, after in pairwise(states)]
    return {
        **first,
        "states_per_s": round((len(states) - 1) / (states[-1] - states[0]), 2),
        "longest_wait_s": round(max(waits), 2),
        **_cancel_seconds(plan, 4 if quick else CANCELS),
        **_change_seconds(plan, result, 60.0),
    }


def _plan_of(model: tuple[str, tuple[tuple[str, Any], ...], str]) -> Plan:
    name, arguments, hardware = model
    return Plan(program_of(name, arguments), "", hardware=hardware)


def _first_plan(model: tuple[str, tuple[tuple[str, Any], ...], str]) -> dict[str, Any]:
    plan, elapsed = _plan_of(model), []
    begin = time.perf_counter()

    def note(state: SearchState) -> None:
        if state.best is not None:
            elapsed.append((time.perf_counter() - begin, state.elapsed))

    find_plans(plan, within=60, on_progress=note, is_cancelled=lambda: bool(elapsed))
    seconds, searching = elapsed[0] if elapsed else (float("inf"), 0.0)
    return {"first_s": round(seconds, 2), "space_s": round(seconds - searching, 2), "model": f"{model[0]} on {model[2]}"}


def _cancel_seconds(plan: Plan, count: int) -> dict[str, float]:
    """A search in this process sees that it is cancelled when its round of nodes is done."""
    rng, found = random.Random(0), []  # noqa: S311 - not for secrets
    for _ in range(count):
        deadline = time.perf_counter() + rng.uniform(0.5, 4.0)
        find_plans(plan, within=60, is_cancelled=_after(deadline))
        found.append(max(0.0, time.perf_counter() - deadline))
    return {"cancel_s": round(statistics.median(found), 3), "longest_cancel_s": round(max(found), 3)}


def _after(deadline: float) -> Callable[[], bool]:
    return lambda: time.perf_counter() >= deadline


def _change_seconds(plan: Plan, earlier: SearchResult, within: float) -> dict[str, Any]:
    """From the call of a search with a pin to a state within 5 %."""
    if earlier.state.best is None:
        return {"again_s": None, "afresh_s": None}
    size = earlier.state.best[0].size("model")
    pins = {"model": tuple(each for each in (1, 2, 4, 8, 16, 32) if each != size)}
    return {name: _seconds_to_5_percent(plan, pins, again, within) for name, again in (("again_s", earlier), ("afresh_s", None))}


def _seconds_to_5_percent(plan: Plan, pins: dict[str, Any], again: SearchResult | None, within: float) -> float | None:
    begin, reached = time.perf_counter(), []

    def note(state: SearchState) -> None:
        if state.best is not None and state.gap <= _WITHIN_5:
            reached.append(time.perf_counter() - begin)

    find_plans(plan, within=within, pins=pins, again=again, on_progress=note, is_cancelled=lambda: bool(reached))
    return round(reached[0], 2) if reached else None
