"""No value is gathered whole only to be split again."""

from dataclasses import dataclass
from typing import ClassVar

from workbench.analysis.analyze import analyze
from workbench.exercises.goals.goal import Goal
from workbench.plan.plan import Plan
from workbench.reports.report import Report


@dataclass(frozen=True, slots=True)
class GathersNothingWhole(Goal):
    """No value is gathered whole on every device to be resharded (*involuntary full rematerialization*).

    XLA's partitioner is asked, and warns of none.
    """

    name: ClassVar[str] = "gathers_nothing_whole"

    def describe(self) -> str:
        return "No value is gathered whole to be resharded."

    def is_quick(self, report: Report) -> bool:
        return report.partitioned is not None

    def miss(self, report: Report, start: Plan) -> str:
        del start
        asked = report if report.partitioned else _ask_partitioner(report.plan)
        places = [str(each) for each in asked.reshards if each.rematerialises]
        warned = (
            [f"{each.shape} from {each.before} to {each.after}" for each in asked.partitioned.gathered_whole] if asked.partitioned else []
        )
        return f"Gathered whole, then sliced: {(places or warned)[0]}." if warned else ""


def _ask_partitioner(plan: Plan) -> Report:
    """The plan's report with the answer of XLA's partitioner."""
    from workbench.engine import partition_plan  # loads JAX and the engine, which a board does without until it is asked this

    return analyze(plan, answer=partition_plan(plan))
