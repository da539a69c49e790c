"""Background verification of a search's contenders: all by XLA's partitioner, then by the compiler."""

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
from workbench.search.present_plan import board_plan
from workbench.search.search_figures import Figures, planned_figures
from workbench.search.search_space import SearchSpace
from workbench.search.tier_ranks import Entries, best_known

NOT_COMPILED = TierFigures(reason="It was not compiled.")
_log = logging.getLogger(__name__)
Verified = dict[PlanCandidate, tuple[Figures, VerifiedPlan]]


class BackgroundVerifier:
    """Thread that asks the compilers about plans while a search runs; use it as a context manager.

    `verified` maps each plan to its planned and verified figures as soon as a tier is known. `on_known` is called from
    the thread after each answer, with `None` when the queue is empty. Failures are logged. An answer that is pending on
    exit is dropped.

    - `compiles`: whether to compile all plans, not only those passed to `ask`;
    - `known`: earlier verification results.
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
        """End the thread after the current question."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    @property
    def is_idle(self) -> bool:
        return self._is_idle

    @property
    def asking(self) -> tuple[PlanCandidate, TierName] | None:
        """The requested plan, else the current one, with the tier that is pending."""
        wanted, current = self._next_wanted(), self._current
        return current if wanted is None or (current and current[0] == wanted[0]) else (wanted[0], "partitioned")

    def _next_wanted(self) -> tuple[PlanCandidate, Figures] | None:
        return next((entry for entry in self._wanted if entry[0] not in self._compiled), None)

    def withdraw(self) -> None:
        with self._changed:
            self._wanted = ()

    def ask(self, candidate: PlanCandidate, planned: Figures) -> None:
        """Verify this plan next, compiler included, even if it was verified before."""
        with self._changed:
            self._wanted, self._is_idle = ((candidate, planned), *self._wanted), False
            self._reports.pop(candidate, None)
            self._compiled.discard(candidate)
            self._changed.notify_all()

    def show(self, contenders: Entries) -> None:
        """Replace the plans to verify; results of other plans are kept."""
        with self._changed:
            self._contenders, self._is_idle = contenders, False
            self._changed.notify_all()

    def wait(self, end: float, is_cancelled: Callable[[], bool]) -> None:
        """Wait until all contenders are verified, until `end` (a time of `time.perf_counter`), or until cancelled."""
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
            except Exception:  # noqa: BLE001 - a plan that fails must not stop the verification of the others
                _log.exception("Asking the compilers about %s failed", task[0])
            self._current = None

    def _next(self) -> tuple[PlanCandidate, Figures] | None:
        """A requested plan, else the first contender not partitioned yet, else the fastest one not compiled yet."""
        if (wanted := self._next_wanted()) is not None:
            return wanted
        for candidate, figures in self._contenders:
            if candidate not in self._reports and (candidate not in self.verified or self._compiles):
                return candidate, figures
        uncompiled = [entry for entry in self._contenders if entry[0] not in self._compiled and entry[0] in self.verified]
        order = lambda entry: best_known(entry[1], self.verified[entry[0]][1]).figures.seconds  # noqa: E731
        return min(uncompiled, key=order, default=None) if self._compiles else None

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
            plan = board_plan(self._space, candidate)  # the partitioner caches its answers by plan
        except WorkbenchError:  # the search has planned it, so this is a cancellation
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
