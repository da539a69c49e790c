"""`workbench assignments`, `hand-out`, `hand-in` and `send-plan`: a class on a team's server from the command line."""

import argparse
import json
from dataclasses import asdict

from workbench.cli.server_command import print_rows, read_document, team_of
from workbench.errors import WorkbenchError

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
    print(json.dumps({"sent": sent}) if options.json else f"On {sent} board{'' if sent == 1 else 's'} now; each can take it back.")


def hand_in(options: argparse.Namespace) -> None:
    if (options.plan is None) == (options.answer is None):
        raise WorkbenchError("An answer is a plan's file, or a text.", ["give one of PLAN.json and --answer"])
    answer = options.answer if options.plan is None else read_document(options.plan)
    with team_of(options) as team:
        team.begin(options.assignment)
        verdict = team.hand_in(options.assignment, options.question, answer)
    if options.json:
        print(json.dumps(asdict(verdict), indent=1))
    else:
        late = " After the deadline: it does not count." if verdict.late else ""
        print(f"{'Right' if verdict else 'Not yet'}: {verdict.score:g} of {verdict.most:g} points, try {verdict.attempt}.{late}")
        for line in (*verdict.reasons, *(f"Hint: {hint}" for hint in verdict.hints)):
            print(f"  - {line}")
    if not verdict:
        raise SystemExit(1)
