"""The ways to sign in that a set-up names."""

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from workbench.errors import WorkbenchError
from workbench.team.access import parse_role
from workbench.team.accounts.identities import GroupRules
from workbench.team.accounts.jupyterhub_login import HubProvider, HubSettings, SignInWays
from workbench.team.accounts.oidc import OidcProvider, OidcSettings
from workbench.team.accounts.passwords import LocalAccounts
from workbench.team.accounts.sign_in_flow import FlowCookies
from workbench.team.store.store import Store
from workbench.team.team_config import FILE, TeamConfig, read_secret


def sign_in_ways(config: TeamConfig, store: Store, secret_key: bytes) -> SignInWays:
    """Local accounts, providers of OpenID Connect, a JupyterHub. Raises `WorkbenchError` for a set-up that names none, or one that is not
    there."""
    wanted = config.sign_in
    local = LocalAccounts(store) if wanted.get("local", True) else None
    oidc = tuple(OidcProvider(_oidc_settings(config.data, each)) for each in wanted.get("oidc", ()))
    hub = HubProvider(HubSettings.from_environment(_rules(wanted.get("hub_rules")))) if wanted.get("hub") else None
    if local is None and not oidc and hub is None:
        raise WorkbenchError(
            "Nobody can sign in: the configuration has no sign-in method.", [f"set `local = true` under `[sign_in]` in {FILE}"]
        )
    return SignInWays(FlowCookies(secret_key), local, oidc, hub)


def _oidc_settings(data: Path, given: Mapping[str, Any]) -> OidcSettings:
    values = dict(given)
    if "client_secret_file" in values:
        values["client_secret"] = read_secret(data / values.pop("client_secret_file"), "client secret")
    values["rules"] = _rules(values.get("rules")) or GroupRules()
    if "scopes" in values:
        values["scopes"] = tuple(values["scopes"])
    known = {each.name for each in fields(OidcSettings)}
    missing = {"name", "issuer", "client_id", "client_secret"} - values.keys()
    if unknown := (values.keys() - known) or missing:
        what = "has no" if missing else "has an unknown"
        raise WorkbenchError(
            f"A provider under `[[sign_in.oidc]]` {what} `{min(unknown)}`.", [f"its settings are {', '.join(sorted(known))}"]
        )
    return OidcSettings(**values)


def _rules(given: Mapping[str, Any] | None) -> GroupRules | None:
    if given is None:
        return None
    sets = {name: frozenset(given.get(name, ())) for name in ("domains", "groups", "admins")}
    roles = {group: {slug: parse_role(role) for slug, role in roles.items()} for group, roles in given.get("roles", {}).items()}
    if unknown := given.keys() - {*sets, "roles", "anyone"}:
        known = f"its rules are anyone, {', '.join(sets)} and roles"
        raise WorkbenchError(f"The rules for groups in {FILE} have an unknown `{min(unknown)}`.", [known])
    return GroupRules(anyone=bool(given.get("anyone")), roles=roles, **sets)
