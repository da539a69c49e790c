"""Programs that XLA computes wrongly under a plan: those that are known, and a search for more."""

import functools

import jax
import jax.numpy as jnp
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.support.choosing import parametrize_drawn
from tests.support.known_wrong_results import KNOWN, conv
from workbench.documents import measurement_record
from workbench.engine.spmd import against_unsharded
from workbench.engine.spmd.against_unsharded import largest_error
from workbench.engine.spmd.compiled_step import compile_step
from workbench.engine.spmd.execute_plan import execute
from workbench.models.registry import build
from workbench.public_plan import Plan
from workbench.reports.run_events import Progress
from workbench.tracing import trace

pytestmark = pytest.mark.compile
ROUNDING = 1e-3  # far above that of these float32 programs, far below any wrong result of them


def pytest_generate_tests(metafunc):
    """Wrong and right ones in every run."""
    parametrize_drawn(metafunc, "case", KNOWN, lambda case: [case.wrong], lambda case: case.name)


def error_of(plan):
    step = compile_step(plan)
    return largest_error(step, step.arguments(0))[0]


def notes_of(plan):
    return [note for note in plan.report().diagnostics if note.kind == "wrong result"]


def test_what_is_known_of_this_version_holds_and_the_report_says_it(case):
    plan = case.plan()
    is_wrong = error_of(plan) > ROUNDING
    if jax.__version__ in (*case.wrong, *case.right):
        assert is_wrong == (jax.__version__ in case.wrong)
        assert bool(notes_of(plan)) == is_wrong
    else:
        assert bool(notes_of(plan)) >= is_wrong, f"add {jax.__version__} to the case: it is {'wrong' if is_wrong else 'right'}"


def test_the_report_names_operation_line_version_and_what_to_write_instead():
    plan = KNOWN[1].plan()
    (note,) = notes_of(plan)
    line = next(op.source for op in plan.program.operations if op.path == note.subject)
    is_known = jax.__version__ == "0.10.2"
    computes = "computes" if is_known else "may compute"
    known = "" if is_known else " This is known of JAX 0.10.2; check a run with `check=True`."
    assert note.message == (
        f"XLA of JAX {jax.__version__} {computes} a wrong result for this convolution ({line}). Its 16 feature groups, such as the "
        "gradients of 16 samples' kernels under `vmap`, are sharded over `a` and `b`, which are all devices, and XLA puts their shards in "
        f"the wrong places.{known} Compute the gradients with `jax.lax.map` instead of `vmap`, write the convolution as a matrix product "
        "of `jax.lax.conv_general_dilated_patches`, or shard the groups over some of the mesh axes only."
    )
    assert line.startswith("known_wrong_results.py:")
    assert [str(edit) for edit in note.edits] == ["n → a"]
    fixed = note.edits[0].apply(plan)
    assert notes_of(fixed) == []
    assert error_of(fixed) < ROUNDING


def test_the_report_names_an_overlapping_pool_and_offers_not_to_shard_it():
    plan = next(case for case in KNOWN if case.name == "pool of stride one").plan()
    (note,) = notes_of(plan)
    assert "a wrong gradient of this max pooling (known_wrong_results.py:" in note.message
    assert "Its windows of 3 overlap by half or more along a dimension that is sharded over `a`" in note.message
    fixed = note.edits[0].apply(plan)
    assert notes_of(fixed) == []
    assert error_of(fixed) < ROUNDING


@pytest.mark.parametrize("model", ["unet", "conformer"])
def test_convolutions_of_the_models_raise_no_alarm(model):
    program = build(model)
    for mesh, layout in (("data:8", "batch:data"), ("data:2 model:4", "batch:data+model")):
        assert notes_of(Plan(program, mesh, layout)) == []


def test_the_planned_tier_says_of_a_depthwise_gradient_what_the_partitioner_does():
    """The conformer's, where a mesh axis shards nothing: XLA makes it twice too large."""
    plan = Plan(build("conformer"), "data:4 model:2", "batch:data")
    (note,) = notes_of(plan)
    assert [note] == [each for each in plan.report("partitioned").diagnostics if each.kind == "wrong result"]
    assert note.message.startswith("XLA makes this convolution 2 times too large")


@pytest.mark.parametrize("layout", ["n:a", "n:b", "h:a", "n:a; h:b", "c:a; n:b", "c:b", "n:a+b", "c:a+b"])
def test_a_depthwise_gradient_is_wrong_where_the_plan_says_so_and_nowhere_else(layout):
    def gradient(x, w):
        return jax.grad(lambda w: conv(x, w, feature_group_count=8).sum())(w)

    x, w = (jax.random.normal(jax.random.key(i), shape) for i, shape in enumerate(((8, 8, 8, 8), (3, 3, 1, 8))))
    plan = Plan(trace(gradient, x, w, dims={"x": "n h w c"}), "a:2 b:4", layout)
    assert bool(notes_of(plan)) == (error_of(plan) > ROUNDING)


@pytest.mark.parametrize("number", [0, 3])
def test_a_checked_run_says_what_is_wrong_and_where_it_begins(number):
    plan, events = KNOWN[number].plan(), []
    if jax.__version__ not in KNOWN[number].wrong:
        pytest.skip("this version of JAX is not known to compute it wrongly")
    measured = execute(plan, steps=1, check=True, profile=False, on_event=events.append)
    assert measured.is_wrong
    (note,) = notes_of(plan)
    line = next(op.source for op in plan.program.operations if op.path == note.subject)
    assert measured.first_wrong == f"{note.subject} ({line})"
    assert f"The first wrong value is {measured.first_wrong}." in " ".join(str(measured).split())
    assert any("looking for the first wrong value" in each.stage for each in events if isinstance(each, Progress))
    record = measurement_record(measured)
    assert (record["is_wrong"], record["first_wrong"]) == (True, measured.first_wrong)
    assert record["wrong_text"].startswith("WRONG RESULT: this plan and the unsharded step differ: ")
    assert '<p role="alert" style="color:#c1121f' in measured._repr_html_()


def test_a_checked_run_of_a_right_program_is_within_what_rounding_explains():
    measured = execute(KNOWN[8].plan(), steps=1, check=True, profile=False)
    assert not measured.is_wrong
    assert 0 <= measured.max_error <= measured.explained_error < 1e-4
    assert measured.first_wrong == measured.wrong_text == ""
    assert "role=" not in measured._repr_html_()


def test_a_number_on_one_side_only_is_wrong(monkeypatch):
    plan = Plan(trace(jnp.sqrt, jnp.ones((16, 8)), dims={"x": "n _"}), "data:8", "n:data")
    moved = against_unsharded._on_one_device
    monkeypatch.setattr(against_unsharded, "_on_one_device", lambda array, device: -moved(array, device))
    measured = execute(plan, steps=1, check=True, profile=False)
    assert measured.max_error == float("inf")
    assert "NaN or infinity is in only one of the two results" in measured.wrong_text
    assert measurement_record(measured)["max_error"] is None


def test_the_search_for_the_first_wrong_value_ends_in_time(monkeypatch):
    monkeypatch.setattr(against_unsharded, "_MOST_SECONDS", 0.0)
    plan = Plan(trace(lambda x: jnp.sin(x) + jnp.cos(x), jnp.ones((16, 8)), dims={"x": "n _"}), "data:8", "n:data")
    step = compile_step(plan)
    found = against_unsharded.find_first_wrong(step, step.arguments(0), -1.0, lambda _: None)  # every value is wrong
    assert found.startswith("add (test_wrong_results.py:")
    assert found.endswith(") or before it")
    monkeypatch.setattr(against_unsharded, "_MOST_SECONDS", 60.0)
    assert against_unsharded.find_first_wrong(step, step.arguments(0), -1.0, lambda _: None).startswith("sin (test_wrong_results.py:")


UNARY = {
    "dot": lambda x: jnp.tanh(jnp.einsum("nhwc,cd->nhwd", x, jnp.sin(jnp.arange(64.0)).reshape(8, 8))),
    "conv": lambda x: conv(x, jnp.cos(jnp.arange(9 * 64.0)).reshape(3, 3, 8, 8)),
    "grouped": lambda x: conv(x, jnp.cos(jnp.arange(9 * 16.0)).reshape(3, 3, 2, 8), feature_group_count=4),
    "depthwise": lambda x: conv(x, jnp.cos(jnp.arange(9 * 8.0)).reshape(3, 3, 1, 8), feature_group_count=8),
    "pool": lambda x: jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 3, 3, 1), (1, 1, 1, 1), "SAME"),
    "shift": lambda x: jnp.pad(x, ((0, 0), (1, 0), (0, 0), (0, 0)), constant_values=1.0)[:, :-1],
    "roll": lambda x: jnp.roll(x, 3, 2),
    "cumsum": lambda x: jnp.cumsum(x, 1),
    "sort": lambda x: jnp.sort(x, 2),
    "reverse": lambda x: x[:, ::-1],
    "transpose": lambda x: x.swapaxes(1, 2),
    "normalize": lambda x: x - x.mean((1, 2), keepdims=True),
    "gather": lambda x: x[:, jnp.array([3, 1, 4, 1, 5, 2, 6, 0])],
    "concatenate": lambda x: jnp.concatenate([x[:, 5:], x[:, :5]], 1),
}  # fmt: skip
AXES = st.sampled_from(["", "a", "b", "a+b"])


def apply_all(names, x):
    for name in names:
        x = UNARY[name](x)
    return x


def with_gradient(names, per_sample, x):
    if per_sample:
        return jax.vmap(jax.grad(lambda x: jnp.sum(apply_all(names, x[None]) ** 2)))(x)
    return jax.grad(lambda x: jnp.sum(apply_all(names, x) ** 2))(x)


@pytest.mark.nightly
@settings(max_examples=60, suppress_health_check=list(HealthCheck), deadline=None)
@given(
    names=st.lists(st.sampled_from([*UNARY]), min_size=1, max_size=3),
    kind=st.sampled_from(["forward", "gradient", "per sample"]),
    places=st.lists(AXES, min_size=4, max_size=4),
)
def test_random_programs_are_the_unsharded_ones_or_the_report_says_so(names, kind, places):
    fn = functools.partial(
        *{"forward": (apply_all, names), "gradient": (with_gradient, names, False)}.get(kind, (with_gradient, names, True))
    )
    layout, used = [], set()
    for dim, axes in zip("nhwc", places, strict=True):
        if axes and not used & set(axes.split("+")):
            used |= set(axes.split("+"))
            layout.append(f"{dim}:{axes}")
    assume(kind == "forward" or "pool" not in names or not {"h", "w"} & {each[0] for each in layout})  # known, and not noted yet
    x = jax.random.normal(jax.random.key(0), (8, 8, 8, 8))
    plan = Plan(trace(fn, x, dims={"x": "n h w c"}, name="random"), "a:2 b:4", "; ".join(layout))
    assert error_of(plan) < ROUNDING or any(note.kind == "wrong result" for note in plan.report("partitioned").diagnostics)
