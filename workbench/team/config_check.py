"""What may stand in `team.toml`, by its type and form. Which names there are in a section, whoever reads it says."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from workbench.errors import WorkbenchError
from workbench.team.actions.check_inputs import schema_flaw

_TEXT, _FLAG, _TEXTS = {"type": "string"}, {"type": "boolean"}, {"type": "array", "items": {"type": "string"}}


def _section(each: Mapping[str, Any] | None = None, **known: Any) -> dict[str, Any]:
    return {"type": "object", "properties": known, **({"additionalProperties": each} if each else {})}


_RULES = _section(anyone=_FLAG, domains=_TEXTS, groups=_TEXTS, admins=_TEXTS, roles=_section(_section(_TEXT)))
_PROVIDER = _section(
    _TEXT, name={"type": "string", "pattern": r"^[a-z0-9-]{1,40}$"}, scopes=_TEXTS, rules=_RULES
)  # its name stands in addresses
SCHEMA = _section(
    listen=_TEXT,
    address=_TEXT,
    database=_TEXT,
    database_password_file=_TEXT,
    origins=_TEXTS,
    proxied=_FLAG,
    open_metrics=_FLAG,
    idle_seconds={"type": "number", "minimum": 1},
    cluster=_TEXT,
    sign_in=_section(local=_FLAG, hub=_FLAG, hub_rules=_RULES, oidc={"type": "array", "items": _PROVIDER}),
    jobs=_section(
        engines=_TEXTS,
        limits=_section(_section({"type": "number", "exclusiveMinimum": 0})),
        here=_section(),
        slurm=_section(_TEXT),
        ray=_section(_TEXT),
        kubernetes=_section(mount=_TEXT, kubectl=_TEXT, options=_section(_TEXT)),
    ),
    programs=_section(
        hosts=_TEXTS, folders=_TEXTS, proxy=_TEXT, credentials_file=_TEXT, owners_approve=_TEXT, user=_TEXT, without_sandbox=_FLAG
    ),
)


def verify_settings(file: Path, values: Mapping[str, Any]) -> None:
    """Raises `WorkbenchError` for a value that none of them has."""
    if flaw := schema_flaw(SCHEMA, values):
        raise WorkbenchError(
            f"{file}: at `{flaw[0].removeprefix('$.')}`, {flaw[1]}.", ["mend it", "docs/team_server.md has an example of all"]
        )
    for name in ("address", *(["origins"] if values.get("origins") else [])):
        for each in [values.get(name) or "http://localhost"] if name == "address" else values[name]:
            _verify_address(name, each, with_path=name == "address")


def _verify_address(name: str, text: str, *, with_path: bool) -> None:
    try:
        parts = urlsplit(text)
        is_whole = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0 and parts.username is None
    except ValueError:
        is_whole = False
    rest = text.partition("://")[2].partition("/")[2]
    if not is_whole or re.search(r"[\s?#\\*]", text) or (rest and not (with_path and re.fullmatch(r"[\w.~/-]+", rest, re.ASCII))):
        example = "https://plans.example.org/workbench" if with_path else "https://plans.example.org"
        raise WorkbenchError(f"`{name}` is `{text[:120]}`; it should be as a browser shows it, such as `{example}`.", [f"set `{name}`"])
