"""A board whose figures settle: planned at once, then as XLA's partitioner has them, each with the mark of its tier."""

import asyncio
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from unittest.mock import Mock

import pytest

from tests.support.machines import flat
from tests.widgets.test_board import Screen
from workbench.analysis.verify_plan import ONE_DEVICE_REASON
from workbench.app.notebook.board_cell import Workbench
from workbench.core.mesh import Mesh
from workbench.errors import PartitionError
from workbench.plan.edits import SetHardware, ShardDim
from workbench.plan.mesh_edits import SetMesh
from workbench.reports.partitioned import Partitioned, PartitionedCollective
from workbench.session.figure_tiers import Settler

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


def test_what_an_edit_changed_is_told_within_a_tier(screen):
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
    drop = {"verb": "drop", "dim": "hidden", "source": "", "target": "model", "add": False}
    screen.board.answer({**drop, "ahead": True})
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
    assert "Partitioned: the collectives are those that XLA's own partitioner makes of this plan (XLA of a test)." in [
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
