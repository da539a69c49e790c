"""Find the isolation that this machine supports by trying it with a trivial command."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from workbench.team.sandbox.resource_limits import ResourceLimits, SandboxAbility, SandboxError, SandboxLevel, SandboxPolicy
from workbench.team.sandbox.sandbox import Sandbox
from workbench.team.sandbox.sandboxed_command import SandboxedCommand

_PATIENCE = 30.0  # seconds for a trial on a busy machine
_SWITCHES = (  # kernel settings, the value that forbids user namespaces, and its explanation
    (
        "/proc/sys/kernel/unprivileged_userns_clone",
        "0",
        "the kernel is set to refuse user namespaces (`kernel.unprivileged_userns_clone=0`)",
    ),
    ("/proc/sys/user/max_user_namespaces", "0", "the kernel is set to allow no user namespaces (`user.max_user_namespaces=0`)"),
    (
        "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "AppArmor refuses user namespaces to programs without a profile (`kernel.apparmor_restrict_unprivileged_userns=1`)",
    ),
)


def probe(bubblewrap: str | None = None, policy: SandboxPolicy | None = None) -> SandboxAbility:
    """Return the strongest isolation of this machine, within 0.1 s. `bubblewrap` overrides the path of `bwrap`."""
    result = _probe_bubblewrap(bubblewrap or shutil.which("bwrap"))
    if isinstance(result, SandboxAbility):
        return result
    return _without_bubblewrap(result, policy or SandboxPolicy())


def _probe_bubblewrap(path: str | None) -> SandboxAbility | str:
    if sys.platform != "linux":
        return "bubblewrap needs Linux."
    if path is None or not os.access(path, os.X_OK):
        return "bubblewrap is not installed: `apt-get install bubblewrap`, or `dnf install bubblewrap`."
    options = _output_of([path, "--help"])
    if "--size" not in options:
        version = next(iter(_output_of([path, "--version"]).splitlines()), path)
        return f"{version} is too old: it cannot limit the size of what is written."
    full = SandboxAbility(SandboxLevel.SANDBOXED, bubblewrap=path, disables_namespaces="--disable-userns" in options)
    problems: list[str] = []
    for candidate in _candidates(full):
        if (problem := problem_of(candidate)) is None:
            scoped = replace(candidate, scope=_scope_command())
            return scoped if scoped.scope and problem_of(scoped) is None else candidate
        problems.append(problem)
    return _explain(problems)


def _candidates(ability: SandboxAbility) -> Iterable[SandboxAbility]:
    """Yield options to try: root's own mounts, then a user namespace, as for users and root in a container."""
    if os.geteuid() == 0:
        yield replace(ability, own_user=False)
    yield ability
    if ability.disables_namespaces:
        yield replace(ability, disables_namespaces=False)


def problem_of(ability: SandboxAbility) -> str | None:
    sandbox = Sandbox(ability)
    try:
        run = sandbox.run(SandboxedCommand((sys.executable, "-I", "-S", "-c", ""), ResourceLimits(deadline=_PATIENCE), our_code=True))
    except SandboxError as error:
        return error.message
    finally:
        sandbox.close()
    return None if run.ending.is_good else run.errors.strip().splitlines()[-1] if run.errors.strip() else run.ending.sentence


def _without_bubblewrap(reason: str, policy: SandboxPolicy) -> SandboxAbility:
    """Use the configured user if that works; else refuse programs unless the sandbox was disabled."""
    level = SandboxLevel.SEPARATE_PROCESS if policy.without_sandbox else SandboxLevel.REFUSED
    ability = SandboxAbility(level, reason, policy=policy)
    if policy.user:
        as_user = replace(ability, level=SandboxLevel.SEPARATE_USER)
        if (problem := problem_of(as_user)) is None:
            return _with_scope(as_user)
        hint = "the server has to be root or to have CAP_SETUID and CAP_SETGID, and the user has to be able to read Python"
        ability = replace(ability, reason=f"{reason} Programs cannot run as `{policy.user}` either: {problem} ({hint})")
    if os.geteuid() == 0 and problem_of(ability) is not None:
        ability = replace(ability, drops_root=False)
    return _with_scope(ability)


def _with_scope(ability: SandboxAbility) -> SandboxAbility:
    scope = _scope_command()
    return replace(ability, scope=scope) if scope and problem_of(replace(ability, scope=scope)) is None else ability


def _explain(problems: list[str]) -> str:
    reasons = [text for path, value, text in _SWITCHES if _content(path) == value]
    if any(Path(marker).exists() for marker in ("/.dockerenv", "/run/.containerenv")):
        reasons.append(
            "this is a container, and Docker's default profile refuses what a sandbox needs (`--security-opt seccomp=unconfined` does not)"
        )
    explanation = "; ".join(reasons) or "the system refuses it"
    return f"bubblewrap is installed, but {explanation}. It said: {problems[0][:200]}"


def _scope_command() -> tuple[str, ...]:
    if not Path("/run/systemd/system").is_dir() or (path := shutil.which("systemd-run")) is None:
        return ()
    command = (path, *(() if os.geteuid() == 0 else ("--user",)), "--scope", "--quiet", "--collect")
    with suppress(OSError, subprocess.SubprocessError):
        if subprocess.run([*command, "true"], capture_output=True, timeout=_PATIENCE, check=False).returncode == 0:  # noqa: S603 - as above
            return command
    return ()


def _output_of(command: list[str]) -> str:
    with suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE, check=False)  # noqa: S603 - the path of bwrap
        return done.stdout + done.stderr
    return ""


def _content(path: str) -> str | None:
    with suppress(OSError):
        return Path(path).read_text(encoding="ascii").strip()
    return None
