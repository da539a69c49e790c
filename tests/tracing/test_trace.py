"""Tracing: paths, roles and names of every tensor, nothing allocated, errors in the user's words."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from workbench.core.tensor import Role
from workbench.errors import DimensionError, TraceError, WorkbenchError
from workbench.tracing import trace, trace_training

S = jax.ShapeDtypeStruct


class Point(NamedTuple):
    left: object
    right: object


def two_layers(params, batch):
    hidden = jax.nn.relu(batch["x"] @ params["w1"])
    return jnp.mean((hidden @ params["w2"] - batch["y"]) ** 2)


PARAMS = {"w1": S((8, 32), "float32"), "w2": S((32, 4), "float32")}
BATCH = {"x": S((16, 8), "float32"), "y": S((16, 4), "float32")}


def step_program(**options):
    return trace_training(two_layers, PARAMS, BATCH, optimizer=optax.adam(1e-3), **options)


def test_paths_join_the_keys_of_every_kind_of_pytree():
    program = trace(lambda a, b: (a[0], {"sum": b.left + b.right}), [S((2,), "int32")], Point(S((3,), "float32"), S((3,), "float32")))
    assert [tensor.path for tensor in program.arguments] == ["a/0", "b/left", "b/right"]
    assert [tensor.path for tensor in program.results] == ["result/0", "result/1/sum"]


def test_a_training_step_has_parameters_state_inputs_and_a_loss():
    program = step_program()
    roles = {role: [tensor.path for tensor in program.arguments if tensor.role is role] for role in Role}
    assert roles[Role.PARAMETER] == ["params/w1", "params/w2"]
    assert roles[Role.OPTIMIZER_STATE] == ["opt_state/0/count"] + [f"opt_state/0/{m}/{w}" for m in ("mu", "nu") for w in ("w1", "w2")]
    assert roles[Role.INPUT] == ["batch/x", "batch/y"]
    assert program.results[-1].path == "loss"
    assert program.carried == tuple((i, i) for i in range(7))
    assert program.parameters == 8 * 32 + 32 * 4


def test_names_spread_from_the_few_that_are_given():
    program = step_program(dims={"w1": "d_in d_ff", "batch/y": "batch d_out"})
    named = {tensor.path: tensor.dims for tensor in program.arguments}
    assert named["params/w2"] == ("d_ff", "d_out")
    assert named["batch/x"] == ("batch", "d_in")
    assert named["opt_state/0/nu/w2"] == ("d_ff", "d_out")
    assert {op.dims for op in program.operations if op.path == "dot_general"} == {("batch", "d_ff"), ("batch", "d_out")}


def test_what_neither_a_name_nor_a_role_reaches_is_called_after_its_size():
    program = trace(lambda x, w: x @ w, S((6, 5), "float32"), S((5, 6), "float32"))
    assert [tensor.dims for tensor in program.arguments] == [("batch", "d5"), ("d5", "d6_b")]


def chain(params, x):
    for layer in params:
        x = jnp.tanh(x @ layer["w_in"]) @ layer["w_out"] + x
    return x.sum()


def test_the_same_place_in_repeated_layers_gets_the_same_name():
    layers = [{"w_in": S((4, 16), "float32"), "w_out": S((16, 4), "float32")} for _ in range(3)]
    program = trace(chain, layers, S((2, 4), "float32"), dims={"params/0/w_in": "d_model d_ff", "x": "batch d_model"})
    assert {tensor.dims for tensor in program.arguments if tensor.path.endswith("w_in")} == {("d_model", "d_ff")}


def test_two_dimensions_of_one_argument_never_share_a_name():
    """A recurrent matrix maps a dimension to itself: the carry joins both ends."""

    def recurrent(w, x):
        return jax.lax.scan(lambda h, step: (jnp.tanh(h @ w + step), None), jnp.zeros(x.shape[1:]), x)[0]

    program = trace(recurrent, S((5, 5), "float32"), S((7, 2, 5), "float32"), dims={"x": "time batch hidden"})
    assert sorted(program.arguments[0].dims) == ["hidden", "hidden_2"]


def test_a_name_the_user_gives_is_never_overwritten():
    program = trace(lambda w, x: x @ w, S((4, 4), "float32"), S((2, 4), "float32"), dims={"w": "inner outer", "x": "batch feature"})
    assert [tensor.dims for tensor in program.arguments] == [("inner", "outer"), ("batch", "feature")]


def test_dimensions_can_be_renamed_afterwards():
    program = step_program(dims={"w1": "a b"})
    renamed = program.rename({"b": "d_ff"})
    assert renamed.arguments[0].dims == ("a", "d_ff")
    assert program.arguments[0].dims == ("a", "b")
    assert renamed != program


def test_the_most_specific_pattern_wins_and_patterns_may_nest():
    program = step_program(dims={"params": {"*": "x_in x_out", "w1": "d_in d_ff"}, "batch/*": "batch ..."})
    assert program.arguments[0].dims == ("d_in", "d_ff")
    assert program.arguments[1].dims[1] == "x_out"


def test_nothing_is_allocated_for_a_model_of_a_trillion_parameters():
    program = trace(lambda w, x: x @ w, S((1_000_000, 1_000_000), "bfloat16"), S((8, 1_000_000), "bfloat16"))
    assert program.arguments[0].bytes == 2 * 10**12


def test_scalars_keys_and_partial_functions_go_through():
    def noisy(key, x, scale):
        return x + scale * jax.random.normal(key, x.shape)

    program = trace(functools.partial(noisy, scale=2.0), jax.random.key(0), S((4,), "float32"))
    assert program.arguments[0].dtype == "key<fry>"
    assert program.name == "noisy"


def test_a_loss_may_return_auxiliary_values():
    program = trace_training(lambda w, x: ((w * x).sum(), {"extra": x}), S((3,), "float32"), S((3,), "float32"), optimizer=optax.sgd(0.1))
    assert [tensor.path for tensor in program.results] == ["params", "loss"]


def test_the_same_function_traced_twice_is_the_same_program():
    assert step_program() == step_program()
    assert step_program().fingerprint == step_program().fingerprint
    assert step_program(dims={"w1": "a b"}) != step_program()


def test_operations_know_their_scope_and_the_users_line():
    def scoped(x):
        with jax.named_scope("tower"):
            return jnp.sin(x)

    operation = next(op for op in trace(scoped, S((3,), "float32")).operations if op.kind == "sine")
    assert operation.path == "tower/sin"
    assert operation.source.startswith("test_trace.py:")


def test_given_arrays_are_the_values_a_run_starts_from():
    w = np.arange(6.0, dtype=np.float32).reshape(2, 3)
    program = trace_training(lambda w, x: (x @ w).sum(), w, S((4, 2), "float32"), optimizer=optax.sgd(0.1))
    state = program.step.initialize(jax.random.key(0), program.step.given)
    np.testing.assert_array_equal(state[0], w)


ERRORS = [
    (lambda: trace(lambda x: 1 if x > 0 else 2, S((), "float32")), TraceError, "JAX cannot trace `function`"),
    (lambda: trace(lambda x: x @ x, S((2, 3), "float32")), TraceError, ": dot_general requires"),
    (lambda: trace(np.sin, S((3,), "float32")), TraceError, "JAX cannot trace `sin`"),
    (lambda: trace(lambda x: x, "text"), TraceError, "`x` is a str, which is not an array."),
    (lambda: trace(lambda: 0, S((3,), "float32")), TraceError, "takes 0 arguments; 1 were given"),
    (
        lambda: trace_training(lambda w, x: w * x, S((3,), "float32"), S((3,), "float32"), optimizer=optax.sgd(1.0)),
        TraceError,
        "float32[3]; a loss must be",
    ),
    (lambda: step_program(dims={"w1": "a b c"}), DimensionError, "`params/w1` has 2 dimensions, [8, 32]; `a b c` names 3."),
    (lambda: step_program(dims={"w1": "a"}), DimensionError, "`params/w1` has 2 dimensions, [8, 32]; `a` names 1."),
    (lambda: step_program(dims={"w9": "a b"}), DimensionError, "There is no argument `w9`"),
    (lambda: step_program(dims={"w1": "a a"}), DimensionError, "names two dimensions of `params/w1` `a`"),
    (lambda: step_program().rename({"nothing": "x"}), DimensionError, "There is no dimension `nothing`"),
]


def product(w, x):
    return (x @ w.T).mean()  # of the wrong sizes


def whole_and_float(count):
    params = {"w": S((8,), "float32"), **{f"n{i}": S((4,), "int32") for i in range(count)}}
    return trace_training(lambda params, x: (x * params["w"]).sum(), params, S((8,), "float32"), optimizer=optax.sgd(0.1))


def trained(loss=lambda w, x: (x * w).sum(), **options):
    return trace_training(loss, S((8,), "float32"), S((8,), "float32"), **{"optimizer": optax.sgd(0.1), **options})


PRODUCT = f"test_trace.py:{product.__code__.co_firstlineno + 1}"
WHOLE_ERRORS = [
    (
        lambda: trace(product, S((2, 3), "float32"), S((5, 4), "float32")),
        f"`product` raised TypeError while it was traced ({PRODUCT}): dot_general requires contracting dimensions to have the same shape, "
        "got (4,) and (3,).\n  Try: see the whole traceback with `jax.eval_shape(product, ...)`, or, of its gradient, "
        "`jax.eval_shape(jax.grad(product), ...)`.",
    ),
    (
        lambda: whole_and_float(1),
        "`params/n0` is int32[4]; a parameter has a gradient, so it must be floating-point.\n"
        '  Try: give it in the batch · bind it with functools.partial or a closure · make it one, `.astype("float32")`.',
    ),
    (
        lambda: whole_and_float(3),
        "`params/n0` is int32[4], and 2 more are not floats; a parameter has a gradient, so it must be floating-point.\n"
        '  Try: give it in the batch · bind it with functools.partial or a closure · make it one, `.astype("float32")`.',
    ),
    (lambda: trace(3), "`fn` is 3; it should be a function of arrays.\n  Try: write `trace(function, *arguments)`."),
    (
        lambda: trained(3),
        "`loss` is 3; it should be a function of parameters and a batch.\n"
        "  Try: write `trace_training(loss, params, batch, optimizer=...)`.",
    ),
    (
        lambda: trained(optimizer=optax.adamw),
        "`optimizer` is of type `function`; it should be an optimizer of Optax.\n  Try: write optimizer=optax.adamw(3e-4).",
    ),
    (lambda: trained(data=3), "`data` is 3; it should be a function of the step's number.\n  Try: leave `data` out."),
    (lambda: trained(init=3), "`init` is 3; it should be a function of a random key.\n  Try: leave `init` out."),
    (
        lambda: trained(dims="d_model"),
        '`dims` is \'d_model\'; it should be names by argument.\n  Try: write {"batch": "batch"}.',
    ),
    (
        lambda: trained(data=lambda _step: None).step.feed(7),
        "`data(7)` returned 0 arrays; the step takes 1: `batch`.\n  Try: `return` the batch of the step from `data`.",
    ),
    (
        lambda: trained(data=lambda _step: (1.0, 2.0)).step.feed(0),
        "`data(0)` returned 2 arrays; the step takes 1: `batch`.\n  Try: return a batch like the one it was traced with.",
    ),
]


@pytest.mark.parametrize(("build", "text"), WHOLE_ERRORS)
def test_a_mistake_is_told_in_whole_sentences(build, text):
    with pytest.raises(WorkbenchError) as caught:
        build()
    assert str(caught.value) == text


@pytest.mark.parametrize(("build", "error", "text"), ERRORS)
def test_bad_input_is_told_in_the_users_words(build, error, text):
    with pytest.raises(error) as caught:
        build()
    assert text in str(caught.value)
    assert caught.value.ways_out
