"""The strip of the model's sizes: what it shows, what stays on the board when a size changes, and names to confirm."""

from dataclasses import asdict

import jax
import jax.numpy as jnp
import optax
import pytest

import workbench as wb
from tests.widgets.test_start_panel import StartedBoard
from workbench.models import build
from workbench.models.registry import verify_model
from workbench.plan.edits import OpenPlan
from workbench.public_plan import Plan
from workbench.widgets.start.model_strip import applicable_layout, resized_plan, size_fields


@pytest.fixture
def sized():
    board = StartedBoard(start_open=False)
    yield board
    board.board.close()


def resize(board, name, value):
    board.send("size_model", name=name, value=value)
    return board.wait(lambda: board.state["model"]["work"] is None)


def test_the_strip_has_a_control_for_each_argument_and_stops_for_the_sliders(sized):
    fields = {each["name"]: each for each in sized.state["model"]["sizes"]}
    assert list(fields) == ["batch", "io", "hidden"]
    assert fields["batch"]["value"] == "16"
    assert fields["batch"]["stops"] == [str(1 << k) for k in range(9)]
    assert fields["hidden"]["stops"] == []


def test_another_size_keeps_mesh_and_layout_and_is_one_step_that_undo_takes_back(sized):
    state = resize(sized, "batch", "64")
    plan = sized.board.session.plan
    assert plan.program.dims["batch"] == (64,)
    assert (str(plan.mesh), str(plan.layout)) == ("data:4 model:2", "batch:data")
    assert state["undo"] == "Undo open two-layer with batch 64"
    assert any(figure["delta"] for figure in state["figures"])
    sized.send("undo")
    assert sized.board.session.plan.program.dims["batch"] == (16,)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("batch", "3", "`x: float32[batch=3, io=64]`: the layout puts `batch` (3) on mesh axis `data` (4)"),
        ("batch", "-1", "Model `two_layer`: `batch` is '-1'; it should be a whole number from 1."),
        ("batch", "many", "`batch` is 'many'; it should be a whole number from 1."),
        ("depth", "3", "There is no size `depth`; there are `batch`, `io`, `hidden`."),
    ],
)
def test_a_size_that_cannot_be_is_refused_with_the_arithmetic(sized, name, value, message):
    refusal = resize(sized, name, value)["refusal"]
    assert refusal["zone"] == "model sizes"
    assert refusal["message"].startswith(message)
    assert sized.board.session.plan.program.dims["batch"] == (16,)


def test_the_last_of_several_changes_is_the_one_that_is_shown(sized):
    sized.send("size_model", name="batch", value="32")
    resize(sized, "batch", "128")
    assert sized.board.session.plan.program.dims["batch"] == (128,)
    assert len(sized.board.session.nodes) == 2


def test_an_edit_made_while_the_model_is_traced_is_kept(sized):
    sized.send("size_model", name="batch", value="64")
    sized.send("drop", dim="hidden", source="", target="model")
    sized.wait(lambda: sized.state["model"]["work"] is None)
    plan = sized.board.session.plan
    assert (plan.program.dims["batch"], str(plan.layout)) == ((64,), "batch:data; hidden:model")


def test_a_size_is_not_given_to_a_model_that_was_opened_meanwhile(sized):
    sized.send("size_model", name="batch", value="64")
    sized.board.session.apply(OpenPlan(Plan(build("mnist"), "data:2"), "a test"))
    sized.wait(lambda: sized.state["model"]["work"] is None)
    assert sized.board.session.plan.program.name == build("mnist").name


def test_a_choice_of_another_preset_keeps_what_the_layout_names():
    plan = Plan(build("gpt"), "data:2 model:2", "batch:data; d_ff:model; params/layers/mlp/w1=[-, -, model]", hardware="4 H100")
    resized = resized_plan(plan, {"preset": "tiny-wide"})
    assert resized.program.name == resized.name == "gpt tiny-wide"
    assert str(resized.layout) == str(plan.layout)
    assert (resized.hardware, resized.mesh) == (plan.hardware, plan.mesh)


def test_statements_about_what_a_program_does_not_have_are_left_out():
    layout = Plan(build("gpt"), "data:2 model:2", "batch:data; heads:model; params/layers/mlp/w1=[-, -, model]").layout
    assert str(applicable_layout(layout, build("two_layer"))) == "batch:data"


def test_what_is_retraced_keeps_precision_and_names_that_a_person_gave():
    program = build("gpt").rename({"d_ff": "ffn"}).variant(precision=wb.Precision.parse("bfloat16"))
    resized = resized_plan(Plan(program, "data:2", "ffn:data"), {"batch": 4})
    assert str(resized.layout) == "ffn:data"
    assert str(resized.program.precision) == "bfloat16"
    assert resized.program.dims["batch"] == (4,)


def test_proposed_names_are_listed_and_confirmed_in_one_step(sized):
    def loss(params, batch):
        return jnp.mean((jnp.tanh(batch["x"] @ params["w1"]) @ params["w2"] - batch["y"]) ** 2)

    def spec(*shape):
        return jax.ShapeDtypeStruct(shape, "float32")

    params, batch = {"w1": spec(48, 96), "w2": spec(96, 24)}, {"x": spec(64, 48), "y": spec(64, 24)}
    program = wb.trace_training(loss, params, batch, optimizer=optax.sgd(1e-3))
    sized.board.session.apply(OpenPlan(Plan(program, "data:2"), "a test"))
    names = sized.state["model"]["names"]
    assert {"batch"} <= {each["name"] for each in names}
    assert all(each["reason"] and each["size"] for each in names)
    assert sized.state["model"]["sizes"] == []
    state = sized.send("confirm_names")
    assert state["refusal"] is None
    assert state["model"] is None
    assert state["undo"].startswith("Undo confirm names")


def test_a_preset_whose_sizes_were_changed_is_custom_and_a_slider_changes_none():
    model = verify_model("gpt", {})
    none, layers, width = (
        next(size_fields(model, {**model.arguments, **asdict(model.presets["tiny"]), **sizes}))
        for sizes in ({}, {"layers": 8}, {"d_ff": 512})
    )
    assert [none["value"], layers["value"], width["value"]] == ["tiny", "tiny", "custom"]
    assert [none["options"][0], width["options"][:2]] == ["tiny", ["custom", "tiny"]]
