"""Base class of goals: conditions on a plan that an exercise can require."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import MISSING, Field, field, fields
from typing import Any, ClassVar

from workbench.errors import DocumentError, unknown_name, wrong_type
from workbench.exercises.plan_figures import parse_quantity
from workbench.plan.plan import Plan
from workbench.reports.report import Report


def quantity(unit: str, default: Any = MISSING) -> Any:
    """A dataclass field for a quantity, given as a number or as text: `Peak("16 GiB")`."""
    return field(default=default, metadata={"unit": unit})


def one_of(*words: str, default: Any = MISSING) -> Any:
    """A dataclass field restricted to these words."""
    return field(default=default, metadata={"words": words})


class Goal(ABC):
    """A condition on a plan. Subclasses are frozen dataclasses with the goal's parameters as fields.

    **Invariants**

    - `name` is the unique name of the goal in an exercise.
    - Fields are numbers, booleans or text. A field made by `quantity` accepts text and is stored in its base unit
      (bytes, seconds); one made by `one_of` accepts only its words. Other values raise `DocumentError`.
    """

    __slots__ = ()
    name: ClassVar[str]

    def __post_init__(self) -> None:
        for parameter in fields(self):  # type: ignore[arg-type]
            object.__setattr__(self, parameter.name, _read(self.name, parameter, getattr(self, parameter.name)))

    @abstractmethod
    def describe(self) -> str:
        """The requirement as a sentence: `A step takes at most 300 ms.`"""

    @abstractmethod
    def miss(self, report: Report, start: Plan, /) -> str:
        """Why the plan misses the goal, compared with `start`; empty if met. Raises `WorkbenchError` if undecidable."""

    def is_quick(self, _report: Report) -> bool:
        """Whether `miss` answers at once, without a call to a compiler process."""
        return True


def _read(goal: str, each: "Field[Any]", value: Any) -> Any:
    if value == each.default:
        return value
    if (unit := each.metadata.get("unit")) is not None:
        return parse_quantity(value, unit)
    if (words := each.metadata.get("words")) is not None and value not in words:
        raise DocumentError(*unknown_name(each.name, value, words, f" for the goal `{goal}`"))
    kind = {"str": str, "int": int, "bool": bool}[str(getattr(each.type, "__name__", each.type))] if "words" not in each.metadata else str
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        expected = {str: "text", int: "a whole number", bool: "true or false"}[kind]
        raise DocumentError(f"The goal `{goal}`: {wrong_type(each.name, value, expected)}", [f"give `{each.name}` {expected}"])
    return value


def make_goal(kind: type[Goal], given: Mapping[str, Any]) -> Goal:
    """A goal of this kind with these fields. Raises `DocumentError` for missing, unknown or invalid fields."""
    parameters = {parameter.name: parameter for parameter in fields(kind)}  # type: ignore[arg-type]
    for name in given:
        if name not in parameters:
            raise DocumentError(*unknown_name("field", name, parameters, f" of the goal `{kind.name}`"))
    for name, parameter in parameters.items():
        if parameter.default is MISSING and name not in given:
            raise DocumentError(f"The goal `{kind.name}` lacks `{name}`.", [f"add `{name}`"])
    return kind(**given)
