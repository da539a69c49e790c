"""Health, readiness and figures."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.support.team_server import PASSWORD, add_person, stopped_clock, team_server, use_ways
from workbench.app.processes.child_table import ALL_CHILDREN, HOPELESS, ChildState
from workbench.team.accounts.rate_limit import SignInLimits
from workbench.team.accounts.revocations import issue_token
from workbench.team.web.security import forwarded_address

WELL = {"alive": True, "degraded": [], "missing_seconds": {}, "deaths": {}}


@dataclass
class Part:
    ready: bool = True
    states: Mapping[str, ChildState] = field(default_factory=dict)

    def is_ready(self):
        return self.ready

    def count(self):
        return 7

    def children(self):
        return self.states


def test_it_is_alive_and_ready_to_whoever_asks_from_anywhere(tmp_path):
    planner, queue = Part(), Part()
    with team_server(tmp_path, planner=planner, jobs=queue) as server, server.client() as anybody:
        foreign = {"Sec-Fetch-Site": "cross-site", "Cookie": "workbench=" + "x" * 43}
        assert anybody.get("/healthz", headers=foreign).json() == WELL
        assert anybody.get("/readyz", headers=foreign).json() == {"store": True, "planner": True, "queue": True}
        planner.ready = False
        answer = anybody.get("/readyz")
        assert (answer.status_code, answer.json()) == (503, {"store": True, "planner": False, "queue": True})


@pytest.mark.parametrize("child", [each for each in ALL_CHILDREN if each.is_reported], ids=lambda child: child.name)
def test_a_child_that_died_is_said_to_be_missing_until_another_is_there(tmp_path, child):
    planner = Part(states={child.name: ChildState(3, 2.5)})
    with team_server(tmp_path, planner=planner, rooms=Part(), jobs=Part()) as server, server.client() as anybody:
        missing = {"alive": True, "degraded": [child.name], "missing_seconds": {child.name: 2.5}, "deaths": {child.name: 3}}
        assert (anybody.get("/healthz").status_code, anybody.get("/healthz").json()) == (200, missing)
        planner.states = {child.name: ChildState(3, HOPELESS + 1)}
        assert anybody.get("/healthz").status_code == (503 if child.is_needed else 200)
        assert anybody.get("/healthz").json()["alive"] is not child.is_needed
        planner.states = {child.name: ChildState(3, 0.0)}
        assert anybody.get("/healthz").json() == {**WELL, "deaths": {child.name: 3}}


def test_a_child_is_in_the_table_once_and_says_what_happens():
    assert len({each.name for each in ALL_CHILDREN}) == len(ALL_CHILDREN)
    assert all(each.starts and each.when_it_dies for each in ALL_CHILDREN)


def test_a_store_that_does_not_answer_is_not_ready_and_the_process_is_alive(tmp_path, monkeypatch):
    with team_server(tmp_path) as server, server.client() as anybody:
        monkeypatch.setattr(type(server.services.store), "is_ready", lambda _self: False)
        assert anybody.get("/readyz").status_code == 503
        assert anybody.get("/healthz").status_code == 200


def figures(answer):
    return {sample.name: sample for family in text_string_to_metric_families(answer.text) for sample in family.samples}


def test_figures_are_for_administrators_and_name_nobody(tmp_path):
    with team_server(tmp_path, rooms=Part()) as server:
        store = server.services.store
        root = add_person(store, "root", admin=True)
        with store.write() as session:
            token = issue_token(session, root, "watch", ("read",)).secret
        with server.client() as anybody, server.person("ada") as ada, server.client(Authorization=f"Bearer {token}") as watch:
            assert anybody.get("/metrics").status_code == 302
            assert ada.get("/metrics").status_code == 403
            anybody.post("/login", data={"name": "ada", "password": PASSWORD})
            answer = watch.get("/metrics")
        found = figures(answer)
        assert found["workbench_open_rooms"].value == 7
        assert found["workbench_open_sockets"].value == 0
        assert found["workbench_request_seconds_count"].value == 3
        assert "ada" not in answer.text
        assert "root" not in answer.text


def test_two_servers_of_a_process_have_figures_of_their_own_which_may_be_open(tmp_path):
    with team_server(tmp_path / "a", open_metrics=True) as one, team_server(tmp_path / "b", open_metrics=True) as two:
        with one.client() as anybody:
            for _ in range(5):
                anybody.get("/healthz")
        with two.client() as anybody:
            assert figures(anybody.get("/metrics"))["workbench_request_seconds_count"].value == 0


CLAIMED = {"6.6.6.6, 192.0.2.1": "192.0.2.1", "2001:db8::1": "2001:db8::1", "x": "", "1.2.3.4,": "", "": ""}


@pytest.mark.parametrize("given", CLAIMED)
def test_of_the_addresses_that_a_visitor_claims_only_the_proxys_counts(given):
    assert forwarded_address(given) == CLAIMED[given]


def guess(visitor, number, address="", password="wrong wrong wrong"):
    """The status of a guess of another name each time, which claims another address each time."""
    claimed = f"203.0.113.{number}, {address}" if address else f"203.0.113.{number}, unknown"
    name = "ada" if password == PASSWORD else f"n{number}"
    return visitor.post("/login", data={"name": name, "password": password}, headers={"X-Forwarded-For": claimed}).status_code


def test_behind_a_proxy_guesses_count_for_the_visitor_and_not_for_the_proxy(tmp_path):
    with team_server(tmp_path, behind_proxy=True) as server, server.client() as visitor:
        use_ways(server, limits=SignInLimits(stopped_clock))
        add_person(server.services.store, "ada", password=PASSWORD)
        assert [guess(visitor, number, "192.0.2.66") for number in range(103)] == [403] * 101 + [429] * 2
        assert guess(visitor, 1, "192.0.2.7", PASSWORD) == 302
        assert [guess(visitor, number) for number in range(103)] == [403] * 103  # of an unknown address only names count


def test_directly_nobody_says_where_they_are_from(tmp_path):
    with team_server(tmp_path) as server, server.client() as visitor:
        use_ways(server, limits=SignInLimits(stopped_clock))
        assert [guess(visitor, number, f"192.0.2.{number}") for number in range(103)] == [403] * 101 + [429] * 2
