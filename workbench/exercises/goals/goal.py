"""What a goal is: a condition on a plan that an exercise can ask for, a file each in this folder."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import MISSING, Field, field, fields
from typing import Any, ClassVar

from workbench.errors import DocumentError, unknown_name, wrong_type
from workbench.exercises.plan_figures import parse_quantity
from workbench.plan.plan import Plan
from workbench.reports.report import Report


def quantity(unit: str, default: Any = MISSING) -> Any:
    """A field that is an amount, given as a number or as text: `Peak("16 GiB")`."""
    return field(default=default, metadata={"unit": unit})


def one_of(*words: str, default: Any = MISSING) -> Any:
    """A field that is one of these words."""
    return field(default=default, metadata={"words": words})


class Goal(ABC):
    """A condition on a plan. Members are frozen dataclasses whose fields are what the goal asks for.

    **Invariants**

    - `name` is the goal's name in an exercise; no two have the same.
    - Fields are numbers, truth values and texts. One made by `quantity` may be given as text and is kept as a number in bytes, seconds, or
      whatever it is counted in; one made by `one_of` is one of its words. A member raises `DocumentError` for others.
    """

    __slots__ = ()
    name: ClassVar[str]

    def __post_init__(self) -> None:
        for each in fields(self):  # type: ignore[arg-type]
            object.__setattr__(self, each.name, _read(self.name, each, getattr(self, each.name)))

    @abstractmethod
    def describe(self) -> str:
        """What is asked for, in a sentence: `A step takes at most 300 ms.`"""

    @abstractmethod
    def miss(self, report: Report, start: Plan, /) -> str:
        """Why the plan of a report misses the goal, in a sentence with its arithmetic; empty where it meets it. `start` is the plan that
        the exercise started from. Raises `WorkbenchError` where the plan cannot be told of."""

    def is_quick(self, _report: Report) -> bool:
        """Whether `miss` answers at once, and asks nobody outside this process."""
        return True


def _read(goal: str, each: "Field[Any]", value: Any) -> Any:
    """The value of a goal's field."""
    if value == each.default:
        return value
    if (unit := each.metadata.get("unit")) is not None:
        return parse_quantity(value, unit)
    if (words := each.metadata.get("words")) is not None and value not in words:
        raise DocumentError(*unknown_name(each.name, value, words, f" for the goal `{goal}`"))
    kind = {"str": str, "int": int, "bool": bool}[str(getattr(each.type, "__name__", each.type))] if "words" not in each.metadata else str
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        what = {str: "text", int: "a whole number", bool: "true or false"}[kind]
        raise DocumentError(f"The goal `{goal}`: {wrong_type(each.name, value, what)}", [f"give `{each.name}` {what}"])
    return value


def goal_record(goal: Goal) -> dict[str, Any]:
    """The goal as plain values: its name, and the fields that are not as by default."""
    given = {each.name: getattr(goal, each.name) for each in fields(goal) if getattr(goal, each.name) != each.default}  # type: ignore[arg-type]
    return {"goal": goal.name, **given}


def make_goal(kind: type[Goal], given: Mapping[str, Any]) -> Goal:
    """The goal of a kind with these fields. Raises `DocumentError` for those that it does not have, and for values of the wrong kind."""
    known = {each.name: each for each in fields(kind)}  # type: ignore[arg-type]
    for name in given:
        if name not in known:
            raise DocumentError(*unknown_name("field", name, known, f" of the goal `{kind.name}`"))
    for name, each in known.items():
        if each.default is MISSING and name not in given:
            raise DocumentError(f"The goal `{kind.name}` lacks `{name}`.", [f"add `{name}`"])
    return kind(**given)
