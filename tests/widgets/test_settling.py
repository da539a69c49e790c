"""A board whose figures settle: planned at once, then as XLA's partitioner has them, each with the mark of its tier."""

import asyncio
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from unittest.mock import Mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.machines import flat
from tests.widgets.test_board import Screen
from workbench.analysis.verify_plan import ONE_DEVICE_REASON
from workbench.app.notebook.board_cell import Workbench
from workbench.core.mesh import Mesh
from workbench.errors import PartitionError
from workbench.models import build
from workbench.plan.edits import SetHardware, ShardDim
from workbench.plan.mesh_edits import SetMesh
from workbench.plan.plan import Plan
from workbench.reports.partitioned import Partitioned, PartitionedCollective
from workbench.session.figure_tiers import Settler
from workbench.session.plan_history import Session
from workbench.widgets.board.figure_changes import figure_states
from workbench.widgets.board.tier_marks import Figure

HARDWARE = flat("test", flops=1e12, memory_bandwidth=1e11, sent_bandwidth=1e10, latency=1e-6, memory=1 << 34)
PATHS = {"predicted", "mfu", "memory", "sent"}


class Settled(Screen):
    """A board on a loop of the test's own, whose partitioner answers when the test says so."""

    def __init__(self, session):
        self.waiting, self.asked, self.order = [], [], []
        super().__init__(session, defer=self.waiting.append)
        self.board.begin_settling(self, self.waiting.append)
        self.turn()

    def publish(self, part, state):
        super().publish(part, state)
        self.order.append(part)

    def ask(self, _plan, _hardware):
        self.asked.append(Future())
        return self.asked[-1]

    def cancel(self, answer):
        answer.cancel()

    def turn(self):
        while self.waiting:
            self.waiting.pop(0)()
        return self.shown["board"]

    def answer(self, outcome=None, *payloads):
        if isinstance(outcome, Exception):
            self.asked[-1].set_exception(outcome)
        elif outcome:
            self.asked[-1].set_result(outcome)
        else:
            collectives = tuple(PartitionedCollective("all-reduce", ("model",), each, each, 1) for each in payloads or (4096,))
            self.asked[-1].set_result(Partitioned("", 8, "XLA of a test", collectives))
        self.order.clear()
        return self.turn()


def tiers(state):
    return {figure["key"]: figure["tier"]["key"] for figure in state["figures"]}


def sent(state):
    return next(figure for figure in state["figures"] if figure["key"] == "sent")


@pytest.fixture(autouse=True)
def no_pause(monkeypatch):
    """A plan is asked about as soon as what made it is done."""
    monkeypatch.setattr("workbench.widgets.board.board.Settler", partial(Settler, call_later=lambda _seconds, work: work()))


@pytest.fixture
def screen(session):
    session.apply(SetHardware(HARDWARE))
    return Settled(session)


def test_every_figure_has_a_mark_and_a_line_says_that_they_settle(screen):
    state = screen.shown["board"]
    assert set(tiers(state).values()) == {"planned"}
    assert state["standing"]["settling"]
    assert state["standing"]["text"] == "asking XLA…"
    assert {figure["key"] for figure in state["figures"] if figure["tier"]["settles"]} == PATHS
    assert sent(state)["tier"]["title"].startswith("Planned. Computed in this process")


def test_the_figures_settle_and_those_that_the_partitioner_says_nothing_of_stay_planned(screen):
    state = screen.answer()
    assert {key for key, tier in tiers(state).items() if tier == "partitioned"} == PATHS
    assert {key for key, tier in tiers(state).items() if tier == "planned"} == {"flops", "duplication"}
    assert sent(state)["text"] == "4.00 KiB"
    assert state["standing"]["text"].startswith("by XLA of a test")
    assert not state["standing"]["settling"]


def test_the_board_is_shown_first_and_the_tables_after_it(screen):
    screen.answer()
    assert screen.order == ["board", "table", "live"]


def test_nothing_but_the_board_is_shown_where_the_mark_alone_changed(screen, session):
    session.apply(ShardDim("batch", ()))  # nothing is split: nothing is sent, whoever is asked
    screen.turn()
    screen.answer()  # of the plan before
    assert session.report.collectives == ()
    state = screen.answer(Partitioned("", 8, "XLA of a test", ()))
    assert (screen.order, tiers(state)["sent"]) == (["board"], "partitioned")


def test_the_change_by_an_edit_is_shown_within_a_tier(screen):
    screen.answer(None, 4096)
    planned = screen.send("drop", dim="hidden", source="", target="model")
    screen.turn()
    assert tiers(planned)["sent"] == "planned"
    settled = screen.answer(None, 4096, 1024)
    assert sent(settled)["delta"]["text"] == "+1.00 KiB"
    assert sent(settled)["changes"] == [{"text": "+1 all-reduce", "tone": "bad"}]


def test_a_chip_in_hand_is_let_go_before_the_figures_settle(screen, monkeypatch):
    later = []
    monkeypatch.setattr(screen.board._settler, "_call_later", lambda _seconds, work: later.append(work))
    drag = {"dim": "hidden", "source": "", "target": "model", "targets": ["model"], "add": False}
    screen.board.answer({"verb": "preview", **drag, "ahead": True})
    assert tiers(screen.answer())["sent"] == "planned"
    while later:
        monkeypatch.setattr("workbench.widgets.board.board.time", Mock(monotonic=lambda: screen.board._free_at))
        later.pop()()
        screen.turn()
    assert tiers(screen.shown["board"])["sent"] == "partitioned"


def test_undo_shows_what_is_known_at_once(screen):
    screen.answer()
    screen.send("drop", dim="hidden", source="", target="model")
    screen.turn()
    state = screen.send("undo")
    assert tiers(state)["sent"] == "partitioned"
    assert not state["standing"]["settling"]


def test_a_plan_that_xla_refuses_says_so_under_its_planned_figures(screen):
    state = screen.answer(PartitionError("XLA refuses this plan: no.", ["change it"]))
    assert set(tiers(state).values()) == {"planned"}
    assert state["standing"]["text"] == "XLA refuses this plan: no."
    assert state["refusal"] is None
    assert screen.order == ["board"]


def test_one_device_says_that_there_is_nothing_to_ask(screen, session):
    session.apply(SetMesh(Mesh("data:1")))
    assert screen.turn()["standing"]["text"] == ONE_DEVICE_REASON
    assert len(screen.asked) == 1


def test_the_communication_tab_says_whose_collectives_these_are(screen):
    screen.send("open", tab="communication")
    screen.turn()
    session = screen.board.session
    session.apply(ShardDim("hidden", ("model",)))
    screen.turn()
    assert screen.shown["table"]["blocks"][0]["note"].startswith("Planned: ")
    screen.answer()  # of the plan before
    screen.answer()
    assert "Partitioned: collectives as XLA's partitioner makes them (XLA of a test)." in [
        block["note"] for block in screen.shown["table"]["blocks"]
    ]


def test_a_board_that_nobody_lets_settle_says_who_planned_it(session):
    state = Screen(session).shown["board"]
    assert (state["standing"]["text"], state["standing"]["settling"]) == ("by Shardy, in this process", False)


def test_a_board_that_is_closed_gives_its_question_up(screen):
    screen.board.close()
    assert screen.asked[-1].cancelled()


class Known:
    """Whoever is asked knows the answer."""

    def __init__(self):
        self.count = 0

    def ask(self, _plan, _hardware):
        self.count += 1
        answer = Future()
        answer.set_result(Partitioned("", 8, "XLA of a test", ()))
        return answer

    def cancel(self, answer):
        answer.cancel()


def without_a_loop(work):
    """On a thread of its own: that of the tests has a loop where a test before drove a browser."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(work).result()


def test_a_cell_settles_on_the_kernels_loop_from_when_it_is_seen(session, monkeypatch):
    known = Known()
    monkeypatch.setattr("workbench.app.notebook.board_cell.EnginePartitioner", lambda: known)
    bench = Workbench(session)

    async def seen():
        bench._answer_request(bench, {"want": "parts"}, [])
        assert (known.count, bench.report.tier) == (0, "planned"), "behind what is being done"
        for _ in range(3):
            await asyncio.sleep(0)
        assert (known.count, bench.report.tier) == (1, "partitioned")
        bench._answer_request(bench, {"want": "parts"}, [])  # another cell that shows it

    without_a_loop(lambda: asyncio.run(seen()))
    assert known.count == 1
    session.apply(ShardDim("hidden", ("model",)))  # after the loop has ended
    assert bench.report.tier == "planned"
    bench.close()


def test_a_cell_without_a_kernel_stays_planned(session):
    bench = Workbench(session)
    without_a_loop(lambda: bench._answer_request(bench, {"want": "parts"}, []))
    assert bench.board["standing"]["text"] == "by Shardy, in this process"
    bench.close()


def delta(state, key="sent"):
    return next(figure for figure in state["figures"] if figure["key"] == key)["delta"] or {}


def test_a_plan_that_is_planned_is_compared_with_the_settled_one_before_as_planned(screen):
    screen.answer(None, 1 << 30)  # far from what is planned
    state = screen.send("drop", dim="hidden", source="", target="model")
    assert tiers(state)["sent"] == "planned"
    assert delta(state).get("text", "") != "−1.00 GiB"
    assert not delta(state) or delta(state)["title"].endswith("both planned.")


def test_a_plan_before_that_is_known_in_a_higher_tier_alone_is_not_subtracted(session):
    session.apply(SetHardware(HARDWARE))
    session.use_partitioned(session.node.number, Partitioned("", 8, "XLA of a test", ()))  # as a history that was read again has it
    screen = Settled(session)
    state = screen.send("drop", dim="hidden", source="", target="model")
    screen.turn()
    assert [delta(state, key)["text"] for key in ("sent", "memory", "predicted")] == ["recomputing"] * 3
    state = screen.answer(PartitionError("no answer"))
    assert (delta(state)["text"], delta(state)["tone"]) == ("not comparable", "unsure")


def test_renaming_a_dimension_changes_no_figure_and_asks_nobody(screen):
    settled = screen.answer(None, 4096)
    asked = len(screen.asked)
    state = screen.send("rename_dim", dim="hidden", name="d_ff")
    screen.turn()
    assert [(each["text"], each["tier"]) for each in state["figures"]] == [(each["text"], each["tier"]) for each in settled["figures"]]
    assert [each["delta"] for each in state["figures"]] == [None] * len(state["figures"])
    assert (len(screen.asked), state["standing"]["settling"]) == (asked, False)


def test_where_a_range_is_wider_than_the_change_the_order_is_not_sure():
    figure = Figure("sent", "Sent", 100.0, str, "", source="planned", tier="planned", bounds=(50.0, 150.0))
    near, far = (replace(figure, value=value) for value in (90.0, 300.0))
    (unsure,), (sure,) = figure_states((near,), (figure,)), figure_states((far,), (figure,))
    assert (unsure["delta"]["tone"], unsure["delta"]["note"]) == ("unsure", "not sure")
    assert (sure["delta"]["tone"], sure["delta"]["note"]) == ("bad", "")


STEPS = st.lists(
    st.one_of(
        st.sampled_from(("undo", "redo", "refuse")).map(lambda verb: (verb, None)),
        st.tuples(st.just("answer"), st.integers(1, 1 << 30)),
        st.tuples(st.just("drop"), st.tuples(st.sampled_from(("batch", "io", "hidden")), st.sampled_from(("", "data", "model")))),
    ),
    min_size=4,
    max_size=10,
)


@settings(max_examples=8)
@given(STEPS)
def test_whatever_is_edited_and_answered_no_change_is_of_two_tiers(steps):
    """The changes shown are held against the figures of each plan and tier, as this test has kept them."""
    session = Session(Plan(build("two_layer", batch=16, io=64, hidden=30), "data:4 model:2", "batch:data", hardware=HARDWARE))
    screen, known, order = Settled(session), {}, [session.node.number]
    for verb, value in [("look", None), *steps]:
        if verb in ("undo", "redo"):
            screen.send(verb)
        elif verb == "drop":
            dim, target = value
            source = next(iter(session.plan.layout.rule(dim)), "")
            screen.send("drop", dim=dim, source=source, target=target)
        elif verb != "look" and screen.asked and not screen.asked[-1].done():
            screen.answer(PartitionError("no answer") if verb == "refuse" else None, *([value] if value else []))
        state, number = screen.turn(), session.node.number
        if order[-1] != number:
            order.append(number)
        known.update({(number, each.key, each.tier): each for each in screen.board._figures.now})
        for shown in state["figures"]:
            change = shown["delta"]
            if change is None or change["text"] in ("recomputing", "not comparable"):
                continue
            tier = change["note"].removeprefix("as ").split(",")[0] if change["note"].startswith("as ") else shown["tier"]["key"]
            now, before = (known[each, shown["key"], tier] for each in (number, order[-2]))
            assert change["text"][1:] == now.show(abs(now.value - before.value))
