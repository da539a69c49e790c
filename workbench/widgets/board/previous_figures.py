"""The figures of the present plan, tier by tier, and those of the plan before: the effect of an edit is shown within one tier."""

from workbench.reports.report import Report
from workbench.widgets.board.comparison_state import ComparisonState, comparison_state
from workbench.widgets.board.key_figures import figures
from workbench.widgets.board.tier_marks import Figure
from workbench.widgets.run.board_jobs import Jobs


class FigureHistory:
    """The present figures and those before; `comparison_state` compares them with what was compiled and measured."""

    def __init__(self) -> None:
        self.now: tuple[Figure, ...] = ()
        self.comparison_state: ComparisonState | None = None
        self._by_tier: dict[str, tuple[Figure, ...]] = {}  # of the present plan
        self._before: dict[str, tuple[Figure, ...]] = {}  # of the plan before

    def begin(self) -> None:
        """Another plan: the present figures become those of the plan before."""
        self._before, self._by_tier = self._by_tier, {}

    def learn(self, report: Report, jobs: Jobs) -> None:
        """Compare the present report with what was compiled and measured."""
        live = jobs.live
        self.comparison_state = comparison_state(report, jobs.compiling, live, self.comparison_state)
        ran, own = live.run_to_show(report.plan), live.of(report.plan)
        found = figures(report, self.comparison_state, ran.measurement if ran else None, stale=own is None)
        self.now = self._by_tier[report.tier] = found

    def before(self, tier: str) -> tuple[Figure, ...]:
        """The figures of the plan before, in this tier if it had them."""
        return self._before.get(tier) or next(iter(self._before.values()), ())
