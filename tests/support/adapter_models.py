"""Small models of each framework, put in through its adapter: with statistics, dropout and state, by a loss and by a step of one's own."""

import jax
import jax.numpy as jnp
import optax

import workbench as wb

S = jax.ShapeDtypeStruct
BATCH = {"x": S((16, 8), "float32"), "y": S((16,), "int32")}
DIMS = {"batch/x": "batch features", "batch/y": "batch"}
OPTIMIZER = optax.sgd(0.1, momentum=0.9)  # Adam would make steps of what is zero but for rounding


def cross_entropy(logits, labels):
    return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()


def training_loss(model, batch):
    return cross_entropy(model(batch["x"], train=True), batch["y"])


def plain_loss(model, batch):
    return cross_entropy(model(batch["x"]), batch["y"])


def linen():
    from flax import linen as nn

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x, *, train):
            x = nn.Dense(32, name="up", kernel_init=nn.with_logical_partitioning(nn.initializers.lecun_normal(), ("features", "hidden")))(x)
            x = nn.BatchNorm(use_running_average=not train, momentum=0.9, name="norm")(x)
            x = nn.Dropout(0.5, deterministic=not train)(nn.relu(x))
            return nn.Dense(4, name="down")(x)

    return wb.from_flax(Net(), training_loss, BATCH, optimizer=OPTIMIZER, dims=DIMS)


def nnx_net(rngs):
    from flax import nnx

    class Net(nnx.Module):
        def __init__(self, rngs):
            kernel = nnx.with_partitioning(nnx.initializers.lecun_normal(), ("features", "hidden"))
            self.up = nnx.Linear(8, 32, kernel_init=kernel, rngs=rngs)
            self.norm = nnx.BatchNorm(32, momentum=0.9, rngs=rngs)
            self.drop = nnx.Dropout(0.5, rngs=rngs)
            self.down = nnx.Linear(32, 4, rngs=rngs)

        def __call__(self, x):
            return self.down(self.drop(jax.nn.relu(self.norm(self.up(x)))))

    return Net(rngs)


def nnx_by_loss():
    return wb.from_flax(nnx_net, plain_loss, BATCH, optimizer=OPTIMIZER, dims=DIMS)


def nnx_by_step():
    from flax import nnx

    def make(rngs):
        model = nnx_net(rngs)
        return model, nnx.Optimizer(model, OPTIMIZER, wrt=nnx.Param)

    def train_step(model, optimizer, batch):
        loss, grads = nnx.value_and_grad(plain_loss)(model, batch)
        optimizer.update(model, grads)
        return {"loss": loss}

    return wb.from_flax(make, train_step, BATCH, dims=DIMS)


def equinox_by_loss():
    import equinox as eqx

    def loss(model, batch, key):
        return cross_entropy(jax.vmap(model)(batch["x"], key=jax.random.split(key, 16)), batch["y"])

    class Net(eqx.Module):
        net: eqx.nn.MLP
        drop: eqx.nn.Dropout

        def __init__(self, key):
            self.net, self.drop = eqx.nn.MLP(8, 4, 32, 1, key=key), eqx.nn.Dropout(0.5)

        def __call__(self, x, key):
            return self.drop(self.net(x), key=key)

    return wb.from_equinox(Net, loss, BATCH, optimizer=OPTIMIZER, dims=DIMS)


def equinox_with_state():
    import equinox as eqx

    class Net(eqx.Module):
        up: eqx.nn.Linear
        norm: eqx.nn.BatchNorm
        down: eqx.nn.Linear

        def __init__(self, key):
            self.up, self.down = (
                eqx.nn.Linear(*sizes, key=each) for sizes, each in zip(((8, 32), (32, 4)), jax.random.split(key), strict=True)
            )
            self.norm = eqx.nn.BatchNorm(32, "batch", mode="ema")

        def __call__(self, x, state):
            x, state = self.norm(self.up(x), state)
            return self.down(jax.nn.relu(x)), state

    def loss(model, state, batch):
        logits, state = jax.vmap(model, axis_name="batch", in_axes=(0, None), out_axes=(0, None))(batch["x"], state)
        return cross_entropy(logits, batch["y"]), state

    return wb.from_equinox(eqx.nn.make_with_state(Net), loss, BATCH, optimizer=OPTIMIZER, dims=DIMS)


def equinox_by_step():
    import equinox as eqx

    def make(key):
        model = eqx.nn.MLP(8, 4, 32, 1, key=key)
        return model, OPTIMIZER.init(eqx.filter(model, eqx.is_inexact_array))

    @eqx.filter_jit
    def make_step(model, opt_state, batch):
        loss, grads = eqx.filter_value_and_grad(lambda model: cross_entropy(jax.vmap(model)(batch["x"]), batch["y"]))(model)
        updates, opt_state = OPTIMIZER.update(grads, opt_state, eqx.filter(model, eqx.is_inexact_array))
        return eqx.apply_updates(model, updates), opt_state, loss

    return wb.from_equinox(make, make_step, BATCH, dims=DIMS)


def haiku():
    import haiku as hk

    def forward(x, *, train):
        x = hk.BatchNorm(create_scale=True, create_offset=True, decay_rate=0.9)(hk.Linear(32)(x), is_training=train)
        return hk.Linear(4)(hk.dropout(hk.next_rng_key(), 0.5, jax.nn.relu(x)))

    return wb.from_haiku(forward, training_loss, BATCH, optimizer=OPTIMIZER, dims=DIMS)


def keras_net():
    import keras

    layers = keras.layers
    parts = [keras.Input((8,)), layers.Dense(32, name="up"), layers.BatchNormalization(name="norm", momentum=0.9), layers.Dropout(0.5)]
    return keras.Sequential([*parts, layers.Dense(4, name="down")])


def keras_loss(model, batch):
    return cross_entropy(model(batch["x"], training=True), batch["y"])


def keras_by_loss():
    return wb.from_keras(keras_net, keras_loss, BATCH, optimizer=OPTIMIZER, dims=DIMS)


def keras_compiled():
    def make():
        import keras

        model = keras_net()
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(optimizer=keras.optimizers.SGD(0.1, momentum=0.9), loss=loss, metrics=["accuracy"])
        return model

    dims = {"batch/0": "batch features", "batch/1": "batch"}
    return wb.from_keras(make, None, (BATCH["x"], BATCH["y"]), dims=dims)


def train_state():
    """A step over a `TrainState`, as in the examples of Linen."""
    from flax import linen as nn
    from flax.training.train_state import TrainState

    net = nn.Sequential([nn.Dense(32), nn.relu, nn.Dense(4)])

    def make(key):
        return TrainState.create(apply_fn=net.apply, params=net.init(key, jnp.zeros((1, 8)))["params"], tx=OPTIMIZER)

    def train_step(state, batch):
        def loss_of(params):
            logits = state.apply_fn({"params": params}, batch["x"])
            return cross_entropy(logits, batch["y"]), logits

        (loss, logits), grads = jax.value_and_grad(loss_of, has_aux=True)(state.params)
        return state.apply_gradients(grads=grads), {"loss": loss, "accuracy": (logits.argmax(-1) == batch["y"]).mean()}

    state = jax.eval_shape(lambda: make(jax.random.key(0)))
    return wb.trace_step(train_step, state, BATCH, init=make, dims=DIMS)


PROGRAMS = {
    "linen": ("flax", linen),
    "nnx": ("flax", nnx_by_loss),
    "nnx_step": ("flax", nnx_by_step),
    "train_state": ("flax", train_state),
    "equinox": ("equinox", equinox_by_loss),
    "equinox_state": ("equinox", equinox_with_state),
    "equinox_step": ("equinox", equinox_by_step),
    "haiku": ("haiku", haiku),
    "keras": ("keras", keras_by_loss),
    "keras_compiled": ("keras", keras_compiled),
}
"""Each with the module it needs."""
