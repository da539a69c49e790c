"""What a recipe promises is what happens: sharded steps equal unsharded ones, and the compiler sends what the partitioner answers.

Every recipe that applies to a model of the zoo, by itself on the mesh that has an axis for it (so that the other axis splits nothing, as
a rule), and some of them together; an eighth of the pairs in every run, with each program and each recipe among them. Where the compiler
computes what is wrong the report says so, once the partitioner has answered.
"""

import functools

import jax
import numpy as np
import optax
import pytest

import workbench as wb
from tests.recipes.test_recipes import APPLIES, mesh_for
from tests.support.choosing import parametrize_drawn
from tests.support.first_step import decided, moment_slack
from tests.support.unsharded import BATCH, reference_of, sharded_results, state_of, unsharded
from workbench.analysis.analyze import analyze
from workbench.analysis.tier_comparison import compare_collectives
from workbench.core.tensor import Role
from workbench.engine.hlo.compiled_collectives import collectives_of
from workbench.engine.spmd.compiled_step import compile_step
from workbench.models import amoebanet
from workbench.models import amoebanet_cells as amoebanet_config
from workbench.models.data import synthetic_data
from workbench.public_plan import Plan
from workbench.reports.compiled import payload_by_axis_and_kind
from workbench.spmd.ask_partitioner import ask_partitioner
from workbench.spmd.compile_to_schedule import module_of

pytestmark = pytest.mark.compile

TOGETHER = [
    ("mnist", (), "data:4", ("zero_3",)),
    ("gpt", (), "data:2 model:4", ("data_parallel", "megatron", "zero_1")),
    ("gpt", (), "data:2 model:4", ("data_parallel", "sequence_parallel", "zero_2")),
]
ALONE = [(model, (), mesh_for(recipe), (recipe,)) for model, recipes in APPLIES.items() for recipe in sorted(recipes)]
CASES = [*ALONE, *TOGETHER]
"""Model, its arguments, mesh, recipes in turn. Other layouts of several axes are compiled in `test_agreement`."""


def sharded(plan, values):
    """The results of one step, and the collectives of the program that made them."""
    step = compile_step(plan)
    return sharded_results(step, values), collectives_of(module_of(step.compiled), plan.mesh)


def wrong(reference, results):
    """The results that are not the unsharded ones. Adam's first moment, held closely, is the gradient, and its first update the gradient's
    sign times the rate; SGD's update is the gradient times the rate."""
    program, carried, compared = reference.program, dict(reference.program.carried), decided(reference.program, reference.results)
    keeps_moments = any(tensor.role is Role.OPTIMIZER_STATE for tensor in program.results)
    found, of_moments = [], moment_slack(program)
    for number, (tensor, ours, other) in enumerate(zip(program.results, results, reference.results, strict=True)):
        is_weight, before = tensor.role is Role.PARAMETER, np.zeros_like(other)
        if is_weight and not keeps_moments:
            before = reference.arguments[carried[number]]
        slack = (5e-3 if keeps_moments else 1e-2) if is_weight else of_moments if tensor.role is Role.OPTIMIZER_STATE else 1e-5
        size = max(np.abs(other - before).max(initial=0), 1e-6)
        is_close = np.isclose(ours - before, other - before, rtol=2e-4, atol=slack * size)
        if not is_close[compared.get(tensor.path, ...)].all():
            found.append(str(tensor))
    return found


def settled(plan):
    """The report that has the partitioner's answer, as XLA:CPU takes it."""
    return analyze(plan, answer=ask_partitioner(plan, "cpu"))


def differences(report, found):
    """What the compiler sends otherwise."""
    return [row for row in compare_collectives(report, payload_by_axis_and_kind(found)) if not row.agrees]


def name_of(case):
    return f"{case[0]} {case[2]} {'+'.join(case[3])}"


def pytest_generate_tests(metafunc):
    parametrize_drawn(metafunc, "case", CASES, lambda case: [case[0], *case[3]], name_of, share=8)


def test_the_step_is_the_unsharded_one_and_sends_what_the_partitioner_answers(case):
    name, arguments, mesh, recipes = case
    reference = unsharded(name, arguments, BATCH)
    plan = functools.reduce(Plan.recipe, recipes, Plan(reference.program, mesh))
    results, found = sharded(plan, reference.arguments)
    report = settled(plan)
    assert bool(wrong(reference, results)) == any(each.kind == "wrong result" for each in report.diagnostics), wrong(reference, results)
    assert differences(report, found) == []


@pytest.mark.parametrize(("model", "recipe"), [("conformer", "data_parallel"), ("unet", "spatial")])
def test_the_way_out_of_a_wrong_result_makes_it_right(model, recipe):
    """What the report suggests, where XLA sums over devices that hold the same."""
    reference = unsharded(model, (), BATCH)
    plan = Plan(reference.program, mesh_for(recipe)).recipe(recipe)
    note = next(each for each in settled(plan).diagnostics if each.kind == "wrong result")
    mended = note.edits[0].apply(plan)
    assert [each.subject for each in settled(mended).diagnostics if each.kind == "wrong result"] == []
    assert wrong(reference, sharded(mended, reference.arguments)[0]) == []


@functools.cache
def amoebanet_without_ties():
    """AmoebaNet under SGD, whose update is the gradient, on images with a millionth of noise: those of the zoo have equal pixels, and which
    of two equal ones a maximum passes its gradient to is up to how sums are ordered."""
    config = amoebanet_config.PRESETS["tiny"]
    start = functools.partial(amoebanet.init, config=config)
    data = synthetic_data.stripes(config.batch, config.size, config.image_channels, config.classes)

    def noisy(step):
        batch = data(step)
        noise = np.random.default_rng(step).standard_normal(batch["images"].shape)
        return {**batch, "images": (batch["images"] * (1 + 1e-6 * noise)).astype(np.float32)}

    params = jax.eval_shape(lambda: start(jax.random.key(0)))
    make, dims = amoebanet.make_loss(config), amoebanet.dims(config)
    return wb.trace_training(make, params, noisy(0), optimizer=optax.sgd(0.05), dims=dims, name="amoebanet", init=start, data=noisy)


@functools.cache
def unsharded_amoebanet():
    program = amoebanet_without_ties()
    return reference_of(program, BATCH, state_of(program))


@pytest.mark.nightly
@pytest.mark.parametrize("recipe", ["data_parallel", "zero_2", "zero_3"])
def test_amoebanet_is_the_unsharded_one_where_no_maximum_is_tied(recipe):
    """A minute for one of them; of the other programs each is run with some recipe, and each recipe with some program, in every run."""
    reference = unsharded_amoebanet()
    plan = Plan(reference.program, mesh_for(recipe)).recipe(recipe)
    results, found = sharded(plan, reference.arguments)
    assert wrong(reference, results) == []
    assert differences(settled(plan), found) == []


@pytest.mark.nightly
def test_what_amoebanet_sends_where_images_are_cut_is_what_the_partitioner_answers():
    plan = Plan(amoebanet_without_ties(), mesh_for("spatial")).recipe("spatial")
    found = collectives_of(module_of(compile_step(plan).compiled), plan.mesh)
    assert differences(settled(plan), found) == []
