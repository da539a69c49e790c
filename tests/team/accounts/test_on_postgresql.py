"""What of accounts depends on the database, on PostgreSQL: who comes first, and texts that it refuses."""

import threading

import pytest

from tests.support.team_server import PASSWORD, add_person, quick_hasher, sign_in, team_server
from workbench.team.accounts.invitations import InvitationError, accept_as, invite
from workbench.team.accounts.logins import principal_of_login, revoke_logins_of
from workbench.team.accounts.passwords import LocalAccounts
from workbench.team.accounts.user_accounts import find_user
from workbench.team.store import migrate


@pytest.fixture
def accounts_store(postgres_store):
    migrate.upgrade(postgres_store)
    return postgres_store


def test_signing_in_and_out_in_a_browser(accounts_store, tmp_path):
    with team_server(tmp_path, store=accounts_store) as server, server.client() as browser:
        user_id = add_person(accounts_store, "ada", password=PASSWORD)
        object.__setattr__(server.services.sign_in, "local", LocalAccounts(accounts_store, quick_hasher()))
        for name in ("a\x00da", "\x00", "nobody"):
            answer = browser.post("/login", data={"name": name, "password": "wrong \x00 wrong wrong"})
            assert answer.status_code == 403, answer.text
        assert browser.post("/login", data={"name": "ada", "password": PASSWORD}).status_code == 302
        assert principal_of_login(accounts_store, browser.cookies["workbench"]).user_id == user_id
        browser.post("/logout", data={"everywhere": "yes"})
        secret = sign_in(accounts_store, user_id)
        with accounts_store.write() as session:
            assert len(revoke_logins_of(session, user_id)) == 1
        assert principal_of_login(accounts_store, secret) is None


def test_of_several_who_use_an_invitation_at_once_one_gets_in(accounts_store):
    names = [f"p{number}" for number in range(6)]
    for name in names:
        add_person(accounts_store, name)
    with accounts_store.write() as session:
        secret = invite(session, admin=True)
    start, refused = threading.Barrier(len(names)), []

    def work(name):
        start.wait()
        try:
            with accounts_store.write() as session:
                accept_as(session, secret, find_user(session, name))
        except InvitationError:
            refused.append(name)

    threads = [threading.Thread(target=work, args=(name,)) for name in names]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    with accounts_store.read() as session:
        admins = [name for name in names if find_user(session, name).admin]
    assert len(admins) == 1
    assert sorted(admins + refused) == names
