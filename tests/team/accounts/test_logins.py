"""Cookies of logins: forged, expired, revoked, prolonged; and what is open for them is closed."""

import asyncio
import re

import pytest
from sqlalchemy import update

from tests.support.team_server import add_person, new_store, sign_in, team_server
from workbench.team.accounts import logins
from workbench.team.accounts.logins import (
    LASTS,
    delete_ended_logins,
    live_digests,
    logins_of,
    principal_of_login,
    revoke_login,
    revoke_logins_of,
)
from workbench.team.accounts.revocations import Revocations
from workbench.team.accounts.user_accounts import disable_user, find_user
from workbench.team.store.store import digest_of, now
from workbench.team.store.tables import Login
from workbench.team.web.base_handler import TeamHandler


@pytest.fixture
def store(tmp_path):
    made = new_store(tmp_path)
    yield made
    made.close()


def set_expires(store, secret, expires):
    with store.write() as session:
        session.execute(update(Login).where(Login.digest == digest_of(secret)).values(expires=expires))


def expires_of(store, secret):
    with store.read() as session:
        return session.get(Login, digest_of(secret)).expires


def test_a_cookie_is_256_random_bits_and_the_store_has_its_digest_only(store):
    secrets = {sign_in(store, add_person(store, f"p{i}")) for i in range(5)}
    assert len(secrets) == 5
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{43}", each) for each in secrets)
    with store.read() as session:
        rows = session.query(Login).all()
    written = "".join(str(vars(each)) for each in rows)
    assert not any(each in written for each in secrets)


def test_forged_expired_and_revoked_cookies_are_nobody(store):
    user_id = add_person(store, "ada")
    good, old, gone = (sign_in(store, user_id) for _ in range(3))
    set_expires(store, old, now() - 1)
    with store.write() as session:
        assert revoke_login(session, digest_of(gone)) == [digest_of(gone)]
        assert revoke_login(session, digest_of(gone)) == []
    assert principal_of_login(store, good).user_id == user_id
    forged = ["", good[:-1], good + "a", good.swapcase(), digest_of(good), "x" * 43, "x" * 1_000_000, "\udcff", "' OR 1=1 --", "%"]
    assert [principal_of_login(store, each) for each in [old, gone, *forged]] == [None] * (len(forged) + 2)


def test_a_login_in_use_is_prolonged_at_most_once_a_day(store):
    secret = sign_in(store, add_person(store, "ada"))
    first = expires_of(store, secret)
    principal_of_login(store, secret)
    assert expires_of(store, secret) == first
    set_expires(store, secret, now() + LASTS - logins.RENEWED_AFTER - 5)
    principal_of_login(store, secret)
    assert expires_of(store, secret) > now() + LASTS - 60


@pytest.mark.parametrize("way", ["oidc", "hub"])
def test_a_login_of_a_provider_is_not_prolonged_so_that_the_provider_is_asked_again(store, way):
    secret = sign_in(store, add_person(store, "ada"), way)
    set_expires(store, secret, now() + 60)
    assert principal_of_login(store, secret)
    assert expires_of(store, secret) < now() + 61


def test_a_disabled_person_is_nobody_at_once_in_all_browsers(store):
    root, ada = add_person(store, "root", admin=True), add_person(store, "ada")
    mine, other = sign_in(store, ada), sign_in(store, root)
    with store.write() as session:
        assert disable_user(session, find_user(session, "ada")) == [digest_of(mine)]
    assert principal_of_login(store, mine) is None
    assert principal_of_login(store, other)


def test_all_logins_of_a_person_but_this_one(store):
    user_id = add_person(store, "ada")
    this, *others = (sign_in(store, user_id) for _ in range(4))
    with store.write() as session:
        assert set(revoke_logins_of(session, user_id, digest_of(this))) == {digest_of(each) for each in others}
        assert [each.digest for each in logins_of(session, user_id)] == [digest_of(this)]


def test_logins_that_ended_long_ago_are_forgotten(store):
    user_id = add_person(store, "ada")
    good, old = sign_in(store, user_id), sign_in(store, user_id)
    set_expires(store, old, now() - 100)
    with store.write() as session:
        delete_ended_logins(session, now() - 50)
        assert session.query(Login).count() == 1
        assert live_digests(session, {digest_of(good), digest_of(old)}) == {digest_of(good)}
        assert live_digests(session, set()) == set()


def test_what_this_process_revokes_is_closed_at_once_and_once(store):
    revocations, closed = Revocations(store), []
    revocations.listen("a", lambda: closed.append("a1"))
    forget = revocations.listen("a", lambda: closed.append("a2"))
    revocations.listen("a", lambda: 1 / 0)  # others are closed in any case
    revocations.listen("b", lambda: closed.append("b"))
    forget()
    forget()
    assert revocations.count() == 3
    revocations.announce(["a", "a", "nothing"])
    assert (closed, revocations.count()) == (["a1"], 1)


def test_what_another_process_revokes_is_found_by_asking_the_store(store):
    ada, bob = (sign_in(store, add_person(store, name)) for name in ("ada", "bob"))

    async def work():
        revocations, closed = Revocations(store), asyncio.Event()
        revocations.listen(digest_of(ada), closed.set)
        revocations.listen(digest_of(bob), lambda: pytest.fail("Bob is signed in"))
        await revocations.check()
        assert not closed.is_set()
        revocations.start()
        with store.write() as session:  # past `announce`, as the command line does
            revoke_login(session, digest_of(ada))
        await asyncio.wait_for(closed.wait(), 20)
        revocations.stop()

    asyncio.run(work())


class Name(TeamHandler):
    def get(self):
        self.write_json(self.require_principal().name)


def test_over_https_the_cookie_is_for_this_host_alone(tmp_path):
    with team_server(tmp_path, address="https://plans.example.org") as server:
        user_id = add_person(server.services.store, "ada", password="correct horse battery")
        with server.client() as browser:
            answer = browser.post("/login", data={"name": "ada", "password": "correct horse battery"})
        cookie = answer.headers["Set-Cookie"]
    assert re.fullmatch(r"__Host-workbench=[\w-]{43}; HttpOnly; Max-Age=2592000; Path=/; SameSite=Lax; Secure", cookie)
    assert user_id


def test_under_a_prefix_the_cookie_has_an_ordinary_name_and_the_prefixs_path(tmp_path):
    with team_server(tmp_path, [("/me", Name)], address="https://hub.example.org/services/workbench") as server:
        user_id = add_person(server.services.store, "ada", password="correct horse battery")
        with server.client() as browser:
            answer = browser.post("/services/workbench/login", data={"name": "ada", "password": "correct horse battery"})
            stranger = browser.get("/services/workbench/me")
            assert browser.get("/me").status_code == 404
        with server.client(sign_in(server.services.store, user_id)) as browser:
            assert browser.get("/services/workbench/me").json() == "ada"
    assert re.fullmatch(
        r"workbench=[\w-]{43}; HttpOnly; Max-Age=2592000; Path=/services/workbench/; SameSite=Lax; Secure", answer.headers["Set-Cookie"]
    )
    assert answer.headers["Location"] == "/services/workbench/"
    assert stranger.headers["Location"] == "/services/workbench/login?next=%2Fservices%2Fworkbench%2Fme"
