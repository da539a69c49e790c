"""`workbench search`: print the front while it fills, the best plan and the reasons; Ctrl-C stops with the plans found
so far.

`workbench latency`: latency against throughput of a decode step, over batch sizes and slices of hardware.
"""

import argparse
import json
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from typing import Any

from workbench import engine
from workbench.analysis.verify_plan import Compilers
from workbench.cli.event_log import event_log
from workbench.cli.plan_arguments import plan_on_the_cpu
from workbench.documents import save_plan
from workbench.plan.plan import Plan
from workbench.reports.latency_front import LatencyFront
from workbench.reports.verified_plan import VerifiedPlans, verified_line, verified_record
from workbench.search.decode_front import latency_front
from workbench.search.explain import counterfactual_text, ledger_text
from workbench.search.find_plans import find_plans
from workbench.search.requirement_conflicts import requirement_conflict_text
from workbench.search.search_result import SearchResult
from workbench.search.search_state import CANCELLED, SearchState, progress_text
from workbench.search.tier_ranks import PRESENT, row_record

_DERIVED = ("seconds_per_token", "tokens_per_second", "tokens_per_second_per_chip", "fits")  # of a decoding step
_EVERY = 1.0  # seconds between two lines of progress
_SHARE_OF_WHY = 0.15
"""Share of the time limit reserved for the plans that `--why` evaluates."""


def search(options: argparse.Namespace) -> None:
    """Search with a line of progress every second on stderr, then print the front and write the best plan. Raises
    `SearchError` if no plan was found.
    """
    kind = options.hardware
    if options.devices is not None:  # `--hardware "TPU v5p"` names a kind alone
        options.hardware = None
    with event_log(options) as log:
        plan = plan_on_the_cpu(options)
        log.started("search", plan.name)
        result = _find(plan, kind, options)
        if not result.front:
            _show_clash(result, options)
            raise result.no_plan_error()
        result, why = _explain(result, lambda: time.perf_counter() - options.begin >= options.within) if options.why else (result, "")
        if options.events:
            log.found(result.best)
    if options.output:
        save_plan(result.best, options.output)
    if options.json:
        print(json.dumps(search_record(result), indent=1))
        return
    print(f"{result}{why}")
    if options.verify and result.verified:
        print(f"\n{VerifiedPlans(tuple(each for _, each in result.verified.values()))}")


def _show_clash(result: SearchResult, options: argparse.Namespace) -> None:
    """Print the conflict of requirements, next to the error."""
    if options.json:
        print(json.dumps(search_record(result), indent=1))
    elif options.why:
        print(requirement_conflict_text(result.clash))


def _find(plan: Plan, kind: str | None, options: argparse.Namespace) -> SearchResult:
    wanted = {
        "devices": options.devices,
        "hardware": kind if options.devices is not None else None,
        **{name: getattr(options, name) for name in ("keep", "wide", "layouts", "remats", "offloads", "boundaries")},
        "precisions": options.precisions or (),
    }
    stopping = "Stopping; the plans found so far follow (press Ctrl-C again to quit immediately)."
    with first_interrupt(partial(_say, stopping)) as is_stopped:
        return find_plans(
            plan,
            within=options.within * (1 - _SHARE_OF_WHY * options.why),
            begin=options.begin,
            objective=options.objective,
            at_most=dict(_pair(text, options.parser) for text in options.at_most),
            pins={name: _value(value) for name, value in (_pair(text, options.parser) for text in options.pin)},
            on_progress=_Printer().show,
            is_cancelled=is_stopped,
            open_answerer=partial(engine.open_answerer, workers=options.workers, cluster=options.cluster),
            until=options.until,
            compilers=Compilers(engine.partition_plan, engine.compile_plan),
            verify=options.verify,
            on_verified=lambda verified: _say(verified_line(verified)),
            **wanted,
        )


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def search_record(result: SearchResult) -> dict[str, Any]:
    """The result as plain values."""
    state = result.proof
    rows = result.rows
    front = [row_record(each) for each in rows if each.key != PRESENT]
    verified = [verified_record(each) for _, each in result.verified.values()]
    present = next((each for each in rows if each.is_present), None)
    return {
        "space": result.space.describe(),
        "combinations": result.space.size,
        "requirements": [str(each) for each in result.requirements],
        "objective": state.objective,
        "elapsed": state.elapsed,
        "evaluated": state.evaluated,
        "bounded": state.bounded,
        "ending": state.ending,
        "lower_bound": state.least or None,
        "gap": state.gap,
        "proved": state.is_proved,
        "front_proved": state.is_complete,
        "front": front,
        "present": present and {**row_record(present), "plan": present.candidate and str(present.candidate)},
        "verified": verified or None,
        "clash": None if front else requirement_conflict_text(result.clash),
    }


def _explain(result: SearchResult, is_over: Callable[[], bool]) -> tuple[SearchResult, str]:
    """Explain the best plan in words. If a changed decision improves it, explain that plan instead. A cancelled search
    plans nothing more.
    """
    if result.state.ending == CANCELLED:
        return result, ""
    while (better := result.with_tried(changes := result.what_if(is_over=is_over))).state.best != result.state.best:
        result = better
    if len(result.front) > 1 and not is_over():
        ledger = [f"Why this one: from the runner-up to the best\n{ledger_text(result.why())}\n"]
    else:
        ledger = []
    return result, "\n".join(["\n", *ledger, "What if", *(f"  {counterfactual_text(each, each.base)}" for each in changes)])


def _pair(text: str, parser: argparse.ArgumentParser) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name or not value:
        parser.error(f"{text}: write NAME=VALUE")
    return name.strip(), value.strip()


def _value(text: str) -> int | str | Sequence[int | str]:
    """Parse numbers as numbers; several values are separated by `|`."""
    values = [int(each) if each.isdecimal() else each for each in text.split("|")]
    return values[0] if len(values) == 1 else values


class _Printer:
    """Prints a line of progress at most once per second."""

    def __init__(self) -> None:
        self._last = -_EVERY

    def show(self, state: SearchState) -> None:
        if state.elapsed - self._last >= _EVERY or state.ending:
            self._last = state.elapsed
            _say(progress_text(state))


# Ctrl-C as a request to stop: the first one sets a flag, the second one exits.


@contextmanager
def first_interrupt(say: Callable[[], None]) -> Iterator[Callable[[], bool]]:
    """Yield a function that tells whether Ctrl-C was pressed; `say` is called on the first press.

    Signals reach only the main thread; in another thread the flag is never set. A second Ctrl-C raises
    `KeyboardInterrupt`.
    """
    heard = threading.Event()

    def hear(number: int, _frame: object) -> None:
        signal.signal(number, signal.default_int_handler)
        heard.set()
        say()

    if threading.current_thread() is not threading.main_thread():
        yield heard.is_set
        return
    before = signal.signal(signal.SIGINT, hear)
    try:
        yield heard.is_set
    finally:
        signal.signal(signal.SIGINT, before)


def latency(options: argparse.Namespace) -> None:
    """Print the points, the fastest first."""
    front = latency_front(plan_on_the_cpu(options), options.batches, options.on)
    print(json.dumps(latency_record(front), indent=1) if options.json else front)


def latency_record(found: LatencyFront) -> dict[str, Any]:
    """A front as JSON, including derived figures of each point."""
    return {
        "plan": found.plan,
        "points": [asdict(each) | {name: getattr(each, name) for name in _DERIVED} for each in found.points],
        "impossible": [asdict(each) for each in found.impossible],
    }
