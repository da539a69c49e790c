"""Third-party models put in through the adapters, for those programs whose own glue carries state in the batch or names things otherwise.

The other programs go through an adapter as they are. Each function here is a loss, as a user of the package has one, and the glue.
"""

import ast
import inspect
import textwrap
from collections.abc import Callable, Mapping

import jax
import jax.numpy as jnp
import optax

import workbench as wb
from benchmarks.corpus.third_party import (
    equimo_vit,
    equimo_vssd,
    equinox_recurrence,
    flax_bert,
    flax_gpt2,
    flax_mistral_decode,
    haiku_resnet,
    keras_gru,
    keras_hub_densenet,
    keras_hub_mixtral,
    keras_hub_mmdit,
    keras_hub_rwkv,
    linen_seq2seq,
    nnx_decoder,
    nnx_dit,
    rlax_dqn,
)
from benchmarks.corpus.third_party.glue import mean_cross_entropy, spec, tokens
from workbench.core.program import Program

IMAGES = {"batch/images": "batch height width channels", "batch/labels": "batch"}


def equimo_vision():
    def loss(model, batch):
        logits = jax.vmap(lambda image: model(image, key=jax.random.key(0), inference=True))(batch["images"])
        return mean_cross_entropy(logits, batch["labels"])

    batch, dims = {"images": spec((64, 3, 128, 128)), "labels": spec((64,), "int32")}, {"images": "batch channels height width"}
    return wb.from_equinox(equimo_vit.make_model, loss, batch, optimizer=optax.adamw(1e-3), dims=dims)


def equimo_state_space():
    def loss(model, batch):
        logits = jax.vmap(lambda image: model(image, key=jax.random.key(0), inference=True))(batch["images"])
        return mean_cross_entropy(logits, batch["labels"])

    batch, dims = {"images": spec((32, 3, 128, 128)), "labels": spec((32,), "int32")}, {"images": "batch channels height width"}
    return wb.from_equinox(equimo_vssd.make_model, loss, batch, optimizer=optax.adamw(1e-3), dims=dims)


def recurrence():
    def loss(model, batch):
        return mean_cross_entropy(jax.vmap(model)(batch)[:, :-1], batch[:, 1:])

    dims = {"batch": "batch seq"}
    return wb.from_equinox(equinox_recurrence.make_model, loss, tokens(32, 256), optimizer=optax.adamw(1e-3), dims=dims)


def bert():
    def loss(model, batch):
        logits = model(batch["tokens"], attention_mask=batch["mask"], train=True).logits
        each = optax.softmax_cross_entropy_with_integer_labels(logits, jnp.maximum(batch["labels"], 0))
        return jnp.where(batch["labels"] >= 0, each, 0).sum() / (batch["labels"] >= 0).sum()

    batch = {name: tokens(32, 256) for name in ("tokens", "mask", "labels")}
    return wb.from_flax(flax_bert.make_model(), loss, batch, optimizer=optax.lamb(1e-3), dims={"batch/*": "batch seq"})


def gpt2():
    def loss(model, batch):
        return mean_cross_entropy(model(batch, train=True).logits[:, :-1], batch[:, 1:])

    return wb.from_flax(flax_gpt2.make_model(), loss, tokens(32, 256), optimizer=optax.adamw(3e-4), dims={"batch": "batch seq"})


def mistral_decoding():
    model = flax_mistral_decode.make_model()

    def decode(model, batch):
        found = model(batch["token"], attention_mask=batch["mask"], position_ids=batch["position"], past_key_values=batch["cache"])
        return found.logits[:, -1].argmax(-1), found.past_key_values

    cache = jax.eval_shape(lambda: model.init_cache(32, 1024))
    batch = {"token": tokens(32, 1), "mask": tokens(32, 1024), "position": tokens(32, 1), "cache": cache}
    return wb.from_flax(model, decode, batch, dims={"token": "batch one", "cached_*": "batch cached kv_heads d_head"})


def residual_network():
    def loss(model, batch):
        return mean_cross_entropy(model(batch["images"]), batch["labels"])

    batch = {"images": spec((64, 128, 128, 3)), "labels": spec((64,), "int32")}
    return wb.from_haiku(haiku_resnet.make_model(), loss, batch, optimizer=optax.sgd(0.1, momentum=0.9), dims=IMAGES)


def recurrent_classifier():
    def loss(model, batch):
        return mean_cross_entropy(model(batch["tokens"], training=True), batch["labels"])

    batch, dims = {"tokens": tokens(64, 128), "labels": spec((64,), "int32")}, {"batch/tokens": "batch seq", "batch/labels": "batch"}
    return wb.from_keras(keras_gru.make_model, loss, batch, optimizer=optax.adam(1e-3), dims=dims)


def densenet():
    def loss(model, batch):
        return mean_cross_entropy(model(batch["images"], training=True), batch["labels"])

    batch = {"images": spec((64, 128, 128, 3)), "labels": spec((64,), "int32")}
    return wb.from_keras(keras_hub_densenet.make_model, loss, batch, optimizer=optax.rmsprop(1e-3, momentum=0.9), dims=IMAGES)


def mixtral():
    def loss(model, batch):
        hidden = model({"token_ids": batch["tokens"], "padding_mask": batch["mask"]}, training=True)
        table = model.value(model.token_embedding.reverse_embeddings)
        return mean_cross_entropy(hidden[:, :-1] @ table, batch["tokens"][:, 1:])

    batch = {"tokens": tokens(16, 256), "mask": tokens(16, 256)}
    return wb.from_keras(keras_hub_mixtral.make_model, loss, batch, optimizer=optax.adamw(3e-4), dims={"batch/*": "batch seq"})


def stable_diffusion_3():
    def loss(model, batch):
        inputs = {name: batch[name] for name in ("latent", "context", "pooled_projection", "timestep")}
        return jnp.mean((model(inputs, training=True) - batch["velocity"]) ** 2)

    batch = {name: spec((16, *shape)) for name, shape in {"latent": (32, 32, 16), "velocity": (32, 32, 16), "context": (64, 512)}.items()}
    batch |= {"pooled_projection": spec((16, 256)), "timestep": spec((16, 1))}
    dims = {"batch/latent": "batch height width channels", "context": "batch words d_text"}
    return wb.from_keras(keras_hub_mmdit.make_model, loss, batch, optimizer=optax.adamw(1e-4), dims=dims)


def rwkv():
    def loss(model, batch):
        logits = model({"token_ids": batch["tokens"], "padding_mask": batch["mask"]}, training=True)
        return mean_cross_entropy(logits, batch["targets"])

    batch = {name: tokens(16, 128) for name in ("tokens", "targets", "mask")}
    return wb.from_keras(keras_hub_rwkv.make_model, loss, batch, optimizer=optax.adamw(3e-4), dims={"batch/*": "batch seq"})


def translator():
    def loss(model, batch):
        return mean_cross_entropy(model(batch["source"], batch["previous"]), batch["targets"])

    batch = {name: tokens(64, 64) for name in ("source", "previous", "targets")}
    dims = {"batch/source": "batch source", "batch/previous": "batch seq", "batch/targets": "batch seq"}
    return wb.from_flax(linen_seq2seq.make_model(), loss, batch, optimizer=optax.adam(1e-3), dims=dims)


def decoder():
    def loss(model, batch):
        return mean_cross_entropy(model(batch)[:, :-1], batch[:, 1:])

    dims = {"batch": "batch seq", "embedding": "vocab d_model", "up/kernel": "layers d_model d_ff"}
    dims |= {"query/kernel": "layers d_model heads d_head", "out/kernel": "layers heads d_head d_model"}
    return wb.from_flax(nnx_decoder.make_model, loss, tokens(32, 256), optimizer=optax.adamw(3e-4), dims=dims)


def diffusion_transformer():
    def loss(model, batch):
        time = batch["time"][:, None, None, None]
        mixed = (1 - time) * batch["latents"] + time * batch["noise"]
        return jnp.mean((model(mixed, batch["time"], batch["classes"]) - (batch["noise"] - batch["latents"])) ** 2)

    latents = spec((32, 32, 32, 4))
    batch = {"latents": latents, "noise": latents, "time": spec((32,)), "classes": spec((32,), "int32")}
    dims = {"batch/latents": "batch height width channels", "batch/noise": "batch height width channels"}
    return wb.from_flax(nnx_dit.make_model, loss, batch, optimizer=optax.adamw(1e-4), dims=dims)


def deep_q_learning():
    import rlax

    def loss(model, batch):
        here, there = model(batch["before"]), model(batch["after"])
        errors = jax.vmap(rlax.q_learning)(here, batch["actions"], batch["rewards"], batch["discounts"], jax.lax.stop_gradient(there))
        return jnp.mean(rlax.huber_loss(errors))

    batch = {"before": spec((512, 256)), "after": spec((512, 256)), "actions": spec((512,), "int32")}
    batch |= {"rewards": spec((512,)), "discounts": spec((512,))}
    dims = {"before": "batch seen", "after": "batch seen"} | dict.fromkeys(("actions", "rewards", "discounts"), "batch")
    return wb.from_flax(rlax_dqn.make_model(), loss, batch, optimizer=optax.adam(1e-4), dims=dims)


ADAPTED: Mapping[str, Callable[[], Program]] = {
    "equimo_vit": equimo_vision,
    "equimo_vssd": equimo_state_space,
    "equinox_recurrence": recurrence,
    "flax_bert": bert,
    "flax_gpt2": gpt2,
    "flax_mistral_decode": mistral_decoding,
    "haiku_resnet": residual_network,
    "keras_gru": recurrent_classifier,
    "keras_hub_densenet": densenet,
    "keras_hub_mixtral": mixtral,
    "keras_hub_mmdit": stable_diffusion_3,
    "keras_hub_rwkv": rwkv,
    "linen_seq2seq": translator,
    "nnx_decoder": decoder,
    "nnx_dit": diffusion_transformer,
    "rlax_dqn": deep_q_learning,
}
"""By the name of the program in `third_party`; `deep_q_learning` takes its targets from the same weights, not from a second set."""


def lines_of_glue(build: Callable[[], Program]) -> int:
    """The lines of the statements in a function that call the workbench: what its user would not write otherwise."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(build)))
    statements = [each for each in ast.walk(tree) if isinstance(each, ast.Return | ast.Assign | ast.Expr)]
    glue = [each for each in statements if any(isinstance(node, ast.Name) and node.id == "wb" for node in ast.walk(each))]
    return sum(each.end_lineno - each.lineno + 1 for each in glue if each.end_lineno is not None)


def adapter_of(build: Callable[[], Program]) -> str:
    """Which adapter a function calls, `from_flax`; empty if it calls none."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(build)))
    calls = (node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr.startswith("from_"))
    return next((each for each in calls if hasattr(wb, each)), "")
