"""The fewest statements that lay everything out as a plan does."""

import pytest

from workbench.analysis.minimal_layout import minimal_annotations
from workbench.core.layout import Layout
from workbench.core.sharding import Sharding
from workbench.models import build
from workbench.propagation import partition
from workbench.public_plan import Plan

FEW = "vocab:model; heads:model; d_ff:model; batch:data"


@pytest.fixture(scope="module")
def gpt() -> Plan:
    return Plan(build("gpt", scan=False, layers=2), "data:4 model:2", FEW)


def overridden(plan: Plan) -> Plan:
    """The same, with an override for every argument."""
    overrides = tuple((f"/{tensor.path}", each) for tensor, each in zip(plan.program.arguments, plan.argument_shardings, strict=True))
    return plan.updated(layout=Layout("", overrides))


def lies(plan: Plan):
    found = partition(plan)
    return found.dims, found.results, plan.argument_shardings


def test_four_statements_where_every_tensor_had_one(gpt):
    plan = overridden(gpt)
    found = minimal_annotations(plan)
    assert set(str(found.layout).split("; ")) == set(FEW.split("; "))
    assert found.is_fewest
    assert found.written == len(plan.program.arguments) > 50
    assert lies(plan.apply(found.edit)) == lies(plan)


def test_each_statement_is_needed_for_what_is_said(gpt):
    found = minimal_annotations(overridden(gpt))
    for each in found.needed:
        less = gpt.updated(layout=found.layout.with_rule(each.statement.partition(":")[0], ()))
        tensors = [tensor.path for tensor in gpt.program.arguments]
        assert less.argument_shardings[tensors.index(each.changed)] == each.after != each.before


def test_an_exception_to_the_rules_stays_one_override_for_all_layers(gpt):
    rules = "batch:data; d_ff:model"
    exceptions = tuple((f"layers/{layer}/attention/wq", Sharding.parse("[-, -, model]")) for layer in range(2))
    plan = gpt.updated(layout=Layout(rules, exceptions))
    found = minimal_annotations(plan)
    assert len(found.needed) == 3
    assert [pattern for pattern, _ in found.layout.overrides] == ["wq"]
    assert lies(plan.apply(found.edit)) == lies(plan)


def test_constraints_that_change_nothing_are_left_out_and_the_others_stay(gpt):
    idle, telling = "@mlp/up/dot_general=[data, -, model]", "@layers/0/attention/add=[data, model, ?]"
    plan = gpt.updated(layout=Layout(f"{FEW}; {idle}; {telling}"))
    found = minimal_annotations(plan)
    assert lies(plan.apply(found.edit)) == lies(plan)
    assert len(found.layout.constraints) <= 2
    assert telling in str(found.layout)
    assert f"{telling}: without it" in str(found)


def test_a_plan_without_statements_needs_none(gpt):
    found = minimal_annotations(gpt.updated(layout=Layout("")))
    assert found.needed == ()
    assert found.placed == 0
