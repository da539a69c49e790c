"""`workbench assignments`, `hand-out` and `hand-in`: a class on a team's server from the command line."""

import argparse
import json
import sys
from dataclasses import asdict

from workbench.cli.server_command import read_document, team_of
from workbench.errors import WorkbenchError

_LINE = "{:<16}  {:>10}  {:>8}  {}"


def assignments(options: argparse.Namespace) -> None:
    with team_of(options) as team:
        found = team.assignments(options.project)
    if options.json:
        print(json.dumps([asdict(each) for each in found], indent=1))
        return
    if not found:
        print("There are none.", file=sys.stderr)
        return
    print(_LINE.format("assignment", "my points", "of", "name, and deadline"))
    for each in found:
        mine = f"{each.score:g}" if each.room else "-"
        print(_LINE.format(each.id, mine, f"{each.points:g}", f"{each.name}{', ' if each.deadline_text else ''}{each.deadline_text}"))


def hand_out(options: argparse.Namespace) -> None:
    chosen = {key: getattr(options, key) for key in ("name", "deadline", "zone", "size", "ranked")}
    with team_of(options) as team:
        found = team.hand_out(read_document(options.exercise), options.project, **chosen)
    print(json.dumps(asdict(found), indent=1) if options.json else found.page)


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
