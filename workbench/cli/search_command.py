"""`workbench search`: the front of a plan's alternatives as it fills, the best of them, and why."""

import argparse
import json
import sys
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from workbench.cli.plan_arguments import plan_on_the_cpu
from workbench.plan.plan import Plan
from workbench.search.figures import Figures
from workbench.search.find_plans import find_plans
from workbench.search.search_result import SearchResult
from workbench.search.search_state import SearchState
from workbench.text.search import clash_text, counterfactual_text, ledger_text, progress_text
from workbench.units import format_bytes

if TYPE_CHECKING:
    from workbench.engine.search import VerifiedPlan

_EVERY = 1.0  # seconds between two lines of progress


def search(options: argparse.Namespace) -> None:
    """Search, with a line of progress every second on standard error; then the front, and the best plan's file."""
    kind = options.hardware
    if options.devices is not None:  # `--hardware "TPU v5p"` names a kind alone
        options.hardware = None
    from workbench.engine import open_answerer
    from workbench.engine.search import verify_plans

    plan = plan_on_the_cpu(options)
    wanted = {
        "devices": options.devices,
        "hardware": kind if options.devices is not None else None,
        "keep": options.keep,
        "wide": options.wide,
        "layouts": options.layouts,
        "precisions": options.precisions,
    }
    result = find_plans(
        plan,
        within=options.within,
        objective=options.objective,
        at_most=dict(_pair(text, options.parser) for text in options.at_most),
        pins={name: _value(value) for name, value in (_pair(text, options.parser) for text in options.pin)},
        on_progress=_Printer().show,
        open_answerer=partial(open_answerer, workers=options.workers, cluster=options.cluster),
        until=options.until,
        **wanted,
    )
    if options.output:
        _save(result.best, options.output)
    print(json.dumps(search_record(result), indent=1) if options.json else result)
    if options.why and not options.json:
        print(_why(result))
    if options.verify and result.front:
        print("\nCompiled", file=sys.stderr)
        verify_plans(result, options.verify, lambda each: print(verified_text(each), file=sys.stderr, flush=True))


def verified_text(each: "VerifiedPlan") -> str:
    """`holds 6.39 GiB, planned 6.63 GiB (+3.8%): data:8 model:2, ...`, or why it was refused."""
    if each.peak is None or each.memory_error is None:
        return f"  refused: {each.candidate}: {each.refusal}"
    held, planned = format_bytes(each.peak), format_bytes(int(each.planned.memory))
    return f"  holds {held}, planned {planned} ({each.memory_error:+.1%}): {each.candidate}"


def search_record(result: SearchResult) -> dict[str, Any]:
    """The result as plain values."""
    state = result.state
    front = [{"plan": str(candidate), **_figures_record(figures)} for candidate, figures in result.front]
    present = result.present
    return {
        "space": result.space.describe(),
        "combinations": result.space.size,
        "requirements": [str(each) for each in result.requirements],
        "objective": state.objective,
        "elapsed": state.elapsed,
        "evaluated": state.evaluated,
        "bounded": state.bounded,
        "gap": state.gap,
        "proved": state.is_proved,
        "front_proved": state.is_complete,
        "front": front,
        "present": present and {"plan": present.candidate and str(present.candidate), **_figures_record(present.figures)},
        "clash": None if front else clash_text(result.clash),
    }


def _figures_record(figures: Figures) -> dict[str, float | None]:
    return {"seconds": figures.seconds, "memory": figures.memory, "devices": figures.devices, "dollars": figures.dollars}


def _why(result: SearchResult) -> str:
    if not result.front:
        return f"\n{clash_text(result.clash)}"
    figures = result.state.best[1] if result.state.best else result.front[0][1]
    lines = ["What if", *(f"  {counterfactual_text(each, figures)}" for each in result.what_if())]
    ledger = [f"Why this one: from the runner-up to the best\n{ledger_text(result.why())}\n"] if len(result.front) > 1 else []
    return "\n".join(["", *ledger, *lines])


def _save(plan: Plan, path: str) -> None:
    from workbench.documents import save_plan

    save_plan(plan, path)


def _pair(text: str, parser: argparse.ArgumentParser) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name or not value:
        parser.error(f"{text}: write NAME=VALUE")
    return name.strip(), value.strip()


def _value(text: str) -> int | str | Sequence[int | str]:
    """Numbers as numbers; several values with `|` between them."""
    found = [int(each) if each.isdecimal() else each for each in text.split("|")]
    return found[0] if len(found) == 1 else found


class _Printer:
    """Prints a line of progress now and then."""

    def __init__(self) -> None:
        self._last = -_EVERY

    def show(self, state: SearchState) -> None:
        if state.elapsed - self._last >= _EVERY or state.is_complete:
            self._last = state.elapsed
            print(progress_text(state), file=sys.stderr, flush=True)
