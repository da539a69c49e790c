"""Every member of the zoo becomes a program, by the name that documents use."""

import re

import jax
import numpy as np
import pytest

from workbench import models
from workbench.core.layout import Layout
from workbench.core.mesh import Mesh
from workbench.core.program import Reference
from workbench.core.tensor import Role
from workbench.errors import DocumentError
from workbench.models import ALL_MODELS, build, gpt_config
from workbench.public_plan import Plan

pytestmark = pytest.mark.compile

MODELS = [pytest.param(model, id=model.name) for model in ALL_MODELS]


@pytest.fixture(scope="module")
def programs():
    return {model.name: build(model.name) for model in ALL_MODELS}


@pytest.mark.parametrize("model", MODELS)
def test_there_are_at_least_four_different_legal_layouts_on_eight_devices(model, programs):
    assert len(set(model.layouts)) == len(model.layouts) >= 4
    for mesh, layout in model.layouts:
        assert Mesh(mesh).size == 8
        Plan(programs[model.name], mesh, layout)


@pytest.mark.parametrize("model", MODELS)
def test_a_program_remembers_how_to_build_it_again(model, programs):
    program = programs[model.name]
    assert program.reference == Reference(model.name, {})
    assert build(program.reference.target, **program.reference.arguments) == program


@pytest.mark.parametrize("model", MODELS)
def test_what_is_fed_and_initialised_has_the_shapes_of_the_program(model, programs):
    program = programs[model.name]
    fed = program.step.feed(0)
    state = jax.eval_shape(program.step.initialize, jax.random.key(0), program.step.given)
    for places, leaves in ((program.inputs, fed), (program.state, state)):
        assert [(program.arguments[i].shape, program.arguments[i].dtype) for i in places] == [(x.shape, str(x.dtype)) for x in leaves]
    assert all(isinstance(leaf, np.ndarray) for leaf in fed)


def test_arguments_change_the_program_and_are_remembered():
    program = build("gpt", batch=8, layers=2, seq=32, scan=False, remat=True)
    assert program.dims["batch"] == (8,)
    assert program.dims["seq"] == (32,)
    assert "layers" not in program.dims
    assert program.reference == Reference("gpt", {"batch": 8, "layers": 2, "seq": 32, "scan": False, "remat": True})


@pytest.mark.parametrize("model", MODELS)
def test_the_table_of_the_zoo_has_the_dimensions_that_a_layout_may_split(model, programs):
    """A rule that finds its dimension by name means the same in every model."""
    table = set(re.findall(r"`(\w+)`", models.__doc__))
    split = {dim for _, layout in model.layouts for dim, _ in Layout(layout).rules}
    inputs = {dim for each in programs[model.name].arguments if each.role is Role.INPUT for dim in each.dims}
    assert split | inputs <= table


@pytest.mark.parametrize("scan", [True, False])
def test_the_dimensions_of_the_transformer_have_their_full_names(scan):
    program = build("gpt", scan=scan)
    names = {"vocab", "d_model", "heads", "d_head", "d_ff", "seq", "batch"} | ({"layers"} if scan else set())
    assert set(program.dims) == names


LARGE = [
    *(("gpt", preset) for preset in ("gpt2-small", "gpt3-175b", "gspmd-64b", "gpt-1t")),
    *(("mixture", preset) for preset in ("deepseek-v2", "glam-64b-64e")),
    ("t5", "t5-300b"),
    ("conformer", "bigssl-10b"),
    *(("unet", preset) for preset in ("cicek-2016", "mlperf-kits19")),
    ("decoder", "gpipe-1663"),
]


@pytest.mark.share(3)
@pytest.mark.parametrize(("model", "preset"), LARGE)
def test_the_large_presets_become_programs_without_being_allocated(model, preset):
    program = build(model, preset=preset)
    sizes = {role: sum(each.bytes for each in program.arguments if each.role is role) for role in Role}
    assert sizes[Role.PARAMETER] == (2 if preset == "deepseek-v2" else 4) * program.parameters
    assert sizes[Role.OPTIMIZER_STATE] == pytest.approx(2 * sizes[Role.PARAMETER], rel=1e-6)


def names(those) -> str:
    return ", ".join(f"`{each}`" for each in those) + "."


WRONG = [
    (("transformer", {}), "There is no model `transformer`; there are " + names(model.name for model in ALL_MODELS)),
    (("mnist", {"hiden": 8}), "Model `mnist`: There is no argument `hiden`; there are `batch`, `hidden`, `learning_rate`, `optimizer`."),
    (("gpt", {"preset": "gpt3"}), "There is no preset `gpt3`; there are " + names(gpt_config.PRESETS)),
    (("gpt", {"layers": 0}), "Model `gpt`: `layers` is '0'; it should be a whole number from 1."),
    (("gpt", {"scan": 1}), "Model `gpt`: `scan` is '1'; it should be true or false."),
    (("gpt", {"batch": True}), "Model `gpt`: `batch` is 'True'; it should be a whole number from 1."),
    (("two_layer", {"io": "64"}), "Model `two_layer`: `io` is '64'; it should be a whole number from 1."),
    (("unet", {"size": 18}), "`size` is 18; 3 levels halve it 2 times, and 4 does not divide it."),
    (("mnist", {"learning_rate": -1}), "Model `mnist`: `learning_rate` is '-1'; it should be a number above 0."),
]


@pytest.mark.parametrize(("call", "message"), WRONG)
def test_a_program_that_cannot_be_named_is_refused_in_the_names_that_can(call, message):
    name, arguments = call
    with pytest.raises(DocumentError) as caught:
        build(name, **arguments)
    assert caught.value.message == message
    assert caught.value.ways_out or name == "transformer"
