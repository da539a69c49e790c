"""`find_plans`: search from a plan, an objective and requirements to a `SearchResult`, with progress reports."""

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import replace
from math import inf
from typing import Any

from workbench.analysis.verify_plan import Compilers
from workbench.errors import SearchError, unknown_name, wrong_type
from workbench.hardware.catalogue import read_hardware
from workbench.plan.plan import Plan
from workbench.reports.verified_plan import VerifiedPlan
from workbench.search.background_verifier import NOT_COMPILED, BackgroundVerifier
from workbench.search.evaluator import Evaluator
from workbench.search.layout_choices import layout_error
from workbench.search.make_space import WIDE_AXES, make_space
from workbench.search.plan_candidate import PlanCandidate
from workbench.search.present_plan import evaluate_present, find_candidate
from workbench.search.requirements import FIGURES, PINNED, AtMost, Pin, Requirement
from workbench.search.run_search import run_search
from workbench.search.search_figures import Figures
from workbench.search.search_result import SearchResult
from workbench.search.search_space import SearchSpace
from workbench.search.search_state import CANCELLED, SearchState
from workbench.search.tier_ranks import list_contenders
from workbench.search.worker_questions import Answerer
from workbench.units import parse_bytes, parse_time

_FEW = 3  # suggestions
_EVERY = 1.0  # seconds between updates of the plans that the compilers verify
_LEAST_LEFT = 0.05
"""Share of the search time reserved to find conflicts between requirements."""
OpenAnswerer = Callable[[Evaluator], Answerer]


def find_plans(
    plan: Plan,
    *,
    within: float = 30.0,
    objective: str = "seconds",
    at_most: Mapping[str, float | str] | None = None,
    pins: Mapping[str, Any] | None = None,
    on_progress: Callable[[SearchState], None] | None = None,
    is_cancelled: Callable[[], bool] = lambda: False,
    most_evaluations: int | None = None,
    open_answerer: OpenAnswerer | None = None,
    again: SearchResult | None = None,
    until: str = "complete",
    compilers: Compilers | None = None,
    begin: float | None = None,
    verify: int | None = 0,
    on_verified: Callable[[VerifiedPlan], None] = lambda _: None,
    **choices: Any,
) -> SearchResult:
    """Search the alternatives of a plan for the front and the least `objective`: `seconds`, `memory`, `devices` or
    `dollars`.

    The plan itself is the first candidate if it is in the space; otherwise its figures are shown beside the front.

    - `at_most`: limits on these figures; memory in bytes or as text, and so the time, `"250 ms"`:
      `{"memory": "40 GiB", "seconds": 4.0}`. Without a limit on memory a plan must fit into the memory of its devices;
    - `pins`: values of fixed decisions, `{"model": 8, "zero": "zero_1", "stage": 1}`: mesh axes by their size, and
      `PINNED`;
    - `on_progress` receives each state; `is_cancelled` is called after each state;
    - `open_answerer` makes the answerer (workers, a cluster); default: this process;
    - `again`: an earlier result, whose work is reused if the space is the same;
    - `until`: `"complete"` for the whole front, or `"proved"` to stop once the best plan is proved;
    - `compilers` are used by `SearchResult.verify`;
    - `verify`: number of plans that the `compilers` check during the search and in its remaining time; `None`: those of
      `list_contenders`. `best` and the front follow their results; `on_verified` receives each compiled plan;
    - `begin`: start of the time limit by `time.perf_counter`; default: this call. Making the space counts;
    - `choices`: arguments of `make_space`.

    Raises `SearchError` for unknown names and contradictory arguments.
    """
    if not isinstance(within, int | float) or not within >= 0:
        raise SearchError(wrong_type("within", within, "seconds"), ["write `within=60`"])
    begin = time.perf_counter() if begin is None else begin
    space = make_space(plan, **choices)
    requirements = read_requirements(space, at_most or {}, pins or {}, objective)
    space = fit_boundaries(space, requirements)
    evaluator = again.evaluator if again is not None and again.space == space else Evaluator(space)
    candidate = find_candidate(space, plan)
    present = evaluate_present(evaluator, plan, candidate)
    answerer = open_answerer(evaluator) if open_answerer else None

    def report_verified(verified: VerifiedPlan | None) -> None:
        if verified is not None and verified.compiled is not NOT_COMPILED:
            on_verified(verified)

    verifier = BackgroundVerifier(space, compilers, report_verified) if compilers is not None and verify != 0 else None
    latest: deque[SearchState] = deque(maxlen=1)
    shown = 0.0
    found: dict[PlanCandidate, Figures] = {}

    def show_contenders() -> None:
        if verifier is not None:
            verifier.show(list_contenders(found, requirements, objective, candidate, verify))

    with closing(answerer) if answerer is not None else nullcontext(), verifier or nullcontext():
        for state in run_search(
            space,
            requirements,
            objective=objective,
            within=within,
            begin=begin,
            most_evaluations=most_evaluations,
            is_cancelled=lambda: bool(latest) and is_cancelled(),
            answerer=answerer,
            evaluator=evaluator,
            present=candidate,
            until=until,
            found=found,
        ):
            if on_progress is not None:
                on_progress(state)
            latest.append(state)
            if state.best is not None and state.elapsed >= shown + _EVERY:
                shown = state.elapsed
                show_contenders()
        if verifier is not None and latest and latest[0].ending != CANCELLED:
            show_contenders()
            if answerer is not None:
                answerer.close()
            verifier.wait(begin + within, is_cancelled)
    if not latest:
        raise SearchError("The search ended before it began.", ["search again"])
    left = max(within - (time.perf_counter() - begin), _LEAST_LEFT * within)
    result = SearchResult(space, requirements, latest[0], evaluator, present, left, compilers)
    return result.with_verified(verifier.verified) if verifier is not None else result


def read_requirements(
    space: SearchSpace, at_most: Mapping[str, float | str], pins: Mapping[str, Any], objective: str = "seconds"
) -> tuple[Requirement, ...]:
    """Read the requirements. Raises `SearchError` for unknown names, `HardwareError` without a needed price."""
    limits = {name: _read_limit(name, value) for name, value in at_most.items()}
    hardware = [parsed for text, _ in space.hardware if (parsed := read_hardware(text or None)) is not None]
    if "memory" not in limits and hardware:
        limits["memory"] = float(min(machine.chip.memory for machine in hardware))
    if "dollars" in (*limits, objective):
        for machine in hardware:
            machine.known_hourly_price()
        if not hardware:
            raise SearchError("The cost of a step is unknown: the plan has no hardware.", ['search with hardware, "TPU v5p 8x16x16"'])
    return (*(AtMost(name, limit) for name, limit in limits.items()), *(_read_pin(space, name, value) for name, value in pins.items()))


def fit_boundaries(space: SearchSpace, requirements: Sequence[Requirement]) -> SearchSpace:
    """Limit the memory of the boundaries and per-stage layouts of a space, if it has a choice of these."""
    limits = [limit.limit for limit in requirements if isinstance(limit, AtMost) and limit.figure == "memory"]
    has_choice = len(space.boundaries) > 1 or any(layout.is_per_stage for layout in space.layouts)
    return replace(space, most_memory=min(limits, default=inf)) if has_choice else space


def _read_limit(name: str, value: float | str) -> float:
    if name not in FIGURES:
        raise SearchError(*unknown_name("figure", name, FIGURES))
    if isinstance(value, str) and name == "memory" and (count := parse_bytes(value)) is not None:
        return float(count)
    if isinstance(value, str) and name == "seconds" and (seconds := parse_time(value)) is not None:
        return seconds
    try:
        return float(value)
    except (TypeError, ValueError):
        expected, fix = {"memory": ("bytes", 'write "40 GiB"'), "seconds": ("seconds", 'write 4.0 or "250 ms"')}.get(
            name, ("a number", "write a number")
        )
        raise SearchError(wrong_type(f'at_most["{name}"]', value, expected), [fix]) from None


def _read_pin(space: SearchSpace, name: str, value: Any) -> Pin:
    values = tuple(value) if isinstance(value, Sequence) and not isinstance(value, str) else (value,)
    if name in WIDE_AXES and name not in space.axes:
        return _read_absent_axis(name, values)
    names = (*PINNED, *space.axes)
    if name not in names:
        raise SearchError(*unknown_name("decision", name, names))
    choices = {
        "layout": [layout.name for layout in space.layouts],
        "zero": space.zeros,
        "remat": space.remats,
        "precision": space.precisions,
        "offload": space.offloads,
        "schedule": (*space.schedules, ""),
        "boundaries": space.boundaries,
        "hardware": [text for text, _ in space.hardware],
    }.get(name)
    for pinned in values:
        if choices is not None and pinned not in choices:
            if name == "layout" and (reason := layout_error(space.start, space.axes, str(pinned))):
                raise SearchError(reason, [f"pin `layout` to {choice}" for choice in choices[:_FEW]])
            raise SearchError(*unknown_name(name, str(pinned), [str(choice) for choice in choices]))
        if choices is None and (not isinstance(pinned, int) or isinstance(pinned, bool) or pinned < 1):
            raise SearchError(wrong_type(f'pins["{name}"]', pinned, "a whole number from 1"), [f'write {{"{name}": 1}}'])
    if name in space.axes and not {*values} & {*(sizes := space.sizes_of(name))}:
        raise _impossible_size_error(space, name, values, sizes)
    return Pin(name, values)


def _impossible_size_error(space: SearchSpace, name: str, values: tuple[int, ...], sizes: Sequence[int]) -> SearchError:
    possible = f"{', '.join(map(str, sizes[:-1]))} or {sizes[-1]}" if len(sizes) > 1 else f"{sizes[0]}"
    pinned = " or ".join(map(str, values))
    if all(devices % value for value in values for _, devices in space.hardware):
        reason = f"none of {pinned} divides {space.devices_text}" if len(values) > 1 else f"{pinned} does not divide {space.devices_text}"
    elif name == "stage":
        reason = f"the program has {space.blocks:,} blocks, and a pipeline of the space {space.most_stages:,} stages at most"
    elif name == "data" and space.batch:
        reason = f"{pinned} does not divide the batch of {space.batch:,}"
    else:
        reason = "no layout of it uses an axis of that size"
    return SearchError(
        f"No plan in the search space has `{name}={pinned}`: {reason}.", [f"pin `{name}` to {possible}", "leave the pin out"]
    )


def _read_absent_axis(name: str, values: tuple[Any, ...]) -> Pin:
    if 1 in values:
        return Pin(name, values)
    reason = {
        "stage": "its program cannot be divided into stages and micro-batches, or the axis was excluded",
        "data": "its program has no batch dimension, or the axis was excluded",
    }.get(name, "none of its layouts uses it")
    fixes = [f"pin `{name}` to 1", "remove the pin", *(["search the wide space"] if name in ("context", "expert") else [])]
    raise SearchError(f"No plan in the search space has a mesh axis `{name}`: {reason}.", fixes)
