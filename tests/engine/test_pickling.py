"""What goes to a worker process is there what it was here."""

import pickle

import equinox as eqx
import jax
import optax

from workbench.engine.pickling import dump_by_value
from workbench.tracing import trace_training


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
