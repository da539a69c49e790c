"""Questions about a search: guesses are held against its best plans, and against its ledger."""

import pytest

from workbench.errors import SearchError
from workbench.exercises import LedgerQuestion, WinnerQuestion
from workbench.models import build
from workbench.public_plan import Plan
from workbench.search.explain import Ledger, LedgerLine
from workbench.search.search_result import SearchResult

LAYERS = Plan(build("two_layer"), "all:8", "", hardware="TPU v5e 2x4")


@pytest.fixture(scope="module")
def found() -> SearchResult:
    return LAYERS.search()


def test_the_winner_is_guessed_by_each_of_its_decisions(found):
    one = WinnerQuestion(found)
    assert one.check(model=8, data=1, layout="megatron")
    assert one.check()
    assert one.check(model=2, layout="io").reasons == (
        "Not model 2: its best plan needs 672 µs more than the overall best.",
        "Not layout io: its best plan needs 439 µs more than the overall best.",
    )


def test_a_guess_that_no_plan_can_keep_is_refused_with_what_it_breaks():
    lean = LAYERS.search(at_most={"memory": "10 MiB"})
    assert WinnerQuestion(lean).check(data=8).reasons == ("Not data 8: no plan with it keeps `at most 10.0 MiB a device`.",)


def test_a_guess_is_held_against_the_objective_of_the_search():
    lean = WinnerQuestion(LAYERS.search(objective="memory"))
    assert lean.check(layout="megatron").reasons == ("Not layout megatron: its best plan needs 3.50 MiB more than the overall best.",)
    cheap = WinnerQuestion(LAYERS.search(objective="dollars"))
    assert cheap.check(layout="io").reasons == ("Not layout io: its best plan needs $0.0012 more than the overall best.",)


def test_a_decision_that_there_is_not_is_an_error(found):
    with pytest.raises(SearchError) as caught:
        WinnerQuestion(found).check(modle=8)
    assert str(caught.value).startswith("There is no decision `modle`; there are `layout`, ")
    with pytest.raises(SearchError, match="No plan meets"):
        WinnerQuestion(LAYERS.search(at_most={"memory": "1 MiB"})).check(data=8)


def test_the_decision_that_saves_most_is_the_line_with_the_greatest_loss_of_time(found):
    start, end = found.front[1], found.front[0]
    lines = (LedgerLine(("mesh", "layout"), "a", "b", 0.2, 0.0), LedgerLine(("remat",), "full", "none", -0.5, 0.0))
    one = LedgerQuestion(Ledger(start[0], end[0], start[1], end[1], (*lines, LedgerLine(("zero",), "a", "b", -0.1, 0.0))))
    assert one.check("remat")
    assert one.check("layout").reasons == ("`mesh` with `layout` costs 200 ms, and another line saves more.",)
    assert one.check("zero").reasons == ("`zero` saves 100 ms, and another line saves more.",)
    with pytest.raises(SearchError) as caught:
        one.check("schedule")
    assert str(caught.value).startswith("There is no decision `schedule` in the ledger; there are `mesh`, `layout`, `remat`, `zero`.")
