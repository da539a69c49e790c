"""Questions with a plan as the answer: a start plan, the settings that may change, and the goals to meet.

    one = PlanQuestion(plan, Lies("up/dot_general", "[data, model]"), FewStatements(1))
    one.check("@up/dot_general=[data, model]")  # Right.

Any plan that meets every goal is right. An answer contains no code; grading plans it but never runs it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from workbench.analysis.analyze import analyze
from workbench.documents.plan_documents import parse_plan
from workbench.errors import WorkbenchError
from workbench.exercises.goals.goal import Goal
from workbench.exercises.variants import Variant, build_once
from workbench.exercises.verdict import CHANGE_WORDS, Check, Verdict, change_words, question_markdown, refusal
from workbench.plan.plan import Plan
from workbench.public_plan import Plan as PublicPlan
from workbench.public_plan import as_public
from workbench.reports.report import Report

ALL_CHANGES = ("layout", "mesh", "pipeline", "remat", "precision", "offload", "axis_assignment", "devices")
"""Settings that an answer may change; `mesh` keeps the number of devices, `devices` may change it and the topology."""
DEFAULT_CHANGES = tuple(change for change in ALL_CHANGES if change != "devices")


@dataclass(frozen=True, slots=True)
class ScoredGoal:
    """A goal with its points, and a hint for answers that miss it."""

    goal: Goal
    points: float = 1.0
    hint: str = ""


@dataclass(frozen=True, slots=True, init=False)
class PlanQuestion:
    """A question that starts from a plan and asks for one that meets `goals`, also in each of its `variants`.

    `start` may be the text of a plan document, which is parsed on first use.
    """

    start: Plan | str
    goals: tuple[ScoredGoal, ...]
    name: str
    ask: str
    may_change: tuple[str, ...]
    variants: tuple[Variant, ...]
    hints: tuple[str, ...]

    def __init__(
        self,
        start: Plan | str,
        *goals: Goal | ScoredGoal,
        name: str = "",
        ask: str = "",
        may_change: Sequence[str] = DEFAULT_CHANGES,
        variants: Sequence[Variant] = (),
        hints: Sequence[str] = (),
    ) -> None:
        object.__setattr__(self, "start", start)
        object.__setattr__(self, "goals", tuple(goal if isinstance(goal, ScoredGoal) else ScoredGoal(goal) for goal in goals))
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "ask", ask)
        object.__setattr__(self, "may_change", tuple(may_change))
        object.__setattr__(self, "variants", tuple(variants))
        object.__setattr__(self, "hints", tuple(hints))

    @property
    def plan(self) -> PublicPlan:
        """The start plan. Raises `DocumentError` if its document cannot be read."""
        return as_public(self.start) if isinstance(self.start, Plan) else _parse_start(self.start, self.name)

    @property
    def how(self) -> str:
        return change_words(self.may_change)

    @property
    def points(self) -> float:
        return sum(item.points for item in self.goals) + sum(item.points for item in self.variants)

    def check(self, answer: "str | Plan", attempt: int = 1) -> Verdict:
        """The verdict on a plan, or on a layout applied to the start plan; illegal layouts yield the planner's error.

        Each `attempt` after the first reveals one more hint.
        """
        try:
            plan = answer if isinstance(answer, Plan) else self.plan.updated(layout=answer)
            if differences := tuple(self.differences(plan)):
                return refusal(differences, self.points, self._hints(attempt))
            return self.judge(analyze(plan), attempt)
        except WorkbenchError as error:
            return refusal((str(error),), self.points, self._hints(attempt))

    def judge(self, report: Report, attempt: int = 1) -> Verdict:
        """The verdict on an admissible plan, from its report."""
        checks = [*self._checks(report), *(self._check_variant(item, report.plan) for item in self.variants)]
        missed = any(not item.is_met for item in checks)
        check_hints = tuple(dict.fromkeys(item.hint for item in checks if item.hint and not item.is_met))
        return Verdict(tuple(checks), (*check_hints, *self._hints(attempt)) if missed else ())

    def is_about(self, plan: Plan) -> bool:
        """Whether a plan changes only what may change, so that it is an admissible answer."""
        return not any(self.differences(plan))

    def is_of(self, plan: Plan) -> bool:
        """Whether a plan has the question's program at the same sizes."""
        return plan.program.name == self.plan.program.name and plan.program.dims == self.plan.program.dims

    def _hints(self, attempt: int) -> tuple[str, ...]:
        return self.hints[: max(attempt - 1, 0)]

    def _checks(self, report: Report) -> Iterator[Check]:
        for scored in self.goals:
            yield Check(scored.goal.describe(), _miss(scored.goal, report, self.plan), scored.points, scored.hint)

    def _check_variant(self, variant: Variant, answer: Plan) -> Check:
        where = variant.describe()
        what, location = f"It holds {where}, too.", f"{where[:1].upper()}{where[1:]}"
        try:
            start, report = variant.apply(self.plan), analyze(variant.apply(answer))
        except WorkbenchError as error:
            return Check(what, f"{location}: {error}", variant.points, variant.hint, hidden=True)
        goals = variant.goals or tuple(goal.goal for goal in self.goals)
        reason = next(filter(None, (_miss(goal, report, start) for goal in goals)), "")
        return Check(what, reason and f"{location}: {reason}", variant.points, variant.hint, hidden=True)

    def differences(self, answer: Plan) -> Iterator[str]:
        """Reasons why a plan is not an admissible answer."""
        start = self.plan
        if not self.is_of(answer):
            yield f"It is a plan for `{answer.program.name}`; a plan for `{start.program.name}` with the same sizes is required."
        if "devices" not in self.may_change and (answer.mesh.size != start.mesh.size or answer.hardware != start.hardware):
            yield f"It is for {_devices_text(answer)}, but the question needs {_devices_text(start)}."
        elif _kind(answer) != _kind(start):
            yield f"It is for {_devices_text(answer)}, but the question needs {_kind(start) or 'no hardware'}."
        allowed = {*self.may_change, *(("mesh",) if "devices" in self.may_change else ())}
        for name, before, after in _decisions(start, answer):
            if name not in allowed and before != after:
                change = f"the {CHANGE_WORDS.get(name, name)} from {_shown(before)} to {_shown(after)}"
                yield f"It changes {change}; here {_and_text(self.may_change)} may change."

    def _repr_markdown_(self) -> str:
        goals = (scored.goal.describe() for scored in self.goals)
        return question_markdown(self.name, self.ask, f"{self.how} The start is {self.plan}.", goals)

    __repr__ = _repr_markdown_  # the dataclass repr would show the hints


@lru_cache(maxsize=256)
def _parse_start(text: str, name: str) -> PublicPlan:
    return as_public(parse_plan(text, f"Start plan of `{name}`", build=build_once))


def _miss(goal: Goal, report: Report, start: Plan) -> str:
    try:
        return goal.miss(report, start)
    except WorkbenchError as error:
        return str(error)


def _decisions(asked: Plan, answer: Plan) -> Iterator[tuple[str, object, object]]:
    for name in ("layout", "mesh", "pipeline", "axis_assignment"):
        yield name, getattr(asked, name), getattr(answer, name)
    for name in ("remat", "precision", "offload"):
        yield name, getattr(asked.program, name), getattr(answer.program, name)


def _shown(decision: object) -> str:
    return f"`{decision}`" if decision is not None and str(decision) else "none"


def _and_text(names: Sequence[str]) -> str:
    words = [CHANGE_WORDS.get(name, name) for name in names]
    return f"the {words[0]} alone" if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _kind(plan: Plan) -> str:
    return plan.hardware.chip.name if plan.hardware else ""


def _devices_text(plan: Plan) -> str:
    return plan.hardware.name if plan.hardware else f"{plan.mesh.size:,} devices"
