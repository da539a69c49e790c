"""Commands for users of a team server: `login`, `push`, `pull`, `submit`, `jobs`, and for classes `assignments`,
`hand-out`, `hand-in`, `send-plan`.
"""

import argparse
import getpass
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.core.parse_untrusted import read_text
from workbench.errors import WorkbenchError, explain_os_errors, explain_read_errors
from workbench.units import format_seconds, parse_bytes

if TYPE_CHECKING:
    from workbench.team_client.client import SubmittedJob, TeamClient


_DIGEST = 64  # characters
_JOB_LINE = "{:<16}  {:<9}  {:<7}  {:<10}  {:<16}  {}"
_LARGEST = 1 << 20  # characters of a plan document


def login(options: argparse.Namespace) -> None:
    """Save the address and the token once the server has accepted the token."""
    from workbench.team_client import connect
    from workbench.team_client.saved_logins import ServerLogin, clean_address, is_unencrypted, save_login

    url = clean_address(options.url)
    if is_unencrypted(url):
        print(f"workbench: {url} does not use https: everything sent, including the token, can be read on the network.", file=sys.stderr)
    token = options.token or _ask_token(url)
    with connect(url, token) as team:
        person = team.me()
    path = save_login(ServerLogin(url, token))
    print(f"You are {person['display']} (`{person['name']}`) at {url}; the token is in {path}.")


def logout(options: argparse.Namespace) -> None:
    from workbench.team_client.saved_logins import clean_address, find_login, forget_login

    url = clean_address(options.url) if options.url else find_login().url
    kept = forget_login(url)
    print(f"The token for {url} was deleted here; revoke it on your account page." if kept else f"No token was saved for {url}.")


def push(options: argparse.Namespace) -> None:
    with team_of(options) as team:
        entry = team.push(read_document(options.plan), options.project, name=options.name, note=options.note)
    print(json.dumps(asdict(entry), indent=1) if options.json else entry.page)


def pull(options: argparse.Namespace) -> None:
    with team_of(options) as team:
        text = team.document(options.plan)
    if not options.output:
        print(text, end="")
        return
    with explain_os_errors(f"`{options.output}` cannot be written", WorkbenchError, "give another file"):
        Path(options.output).write_text(text, encoding="utf-8")


def submit(options: argparse.Namespace) -> None:
    with team_of(options) as team:
        job = team.submit(_plan_of(team, options), options.project, **_wanted(options))
        if not options.follow:
            print(json.dumps(asdict(job.get()), indent=1) if options.json else f"{job.id}\n{job.page}")
            return
        print(f"job {job.id}, {job.page}", file=sys.stderr, flush=True)
        _follow(job, options.json)


def jobs(options: argparse.Namespace) -> None:
    with team_of(options) as team:
        found = team.jobs(options.project, **({"state": options.state} if options.state else {}))
    rows = [(each.id, each.state, each.kind, each.engine, each.author, each.digest) for each in found]
    print_rows(found, rows, _JOB_LINE, ("job", "state", "kind", "engine", "author", "plan"), as_json=options.json)


def print_rows(found: Sequence[Any], rows: Sequence[Sequence[str]], line: str, head: Sequence[str], *, as_json: bool) -> None:
    """Print records as JSON, or as lines below a heading."""
    if as_json:
        print(json.dumps([asdict(row) for row in found], indent=1))
        return
    if not found:
        print("None found.", file=sys.stderr)
        return
    for row in (head, *rows):
        print(line.format(*row))


def follow(options: argparse.Namespace) -> None:
    with team_of(options) as team:
        _follow(team.job(options.job), options.json)


def cancel(options: argparse.Namespace) -> None:
    with team_of(options) as team:
        job = team.job(options.job).cancel()
    if options.json:
        print(json.dumps(asdict(job), indent=1))
        return
    print(f"Job {job.id} has already ended: {job.state}." if job.has_ended else f"Cancelling job {job.id}.")


@contextmanager
def team_of(options: argparse.Namespace) -> Iterator["TeamClient"]:
    """Connect to the server of a command."""
    from workbench.team_client import connect

    with connect(options.server, options.token) as team:
        yield team


def _ask_token(url: str) -> str:
    """Read a token: hidden from a terminal, or the first line of a pipe."""
    if sys.stdin.isatty():
        print(f"Create a token on your account page: {url}/account", file=sys.stderr)
        return getpass.getpass("Token: ").strip()
    return sys.stdin.readline().strip()


def read_document(name: str) -> str:
    """Read the text of a document; the server validates it. Raises `WorkbenchError`."""
    with explain_read_errors(name, WorkbenchError(f"`{name}` is not a document: it is not text in UTF-8.", ["choose a JSON file"])):
        text = sys.stdin.read(_LARGEST + 1) if name == "-" else read_text(Path(name), _LARGEST)
    if len(text) > _LARGEST:
        raise WorkbenchError(f"`{name}` is not a document: it has more than {_LARGEST:,} characters.", ["choose a JSON file"])
    return text


def _plan_of(team: "TeamClient", options: argparse.Namespace) -> Any:
    """The plan to submit: a file, which is pushed, or the digest or id of a plan on the server."""
    name = options.plan
    is_server_id = name.isalnum() and name.islower() and len(name) in (16, _DIGEST) and not Path(name).exists()
    return name if is_server_id else team.push(read_document(name), options.project)


def _wanted(options: argparse.Namespace) -> dict[str, Any]:
    memory = None
    if options.memory is not None and (memory := parse_bytes(options.memory)) is None:
        raise WorkbenchError(f'"{options.memory}" is not an amount of memory.', ['write "8 GiB", or a number of bytes'])
    same = {name: getattr(options, name) for name in ("engine", "steps", "hosts", "processes", "minutes")}
    pairs = {"options": _pairs(options.option, options.parser), "environment": _pairs(options.env, options.parser)}
    rest = {"check": options.check or None, "memory": memory, **{name: found or None for name, found in pairs.items()}}
    return {**same, "kind": "compile" if options.compile else "run", **rest}


def _pairs(texts: list[str], parser: argparse.ArgumentParser) -> dict[str, str]:
    pairs = [text.partition("=") for text in texts]
    if wrong := [text for text, (name, equals, _) in zip(texts, pairs, strict=True) if not (name and equals)]:
        parser.error(f"{wrong[0]} is not NAME=VALUE")
    return {name: value for name, _, value in pairs}


def _follow(job: "SubmittedJob", as_json: bool) -> None:
    """Print progress on stderr, one line per stage and about ten over the steps, then the result. Raises
    `WorkbenchError` if the job failed.
    """
    stage, events = "", job.events()
    for event in events:
        stage = _print_event(event, stage)
    ended = job.get()
    if as_json:
        print(json.dumps(asdict(ended), indent=1))
    if ended.state == "failed":
        raise WorkbenchError(f"Job {job.id} failed. {ended.problem}".strip(), [f"see {job.page}"])
    if not as_json:
        print(f"job {job.id} is {ended.state}")


def _print_event(event: Mapping[str, Any], stage: str) -> str:
    """Print an event if it deserves a line. Returns the current stage of the job."""
    step, of, now = event.get("step"), event.get("of"), event.get("stage") or stage
    if event["kind"] == "progress" and step and of:
        if step in (1, of) or step % max(1, of // 10) == 0:
            loss = "" if event.get("loss") is None else f", loss {event['loss']:.4f}"
            _say(f"step {step} of {of}{_seconds(event)}{loss}")
    elif event["kind"] == "progress" and now != stage:
        _say(f"{now} ...")
    elif event["kind"] == "started":
        _say("started")
    return now


def _seconds(event: Mapping[str, Any]) -> str:
    return "" if event.get("seconds") is None else f": {format_seconds(event['seconds'])}"


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


# `workbench assignments`, `hand-out`, `hand-in` and `send-plan`: a class on a team's server from the command line.

_LINE = "{:<16}  {:>10}  {:>8}  {}"


def assignments(options: argparse.Namespace) -> None:
    with team_of(options) as team:
        found = team.assignments(options.project)
    rows = [
        (each.id, f"{each.score:g}" if each.room else "-", f"{each.points:g}", ", ".join(filter(None, (each.name, each.deadline_text))))
        for each in found
    ]
    print_rows(found, rows, _LINE, ("assignment", "my points", "of", "name, and deadline"), as_json=options.json)


def hand_out(options: argparse.Namespace) -> None:
    chosen = {key: getattr(options, key) for key in ("name", "deadline", "zone", "size", "ranked")}
    with team_of(options) as team:
        found = team.hand_out(read_document(options.exercise), options.project, **chosen)
    print(json.dumps(asdict(found), indent=1) if options.json else found.page)


def send_plan(options: argparse.Namespace) -> None:
    with team_of(options) as team:
        sent = team.send_plan(options.assignment, options.of or "", options.question or "")
    print(json.dumps({"sent": sent}) if options.json else f"Sent to {sent} board{'' if sent == 1 else 's'}; students can undo it.")


def hand_in(options: argparse.Namespace) -> None:
    if (options.plan is None) == (options.answer is None):
        raise WorkbenchError("Give either a plan file or a text as the answer.", ["give one of PLAN.json and --answer"])
    answer = options.answer if options.plan is None else read_document(options.plan)
    with team_of(options) as team:
        team.begin(options.assignment)
        verdict = team.hand_in(options.assignment, options.question, answer)
    if options.json:
        print(json.dumps(asdict(verdict), indent=1))
    else:
        late = " After the deadline: not counted." if verdict.late else ""
        print(f"{'Right' if verdict else 'Not yet'}: {verdict.score:g} of {verdict.most:g} points, try {verdict.attempt}.{late}")
        for line in (*verdict.reasons, *(f"Hint: {hint}" for hint in verdict.hints)):
            print(f"  - {line}")
    if not verdict:
        raise SystemExit(1)
