"""What a drop would do is shown while the chip is in hand; a drop that is refused or changes nothing comes with edits that help."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.machines import flat
from tests.widgets.test_board import Screen
from workbench.models import build
from workbench.plan.edits import Override, ShardDim
from workbench.plan.plan import Plan
from workbench.session.plan_history import Session

HARDWARE = flat("test", flops=1e12, memory_bandwidth=1e11, sent_bandwidth=1e10, latency=1e-6, memory=1 << 34)
DIMS, LAYOUTS = ("batch", "io", "hidden"), ("", "batch:data", "io:model", "batch:data; hidden:model")


def make_session(layout="batch:data"):
    return Session(Plan(build("two_layer", batch=16, io=64, hidden=30), "data:4 model:2", layout, hardware=HARDWARE))


def lift(screen, dim, source="", targets=("", "data", "model")):
    """The previews of a chip in hand, by zone."""
    announce(screen, dim, source, targets)
    return screen.shown["board"]["previews"]["zones"]


def announce(screen, dim, source, targets, target=None):
    drag = {"key": dim, "dim": dim, "source": source, "targets": list(targets), "target": target}
    screen.board.answer({"verb": "preview", "ahead": True, **drag})


@settings(max_examples=10)
@given(st.sampled_from(DIMS), st.sampled_from(("data", "model")), st.sampled_from(LAYOUTS))
def test_the_preview_of_a_zone_is_the_change_that_the_drop_makes(dim, target, layout):
    screen = Screen(make_session(layout))
    before = screen.board.session.plan
    zone = lift(screen, dim, targets=(target,))[target]
    assert screen.board.session.plan is before
    state = screen.send("drop", dim=dim, source="", target=target)
    if state["refusal"]:
        assert (zone["tone"], zone["changes"]) == ("bad", [])
        assert state["refusal"]["message"].startswith(zone["note"])
        return
    deltas = [figure["delta"]["text"] for figure in state["figures"] if figure["key"] in ("predicted", "memory") and figure["delta"]]
    assert [each["text"] for each in zone["changes"]] == deltas


def test_every_zone_is_previewed_one_after_another_and_the_one_under_the_pointer_first():
    waiting = []
    screen = Screen(make_session(), defer=waiting.append)
    announce(screen, "hidden", "", ("data", "model"))
    announce(screen, "hidden", "", ("data", "model"), target="model")
    while not screen.shown["board"]["previews"]:
        waiting.pop(0)()
    assert list(screen.shown["board"]["previews"]["zones"]) == ["model"]
    while waiting:
        waiting.pop(0)()
    assert set(screen.shown["board"]["previews"]["zones"]) == {"model", "data"}
    assert screen.send("dismiss")["previews"] is None


def test_of_a_slow_program_only_the_zone_under_the_pointer_is_previewed(monkeypatch):
    """The hand may let go elsewhere, and would wait for all."""
    monkeypatch.setattr("workbench.widgets.board.precompute_drops.PREVIEWED_WITHIN", -1.0)
    screen = Screen(make_session())
    announce(screen, "hidden", "", ("", "data", "model"), target="model")
    assert set(screen.shown["board"]["previews"]["zones"]) == {"model"}
    announce(screen, "hidden", "", ("", "data", "model"))
    announce(screen, "hidden", "", ("", "data", "model"), target="data")
    assert set(screen.shown["board"]["previews"]["zones"]) == {"model", "data"}


def test_a_chip_taken_again_has_its_previews_until_the_plan_changes():
    screen = Screen(make_session())
    before, count = lift(screen, "hidden"), screen.count
    assert lift(screen, "hidden") == before
    assert screen.count == count
    screen.board.session.undo()
    screen.board.session.apply(ShardDim("io", ("model",)))
    assert screen.shown["board"]["previews"] is None
    assert lift(screen, "hidden") != before


def test_a_drop_after_its_preview_computes_nothing_again(monkeypatch):
    screen, analysed = Screen(make_session()), []
    lift(screen, "hidden")
    analyze = screen.board.session._analyze
    monkeypatch.setattr(screen.board.session, "_analyze", lambda *given: analysed.append(given) or analyze(*given))
    screen.send("drop", dim="hidden", source="", target="model")
    assert analysed == []


@pytest.fixture
def overridden():
    session = make_session()
    for path in ("w", "v"):
        tensor = next(each for each in session.plan.program.arguments if each.path == path)
        session.apply(Override(path, session.plan.layout.sharding(tensor)))
    return Screen(session)


def test_a_drop_that_overrides_make_ineffective_says_so_before_and_after_and_offers_to_remove_them(overridden):
    assert lift(overridden, "hidden", targets=("model",))["model"] == {"note": "no effect: 2 overrides", "tone": "none", "changes": []}
    state = overridden.send("drop", dim="hidden", source="", target="model")
    (alarm,) = state["alarms"]
    assert alarm["message"].startswith("`hidden → model` changes nothing: overrides state the sharding of all 2 tensors with `hidden`")
    state = overridden.send("mend", edit=alarm["edits"][0])
    assert state["alarms"] == []
    assert state["layout"] == "batch:data; hidden:model"


def test_a_drop_that_changes_one_of_several_tensors_is_no_alarm(overridden):
    state = overridden.send("drop", dim="batch", source="data", target="model")
    assert state["alarms"] == []


def test_the_fixes_of_a_refusal_are_edits_that_do_what_was_wanted():
    screen = Screen(make_session())
    for dim, target in (("hidden", "data"), ("io", "data")):
        refusal = screen.send("drop", dim=dim, source="", target=target)["refusal"]
        assert refusal["edits"]
        for edit in refusal["edits"]:
            assert screen.send("drop", dim=dim, source="", target=target)["refusal"]["edits"] == refusal["edits"]
            state = screen.send("mend", edit=edit)
            assert state["refusal"] is None
            assert screen.board.session.plan.layout.rule(dim), edit
            screen.send("undo")


def test_a_fix_that_was_not_offered_is_refused():
    screen = Screen(make_session())
    (edit, *_) = screen.send("drop", dim="hidden", source="", target="data")["refusal"]["edits"]
    screen.send("dismiss")
    assert "No warning suggests" in screen.send("mend", edit=edit)["refusal"]["message"]
