"""What goes to a worker process is there what it was here."""

import dataclasses
import pickle
import subprocess
import sys
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
import pytest

from workbench.engine.worker.pickling import _registration, dump_by_value, jax_settings, pytree_registry
from workbench.tracing import trace_training
from workbench.tracing.layer_marks import layer

pytestmark = [pytest.mark.compile, pytest.mark.worker]


class Absent:
    """A sentinel's class, as libraries have them."""


ABSENT = Absent()


def sent(content):
    return pickle.loads(dump_by_value(content))


def test_an_equinox_module_is_put_together_again_from_its_tree_structure():
    model = eqx.filter_eval_shape(eqx.nn.MLP, 8, 4, 16, 1, key=jax.random.key(0))
    arrays, rest = eqx.partition(model, lambda leaf: isinstance(leaf, jax.ShapeDtypeStruct))

    def loss(arrays, batch):
        return jax.vmap(eqx.combine(arrays, rest))(batch).mean()

    program = trace_training(loss, arrays, jax.ShapeDtypeStruct((8, 8), "float32"), optimizer=optax.sgd(0.1))
    arguments = [jax.ShapeDtypeStruct(each.shape, each.dtype) for each in program.arguments]
    here, there = (jax.eval_shape(step.call, *arguments) for step in (program.step, sent(program.step)))
    assert here == there


def test_a_sentinel_of_a_module_stays_the_same_object():
    assert sent(ABSENT) is ABSENT
    assert sent([ABSENT] * 2)[1] is ABSENT


def test_an_object_without_a_name_in_its_module_is_sent_as_any_object_is():
    found = sent(type(ABSENT)())
    assert type(found) is type(ABSENT)
    assert found is not ABSENT


def test_a_function_keeps_its_file_and_lines_and_so_do_those_within_it():
    def outer():
        def inner():
            return sys._getframe().f_code

        return inner

    code = sent(outer)()()
    assert (code.co_filename, code.co_firstlineno) == (__file__, outer()().co_firstlineno)


@pytest.mark.parametrize("mark", [layer, jax.checkpoint])
def test_a_layer_marked_in_a_notebook_is_recomputed_there_as_here(mark):
    """It is a function of JAX's own that holds the layer: its module's caches cannot be pickled."""

    @mark
    def marked(x, w):
        return jnp.sin(jnp.sin(x @ w))

    x, w = jnp.ones((2, 3)), jnp.ones((3, 3))
    here, there = (jax.make_jaxpr(jax.grad(lambda x, fn=fn: fn(x, w).sum()))(x) for fn in (marked, sent(marked)))
    assert str(here) == str(there)
    assert "remat" in str(there) or "checkpoint" in str(there)


def equinox_state():
    class Affine(eqx.Module):
        weight: jax.Array
        bias: jax.Array
        times: int = eqx.field(static=True, default=2)

        def __call__(self, x):
            return (x @ self.weight + self.bias) * self.times

    class Net(Affine):
        inner: Affine

        def __init__(self):
            self.weight, self.bias, self.times = jnp.ones((4, 2)), jnp.ones(2), 3
            self.inner = Affine(jnp.ones((8, 4)), jnp.ones(4))

        def __call__(self, x):
            return super().__call__(self.inner(x))

    return Net()


def node_class():
    @jax.tree_util.register_pytree_node_class
    class Affine(Pair):
        def tree_flatten(self):
            return (self.weight, self.bias), None

        @classmethod
        def tree_unflatten(cls, _, children):
            return cls(*children)

    return Affine(jnp.ones((8, 2)), jnp.ones(2))


def registered_node():
    class Affine(Pair):
        pass

    jax.tree_util.register_pytree_node(Affine, lambda each: ((each.weight, each.bias), None), lambda _, children: Affine(*children))
    return Affine(jnp.ones((8, 2)), jnp.ones(2))


def registered_dataclass():
    @jax.tree_util.register_dataclass
    @dataclasses.dataclass
    class Affine:
        weight: Any
        bias: Any
        times: int = dataclasses.field(default=3, metadata={"static": True})

        def __call__(self, x):
            return (x @ self.weight + self.bias) * self.times

    return Affine(jnp.ones((8, 2)), jnp.ones(2))


class Pair:
    """What is no tree to JAX until a class below it is registered."""

    def __init__(self, weight, bias):
        self.weight, self.bias = weight, bias

    def __call__(self, x):
        return x @ self.weight + self.bias


SHAPES = """
import pickle, sys
import jax
step, arguments = pickle.load(sys.stdin.buffer)
sys.stdout.buffer.write(pickle.dumps(jax.eval_shape(step.call, *arguments)))
"""


@pytest.mark.parametrize("state", [equinox_state, node_class, registered_node, registered_dataclass])
def test_a_class_of_a_notebook_that_is_a_tree_here_is_one_in_another_process(state):
    def loss(model, x):
        return model(x).mean()

    program = trace_training(loss, state(), jax.ShapeDtypeStruct((8, 8), "float32"), optimizer=optax.adam(0.1))
    arguments = [jax.ShapeDtypeStruct(each.shape, each.dtype) for each in program.arguments]
    sent_off = dump_by_value((program.step, arguments))
    there = subprocess.run([sys.executable, "-c", SHAPES], input=sent_off, capture_output=True, check=False)
    assert not there.returncode, there.stderr.decode()
    assert pickle.loads(there.stdout) == jax.eval_shape(program.step.call, *arguments)


def test_a_dataclass_with_fields_left_out_is_registered_alike():
    @dataclasses.dataclass
    class Counted:
        x: Any
        seen: int = 0

    jax.tree_util.register_dataclass(Counted, ["x"], [], drop_fields=["seen"])
    again = sent(Counted(1.0, seen=5))
    assert jax.tree.leaves(again) == [1.0]
    register, arguments = _registration(Counted, pytree_registry()[Counted])
    assert (register.__name__, arguments) == ("_register_dataclass", (("x",), (), ("seen",)))


@jax.custom_vjp
def clipped(x):
    return jnp.sin(x)


def _forward(x):
    return clipped(x), x  # by its own name, as these functions are written


clipped.defvjp(_forward, lambda x, g: (jnp.clip(g, -0.5, 0.5) * jnp.cos(x),))


def test_a_function_with_a_derivative_of_its_own_keeps_it():
    clipped.__module__ = "__main__"  # as that of a notebook: sent by value
    found = jax.grad(lambda x: 3 * sent(clipped)(x).sum())(jnp.arange(4.0))
    assert (found == jax.grad(lambda x: 3 * clipped(x).sum())(jnp.arange(4.0))).all()


def test_the_settings_of_jax_are_sent_by_a_process_that_has_imported_it():
    with jax.default_matmul_precision("float32"):
        assert jax_settings()["jax_default_matmul_precision"] == "float32"
    assert jax_settings()["jax_default_matmul_precision"] is None


def test_a_process_without_jax_pickles_functions_and_sends_no_settings_and_imports_nothing_for_it():
    code = (
        "import sys; from functools import partial\n"
        "from workbench.cli.serve_command import _first_plan; from workbench.engine.worker.pickling import jax_settings, sendable\n"
        "assert len(sendable((partial(_first_plan, None), lambda: 1), '', '')) > 100\n"
        "print(jax_settings(), 'jax' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "{} False\n"
