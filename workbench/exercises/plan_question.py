"""A question whose answer is a plan: a program on a mesh, what may be changed of it, and the goals that the changed plan has to meet.

    one = PlanQuestion(plan, Lies("up/dot_general", "[data, model]"), Statements(1))
    one.check("@up/dot_general=[data, model]")  # Right.

Any plan that meets every goal is right. An answer carries no code, and is planned to be graded, never run.
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
"""What an answer may change: `mesh` its axes, with as many devices as before; `devices` their number and the topology, too."""
DEFAULT_CHANGES = tuple(each for each in ALL_CHANGES if each != "devices")


@dataclass(frozen=True, slots=True)
class ScoredGoal:
    """A goal, what meeting it is worth, and a hint for those who miss it."""

    goal: Goal
    points: float = 1.0
    hint: str = ""


@dataclass(frozen=True, slots=True, init=False)
class PlanQuestion:
    """A plan to start from, or the text of its document, which is read when it is first needed; the goals of an answer, and `variants` in
    which the answer has to meet them, too."""

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
        object.__setattr__(self, "goals", tuple(each if isinstance(each, ScoredGoal) else ScoredGoal(each) for each in goals))
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "ask", ask)
        object.__setattr__(self, "may_change", tuple(may_change))
        object.__setattr__(self, "variants", tuple(variants))
        object.__setattr__(self, "hints", tuple(hints))

    @property
    def plan(self) -> PublicPlan:
        """The plan to start from. Raises `DocumentError` where its document cannot be read."""
        return as_public(self.start) if isinstance(self.start, Plan) else _parse_start(self.start, self.name)

    @property
    def how(self) -> str:
        """What an answer may change, in a sentence."""
        return change_words(self.may_change)

    @property
    def points(self) -> float:
        return sum(each.points for each in self.goals) + sum(each.points for each in self.variants)

    def check(self, answer: "str | Plan", attempt: int = 1) -> Verdict:
        """Whether this plan is an answer, or this layout in place of the plan's; for an illegal layout the reason is the planner's error.

        `attempt` is the number of the try: each one but the first earns a hint.
        """
        try:
            plan = answer if isinstance(answer, Plan) else self.plan.updated(layout=answer)
            if differences := tuple(self.differences(plan)):
                return refusal(differences, self.points, self._hints(attempt))
            return self.judge(analyze(plan), attempt)
        except WorkbenchError as error:
            return refusal((str(error),), self.points, self._hints(attempt))

    def judge(self, report: Report, attempt: int = 1) -> Verdict:
        """The verdict on a plan that is an answer, by its report."""
        checks = [*self._checks(report), *(self._check_variant(each, report.plan) for each in self.variants)]
        missed = any(not each.is_met for each in checks)
        own = tuple(dict.fromkeys(each.hint for each in checks if each.hint and not each.is_met))
        return Verdict(tuple(checks), (*own, *self._hints(attempt)) if missed else ())

    def is_about(self, plan: Plan) -> bool:
        """Whether a plan changes nothing but what may change, so that it is an answer, right or wrong."""
        return not any(self.differences(plan))

    def is_of(self, plan: Plan) -> bool:
        """Whether a plan is of the program that the question is about, at the same sizes."""
        return plan.program.name == self.plan.program.name and plan.program.dims == self.plan.program.dims

    def _hints(self, attempt: int) -> tuple[str, ...]:
        return self.hints[: max(attempt - 1, 0)]

    def _checks(self, report: Report) -> Iterator[Check]:
        for each in self.goals:
            yield Check(each.goal.describe(), _miss(each.goal, report, self.plan), each.points, each.hint)

    def _check_variant(self, variant: Variant, answer: Plan) -> Check:
        """Whether the answer's decisions meet the goals there, too."""
        where = variant.describe()
        what, there = f"It holds {where}, too.", f"{where[:1].upper()}{where[1:]}"
        try:
            start, report = variant.apply(self.plan), analyze(variant.apply(answer))
        except WorkbenchError as error:
            return Check(what, f"{there}: {error}", variant.points, variant.hint, hidden=True)
        goals = variant.goals or tuple(each.goal for each in self.goals)
        reason = next(filter(None, (_miss(each, report, start) for each in goals)), "")
        return Check(what, reason and f"{there}: {reason}", variant.points, variant.hint, hidden=True)

    def differences(self, answer: Plan) -> Iterator[str]:
        """Why a plan answers another question."""
        asked = self.plan
        if not self.is_of(answer):
            yield f"It is a plan of `{answer.program.name}`, where one of `{asked.program.name}` with the same sizes is required."
        if "devices" not in self.may_change and (answer.mesh.size != asked.mesh.size or answer.hardware != asked.hardware):
            yield f"It is for {_devices_text(answer)}, but the question needs {_devices_text(asked)}."
        elif _kind(answer) != _kind(asked):
            yield f"It is for {_devices_text(answer)}, but the question needs {_kind(asked) or 'no hardware'}."
        allowed = {*self.may_change, *(("mesh",) if "devices" in self.may_change else ())}
        for name, before, after in _decisions(asked, answer):
            if name not in allowed and before != after:
                change = f"the {CHANGE_WORDS.get(name, name)} from {_shown(before)} to {_shown(after)}"
                yield f"It changes {change}; here {_and_text(self.may_change)} may change."

    def _repr_markdown_(self) -> str:
        goals = (each.goal.describe() for each in self.goals)
        return question_markdown(self.name, self.ask, f"{self.how} The start is {self.plan}.", goals)

    __repr__ = _repr_markdown_  # that of a dataclass would show the hints


@lru_cache(maxsize=256)
def _parse_start(text: str, name: str) -> PublicPlan:
    return as_public(parse_plan(text, f"Start plan of `{name}`", build=build_once))


def _miss(goal: Goal, report: Report, start: Plan) -> str:
    """Why a goal is missed: also where the plan cannot be told of."""
    try:
        return goal.miss(report, start)
    except WorkbenchError as error:
        return str(error)


def _decisions(asked: Plan, answer: Plan) -> Iterator[tuple[str, object, object]]:
    """What can be decided of a plan: its name, how it was asked and how it was answered."""
    for name in ("layout", "mesh", "pipeline", "axis_assignment"):
        yield name, getattr(asked, name), getattr(answer, name)
    for name in ("remat", "precision", "offload"):
        yield name, getattr(asked.program, name), getattr(answer.program, name)


def _shown(decision: object) -> str:
    return f"`{decision}`" if decision is not None and str(decision) else "none"


def _and_text(names: Sequence[str]) -> str:
    words = [CHANGE_WORDS.get(each, each) for each in names]
    return f"the {words[0]} alone" if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _kind(plan: Plan) -> str:
    return plan.hardware.chip.name if plan.hardware else ""


def _devices_text(plan: Plan) -> str:
    return plan.hardware.name if plan.hardware else f"{plan.mesh.size:,} devices"
