"""Passwords: what may be one, and that the work is the same whoever is required."""

import pytest
from argon2 import PasswordHasher

from tests.support.team_server import PASSWORD, add_person, new_store, quick_hasher
from workbench.errors import WorkbenchError
from workbench.team.accounts.passwords import LONGEST, LocalAccounts, WrongPasswordError
from workbench.team.accounts.user_accounts import add_user, count_users, disable_user, enable_user, find_user, free_name, set_admin
from workbench.team.store.tables import Password


class CountingHasher:
    """Argon2, and how often it was computed."""

    def __init__(self, hasher):
        self.hasher, self.computed = hasher, 0

    def hash(self, password):
        self.computed += 1
        return self.hasher.hash(password)

    def verify(self, known, password):
        self.computed += 1
        return self.hasher.verify(known, password)

    def check_needs_rehash(self, known):
        return self.hasher.check_needs_rehash(known)


@pytest.fixture
def store(tmp_path):
    made = new_store(tmp_path)
    yield made
    made.close()


def test_the_default_is_argon2id_with_the_parameters_of_its_library(store):
    hashed = LocalAccounts(store).hash("ada", PASSWORD)
    assert hashed.startswith("$argon2id$")
    assert not PasswordHasher().check_needs_rehash(hashed)
    assert PASSWORD not in hashed


def test_the_work_is_one_hash_whoever_is_asked_for(store):
    ada = add_person(store, "ada", password=PASSWORD)
    add_person(store, "root", admin=True)
    add_person(store, "eve", password=PASSWORD)
    add_person(store, "via-provider")
    with store.write() as session:
        disable_user(session, find_user(session, "eve"))
    hasher = CountingHasher(quick_hasher())
    accounts = LocalAccounts(store, hasher)
    assert accounts._decoy
    wrong = [("ada", "wrong"), ("nobody", PASSWORD), ("eve", PASSWORD), ("via-provider", PASSWORD), ("", ""), ("ada", PASSWORD * 100)]
    for name, password in wrong:
        before = hasher.computed
        with pytest.raises(WrongPasswordError, match="Wrong name or password"):
            accounts.verify(name, password)
        assert hasher.computed == before + 1, (name, password)
    before = hasher.computed
    assert accounts.verify(" ADA ", PASSWORD) == ada
    assert hasher.computed == before + 1


@pytest.mark.parametrize("password", [PASSWORD[:-1], PASSWORD + " ", PASSWORD.upper(), "", "\x00", "\udcff" * 20, "ä" * LONGEST])
def test_another_password_is_wrong(store, password):
    add_person(store, "ada", password=PASSWORD)
    with pytest.raises(WrongPasswordError):
        LocalAccounts(store, quick_hasher()).verify("ada", password)


def test_a_stored_hash_that_is_none_lets_nobody_in(store):
    user_id = add_person(store, "ada", password=PASSWORD)
    for text in ("", "plain", PASSWORD, "$argon2id$v=19$broken"):
        with store.write() as session:
            session.get(Password, user_id).hash = text
        with pytest.raises(WrongPasswordError):
            LocalAccounts(store, quick_hasher()).verify("ada", PASSWORD)


def test_a_hash_of_former_parameters_is_computed_anew(store):
    user_id = add_person(store, "ada", password=PASSWORD)
    stronger = PasswordHasher(time_cost=2, memory_cost=16, parallelism=1)
    accounts = LocalAccounts(store, stronger)
    assert accounts.verify("ada", PASSWORD) == user_id
    with store.read() as session:
        assert not stronger.check_needs_rehash(session.get(Password, user_id).hash)
    assert accounts.verify("ada", PASSWORD) == user_id


@pytest.mark.parametrize(
    ("password", "said"),
    [
        ("short", "12 to 512 characters; this has 5"),
        ("x" * 513, "this has 513"),
        ("ada.lovelace1", "too similar to the name"),
        ("abababababab", "fewer than five"),
    ],
)
def test_passwords_that_may_not_be(store, password, said):
    with pytest.raises(WorkbenchError, match=said):
        LocalAccounts(store, quick_hasher()).hash("ada.lovelace", password)


@pytest.mark.parametrize("name", ["", " ", "-ada", "a b", "ada/..", "ädа", "x" * 65, "ada\n", "<b>"[:3], "x" * 100_000])
def test_names_that_cannot_be(store, name):
    with store.write() as session:
        if name == "ada\n":
            assert add_user(session, name).name == "ada"  # a line break at the end is no part of it
            return
        with pytest.raises(WorkbenchError, match="is not a valid name"):
            add_user(session, name)


def test_no_two_people_have_a_name_and_one_that_is_free_is_found(store):
    with store.write() as session:
        add_user(session, "Ada")
        with pytest.raises(WorkbenchError, match="The name `ada` is taken"):
            add_user(session, "ADA")
        assert free_name(session, "Ada") == "ada-2"
        assert free_name(session, "Grace Hopper!") == "grace-hopper"
        assert free_name(session, "漢字") == "person"
        assert count_users(session) == 1


def test_what_others_see_of_a_name_has_no_control_characters(store):
    with store.write() as session:
        assert add_user(session, "ada", "  Ada\u202e\x00 \n  Lovelace" + "x" * 200).display == "Ada Lovelace" + "x" * 88
        assert add_user(session, "bob", "  ").display == "bob"


def test_the_last_administrator_stays(store):
    add_person(store, "root", admin=True)
    with store.write() as session:
        root = find_user(session, "root")
        for change in (lambda: disable_user(session, root), lambda: set_admin(session, root, admin=False)):
            with pytest.raises(WorkbenchError, match="the only administrator who can sign in"):
                change()
        set_admin(session, add_user(session, "ada"), admin=True)
        disable_user(session, root)
        assert not root.active
        enable_user(root)
        set_admin(session, root, admin=False)
