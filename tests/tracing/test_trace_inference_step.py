"""A step of inference: what it carries, what its parts are, what is said of one that is none, and that it runs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import workbench as wb
from workbench.core.tensor import Role
from workbench.errors import OffloadError, PrecisionError, RematError, TraceError
from workbench.models import build
from workbench.public_plan import Plan

pytestmark = pytest.mark.compile

PARAMS = {"w": jax.ShapeDtypeStruct((8, 16), "float32")}
CACHE = {"seen": jax.ShapeDtypeStruct((4, 16), "float32"), "length": jax.ShapeDtypeStruct((), "int32")}
BATCH = jax.ShapeDtypeStruct((4, 8), "float32")


def step(params, cache, batch):
    seen = cache["seen"] + batch @ params["w"]
    return {"seen": seen, "length": cache["length"] + 1}, {"most": seen.max(-1)}


def trace(step=step, **more):
    return wb.trace_inference(step, PARAMS, CACHE, BATCH, dims={"cache/seen": "batch d_model"}, name="step", **more)


def test_a_cache_is_carried_and_parameters_stay():
    program = trace()
    roles = [Role.PARAMETER, Role.MODEL_STATE, Role.MODEL_STATE, Role.INPUT]
    assert [each.role for each in program.arguments] == roles
    assert [each.path for each in program.arguments] == ["params/w", "cache/length", "cache/seen", "batch"]
    assert [each.path for each in program.results] == ["cache/length", "cache/seen", "result/most"]
    assert program.carried == ((0, 1), (1, 2))
    assert program.dims["batch"] == (4,)


def test_a_run_begins_with_what_is_made_and_is_fed_what_is_given():
    def begin(key):
        return {"w": jnp.ones((8, 16))}, {"seen": jnp.zeros((4, 16)), "length": jnp.int32(7)}

    program = trace(init=begin, data=lambda number: np.full((4, 8), number, "float32"))
    state = program.step.initialize(jax.random.key(0), ())
    after = program.step.call(*state, *program.step.feed(2))
    assert int(after[0]) == 8
    assert float(after[2][0]) == 16


WRONG = {
    "`step` does not return two values, its cache and a result.": lambda _params, cache, _batch: cache,
    "The cache that `step` returns differs from the cache it takes: `cache/length` is not returned.": (
        lambda _params, cache, batch: ({"seen": cache["seen"]}, batch)
    ),
    "The cache that `step` returns differs from the cache it takes: `cache/seen` is float32[4, 16] and becomes bfloat16[4, 16].": (
        lambda _params, cache, batch: (cache | {"seen": cache["seen"].astype("bfloat16")}, batch)
    ),
}


@pytest.mark.parametrize("message", WRONG)
def test_a_step_that_does_not_give_its_cache_back_is_refused(message):
    with pytest.raises(TraceError) as caught:
        trace(WRONG[message])
    assert caught.value.message == message
    assert caught.value.ways_out == ("return `cache, result`", "return every leaf of the cache in the shape and type it was given")


def test_what_only_training_has_and_what_is_written_in_the_step_are_no_edits_of_it():
    changes = {
        "remat": (wb.Remat.parse("full"), RematError, "is not a training step; remat needs a backward pass."),
        "precision": (wb.Precision.parse("bfloat16"), PrecisionError, "the types of its weights and cache are fixed by the function."),
        "offload": (wb.Offload.parse("optimizer_state"), OffloadError, "has no optimizer, so no state can be in host memory."),
    }
    for name, (change, kind, said) in changes.items():
        with pytest.raises(kind) as caught:
            trace().variant(**{name: change})
        assert said in caught.value.message
        assert caught.value.message.startswith("`step`")


@pytest.mark.worker
def test_a_decoder_decodes_over_devices_as_on_one():
    plan = Plan(build("decoder_decode"), "data:2 context:2 model:2", "batch:data; context:context; kv_heads:model; d_ff:model")
    measurement = plan.run(steps=3, check=True, profile=False)
    assert measurement.shards_agree
    assert measurement.max_error == pytest.approx(0, abs=1e-5)
    assert measurement.losses == ()
