"""One tensor in its own way: overrides and constraints by gesture, judged before the drop as after it."""

import pytest

from tests.support.gestures import edit_of, taken
from tests.support.programs import mlp_report
from workbench.core.sharding import Sharding
from workbench.errors import LayoutError
from workbench.models import build
from workbench.plan.edits import Constrain, Override
from workbench.public_plan import Plan

FOLDED = {"of": "tensor", "path": "params/layers/*/w1"}


@pytest.fixture(scope="module")
def traced():
    """A plan whose values Shardy has placed: two_layer, with x[batch=16, io=64], w[io=64, hidden=30], v[hidden=30, io=64]."""
    return Plan(build("two_layer", batch=16, io=64, hidden=30), "data:4 model:2", "batch:data").report()


def own(path: str, place: int, target: str, of: str = "tensor", **fields) -> dict:
    return {"verb": "own", "of": of, "path": path, "place": place, "source": "*", "target": target, **fields}


@pytest.mark.parametrize(
    ("gesture", "edit"),
    [
        (own("params/layers/*/w1", 0, "data"), Override("params/layers/*/w1", Sharding((("data",), ("model",))))),
        (own("params/layers/1/w1", 1, ""), Override("params/layers/1/w1", Sharding(((), ())))),
        (own("batch/x", 0, "model", add=True), Override("batch/x", Sharding((("data", "model"), ())))),
        ({"verb": "own_whole", **FOLDED}, Override("params/layers/*/w1", Sharding(((), ())))),
    ],
    ids=str,
)
def test_a_drop_on_one_tensor_is_an_override_of_it(gesture, edit):
    report = mlp_report()
    assert edit_of(gesture, report.plan, report) == edit


def test_an_override_of_a_short_path_names_no_other_tensor():
    report = Plan(build("gpt"), "data:4 model:2", "batch:data").report()
    edit = edit_of(own("params/norm/scale", 0, "model"), report.plan, report)
    plan = edit.apply(report.plan)
    moved = [
        tensor.path
        for tensor, before, after in zip(plan.program.arguments, report.plan.argument_shardings, plan.argument_shardings, strict=True)
        if before != after
    ]
    assert moved == ["params/norm/scale"]


def test_an_overridden_tensor_goes_back_to_the_rules_by_the_pattern_that_placed_it():
    report = mlp_report("d_ff:model; layers/*/w1=[model, -]")
    edit = edit_of({"verb": "by_rules", "of": "tensor", "path": "params/layers/1/w1"}, report.plan, report)
    assert edit == Override("layers/*/w1", None)
    with pytest.raises(LayoutError, match="is already sharded by the rules"):
        edit_of({"verb": "by_rules", "of": "tensor", "path": "params/layers/1/w2"}, report.plan, report)


def test_a_value_is_constrained_in_one_dimension_opened_and_freed(traced):
    value = next(each for each in traced.values if each.dims == ("batch", "hidden"))
    edit = edit_of(own(value.path, 1, "model", of="value", rank=2), traced.plan, traced)
    assert isinstance(edit, Constrain)
    assert str(edit.sharding) == "[?, model]"
    report = edit.apply(traced.plan).report()
    assert next(each for each in report.values if each.path == value.path).sharding.dims[1] == ("model",)
    here = {"of": "value", "path": value.path, "rank": 2}
    assert edit_of({"verb": "open_dim", **here, "place": 1}, report.plan, report) == Constrain(edit.pattern, None)
    assert edit_of({"verb": "by_rules", **here}, report.plan, report) == Constrain(edit.pattern, None)


@pytest.mark.parametrize(
    ("gesture", "said"),
    [
        (own("params/nothing", 0, "data"), "params/nothing"),
        (own("nothing", 0, "data", of="value"), "nothing"),
        (own("batch/x", 7, "data"), "no dimension number 7"),
        (own("batch/x", "0", "data"), "no dimension number 0"),
        (own("params/layers/*/w1", 0, "model"), "has `d_model` on mesh axis `model` already"),
    ],
    ids=lambda each: str(each)[:50],
)
def test_what_makes_no_sense_is_refused_in_words(gesture, said):
    report = mlp_report()
    with pytest.raises(LayoutError, match=said):
        edit_of(gesture, report.plan, report)


def test_a_taken_chip_is_told_where_it_may_go_by_the_rule_and_alone(traced):
    told = taken({"key": "k", "of": "tensor", "path": "w", "place": 1, "source": "*"}, traced.plan, traced)
    assert told["key"] == "k"
    assert told["illegal"]["rule"]["data"]["move"] == "30 % 4 = 2"
    assert told["illegal"]["only"]["data"]["move"] == "30 % 4 = 2"
    assert "model" not in told["illegal"]["only"]


def test_what_a_taken_chip_is_told_is_what_the_drop_then_does(traced):
    """Over every dimension of every argument and every axis: marked means refused, unmarked means done."""
    for tensor in traced.plan.program.arguments:
        for place in range(len(tensor.dims)):
            told = taken({"of": "tensor", "path": tensor.path, "place": place, "source": "*"}, traced.plan, traced)
            for axis in traced.plan.mesh.names:
                for verb, add in (("move", False), ("add", True)):
                    gesture = own(tensor.path, place, axis, add=add)
                    marked = told["illegal"]["only"].get(axis, {}).get(verb)
                    if marked:
                        with pytest.raises(LayoutError):
                            edit_of(gesture, traced.plan, traced).apply(traced.plan)
                    else:
                        edit_of(gesture, traced.plan, traced).apply(traced.plan)


def test_the_menu_of_a_taken_chip_offers_the_rule_first_and_then_this_tensor_alone():
    report = mlp_report("batch:data; d_ff:model; layers/*/w1=[-, model]")
    menu = taken({**FOLDED, "place": 1, "source": "*"}, report.plan, report)["menu"]
    heads = [item["heading"] for item in menu if "heading" in item]
    labels = [item["label"] for item in menu if "label" in item]
    assert heads == ["Every d_ff, in 8 tensors", "Only params/layers/*/w1", "In propagation"]
    assert {"Keep d_ff whole", "Replicate on every device", "Remove the override", "Rename…"} <= set(labels)


def test_every_item_of_a_menu_is_a_gesture_that_is_understood(traced):
    value = next(each for each in traced.values if len(each.shape) == 2)
    for thing in ({"of": "tensor", "path": "w"}, {"of": "value", "path": value.path, "rank": 2}):
        for item in taken({**thing, "place": 0, "source": "*"}, traced.plan, traced)["menu"]:
            for each in item.get("options", [item] if "label" in item else []):
                if not each["reason"] and each["gesture"]["verb"] != "why":
                    name = next(iter((each.get("ask") or {}).get("options", [])), "fresh")
                    edit_of({**each["gesture"], "name": name}, traced.plan, traced).apply(traced.plan)
