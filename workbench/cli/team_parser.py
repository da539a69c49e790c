"""The commands about a team's server: of those who use one (`login`, `push`, `pull`, `submit`, `jobs`,
`assignments`, `hand-out`, `hand-in`, `send-plan`), and of those who run one (`team`).

The commands import no JAX: the server never does.
"""

import argparse
from typing import Any

from workbench.cli.command_parser import CommandFunction, TeamCommand
from workbench.cli.shared_arguments import add_json, add_parser, positive


def add_team_commands(added: Any) -> None:
    """All of them."""
    for add in (_login, _logout, _push, _pull, _submit, _jobs, _assignments, _hand_out, _hand_in, _send_plan, _team):
        add(added)


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
    text = "keep the address of a team's server and a token for it, in a file that you alone can read"
    command = add_parser(added, "login", text, "workbench login https://plans.example.org")
    command.add_argument("url", metavar="URL", help="the address of the server")
    command.add_argument("--token", metavar="TOKEN", help="a token, which the page of your account makes (default: it is asked for)")
    command.set_defaults(command=CommandFunction("server_command", "login"))


def _logout(added: Any) -> None:
    command = add_parser(added, "logout", "delete the saved token for a team server", "workbench logout https://plans.example.org")
    command.add_argument("url", metavar="URL", nargs="?", help="the address of the server (default: the last one)")
    command.set_defaults(command=CommandFunction("server_command", "logout"))


def _push(added: Any) -> None:
    text = "add a plan to the gallery of a team's server, and print the address of its page"
    command = add_parser(added, "push", text, 'workbench push my.plan.json --project vision --note "half the traffic"')
    command.add_argument("plan", metavar="PLAN.json", help="a saved plan; `-` reads it from standard input")
    _add_project(command)
    command.add_argument("--name", metavar="TEXT", help="what it is called there (default: the plan's own name)")
    command.add_argument("--note", metavar="TEXT", help="what others should know of it")
    _add_server(command)
    add_json(command)
    command.set_defaults(command=CommandFunction("server_command", "push"))


def _pull(added: Any) -> None:
    text = "get a plan from a team's server"
    command = add_parser(added, "pull", text, "workbench pull k3v9x2m7q4w8z6tb -o theirs.plan.json")
    command.add_argument("plan", metavar="PLAN", help="its digest, or the id at the end of its page's address")
    command.add_argument("-o", "--output", metavar="FILE", help="file to write (default: standard output)")
    _add_server(command)
    command.set_defaults(command=CommandFunction("server_command", "pull"))


def _submit(added: Any) -> None:
    text = "run a plan, or compile it, where a team's devices are"
    command = add_parser(added, "submit", text, "workbench submit my.plan.json --project vision --steps 100 --follow")
    command.add_argument("plan", metavar="PLAN", help="a saved plan, which is pushed first; or a digest, or an entry's id")
    _add_project(command)
    command.add_argument("--compile", action="store_true", help="compile it, and run nothing")
    command.add_argument("--engine", metavar="NAME", default="here", help="here, slurm, ray or kubernetes (default: %(default)s)")
    command.add_argument("--steps", type=positive, metavar="N", help="steps to measure, after warm-up (default: 20)")
    command.add_argument("--check", action="store_true", help="also check the result against the unsharded step")
    command.add_argument("--hosts", type=positive, metavar="N", help="machines (default: 1)")
    command.add_argument("--processes", type=positive, metavar="N", help="processes of each machine (default: 1)")
    command.add_argument("--minutes", type=positive, metavar="N", help="time limit in minutes (default: 30)")
    command.add_argument("--memory", metavar="TEXT", help='memory of each process: "8 GiB"')
    for name, of in (("--option", "an option of the engine, such as partition=gpu"), ("--env", "a variable of the job's environment")):
        command.add_argument(name, metavar="NAME=VALUE", action="append", default=[], help=f"{of}; may be repeated")
    command.add_argument("--follow", action="store_true", help="print its progress until it has ended")
    _add_server(command)
    add_json(command, "; progress goes to stderr")
    command.set_defaults(command=CommandFunction("server_command", "submit"))


def _jobs(added: Any) -> None:
    text = "list the jobs of a project on a team's server; follow one, or cancel it"
    command = add_parser(added, "jobs", text, "workbench jobs --project vision", "workbench jobs cancel k3v9x2m7q4w8z6tb")
    _add_project(command)
    command.add_argument("--state", metavar="STATE", help="only those that are queued, starting, running, done, failed or cancelled")
    _add_server(command)
    add_json(command)
    command.set_defaults(command=CommandFunction("server_command", "jobs"))
    verbs = command.add_subparsers(metavar="VERB")  # without one, the jobs are listed
    for name, function, about in (
        ("follow", CommandFunction("server_command", "follow"), "print the progress of a job until it has ended"),
        ("cancel", CommandFunction("server_command", "cancel"), "ask for a job to be ended"),
    ):
        verb = add_parser(verbs, name, about, f"workbench jobs {name} k3v9x2m7q4w8z6tb")
        verb.add_argument("job", metavar="ID", help="the job")
        _add_server(verb, argparse.SUPPRESS)  # what was given before the verb stays
        verb.set_defaults(command=function)


def _assignments(added: Any) -> None:
    text = "list the assignments of a class on a team's server, with one's own score"
    command = add_parser(added, "assignments", text, "workbench assignments --project cs-336")
    command.add_argument("--project", metavar="NAME", required=True, help="the class")
    _add_server(command)
    add_json(command)
    command.set_defaults(command=CommandFunction("server_command", "assignments"))


def _hand_out(added: Any) -> None:
    text = "hand an exercise to a class on a team's server, and print the address of its page"
    example = "workbench hand-out exercise.json --project cs-336 --deadline 2026-12-01T23:59 --zone Europe/Berlin"
    command = add_parser(added, "hand-out", text, example)
    command.add_argument("exercise", metavar="EXERCISE.json", help="the exercise")
    command.add_argument("--project", metavar="NAME", required=True, help="the class")
    command.add_argument("--name", metavar="TEXT", help="what it is called there (default: the exercise's title)")
    command.add_argument("--deadline", metavar="TIME", help="2026-12-01T23:59; what comes later does not count (default: none)")
    command.add_argument("--zone", metavar="ZONE", help="the time zone of the deadline, such as Europe/Berlin (default: UTC)")
    command.add_argument("--size", type=positive, metavar="N", help="maximum group size (default: 1)")
    command.add_argument("--ranked", metavar="QUESTION", help="the question whose plans are ranked")
    _add_server(command)
    add_json(command)
    command.set_defaults(command=CommandFunction("server_command", "hand_out"))


def _hand_in(added: Any) -> None:
    text = "answer a question of an assignment on a team's server; what is not right is said, and the exit status is 1"
    examples = (
        "workbench hand-in k3v9x2m7q4w8z6tb share answer.plan.json",
        'workbench hand-in k3v9x2m7q4w8z6tb sent --answer "16 KiB"',
    )
    command = add_parser(added, "hand-in", text, *examples)
    command.add_argument("assignment", metavar="ASSIGNMENT", help="its id, at the end of its page's address; it is begun where it is not")
    command.add_argument("question", metavar="QUESTION", help="the question, by its name")
    command.add_argument("plan", metavar="PLAN.json", nargs="?", help="the plan that answers it")
    command.add_argument("--answer", metavar="TEXT", help="the number or choice that answers it")
    _add_server(command)
    add_json(command)
    command.set_defaults(command=CommandFunction("server_command", "hand_in"))


def _send_plan(added: Any) -> None:
    text = "send a plan onto the boards of all students who have not answered yet; each can undo it"
    example = "workbench send-plan k3v9x2m7q4w8z6tb --of ada --question share"
    command = add_parser(added, "send-plan", text, example)
    command.add_argument("assignment", metavar="ASSIGNMENT", help="its id, at the end of its page's address")
    command.add_argument("--of", metavar="STUDENT", help="whose present plan is sent (default: the plan that the assignment begins with)")
    command.add_argument(
        "--question", metavar="QUESTION", help="only to those without a right answer to it (default: to any question about a plan)"
    )
    _add_server(command)
    add_json(command)
    command.set_defaults(command=CommandFunction("server_command", "send_plan"))


def _team(added: Any) -> None:
    text = "run a server for a team: accounts, a gallery of plans, rooms where several edit one plan, jobs"
    command = add_parser(added, "team", text, "workbench team serve", "workbench team user add ada --admin")
    command.add_argument(
        "--data", metavar="DIR", help="folder of the server's data (default: WORKBENCH_TEAM, else `workbench-team` in this folder)"
    )
    verbs = command.add_verbs("VERB")
    for add in (_init, _serve, _user, _token, _backup, _restore, _move):
        add(verbs)


def _init(verbs: Any) -> None:
    verb = add_parser(
        verbs,
        "init",
        "make the folder of a server's data, its settings and its database",
        "workbench team --data /srv/team init --database postgresql://team@db/team",
    )
    _add_place(verb)
    verb.set_defaults(command=TeamCommand("team_command", "init"))


def _serve(verbs: Any) -> None:
    verb = add_parser(verbs, "serve", "serve a team", "workbench team serve --listen 0.0.0.0:5007 --address https://plans.example.org")
    _add_place(verb)
    verb.add_argument("--cluster", metavar="ADDRESS", help="plan, search and compile on a Ray cluster: ray://HOST:10001, or `auto`")
    verb.set_defaults(command=TeamCommand("team_command", "serve"))


def _add_place(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("--listen", metavar="WHERE", help="host:port, or unix:PATH behind a proxy (default: 127.0.0.1:5007)")
    verb.add_argument("--address", metavar="URL", help="the address by which people reach it: https://plans.example.org/prefix")
    verb.add_argument("--database", metavar="URL", help="postgresql://user@host/name (default: SQLite, in the folder)")


def _user(verbs: Any) -> None:
    command = add_parser(verbs, "user", "add people, list them, disable them", "workbench team user add ada --admin")
    kinds = command.add_verbs("VERB")
    add = add_parser(
        kinds, "add", "add somebody, and print the link by which they choose a password", "workbench team user add ada --admin"
    )
    add.add_argument("name", metavar="NAME", help="what colleagues type: letters, digits, `.`, `_`, `-`")
    add.add_argument("--display", metavar="TEXT", default="", help="how they are shown")
    add.add_argument("--email", metavar="ADDRESS")
    add.add_argument("--admin", action="store_true", help="may see and set everything of the server")
    add.set_defaults(command=TeamCommand("team_command", "add_person"))
    listed = add_parser(kinds, "list", "list the people of the server", "workbench team user list --json")
    add_json(listed)
    listed.set_defaults(command=TeamCommand("team_command", "list_people"))
    for name, function, about in (
        (
            "disable",
            TeamCommand("team_command", "disable_person"),
            "sign somebody out everywhere, within a second, and let them in no more",
        ),
        ("enable", TeamCommand("team_command", "enable_person"), "let somebody in again"),
        ("password", TeamCommand("team_command", "new_password"), "print a link by which somebody chooses a new password"),
    ):
        verb = add_parser(kinds, name, about, f"workbench team user {name} ada")
        verb.add_argument("name", metavar="NAME")
        verb.set_defaults(command=function)


def _token(verbs: Any) -> None:
    verb = add_parser(
        verbs, "token", "make a token of somebody, and print it this once", "workbench team token ada --scopes read,run --days 90"
    )
    verb.add_argument("name", metavar="NAME", help="whose")
    verb.add_argument("--for", dest="about", metavar="TEXT", default="command line", help="what it is for (default: %(default)s)")
    verb.add_argument("--scopes", metavar="LIST", default="read,edit,run", help="of read, edit, run, manage (default: %(default)s)")
    verb.add_argument("--days", type=positive, metavar="N", help="days until it ends (default: never)")
    verb.set_defaults(command=TeamCommand("team_command", "make_token"))


def _backup(verbs: Any) -> None:
    verb = add_parser(verbs, "backup", "write a backup of everything; the server may run meanwhile", "workbench team backup monday.tar.gz")
    verb.add_argument("file", metavar="FILE.tar.gz")
    verb.set_defaults(command=TeamCommand("team_command", "make_backup"))


def _restore(verbs: Any) -> None:
    verb = add_parser(verbs, "restore", "put a backup into an empty folder and database", "workbench team --data new restore monday.tar.gz")
    verb.add_argument("file", metavar="FILE.tar.gz")
    verb.set_defaults(command=TeamCommand("team_command", "restore_backup"))


def _move(verbs: Any) -> None:
    verb = add_parser(
        verbs,
        "move",
        "copy everything into another, empty database; the server must not run",
        "workbench team move postgresql://team@db/team",
    )
    verb.add_argument("target", metavar="URL", help="postgresql://user@host/name, or sqlite:///folder/team.db")
    verb.set_defaults(command=TeamCommand("team_command", "move_store"))
