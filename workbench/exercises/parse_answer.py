"""From a plan's document to the plan that answers a question: a program that many answers are of is traced once."""

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from workbench.documents.plans import parse_plan
from workbench.plan.plan import Plan


def parse_answer(given: str | Mapping[str, Any]) -> Plan:
    """The plan of a document, which names a program of the zoo alone. Raises `WorkbenchError` as `parse_plan` does."""
    return _parse(given if isinstance(given, str) else json.dumps(given))


@lru_cache(maxsize=256)
def _parse(text: str) -> Plan:
    return parse_plan(text, "The answer")
