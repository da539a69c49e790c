"""Which tests of a kind are in every run, and which are left to the nights: the same ones in all processes of a run."""

import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import pytest

Case = TypeVar("Case")


def drawn(cases: Sequence[Case], seed: int, labels: Callable[[Case], Iterable[object]], share: int = 3) -> set[int]:
    """Numbers of one case in `share`, drawn by the seed, among which every label of a case is found: of more, where so few have not all."""
    order = random.Random(seed).sample(range(len(cases)), len(cases))
    of = [set(labels(case)) for case in cases]
    missing, found = set[object]().union(*of), set[int]()
    while missing:
        best = max(order, key=lambda number: len(of[number] & missing))
        found.add(best)
        missing -= of[best]
    rest = [number for number in order if number not in found]
    return found | {*rest[: max(0, -(-len(cases) // share) - len(found))]}


def share_of(
    config: pytest.Config, cases: Sequence[Case], share: int, labels: Callable[[Case], Iterable[object]] = lambda _: ()
) -> list[Case]:
    """The cases that one test tries in this run, in their order: the share drawn by the seed, or all of them in a nightly run."""
    if "nightly" in config.getoption("markexpr"):
        return list(cases)
    return [cases[number] for number in sorted(drawn(cases, config.getoption("--hypothesis-seed"), labels, share))]


def parametrize_drawn(
    metafunc: pytest.Metafunc, name: str, cases: Sequence[Any], labels: Callable[[Any], Iterable[object]], ids: Any = None, share: int = 3
) -> None:
    """A test of all these, as `name`; those that the seed of this run does not draw are marked `nightly`."""
    if name not in metafunc.fixturenames:
        return
    chosen = drawn(cases, metafunc.config.getoption("--hypothesis-seed"), labels, share)
    each = [pytest.param(case, marks=() if number in chosen else pytest.mark.nightly) for number, case in enumerate(cases)]
    metafunc.parametrize(name, each, ids=ids)


def draw_shares(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark as `nightly` the cases that the seed of this run does not draw: of each test marked `share(n)`, of all tests of a file marked
    `share(n, of="file")`, or of all tests marked with another name."""
    cases: dict[str, list[pytest.Item]] = {}
    for each in items:
        if mark := each.get_closest_marker("share"):
            of = mark.kwargs.get("of", "test")
            ends = {"file": "::", "test": "["}
            cases.setdefault(each.nodeid.partition(ends[of])[0] if of in ends else of, []).append(each)
    for name, of_test in cases.items():
        kept = -(-len(of_test) // of_test[0].get_closest_marker("share").args[0])
        left_out = random.Random(f"{config.getoption('--hypothesis-seed')} {name}").sample(range(len(of_test)), len(of_test) - kept)
        for number in left_out:
            of_test[number].add_marker("nightly")


def leave_to_the_nights(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect what is marked `nightly`, unless it is asked for: by `-m`, whose expression would replace one in the configuration, or by
    the name of a test."""
    if "nightly" in config.getoption("markexpr") or any("::" in str(each) for each in config.args):
        return
    left = [each for each in items if each.get_closest_marker("nightly")]
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = [each for each in items if not each.get_closest_marker("nightly")]
