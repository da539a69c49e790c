"""Guessing is slowed down, and colleagues at the same address are not, with a clock of the test's."""

import pytest

from workbench.team.accounts import rate_limit
from workbench.team.accounts.passwords import WrongPasswordError
from workbench.team.accounts.rate_limit import Allowance, AttemptLimit, SignInLimits, TooManyAttemptsError


class Clock:
    time = 1000.0

    def __call__(self):
        return self.time


def test_each_failure_after_the_free_ones_waits_twice_as_long():
    clock = Clock()
    limit = AttemptLimit(Allowance(2, 1.0, 8.0, 100.0), clock)
    waits = []
    for _ in range(2):
        limit.begin("ada")
    for _ in range(6):
        limit.begin("ada") if not waits else None
        with pytest.raises(TooManyAttemptsError) as error:
            limit.begin("ada")
        waits.append(error.value.seconds)
        clock.time += error.value.seconds
        limit.begin("ada")
    assert waits == [1, 2, 4, 8, 8, 8]
    limit.begin("bob")


def test_many_at_once_are_no_way_around_it():
    limit = AttemptLimit(Allowance(3, 1.0, 8.0, 100.0), Clock())
    for _ in range(4):
        limit.begin("ada")
    for _ in range(100):
        with pytest.raises(TooManyAttemptsError, match="Try again in 1 s"):
            limit.begin("ada")


def test_success_forgets_all_and_time_one_after_another():
    clock = Clock()
    limit = AttemptLimit(Allowance(1, 10.0, 80.0, 100.0), clock)
    limit.begin("ada")
    limit.begin("ada")
    limit.succeed("ada")
    limit.begin("ada")
    limit.begin("ada")
    with pytest.raises(TooManyAttemptsError):
        limit.begin("ada")
    clock.time += 101  # one of the two
    limit.begin("ada")
    with pytest.raises(TooManyAttemptsError, match="in 10 s"):
        limit.begin("ada")
    clock.time += 201
    limit.begin("ada")
    limit.begin("ada")


def test_a_long_attack_is_remembered_for_no_longer_than_a_short_one():
    clock = Clock()
    limit = AttemptLimit(Allowance(1, 10.0, 80.0, 100.0), clock)
    for _ in range(1000):
        limit.begin("ada")
        clock.time += 80.0
    clock.time += 500.0  # 1 + 1 + log2(8) failures were remembered
    limit.begin("ada")
    limit.begin("ada")


def test_what_is_forgiven_leaves_the_failures_before_it():
    limit = AttemptLimit(Allowance(1, 10.0, 80.0, 100.0), Clock())
    for _ in range(10):
        limit.begin("office")
        limit.forgive("office")
    limit.begin("office")
    limit.begin("office")
    limit.forgive("office")
    limit.begin("office")
    with pytest.raises(TooManyAttemptsError):
        limit.begin("office")


def test_the_table_is_bounded(monkeypatch):
    monkeypatch.setattr(rate_limit, "MOST_KEYS", 10)
    limit = AttemptLimit(Allowance(1, 10.0, 80.0, 100.0), Clock())
    for number in range(100):
        limit.begin(str(number))
    assert len(limit._failures) == 10


def verify(*, is_right):
    if not is_right:
        raise WrongPasswordError


def attempt(limits, name, address, *, is_right=False):
    """Whether a password was looked at, right or wrong."""
    try:
        with limits.attempt(name, address):
            verify(is_right=is_right)
    except TooManyAttemptsError:
        return False
    except WrongPasswordError:
        return True
    return True


def guesses_of(limits, clock, seconds, names, addresses):
    """How many guesses are looked at where one of each name from each address is tried every second."""
    found = 0
    for _ in range(seconds):
        found += sum(attempt(limits, name, address) for name in names for address in addresses)
        clock.time += 1.0
    return found


def test_a_name_that_is_guessed_at_for_hours_keeps_no_colleague_from_signing_in():
    clock = Clock()
    limits = SignInLimits(clock)
    for _ in range(6):
        assert guesses_of(limits, clock, 3600, ["ada"], ["192.0.2.7"]) <= 71
        for number in range(30):
            assert attempt(limits, f"student{number}", "192.0.2.7", is_right=True)
            assert attempt(limits, f"student{number}", "192.0.2.7"), "who mistypes is not kept, either"
        assert attempt(limits, "ada", "198.51.100.1", is_right=True), "she signs in at home"
        assert not attempt(limits, "ada", "192.0.2.7", is_right=True)


def test_guessing_over_many_names_is_slowed_for_the_address():
    clock = Clock()
    limits = SignInLimits(clock)
    names = [f"n{number}" for number in range(50)]
    assert guesses_of(limits, clock, 900, names, ["192.0.2.7"]) <= 100 + 900 / 10 + 10
    assert attempt(limits, "ada", "198.51.100.1")


def test_guessing_at_a_name_from_many_addresses_is_slowed_for_the_name():
    clock = Clock()
    limits = SignInLimits(clock)
    assert guesses_of(limits, clock, 900, ["ada"], [f"192.0.2.{number}" for number in range(50)]) <= 50 + 900 / 30 + 10
    assert attempt(limits, "bob", "192.0.2.1")


def test_another_spelling_and_another_address_of_one_network_are_no_way_around():
    limits = SignInLimits(Clock())
    tried = [attempt(limits, "ADA" if number % 2 else "ada", f"2001:db8::{number}") for number in range(8)]
    assert tried == [True] * 6 + [False] * 2


def test_what_is_no_wrong_password_is_no_failure():
    limits = SignInLimits(Clock())
    for _ in range(200):
        with pytest.raises(ZeroDivisionError), limits.attempt("ada", "192.0.2.7"):
            raise ZeroDivisionError
    assert attempt(limits, "ada", "192.0.2.7", is_right=True)
