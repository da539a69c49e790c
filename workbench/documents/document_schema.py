"""Validation of documents against their JSON schemas."""

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from workbench.core.parse_untrusted import import_jsonschema


@cache
def load_schema(kind: str) -> Mapping[str, Any]:
    """The schema `{kind}.schema.json` of this package, such as `plan` or `fleet`."""
    schema: Mapping[str, Any] = json.loads(Path(__file__).with_name(f"{kind}.schema.json").read_text(encoding="utf-8"))
    return schema


def schema_problem(kind: str, document: Mapping[str, Any]) -> tuple[str, str] | None:
    """The JSON path (`$.mesh[0]`) and message of the most relevant schema violation, else `None`."""
    import_jsonschema()
    from jsonschema.exceptions import best_match

    error = best_match(_validator(kind).iter_errors(document))
    if error is None:
        return None
    text: str = error.message  # begins with the value and ends with the violation
    return error.json_path, text if len(text) <= 200 else f"{text[:120]} … {text[-60:]}"


@cache
def _validator(kind: str) -> Any:
    from jsonschema import Draft202012Validator

    return Draft202012Validator(load_schema(kind))
