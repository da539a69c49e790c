"""Variants of a question at other sizes, so that an answer found by trial and error does not pass by chance."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from workbench.core.mesh import Mesh
from workbench.core.program import Program, Reference
from workbench.documents.plan_documents import parse_plan
from workbench.documents.program_references import program_from_reference
from workbench.errors import DocumentError
from workbench.exercises.goals.goal import Goal
from workbench.plan.plan import Plan


@dataclass(frozen=True, slots=True)
class Variant:
    """A variant of a question: other `arguments` of the model, mesh axis sizes or hardware.

    `goals` replace the question's goals, which apply by default.
    """

    arguments: Mapping[str, Any] = field(default_factory=dict)
    mesh: Mapping[str, int] = field(default_factory=dict)
    hardware: str = ""
    goals: tuple[Goal, ...] = ()
    points: float = 1.0
    hint: str = ""

    def apply(self, plan: Plan) -> Plan:
        """The plan with the same decisions in this variant. Raises `WorkbenchError` if they are not possible there."""
        sizes = dict(plan.mesh.axes)
        if missing := [axis for axis in self.mesh if axis not in sizes]:
            axes_text = f"there {'is' if len(sizes) == 1 else 'are'} {', '.join(f'`{name}`' for name in sizes)}"
            raise DocumentError(
                f"The mesh has no axis `{missing[0]}`; {axes_text}.", [f"keep the axes {', '.join(f'`{name}`' for name in self.mesh)}"]
            )
        program = _build(plan.program, self.arguments) if self.arguments else plan.program
        return type(plan)(
            program,
            Mesh(tuple((axis, self.mesh.get(axis, size)) for axis, size in sizes.items())),
            plan.layout,
            plan.name,
            self.hardware or plan.hardware,
            None if self.hardware or self.mesh else plan.axis_assignment,
            plan.pipeline,
        )

    def describe(self) -> str:
        """The differences in words: `with batch=64 on data:4 for TPU v5e 4x4`."""
        parts = [
            f"with {', '.join(f'{name}={value}' for name, value in self.arguments.items())}" if self.arguments else "",
            f"on {' '.join(f'{axis}:{size}' for axis, size in self.mesh.items())}" if self.mesh else "",
            f"for {self.hardware}" if self.hardware else "",
        ]
        return " ".join(filter(None, parts))


def _build(program: Program, changed: Mapping[str, Any]) -> Program:
    if program.reference is None or ":" in program.reference.target:
        raise DocumentError(
            f"`{program.name}` is not a model of the zoo, so there are no variants of it.", ["start from a model of the zoo"]
        )
    built = build_once(Reference(program.reference.target, {**program.reference.arguments, **changed}))
    built = built.variant(remat=program.remat, precision=program.precision, offload=program.offload)
    renamed = {traced: now for traced, now in program.renamed.items() if traced != now}
    return built.rename(renamed) if renamed else built


# Plans of answers; a program that many answers share is traced once.


def parse_answer(given: str | Mapping[str, Any]) -> Plan:
    """The plan of a document, which may only name zoo programs. Raises the errors of `parse_plan`."""
    text = given if isinstance(given, str) else json.dumps(given)
    return parse_plan(text, "The answer", build=build_once)


def build_once(reference: Reference) -> Program:
    """The cached program of a reference, together with its variants traced so far."""
    return _build_answer(reference.target, json.dumps(dict(reference.arguments), sort_keys=True))


@lru_cache(maxsize=32)
def _build_answer(target: str, arguments: str) -> Program:
    return program_from_reference(Reference(target, json.loads(arguments)))
