"""From a plan's document to the plan that answers a question: a program that many answers are of is traced once."""

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from workbench.core.program import Program, Reference
from workbench.documents.plans import parse_plan
from workbench.documents.program_references import program_from_reference
from workbench.plan.plan import Plan


def parse_answer(given: str | Mapping[str, Any]) -> Plan:
    """The plan of a document, which names a program of the zoo alone. Raises `WorkbenchError` as `parse_plan` does."""
    text = given if isinstance(given, str) else json.dumps(given)
    return parse_plan(text, "The answer", build=build_once)


def build_once(reference: Reference) -> Program:
    """The program of a reference, and the same one the next time, with the variants of it that were traced meanwhile."""
    return _build(reference.target, json.dumps(dict(reference.arguments), sort_keys=True))


@lru_cache(maxsize=32)
def _build(target: str, arguments: str) -> Program:
    return program_from_reference(Reference(target, json.loads(arguments)))
