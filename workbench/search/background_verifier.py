"""Asks the compilers about the contenders of a search while it goes on, in a thread: XLA's partitioner about all, then the compiler."""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Self

from workbench.analysis.verify_plan import Compilers, ask_compiler, ask_partitioner
from workbench.errors import WorkbenchError
from workbench.reports.report import Report
from workbench.reports.verified_plan import TierFigures, TierName, VerifiedPlan
from workbench.search.plan_candidate import PlanCandidate
from workbench.search.present_plan import opened_plan
from workbench.search.search_figures import Figures, planned_figures
from workbench.search.search_space import SearchSpace
from workbench.search.tier_ranks import Entries, best_known

NOT_COMPILED = TierFigures(reason="It was not compiled.")
_log = logging.getLogger(__name__)
Verified = dict[PlanCandidate, tuple[Figures, VerifiedPlan]]


class BackgroundVerifier:
    """Used as a context. `verified` has each plan with its planned figures as soon as a tier is known; `on_known` is called from the
    thread after each answer, and when nothing is left to ask. A failure is logged. An answer that is awaited when it ends is given up.

    - `compiles`: whether the compiler is asked about all plans, and not only about those that are `ask`ed about;
    - `known`: what was verified before.
    """

    def __init__(
        self,
        space: SearchSpace,
        compilers: Compilers,
        on_known: Callable[[VerifiedPlan | None], None],
        *,
        compiles: bool = True,
        known: Verified | None = None,
    ) -> None:
        self.verified: Verified = known or {}
        self._current: tuple[PlanCandidate, TierName] | None = None
        self._space, self._compilers, self._on_known, self._compiles = space, compilers, on_known, compiles
        self._contenders: Entries = ()
        self._wanted: Entries = ()
        self._reports: dict[PlanCandidate, Report | None] = {}
        self._compiled: set[PlanCandidate] = set()
        self._changed = threading.Condition()
        self._is_closed = self._is_idle = False
        self._thread = threading.Thread(target=self._work, daemon=True, name="verify contenders")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the thread after the question under way."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    @property
    def is_idle(self) -> bool:
        """Whether nothing is left to ask."""
        return self._is_idle

    @property
    def asking(self) -> tuple[PlanCandidate, TierName] | None:
        """The plan that was asked for, or else the one under way, and the tier that is awaited."""
        wanted, current = self._next_wanted(), self._current
        return current if wanted is None or (current and current[0] == wanted[0]) else (wanted[0], "partitioned")

    def _next_wanted(self) -> tuple[PlanCandidate, Figures] | None:
        return next((entry for entry in self._wanted if entry[0] not in self._compiled), None)

    def withdraw(self) -> None:
        """Ask about nothing that was asked for, but for the question under way."""
        with self._changed:
            self._wanted = ()

    def ask(self, candidate: PlanCandidate, planned: Figures) -> None:
        """Ask about this plan next, the compiler as well, and again where it was asked."""
        with self._changed:
            self._wanted, self._is_idle = ((candidate, planned), *self._wanted), False
            self._reports.pop(candidate, None)
            self._compiled.discard(candidate)
            self._changed.notify_all()

    def show(self, contenders: Entries) -> None:
        """The plans to ask about now; what is known of others stays."""
        with self._changed:
            self._contenders, self._is_idle = contenders, False
            self._changed.notify_all()

    def wait(self, end: float, is_cancelled: Callable[[], bool]) -> None:
        """Until all contenders are known, or that time of `time.perf_counter`, or until it is cancelled."""
        with self._changed:
            while not self._is_idle and (left := end - time.perf_counter()) > 0 and not is_cancelled():
                self._changed.wait(min(left, 0.1))

    def _work(self) -> None:
        while not self._is_closed:
            with self._changed:
                task = self._next()
                if task is None and self._is_idle:
                    self._changed.wait_for(lambda: self._is_closed or not self._is_idle)
                    continue
                self._is_idle = task is None
                self._changed.notify_all()
            if task is None:
                self._on_known(None)
                continue
            try:
                self._ask(*task)
            except Exception:  # noqa: BLE001 - one plan that fails is no reason to ask about no other, and to wait for all
                _log.exception("Asking the compilers about %s failed", task[0])
            self._current = None

    def _next(self) -> tuple[PlanCandidate, Figures] | None:
        """What was asked for; the first that was not partitioned; then the fastest by what is known that was not compiled."""
        if (wanted := self._next_wanted()) is not None:
            return wanted
        if (waiting := next((entry for entry in self._contenders if not self._is_partitioned(entry[0])), None)) is not None:
            return waiting
        uncompiled = [entry for entry in self._contenders if entry[0] not in self._compiled and entry[0] in self.verified]
        order = lambda entry: best_known(entry[1], self.verified[entry[0]][1]).figures.seconds  # noqa: E731
        return min(uncompiled, key=order, default=None) if self._compiles else None

    def _is_partitioned(self, candidate: PlanCandidate) -> bool:
        return candidate in self._reports or (candidate in self.verified and not self._compiles)

    def _ask(self, candidate: PlanCandidate, figures: Figures) -> None:
        self._current = candidate, "compiled" if candidate in self._reports else "partitioned"
        if candidate not in self._reports:
            self._partition(candidate, figures)
            return
        self._compiled.add(candidate)
        verified = self.verified.get(candidate)
        if verified is not None:
            compiled = ask_compiler(verified[1].plan, self._reports[candidate], self._compilers)
            self._keep(candidate, figures, replace(verified[1], compiled=compiled))

    def _partition(self, candidate: PlanCandidate, figures: Figures) -> None:
        self._reports[candidate] = None
        try:
            plan = opened_plan(self._space, candidate)  # the partitioner keeps its answers by plan
        except WorkbenchError:  # the search has planned it: it is interrupted
            return
        partitioned, self._reports[candidate] = ask_partitioner(plan, self._compilers)
        planned = planned_figures(plan, figures)
        self._keep(candidate, figures, VerifiedPlan(plan, str(candidate), planned, partitioned, NOT_COMPILED))

    def _keep(self, candidate: PlanCandidate, figures: Figures, verified: VerifiedPlan) -> None:
        with self._changed:
            if self._is_closed:
                return
            self.verified = {**self.verified, candidate: (figures, verified)}
        self._on_known(verified)
