"""Commands about team servers: for users (`login`, `push`, `pull`, `submit`, `jobs`, `assignments`, `hand-out`,
`hand-in`, `send-plan`) and for operators (`team`).

They do not import JAX, as the server does not.
"""

import argparse
from typing import Any

from workbench.cli.command_parser import CommandFunction, CommandParser, TeamCommand
from workbench.cli.shared_arguments import add_json, add_parser, positive


def add_team_commands(added: Any) -> None:
    """Add all commands about team servers."""
    for add in (_login, _logout, _push, _pull, _submit, _jobs, _assignments, _hand_out, _hand_in, _send_plan, _team):
        add(added)


def _user_command(added: Any, name: str, text: str, *examples: str) -> CommandParser:
    """Add a command for users of a team server; its function in `server_command` has the same name."""
    command = add_parser(added, name, text, *examples)
    command.set_defaults(command=CommandFunction("server_command", name.replace("-", "_")))
    return command


def _add_server(command: argparse.ArgumentParser, default: Any = None) -> None:
    command.add_argument(
        "--server", metavar="URL", default=default, help="the team's server (default: WORKBENCH_SERVER, else that of `workbench login`)"
    )
    command.add_argument(
        "--token", metavar="TOKEN", default=default, help="a token for it (default: WORKBENCH_TOKEN, else that of `workbench login`)"
    )


def _add_project(command: argparse.ArgumentParser) -> None:
    command.add_argument("--project", metavar="NAME", help="a project, as in its address (default: your own)")


def _login(added: Any) -> None:
    text = "save the address of a team server and a token for it, in a file that only you can read"
    command = _user_command(added, "login", text, "workbench login https://plans.example.org")
    command.add_argument("url", metavar="URL", help="the address of the server")
    command.add_argument("--token", metavar="TOKEN", help="a token from your account page (default: ask for it)")


def _logout(added: Any) -> None:
    command = _user_command(added, "logout", "delete the saved token for a team server", "workbench logout https://plans.example.org")
    command.add_argument("url", metavar="URL", nargs="?", help="the address of the server (default: the last one)")


def _push(added: Any) -> None:
    text = "add a plan to the gallery of a team server, and print the address of its page"
    command = _user_command(added, "push", text, 'workbench push my.plan.json --project vision --note "half the traffic"')
    command.add_argument("plan", metavar="PLAN.json", help="a saved plan; `-` reads it from standard input")
    _add_project(command)
    command.add_argument("--name", metavar="TEXT", help="name in the gallery (default: the name of the plan)")
    command.add_argument("--note", metavar="TEXT", help="a note for others")
    _add_server(command)
    add_json(command)


def _pull(added: Any) -> None:
    text = "download a plan from a team server"
    command = _user_command(added, "pull", text, "workbench pull k3v9x2m7q4w8z6tb -o theirs.plan.json")
    command.add_argument("plan", metavar="PLAN", help="the digest of the plan, or the id at the end of the address of its page")
    command.add_argument("-o", "--output", metavar="FILE", help="file to write (default: standard output)")
    _add_server(command)


def _submit(added: Any) -> None:
    text = "run or compile a plan on the devices of a team"
    command = _user_command(added, "submit", text, "workbench submit my.plan.json --project vision --steps 100 --follow")
    command.add_argument("plan", metavar="PLAN", help="a saved plan, which is pushed first, or the digest or id of a plan on the server")
    _add_project(command)
    command.add_argument("--compile", action="store_true", help="compile only")
    command.add_argument("--engine", metavar="NAME", default="here", help="here, slurm, ray or kubernetes (default: %(default)s)")
    command.add_argument("--steps", type=positive, metavar="N", help="steps to measure, after warm-up (default: 20)")
    command.add_argument("--check", action="store_true", help="also compare the result with the unsharded step")
    command.add_argument("--hosts", type=positive, metavar="N", help="machines (default: 1)")
    command.add_argument("--processes", type=positive, metavar="N", help="processes of each machine (default: 1)")
    command.add_argument("--minutes", type=positive, metavar="N", help="time limit in minutes (default: 30)")
    command.add_argument("--memory", metavar="TEXT", help='memory of each process: "8 GiB"')
    for name, of in (("--option", "an option of the engine, such as partition=gpu"), ("--env", "a variable of the job's environment")):
        command.add_argument(name, metavar="NAME=VALUE", action="append", default=[], help=f"{of}; may be repeated")
    command.add_argument("--follow", action="store_true", help="print progress until the job ends")
    _add_server(command)
    add_json(command, "; progress goes to stderr")


def _jobs(added: Any) -> None:
    text = "list the jobs of a project on a team server; follow or cancel one"
    command = _user_command(added, "jobs", text, "workbench jobs --project vision", "workbench jobs cancel k3v9x2m7q4w8z6tb")
    _add_project(command)
    command.add_argument("--state", metavar="STATE", help="only jobs in this state: queued, starting, running, done, failed, cancelled")
    _add_server(command)
    add_json(command)
    verbs = command.add_subparsers(metavar="VERB")  # without one, the jobs are listed
    for name, about in (("follow", "print the progress of a job until it ends"), ("cancel", "cancel a job")):
        verb = _user_command(verbs, name, about, f"workbench jobs {name} k3v9x2m7q4w8z6tb")
        verb.add_argument("job", metavar="ID", help="the job")
        _add_server(verb, argparse.SUPPRESS)  # what was given before the verb stays
        add_json(verb, "; progress goes to stderr" if name == "follow" else "", argparse.SUPPRESS)


def _assignments(added: Any) -> None:
    text = "list the assignments of a class on a team server, with your score"
    command = _user_command(added, "assignments", text, "workbench assignments --project cs-336")
    command.add_argument("--project", metavar="NAME", required=True, help="the class")
    _add_server(command)
    add_json(command)


def _hand_out(added: Any) -> None:
    text = "assign an exercise to a class on a team server, and print the address of its page"
    example = "workbench hand-out exercise.json --project cs-336 --deadline 2026-12-01T23:59 --zone Europe/Berlin"
    command = _user_command(added, "hand-out", text, example)
    command.add_argument("exercise", metavar="EXERCISE.json", help="the exercise")
    command.add_argument("--project", metavar="NAME", required=True, help="the class")
    command.add_argument("--name", metavar="TEXT", help="name of the assignment (default: the title of the exercise)")
    command.add_argument("--deadline", metavar="TIME", help="2026-12-01T23:59; later answers do not count (default: none)")
    command.add_argument("--zone", metavar="ZONE", help="the time zone of the deadline, such as Europe/Berlin (default: UTC)")
    command.add_argument("--size", type=positive, metavar="N", help="maximum group size (default: 1)")
    command.add_argument("--ranked", metavar="QUESTION", help="the question whose plans are ranked")
    _add_server(command)
    add_json(command)


def _hand_in(added: Any) -> None:
    text = "submit an answer to an assignment on a team server; exits with 1 if it is wrong"
    examples = (
        "workbench hand-in k3v9x2m7q4w8z6tb share answer.plan.json",
        'workbench hand-in k3v9x2m7q4w8z6tb sent --answer "16 KiB"',
    )
    command = _user_command(added, "hand-in", text, *examples)
    command.add_argument(
        "assignment", metavar="ASSIGNMENT", help="the id at the end of the address of its page; started if you have not started it"
    )
    command.add_argument("question", metavar="QUESTION", help="the question, by its name")
    command.add_argument("plan", metavar="PLAN.json", nargs="?", help="a plan as the answer")
    command.add_argument("--answer", metavar="TEXT", help="a number or choice as the answer")
    _add_server(command)
    add_json(command)


def _send_plan(added: Any) -> None:
    text = "open a plan on the boards of all students who have not answered yet; each can undo it"
    example = "workbench send-plan k3v9x2m7q4w8z6tb --of ada --question share"
    command = _user_command(added, "send-plan", text, example)
    command.add_argument("assignment", metavar="ASSIGNMENT", help="the id at the end of the address of its page")
    command.add_argument(
        "--of", metavar="STUDENT", help="send the present plan of this student (default: the first plan of the assignment)"
    )
    command.add_argument(
        "--question",
        metavar="QUESTION",
        help="only to students without a right answer to this question (default: to any question about a plan)",
    )
    _add_server(command)
    add_json(command)


def _team(added: Any) -> None:
    text = "run a team server: accounts, a gallery of plans, shared rooms, jobs"
    command = add_parser(added, "team", text, "workbench team serve", "workbench team user add ada --admin")
    command.add_argument(
        "--data", metavar="DIR", help="data folder of the server (default: WORKBENCH_TEAM, else `workbench-team` in the current folder)"
    )
    verbs = command.add_verbs("VERB")
    for add in (_init, _serve, _user, _token, _backup, _restore, _move):
        add(verbs)


def _init(verbs: Any) -> None:
    verb = add_parser(
        verbs,
        "init",
        "create the data folder of a server, with settings and database",
        "workbench team --data /srv/team init --database postgresql://team@db/team",
    )
    _add_place(verb)
    verb.set_defaults(command=TeamCommand("team_command", "init"))


def _serve(verbs: Any) -> None:
    verb = add_parser(verbs, "serve", "start the server", "workbench team serve --listen 0.0.0.0:5007 --address https://plans.example.org")
    _add_place(verb)
    verb.add_argument("--cluster", metavar="ADDRESS", help="plan, search and compile on a Ray cluster: ray://HOST:10001, or `auto`")
    verb.set_defaults(command=TeamCommand("team_command", "serve"))


def _add_place(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("--listen", metavar="WHERE", help="host:port, or unix:PATH behind a proxy (default: 127.0.0.1:5007)")
    verb.add_argument("--address", metavar="URL", help="public address of the server: https://plans.example.org/prefix")
    verb.add_argument("--database", metavar="URL", help="postgresql://user@host/name (default: SQLite, in the folder)")


def _user(verbs: Any) -> None:
    command = add_parser(verbs, "user", "add, list and disable users", "workbench team user add ada --admin")
    kinds = command.add_verbs("VERB")
    add = add_parser(kinds, "add", "add a user, and print a link for choosing a password", "workbench team user add ada --admin")
    add.add_argument("name", metavar="NAME", help="user name: letters, digits, `.`, `_`, `-`")
    add.add_argument("--display", metavar="TEXT", default="", help="display name")
    add.add_argument("--email", metavar="ADDRESS")
    add.add_argument("--admin", action="store_true", help="make the user an administrator of the server")
    add.set_defaults(command=TeamCommand("team_command", "add_person"))
    listed = add_parser(kinds, "list", "list the users of the server", "workbench team user list --json")
    add_json(listed)
    listed.set_defaults(command=TeamCommand("team_command", "list_people"))
    for name, function, about in (
        (
            "disable",
            TeamCommand("team_command", "disable_person"),
            "disable a user and end all logins within a second",
        ),
        ("enable", TeamCommand("team_command", "enable_person"), "enable a user again"),
        ("password", TeamCommand("team_command", "new_password"), "print a link for choosing a new password"),
    ):
        verb = add_parser(kinds, name, about, f"workbench team user {name} ada")
        verb.add_argument("name", metavar="NAME")
        verb.set_defaults(command=function)


def _token(verbs: Any) -> None:
    verb = add_parser(
        verbs, "token", "create a token for a user, and print it once", "workbench team token ada --scopes read,run --days 90"
    )
    verb.add_argument("name", metavar="NAME", help="user name")
    verb.add_argument("--for", dest="about", metavar="TEXT", default="command line", help="purpose, as a note (default: %(default)s)")
    verb.add_argument(
        "--scopes", metavar="LIST", default="read,edit,run", help="comma-separated: read, edit, run, manage (default: %(default)s)"
    )
    verb.add_argument("--days", type=positive, metavar="N", help="days until it expires (default: never)")
    verb.set_defaults(command=TeamCommand("team_command", "make_token"))


def _backup(verbs: Any) -> None:
    verb = add_parser(verbs, "backup", "write a backup of everything; the server may keep running", "workbench team backup monday.tar.gz")
    verb.add_argument("file", metavar="FILE.tar.gz")
    verb.set_defaults(command=TeamCommand("team_command", "make_backup"))


def _restore(verbs: Any) -> None:
    verb = add_parser(
        verbs, "restore", "restore a backup into an empty folder and database", "workbench team --data new restore monday.tar.gz"
    )
    verb.add_argument("file", metavar="FILE.tar.gz")
    verb.set_defaults(command=TeamCommand("team_command", "restore_backup"))


def _move(verbs: Any) -> None:
    verb = add_parser(
        verbs,
        "move",
        "copy everything into an empty database; stop the server first",
        "workbench team move postgresql://team@db/team",
    )
    verb.add_argument("target", metavar="URL", help="postgresql://user@host/name, or sqlite:///folder/team.db")
    verb.set_defaults(command=TeamCommand("team_command", "move_store"))
