"""`workbench team`: commands for the operator of a team server. They work on its database, whether or not it is
running.
"""

import argparse
import json
import os
import shlex
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from workbench.cli.shared_arguments import verify_port_is_free
from workbench.errors import WorkbenchError, explain_os_errors
from workbench.team.accounts.invitations import invite
from workbench.team.accounts.revocations import issue_token
from workbench.team.accounts.user_accounts import add_user, count_users, disable_user, enable_user, find_user, note
from workbench.team.data_folder import make_private, private_data
from workbench.team.store import migrate
from workbench.team.store.backup import backup, move, restore
from workbench.team.store.database_errors import explain_database_errors
from workbench.team.store.store import Store, claim_store
from workbench.team.store.tables import User
from workbench.team.team_config import FILE, LISTEN, TeamConfig
from workbench.team.web.team_services import TeamServices

FOLDER_VARIABLE, FOLDER = "WORKBENCH_TEAM", "workbench-team"
_DAY = 86_400.0


def init(options: argparse.Namespace) -> None:
    """Create the folder, `team.toml` and the database tables. Existing ones stay."""
    data = _folder(options)
    given = {"listen": options.listen or LISTEN, "address": options.address, "database": options.database}
    with explain_os_errors(f"{data / FILE} cannot be written", WorkbenchError, "choose another folder with --data"), private_data(data):
        if not (data / FILE).exists():
            lines = [f"{name} = {json.dumps(value)}" for name, value in given.items() if value]
            (data / FILE).write_text("\n".join([*lines, "", "[sign_in]", "local = true", ""]), encoding="utf-8")
    with _opened(options, make=True) as (store, config):
        print(f"Settings: {data / FILE}. Database: {_without_password(store, config)}.")
    print("Next:\n  workbench team user add NAME --admin\n  workbench team serve")


def serve(options: argparse.Namespace) -> None:
    """Serve until interrupted or ended by SIGTERM."""
    print("Starting the team server ...", flush=True)
    from workbench.team.serve_team import serve  # Panel

    config = _config(options)
    if not config.unix_socket:
        host, port = config.port
        verify_port_is_free(host, port, f"--listen {host}:{{}}")

    def say(services: TeamServices) -> None:
        config.remember_address()
        hint = _hint_of_first_person(services.store, options) if config.sign_in.get("local", True) else ""
        print(f"The team server is at {config.public_address}{hint}", flush=True)

    serve(config, on_ready=say)


def add_person(options: argparse.Namespace) -> None:
    with _opened(options) as (store, config):
        with store.write() as session:
            user = add_user(session, options.name, options.display, options.email, admin=options.admin)
            secret = invite(session, user_id=user.id, admin=options.admin)
            note(session, "team.user.add", None, user.name, admin=options.admin)
        print(f"Link for `{user.name}` to choose a password, valid for a week:\n{config.last_address}/invite/{secret}")


def list_people(options: argparse.Namespace) -> None:
    with _opened(options) as (store, _), store.read() as session:
        people = session.query(User).order_by(User.name).all()
    if options.json:
        keys = ("name", "display", "email", "admin", "active", "created")
        print(json.dumps([{key: getattr(each, key) for key in keys} for each in people], indent=1))
        return
    for each in people:
        kind = "disabled" if not each.active else "administrator" if each.admin else ""
        print(f"{each.name:<24} {each.display:<32} {kind}".rstrip())


def disable_person(options: argparse.Namespace) -> None:
    with _person(options) as (session, user, _):
        ended = disable_user(session, user)
        print(f"`{user.name}` is disabled; {len(ended)} login{'s' * (len(ended) != 1)} ended.")


def enable_person(options: argparse.Namespace) -> None:
    with _person(options) as (_, user, _config):
        enable_user(user)
        print(f"`{user.name}` can sign in again.")


def new_password(options: argparse.Namespace) -> None:
    with _person(options) as (session, user, config):
        secret = invite(session, user_id=user.id)
        print(f"Link for `{user.name}` to choose a new password, valid for a week:\n{config.last_address}/invite/{secret}")


def make_token(options: argparse.Namespace) -> None:
    with _person(options) as (session, user, _):
        scopes = tuple(each.strip() for each in options.scopes.split(",") if each.strip())
        expires = time.time() + options.days * _DAY if options.days else None
        print(issue_token(session, user.id, options.about, scopes, expires).secret)


def make_backup(options: argparse.Namespace) -> None:
    with _opened(options) as (store, config):
        made = backup(store, config.data, Path(options.file))
        print(f"{options.file} holds {sum(made.rows.values()):,} rows and {made.files:,} files.")


def restore_backup(options: argparse.Namespace) -> None:
    with _opened(options, empty=True) as (store, config):
        with claim_store(store, "`workbench team restore`"):
            made = restore(Path(options.file), store, config.data)
        make_private(config.data)  # a backup's files have the modes that they had
        when = time.strftime("%F %T", time.localtime(made.made))
        print(f"Restored {sum(made.rows.values()):,} rows and {made.files:,} files from the backup of {when}.")


def move_store(options: argparse.Namespace) -> None:
    with _opened(options) as (store, _):
        with closing(Store.open(options.target)) as target, claim_store(store, "`workbench team move`"):
            counts = move(store, target)
        print(f"Copied {sum(counts.values()):,} rows of {len(counts)} tables. Now set `database` in {FILE}.")


def _hint_of_first_person(store: Store, options: argparse.Namespace) -> str:
    """How to create the first account; empty if there is one."""
    with store.read() as session:
        if count_users(session):
            return ""
    place = f" --data {shlex.quote(options.data)}" if options.data else ""
    return f"\nThere is no account yet. In another terminal: workbench team{place} user add NAME --admin"


def _folder(options: argparse.Namespace) -> Path:
    return Path(options.data or os.environ.get(FOLDER_VARIABLE) or FOLDER).absolute()


def _config(options: argparse.Namespace) -> TeamConfig:
    given = {name: getattr(options, name, None) for name in ("listen", "address", "database", "cluster")}
    return TeamConfig.read(_folder(options), **given)


@contextmanager
def _opened(options: argparse.Namespace, *, make: bool = False, empty: bool = False) -> Iterator[tuple[Store, TeamConfig]]:
    """The store of the server's folder. Missing tables are created, must exist or must be missing. Raises
    `WorkbenchError`.
    """
    config = _config(options)
    if not make and not empty and not config.data.is_dir():
        raise WorkbenchError(
            f"There is no data of a team server in {config.data}.",
            [
                "start the server, which creates it: workbench team serve",
                "workbench team init",
                "name another folder: workbench team --data DIR",
            ],
        )
    with private_data(config.data), closing(Store.open(config.store_address)) as store, explain_database_errors():
        if make:
            migrate.upgrade(store)
        elif not empty and migrate.current(store) != migrate.newest():
            message = f"The database of {config.data} belongs to another version of the workbench."
            raise WorkbenchError(message, ["run `workbench team init` to migrate it"])
        yield store, config


@contextmanager
def _person(options: argparse.Namespace) -> Iterator[tuple[Any, User, TeamConfig]]:
    """A database session and a user to change, recorded in the audit log. Raises `WorkbenchError` if there is no such
    user.
    """
    with _opened(options) as (store, config), store.write() as session:
        user = find_user(session, options.name)
        if user is None:
            raise WorkbenchError(f"There is no user `{options.name[:80]}`.", ["workbench team user list"])
        yield session, user, config
        note(session, f"team.{options.command.name}", None, user.name)


def _without_password(store: Store, config: TeamConfig) -> Any:
    return config.data / "team.db" if not config.database else store.engine.url.render_as_string(hide_password=True)
