"""Guessing is slowed down, by name and by address, with a clock of the test's."""

import pytest

from workbench.team.accounts import rate_limit
from workbench.team.accounts.rate_limit import Allowance, AttemptLimit, TooManyAttemptsError


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


def test_success_forgets_and_so_does_time():
    clock = Clock()
    limit = AttemptLimit(Allowance(1, 10.0, 80.0, 100.0), clock)
    limit.begin("ada")
    limit.begin("ada")
    limit.succeed("ada")
    limit.begin("ada")
    limit.begin("ada")
    with pytest.raises(TooManyAttemptsError):
        limit.begin("ada")
    clock.time += 101
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
