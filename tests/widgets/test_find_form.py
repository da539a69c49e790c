"""The form of the search: what the user typed, as the search takes it; and a requirement relaxed."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.errors import WorkbenchError
from workbench.hardware.catalogue import parse_hardware
from workbench.models import build
from workbench.public_plan import Plan
from workbench.search.make_space import make_space
from workbench.search.plan_candidate import PlanCandidate
from workbench.search.present_plan import find_candidate, move_to_searched_hardware
from workbench.search.requirements import AtMost, Pin
from workbench.units import parse_bytes
from workbench.widgets.find import find_form
from workbench.widgets.find.find_form import count_options, first_form, form_fields, pin_form, read_task, round_up_bytes
from workbench.widgets.gestures.gesture_codec import read_gesture
from workbench.widgets.gestures.panel_gestures import FindGesture


@pytest.fixture
def plan(session):
    return session.plan.updated(hardware=parse_hardware("TPU v5e 2x4"))


def test_the_first_form_asks_for_as_many_devices_of_the_kind_there_is_and_fixes_nothing(plan):
    task = read_task(first_form(plan), plan)
    assert task.plan is plan
    assert task.choices == {"keep": False, "axes": ("stage", "data", "model")}
    assert (task.at_most, task.pins, task.objective, task.within) == ({}, {}, "seconds", 30.0)


def test_what_is_fixed_becomes_limits_and_pins(plan):
    form = FindGesture(
        *("64, 128 TPU v5p", "memory", "40 GiB, 4 s and $1,200.5", "60", "proved", "data model:8 context", "1", "1f1b", "16 or 32"),
        zero="zero_1",
        keep=True,
    )
    task = read_task(form, plan)
    assert task.choices == {"devices": (64, 128), "hardware": "TPU v5p", "keep": True, "axes": ("stage", "data", "model", "context")}
    assert task.at_most == {"memory": "40 GiB", "seconds": 4.0, "dollars": 1200.5}
    assert task.pins == {"zero": "zero_1", "schedule": "1f1b", "stage": (1,), "micro_batches": (16, 32), "model": 8}
    assert (task.objective, task.within, task.until) == ("memory", 60.0, "proved")


def test_a_layout_of_its_own_is_looked_for_among_all(plan):
    form = first_form(plan)
    assert read_task(replace(form, layout="all"), plan).choices["layouts"] == "all"
    task = read_task(replace(form, layout="io"), plan)
    assert (task.choices["layouts"], task.pins) == ("all", {"layout": "io"})
    task = read_task(replace(form, layout="per operation"), plan)
    assert (task.choices["layouts"], task.pins) == ("per operation", {"layout": "per operation"})


def test_a_wide_search_has_its_own_axes_unless_some_are_typed(plan):
    choices = read_task(FindGesture("8", wide=True), plan).choices
    assert choices["wide"]
    assert "axes" not in choices
    assert read_task(FindGesture("8", wide=True, axes="data model"), plan).choices["axes"] == ("stage", "data", "model")


def test_precisions_offloads_and_boundaries_are_chosen_from_where_it_is_said(plan):
    def choices(**typed):
        return read_task(replace(first_form(plan), **typed), plan).choices

    assert not {"precisions", "offloads", "boundaries"} & choices().keys()
    assert choices(precision="as traced|bfloat16")["precisions"] == ("as traced", "bfloat16")
    assert choices(precision="params=bfloat16,moments=float32")["precisions"] == ("params=bfloat16,moments=float32",)
    assert choices(boundaries="any")["boundaries"] == ("time", "memory", "fit")
    assert choices(boundaries="fit")["boundaries"] == ("fit",)
    for offload, pins in (("any", {}), ("nothing", {"offload": "nothing"}), ("optimizer_state", {"offload": "optimizer_state"})):
        task = read_task(replace(first_form(plan), offload=offload), plan)
        assert task.choices["offloads"] == ("nothing", "optimizer_state")
        assert task.pins == pins


@pytest.mark.parametrize(
    ("model", "offered"),
    [
        ("two_layer", []),
        ("mnist", ["none"]),
        ("gpt", ["none", "selective", "offloaded", "full", "full_3/4", "full_1/2", "full_1/4"]),
    ],
)
def test_only_remats_that_the_program_accepts_are_offered(model, offered):
    """One that is pinned already stays in the list, so that the form shows what is searched for."""
    plan = Plan(build(model), "data:8")
    for form, names in ((first_form(plan), offered), (replace(first_form(plan), remat="full"), sorted({*offered, "full"}))):
        fields = {field["name"]: field for field in form_fields(form, plan, None)}
        found = [option["name"] for option in fields["remat"]["options"]]
        assert found[0] == ""
        assert sorted(found[1:]) == sorted(names)
        assert ({"name": "full_1/2", "label": "full on 1 of every 2 layers"} in fields["remat"]["options"]) == ("full_1/2" in names)


def test_remat_of_some_layers_is_chosen_where_it_is_pinned(plan):
    task = read_task(replace(first_form(plan), remat="full_1/2"), plan)
    assert task.choices["remats"] == ("none", "selective", "full", "full_1/2")
    assert task.pins == {"remat": "full_1/2"}
    assert "remats" not in read_task(replace(first_form(plan), remat="full_1/2", wide=True), plan).choices, "a wide search has it"
    assert "remats" not in read_task(replace(first_form(plan), remat="full"), plan).choices


def test_activations_on_the_host_are_chosen_from_where_they_are_asked_for(plan):
    task = read_task(replace(first_form(plan), remat="offloaded"), plan)
    assert task.choices["remats"] == ("none", "selective", "full", "offloaded")
    assert task.pins["remat"] == "offloaded"


def test_a_price_of_a_chip_goes_with_the_hardware_that_is_asked_for(plan):
    own = plan.hardware.with_price(2.5)
    for typed in ("8 TPU v5e, 2.5 $/h", "8, 2.5 $/h"):
        choices = read_task(FindGesture(typed), plan).choices
        assert choices["hardware"] == own
        assert "devices" not in choices, "its own shape stays"
    assert read_task(FindGesture("16 TPU v5e, 2.5 $/h"), plan).choices["hardware"] == own
    task = read_task(FindGesture("16 H100, 2.5 $/h"), plan)
    assert task.choices["hardware"] == "H100, 2.5 $/h"
    space = make_space(task.plan, **task.choices)
    assert [text for text, _ in space.hardware] == ["2 nodes of 8 H100, 2.5 $/h"]


@pytest.mark.parametrize(
    ("typed", "devices", "hardware"),
    [
        ("8 TPU v5e", None, None),
        ("8", None, None),
        ("TPU v5e 2x4", None, None),
        ("64, 128 or 256", (64, 128, 256), "TPU v5e 2x4"),
        ("64 TPU v5p", (64,), "TPU v5p"),
        ("TPU v5p 4x4x4", None, "TPU v5p 4x4x4"),
        ("2 nodes of 8 H100", None, "2 nodes of 8 H100"),
    ],
)
def test_devices_are_read_from_a_text(plan, typed, devices, hardware):
    choices = read_task(FindGesture(typed), plan).choices
    assert choices.get("devices") == devices
    assert (str(choices["hardware"]) if "hardware" in choices else None) == hardware


def test_tokens_in_days_are_a_limit_on_the_step():
    plan = Plan(build("gpt", layers=1, batch=8, seq=32), "data:8", "batch:data")
    task = read_task(FindGesture("8", limit="86.4M tokens in 2 days"), plan)
    assert task.at_most == {"seconds": pytest.approx(2 * 86400 * 8 * 32 / 86.4e6)}


def test_a_plan_at_another_price_is_the_present_one_at_the_price_that_is_searched_with(plan):
    task = read_task(FindGesture("8 TPU v5e, 2.5 $/h"), plan)
    space = make_space(task.plan, **task.choices)
    assert move_to_searched_hardware(space, plan).hardware == plan.hardware.with_price(2.5)
    assert find_candidate(space, plan.updated(mesh="data:8")).hardware == "TPU v5e 2x4, 2.5 $/h"
    other = plan.updated(hardware=parse_hardware("TPU v5p 2x2x1"))
    assert move_to_searched_hardware(space, other) is other


def test_more_devices_of_the_same_kind_keep_its_options(plan):
    own = parse_hardware("TPU v5e 2x4")
    assert read_task(FindGesture("16 TPU v5e"), plan).choices["hardware"] == own


DEVICES = "write 8 · write `64 TPU v5p` · write several: `64, 128 or 256`"
LIMITS = "write `40 GiB` a device · `250 ms` a step · `$900` for 1,000 steps · `1T tokens in 30 days`"
MISTYPED = [
    ({"on": ""}, f"The number of devices is missing.\n  Try: {DEVICES}."),
    ({"on": "many"}, f"`many` is not a number of devices.\n  Try: {DEVICES}."),
    ({"on": "0"}, "`0` is not a number of devices; it is a whole number from 1 to 1,048,576."),
    ({"within": "0"}, "`0` is not a number of seconds; it is a whole number from 1 to 3,600."),
    ({"axes": "data:x"}, "`data:x` is not a mesh axis.\n  Try: write `data model`, or `data model:8` to fix a size."),
    ({"stages": "few"}, "`few` is not a number of stages; it is a whole number from 1 to 1,048,576."),
    ({"micro_batches": "8, x"}, "`x` is not a number of micro-batches; it is a whole number from 1 to 1,048,576."),
    *(({"limit": text}, f"`{text}` is not a limit.\n  Try: {LIMITS}.") for text in ("lots", "512", "$0", "soon")),
    (
        {"limit": "1T tokens in 30 days"},
        "`1T tokens in 30 days`: the program reads no tokens.\n  Try: limit the time of a step, `250 ms`.",
    ),
]


@pytest.mark.parametrize(("typed", "text"), MISTYPED, ids=lambda each: str(each)[:30])
def test_what_was_mistyped_is_said(plan, typed, text):
    with pytest.raises(WorkbenchError) as caught:
        read_task(replace(first_form(plan), **typed), plan)
    assert str(caught.value) == text


def test_the_page_s_message_is_read_as_it_was_typed():
    sent = {"verb": "find", "on": "8", "stages": "2, 4", "keep": True, "limit": " 2 GiB"}
    assert read_gesture(sent) == FindGesture("8", limit=" 2 GiB", stages="2, 4", keep=True)


def test_a_relaxed_limit_is_never_below_what_is_needed_and_a_relaxed_choice_is_left_open(plan):
    def relax_form(form, requirement, weakened):
        return find_form.relax_form(form, plan, requirement, weakened)

    form = FindGesture(
        "8", limit="1 MiB, 1 ms", axes="data model:8 context:2", stages="1", zero="zero_1", schedule="1f1b", micro_batches="7"
    )
    limit = AtMost("memory", 1_234_567)
    assert relax_form(form, AtMost("memory", 1 << 20), limit).limit == "1.18 MiB, 1 ms"
    assert relax_form(form, AtMost("seconds", 1e-3), AtMost("seconds", 2.00001e-3)).limit == "1 MiB, 2.0001 ms"
    assert relax_form(form, AtMost("dollars", 1.0), AtMost("dollars", 2.00000001)).limit == "1 MiB, 1 ms, $2.000001"
    assert relax_form(form, Pin("stage", (1,)), Pin("stage", (1, 2))).stages == ""
    assert relax_form(form, Pin("schedule", ("1f1b",)), Pin("schedule", ("1f1b", ""))).schedule == ""
    assert relax_form(form, Pin("micro_batches", (7,)), Pin("micro_batches", (7, 8))).micro_batches == ""
    assert relax_form(form, Pin("zero", ("zero_1",)), Pin("zero", ("zero_1", "zero_3"))).zero == ""
    assert relax_form(form, Pin("offload", ("optimizer_state",)), Pin("offload", ("optimizer_state", "nothing"))).offload == "any"
    assert relax_form(form, Pin("model", (8,)), Pin("model", (8, 2))).axes == "data model context:2"


def test_a_choice_of_the_present_plan_is_pinned_where_its_fields_are(plan):
    present = PlanCandidate("", (("stage", 2), ("data", 4), ("model", 1)), "megatron", "zero_1", "full", 16, "1f1b")
    forms = {name: pin_form(first_form(plan), name, present) for name in find_form.PINS}
    assert (forms["mesh"].axes, forms["mesh"].stages) == ("data:4 model:1", "2")
    assert (forms["layout"].layout, forms["zero"].zero, forms["remat"].remat) == ("megatron", "zero_1", "full")
    assert (forms["pipeline"].schedule, forms["pipeline"].micro_batches) == ("1f1b", "16")
    for name, form in forms.items():
        assert read_task(form, plan).pins, name
        offered = {each["name"]: [option["name"] for option in each["options"]] for each in form_fields(form, plan, None)}
        assert all(getattr(form, field) in ("", *offered[field]) for field in ("layout", "zero", "remat", "schedule", "offload"))
    assert count_options(forms["mesh"]) == 2
    with pytest.raises(WorkbenchError, match="There is no decision `colour` to pin"):
        pin_form(first_form(plan), "colour", present)


@given(st.integers(1, 1 << 50))
def test_bytes_rounded_up_are_read_back_as_no_less(count):
    read = parse_bytes(round_up_bytes(count))
    assert read is not None
    assert count - 1 <= read <= count * 1.011 + 11  # a hundredth of the unit at most
