"""Create what the configuration describes: job engines, team programs with their sandbox, and sign-in methods.

[jobs]
engines = ["here", "slurm"]

[jobs.limits.slurm]
jobs = 40
devices = 512

[jobs.ray]
address = "http://127.0.0.1:8265"

[programs]
owners_approve = "shared"                 # projects whose owners may approve programs: "shared", "all", "none"
user = "workbench-programs"               # the system user that programs run as where there is no sandbox
without_sandbox = false                   # true: run programs with the server's rights if neither is available
hosts = ["github.com", "git.example.org"]
folders = ["/srv/git"]
credentials_file = "git_credentials.toml"   # "git.example.org" = "user:token"
"""

import asyncio
import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from pathlib import Path
from typing import Any, Literal

from workbench.errors import WorkbenchError, unknown_name
from workbench.team.access import parse_role
from workbench.team.accounts.identities import GroupRules
from workbench.team.accounts.jupyterhub_login import HubProvider, HubSettings, SignInWays
from workbench.team.accounts.oidc import OidcProvider, OidcSettings
from workbench.team.accounts.passwords import LocalAccounts
from workbench.team.accounts.sign_in_flow import FlowCookies
from workbench.team.jobs.dispatcher import Dispatcher
from workbench.team.jobs.job_spec import JobError, JobSpec
from workbench.team.jobs.kubernetes import Kubernetes
from workbench.team.jobs.local_engine import JobEngine, LocalEngine
from workbench.team.jobs.queue import JobLimits
from workbench.team.jobs.ray import Ray
from workbench.team.jobs.slurm import Slurm
from workbench.team.programs.fetch_policy import FetchPolicy, ProgramRegistryError
from workbench.team.programs.program_registry import ProgramRegistry
from workbench.team.sandbox.resource_limits import SandboxPolicy
from workbench.team.store.store import Store
from workbench.team.team_config import FILE, TeamConfig, read_secret

ALL_ENGINES = (LocalEngine, Slurm, Ray, Kubernetes)
"""The engine classes; a job's row stores the class's `name`."""


_MAKERS = {engine.name: engine for engine in ALL_ENGINES}
_CONFINED = "workbench.team.sandbox.sandboxed_job_main"


def make_dispatcher(config: TeamConfig, store: Store, programs: ProgramRegistry) -> Dispatcher:
    """Create the dispatcher of the engines under `[jobs]`, by default of this machine only. Raises `WorkbenchError`."""
    settings = config.jobs
    engines = [_make_engine(name, settings.get(name, {})) for name in settings.get("engines", ["here"])]
    limits = {name: _read_limits(values) for name, values in settings.get("limits", {}).items()}
    return Dispatcher(
        store, config.data.resolve() / "jobs", engines, limits=limits, confine=_confine(programs), program_folder=programs.folder_of
    )


def _make_engine(name: str, options: Mapping[str, Any]) -> JobEngine:
    if name not in _MAKERS:
        message, ways_out = unknown_name("engine", name, sorted(_MAKERS))
        raise WorkbenchError(f"{FILE}: {message}", ways_out)
    maker: Callable[..., JobEngine] = _MAKERS[name]
    try:
        return maker(**{key: Path(value) if key == "mount" else value for key, value in options.items()})
    except TypeError as error:
        raise WorkbenchError(f"The options of the engine `{name}` in {FILE} are invalid: {error}.", ["see its documentation"]) from None


def _read_limits(values: Mapping[str, Any]) -> JobLimits:
    names = [limit.name for limit in fields(JobLimits)]
    if unknown := values.keys() - set(names):
        raise WorkbenchError(f"`[jobs.limits]` in {FILE} has an unknown `{min(unknown)}`.", [f"its limits are {', '.join(names)}"])
    return JobLimits(**values)


def _confine(programs: ProgramRegistry) -> Callable[[JobSpec, Path, Sequence[str]], Sequence[str]]:
    """Return a function that wraps a registered program's job command in a sandbox; jobs of zoo models run unwrapped."""

    def confine(spec: JobSpec, folder: Path, command: Sequence[str]) -> Sequence[str]:
        if not spec.program:
            return command
        if spec.hosts * spec.processes > 1:
            raise JobError("A registered program has no network access, so it runs in one process.", ["give hosts=1 and processes=1"])
        allowed = programs.sandbox.ability.policy.arguments()
        confined = (str(folder), str(programs.folder_of(spec.program)), f"{spec.minutes * 60:g}", *allowed)
        return [command[0] or sys.executable, "-P", "-m", _CONFINED, *confined, "--", *command]

    return confine


_KNOWN = ("hosts", "folders", "proxy", "credentials_file", "owners_approve", "user", "without_sandbox")
APPROVALS = ("shared", "all", "none")


def owners_approve(config: TeamConfig) -> str:
    """Return the `owners_approve` setting, one of `APPROVALS`. Raises `WorkbenchError` for another value."""
    value = str(config.programs.get("owners_approve", APPROVALS[0]))
    if value not in APPROVALS:
        raise WorkbenchError(f"`owners_approve` in {FILE} is `{value[:40]}`.", [f"write one of {', '.join(APPROVALS)}"])
    return value


def make_sandbox_policy(config: TeamConfig) -> SandboxPolicy:
    settings = config.programs
    return SandboxPolicy.of_machine(settings.get("user", ""), config.data.resolve(), settings.get("without_sandbox", False))


def make_fetch_policy(config: TeamConfig) -> FetchPolicy:
    """Read where programs may be fetched from. Raises `WorkbenchError` for invalid settings."""
    settings = config.programs
    if unknown := settings.keys() - set(_KNOWN):
        raise WorkbenchError(f"`[programs]` in {FILE} has an unknown `{min(unknown)}`.", [f"it has {', '.join(_KNOWN)}"])
    return FetchPolicy(
        hosts=tuple(settings.get("hosts", ())),
        folders=tuple(Path(folder) for folder in settings.get("folders", ())),
        proxy=settings.get("proxy", ""),
        credentials=_read_credentials(config.data / settings["credentials_file"]) if "credentials_file" in settings else {},
    )


def _read_credentials(file: Path) -> Mapping[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise WorkbenchError(f"The credentials of git in {file} cannot be read: {error}.", ["write a line for each host"]) from None


AT_ONCE = 2
"""Concurrent fetches. A fetch may take minutes and would otherwise occupy the threads of other work."""


class ProgramService:
    """Implements `web.team_services.Programs`; `end_rooms(program_id)` closes a program's rooms."""

    def __init__(self, registry: ProgramRegistry, end_rooms: Callable[[str], None]) -> None:
        self._registry, self._end_rooms = registry, end_rooms
        self._fetchers = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="program fetcher")

    def close(self) -> None:
        self._fetchers.shutdown(wait=False, cancel_futures=True)
        self._registry.close()

    async def add(
        self, project_id: str, author_id: str, name: str, target: str, kind: Literal["git", "wheel"], locator: str, wheel: bytes | None
    ) -> str:
        arguments = (project_id, author_id, name, target, kind, locator, wheel)
        return await asyncio.get_running_loop().run_in_executor(self._fetchers, self._add, *arguments)

    async def approve(self, program_id: str, approver_id: str, digest: str) -> None:
        await asyncio.to_thread(self._registry.approve, program_id, digest, approver_id)

    async def withdraw(self, program_id: str) -> None:
        """Withdraw a program and close its rooms."""
        await asyncio.to_thread(self._registry.withdraw, program_id)
        self._end_rooms(program_id)

    def _add(self, project_id: str, author_id: str, name: str, target: str, kind: str, locator: str, wheel: bytes | None) -> str:
        if kind == "wheel":
            if wheel is None:
                raise ProgramRegistryError("No wheel was sent.", ["send the file itself"])
            program = self._registry.add_wheel(project_id, name, target, locator, wheel, author_id)
        else:
            address, _, commit = locator.partition(" ")
            program = self._registry.add_git(project_id, name, target, address, commit, author_id)
        self._registry.fetch(program.id)
        return program.id


def make_sign_in_methods(config: TeamConfig, store: Store, secret_key: bytes) -> SignInWays:
    """Create the configured sign-in methods. Raises `WorkbenchError` if none is available."""
    settings = config.sign_in
    local = LocalAccounts(store) if settings.get("local", True) else None
    oidc = tuple(OidcProvider(_oidc_settings(config.data, provider)) for provider in settings.get("oidc", ()))
    hub = HubProvider(HubSettings.from_environment(_rules(settings.get("hub_rules")))) if settings.get("hub") else None
    if local is None and not oidc and hub is None:
        raise WorkbenchError(
            "No one can sign in: the configuration has no sign-in method.", [f"set `local = true` under `[sign_in]` in {FILE}"]
        )
    return SignInWays(FlowCookies(secret_key), local, oidc, hub)


def _oidc_settings(data: Path, given: Mapping[str, Any]) -> OidcSettings:
    values = dict(given)
    if "client_secret_file" in values:
        values["client_secret"] = read_secret(data / values.pop("client_secret_file"), "client secret")
    values["rules"] = _rules(values.get("rules")) or GroupRules()
    if "scopes" in values:
        values["scopes"] = tuple(values["scopes"])
    names = {setting.name for setting in fields(OidcSettings)}
    missing = {"name", "issuer", "client_id", "client_secret"} - values.keys()
    if unknown := (values.keys() - names) or missing:
        problem = "has no" if missing else "has an unknown"
        raise WorkbenchError(
            f"A provider under `[[sign_in.oidc]]` {problem} `{min(unknown)}`.", [f"its settings are {', '.join(sorted(names))}"]
        )
    return OidcSettings(**values)


def _rules(given: Mapping[str, Any] | None) -> GroupRules | None:
    if given is None:
        return None
    sets = {name: frozenset(given.get(name, ())) for name in ("domains", "groups", "admins")}
    roles = {group: {slug: parse_role(role) for slug, role in roles.items()} for group, roles in given.get("roles", {}).items()}
    if unknown := given.keys() - {*sets, "roles", "anyone"}:
        hint = f"its rules are anyone, {', '.join(sets)} and roles"
        raise WorkbenchError(f"The rules for groups in {FILE} have an unknown `{min(unknown)}`.", [hint])
    return GroupRules(anyone=bool(given.get("anyone")), roles=roles, **sets)
