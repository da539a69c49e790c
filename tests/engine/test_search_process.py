"""Searches: the server as it answers, and the process around it."""

import queue
import threading

import pytest

from workbench.core.child_process import decode_message, encode_message
from workbench.engine import prepare_searches, start_searches
from workbench.engine.search.serve_searches import SearchServer, UpdateSender, serve_searches
from workbench.engine.worker.worker_process import SEARCH_STANDBY, STANDBY, standby_for
from workbench.hardware.catalogue import parse_hardware
from workbench.models import build
from workbench.public_plan import Plan
from workbench.reports.run_events import Cancelled
from workbench.search.find_plans import find_plans, read_requirements
from workbench.search.make_space import make_space
from workbench.search.search_messages import (
    ExplainRequest,
    PlanExplanation,
    SearchRefused,
    SearchRequest,
    SearchUpdate,
)

PATIENCE = 300.0
"""Seconds in which a whole search ends on a busy machine: two that are compared must not be cut off by time."""


@pytest.fixture(scope="module")
def plan():
    return Plan(build("mnist", batch=64), "data:8", "batch:data", hardware=parse_hardware("TPU v5e 2x4"))


@pytest.fixture(scope="module")
def space(plan):
    return make_space(plan)


@pytest.fixture(scope="module")
def searched(space):
    """The updates of a whole search."""
    return answers_to(space, search_of(space))


@pytest.fixture(scope="module")
def here(plan):
    """What a search in this process finds."""
    return find_plans(plan, within=PATIENCE)


def search_of(space, number=1, within=30.0, **at_most):
    return SearchRequest(number, read_requirements(space, at_most, {}), within=within)


def answers_to(space, *commands):
    """The events of a server that has all these commands waiting."""
    events, waiting = [], queue.SimpleQueue()
    for command in commands:
        waiting.put(command)
    SearchServer(space, events.append, waiting).answer(waiting.get())
    return events


def test_a_search_finds_what_it_finds_in_the_same_process(here, searched):
    assert searched[-1].is_over
    assert searched[-1].state.front.entries == here.front
    assert searched[-1].clash is None


def test_the_updates_hold_each_planned_candidate_once(searched):
    found = [candidate for each in searched for candidate, _ in each.found]
    assert len(found) == len(set(found)) == searched[-1].state.evaluated
    assert [each.is_over for each in searched] == [False] * (len(searched) - 1) + [True]


def test_a_round_that_takes_long_is_followed_by_the_same_state_with_the_time_that_has_passed(searched, monkeypatch):
    monkeypatch.setattr("workbench.engine.search.serve_searches.EVERY", 0.01)
    sent: queue.SimpleQueue = queue.SimpleQueue()
    found = (searched[-1].state.front.entries[0],)
    with UpdateSender(5, sent.put, dict(found)) as updates:
        updates.show(searched[-1].state)
        first, second = (sent.get(timeout=60) for _ in range(2))
    assert (first.number, first.found, first.state) == (5, found, searched[-1].state)
    assert second.found == ()
    assert second.state.elapsed > first.state.elapsed
    assert second.state.front == first.state.front


def test_the_first_plan_does_not_count_towards_the_time_limit(space):
    """In a new process it waits for imports and compilations, on a busy machine for longer than the limit."""
    last = answers_to(space, search_of(space, within=0.0))[-1]
    assert (last.state.ending, last.state.elapsed, last.state.evaluated) == ("out of time", 0.0, 1)
    assert len(last.state.front) == 1


def test_without_a_plan_the_last_update_has_the_clash(space):
    *_, last = answers_to(space, search_of(space, memory=1024.0))
    assert last.state.best is None
    assert list(map(str, last.clash.requirements)) == ["at most 1.00 KiB a device"]


def test_a_search_that_comes_while_it_is_asked_what_would_help_takes_over(space):
    """As the button of the first relaxation starts it."""
    events, waiting, limits = [], queue.SimpleQueue(), []

    def tell(event):
        events.append(event)
        clash = event.clash
        if clash is not None and clash.relaxations and not limits:
            limits.append(clash.relaxations[0].weakened.limit)
            waiting.put(search_of(space, 2, memory=limits[0]))

    SearchServer(space, tell, waiting).answer(search_of(space, 1, memory=1024.0))
    assert [each.number for each in events if each.is_over] == [2]
    assert 1024 < events[-1].state.best[1].memory <= limits[0]


def test_a_question_is_answered_between_two_rounds_of_a_search(space, searched):
    first = other = searched[-1].state.front.entries[0][0]
    events = answers_to(space, search_of(space), ExplainRequest(7, first, other))
    kinds = [type(each) for each in events]
    assert kinds.index(PlanExplanation) < len(kinds) - 1
    assert events[kinds.index(PlanExplanation)].number == 7
    assert events[-1].is_over


def test_another_search_ends_the_one_under_way(space):
    events = answers_to(space, search_of(space, 1), search_of(space, 2))
    assert [each.number for each in events if each.is_over] == [2]


def test_what_a_search_refuses_is_an_event(space):
    [refused] = answers_to(space, SearchRequest(3, (), objective="beauty"))
    assert refused == SearchRefused(
        3, "There is no objective `beauty`; there are `seconds`, `memory`, `devices`, `dollars`.", refused.ways_out
    )


def test_messages_are_what_they_were_after_the_pipe(space):
    request = search_of(space)
    events = answers_to(space, request)
    assert decode_message(encode_message(request)) == request
    for event in events:
        assert decode_message(encode_message(event)) == event


def test_a_server_that_nobody_asks_ends(plan, space, monkeypatch):
    monkeypatch.setattr("workbench.engine.search.serve_searches.IDLE_LIMIT", 0.05)
    waiting = queue.SimpleQueue()
    waiting.put(search_of(space))
    assert serve_searches(plan, lambda _: None, waiting, space) == 1


@pytest.mark.worker
@pytest.mark.cold
def test_a_process_searches_is_asked_again_and_is_ended_at_once(plan, space, here):
    prepare_searches(plan)
    assert standby_for("search") is SEARCH_STANDBY
    assert standby_for("compile") is STANDBY
    events, over = [], threading.Semaphore(0)

    def hear(event):
        events.append(event)
        if isinstance(event, Cancelled | PlanExplanation) or (isinstance(event, SearchUpdate) and event.is_over):
            over.release()

    process = start_searches(space, hear)
    try:
        process.send(search_of(space, within=PATIENCE))
        assert over.acquire(timeout=PATIENCE)
        best = events[-1].state.best
        assert best == here.state.best
        process.send(ExplainRequest(2, best[0]))
        assert over.acquire(timeout=60)
        assert events[-1].changes
        process.send(search_of(space, 3, within=600.0))
        process.cancel()
        assert over.acquire(timeout=60)
        assert events[-1] == Cancelled()
    finally:
        process.cancel()
        SEARCH_STANDBY.close()
