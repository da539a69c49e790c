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
from workbench.reports.verified_plan import TierFigures, VerifiedPlan
from workbench.search.candidate_plans import candidate_plan
from workbench.search.plan_candidate import PlanCandidate
from workbench.search.search_figures import Figures
from workbench.search.search_space import SearchSpace
from workbench.search.tier_ranks import Entries, best_known

NOT_COMPILED = TierFigures(reason="It was not compiled: the time of the search was over.")
_log = logging.getLogger(__name__)
Verified = dict[PlanCandidate, tuple[Figures, VerifiedPlan]]


class BackgroundVerifier:
    """Used as a context. `verified` has each plan with its planned figures as soon as a tier is known; `on_verified` is called from the
    thread once all of them are. A failure is logged. An answer that is awaited when it ends is given up."""

    def __init__(self, space: SearchSpace, compilers: Compilers, on_verified: Callable[[VerifiedPlan], None]) -> None:
        self.verified: Verified = {}
        self._space, self._compilers, self._on_verified = space, compilers, on_verified
        self._contenders: Entries = ()
        self._reports: dict[PlanCandidate, Report | None] = {}
        self._compiled: set[PlanCandidate] = set()
        self._changed = threading.Condition()
        self._is_closed = self._is_idle = False
        self._thread = threading.Thread(target=self._work, daemon=True, name="verify contenders")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._is_closed = True
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
        while True:
            with self._changed:
                while not self._is_closed and (task := self._next()) is None:
                    self._is_idle = True
                    self._changed.notify_all()
                    self._changed.wait()
                if self._is_closed or task is None:
                    return
            try:
                self._ask(*task)
            except Exception:  # noqa: BLE001 - one plan that fails is no reason to ask about no other, and to wait for all
                _log.exception("Asking the compilers about %s failed", task[0])

    def _next(self) -> tuple[PlanCandidate, Figures] | None:
        """The first that was not partitioned; then the fastest by what is known that was not compiled."""
        if (waiting := next((entry for entry in self._contenders if entry[0] not in self._reports), None)) is not None:
            return waiting
        uncompiled = [entry for entry in self._contenders if entry[0] not in self._compiled and entry[0] in self.verified]
        return min(uncompiled, key=lambda entry: best_known(entry[1], self.verified[entry[0]][1]).figures.seconds, default=None)

    def _ask(self, candidate: PlanCandidate, figures: Figures) -> None:
        if candidate not in self._reports:
            self._partition(candidate, figures)
            return
        self._compiled.add(candidate)
        verified = self.verified[candidate][1]
        compiled = ask_compiler(verified.plan, self._reports[candidate], self._compilers)
        self._keep(candidate, figures, replace(verified, compiled=compiled))

    def _partition(self, candidate: PlanCandidate, figures: Figures) -> None:
        self._reports[candidate] = None
        try:
            plan = candidate_plan(self._space, candidate)
        except WorkbenchError:  # the search has planned it: it is interrupted
            return
        partitioned, self._reports[candidate] = ask_partitioner(plan, self._compilers)
        planned = TierFigures(figures.seconds if plan.hardware else None, figures.memory)
        self._keep(candidate, figures, VerifiedPlan(plan, str(candidate), planned, partitioned, NOT_COMPILED))

    def _keep(self, candidate: PlanCandidate, figures: Figures, verified: VerifiedPlan) -> None:
        with self._changed:
            if self._is_closed:
                return
            self.verified = {**self.verified, candidate: (figures, verified)}
        if verified.compiled is not NOT_COMPILED:
            self._on_verified(verified)
