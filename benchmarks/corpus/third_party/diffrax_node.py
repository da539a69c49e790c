"""A neural ordinary differential equation with Diffrax: steps of its own choice, a network of Equinox inside."""

import jax
import jax.numpy as jnp
import optax

import workbench as wb
from benchmarks.corpus.layouts import StatedLayout
from benchmarks.corpus.program import ThirdPartyProgram
from benchmarks.corpus.third_party.glue import spec
from workbench.core.program import Program

BATCH, TIMES, STATE, WIDTH = 512, 16, 64, 512


def build() -> Program:
    import diffrax
    import equinox as eqx

    def make(key):
        return eqx.nn.MLP(STATE, STATE, WIDTH, 2, activation=jax.nn.softplus, key=key)

    times = jnp.linspace(0.0, 1.0, TIMES)

    def loss(model, batch):
        network = jax.vmap(model)
        found = diffrax.diffeqsolve(
            diffrax.ODETerm(lambda t, y, args: network(y)),  # noqa: ARG005 - the names that Diffrax calls it with
            diffrax.Tsit5(),
            t0=times[0],
            t1=times[-1],
            dt0=None,
            y0=batch[:, 0],
            saveat=diffrax.SaveAt(ts=times),
            stepsize_controller=diffrax.PIDController(rtol=1e-3, atol=1e-6),
            max_steps=64,
            throw=False,  # what fails to converge is told by a callback to the host, which no other device could make
        )
        return jnp.mean((found.ys.swapaxes(0, 1) - batch) ** 2)

    dims = {"batch": "batch times state"}
    return wb.from_equinox(make, loss, spec((BATCH, TIMES, STATE)), optimizer=optax.adabelief(1e-3), dims=dims, name="diffrax_node")


PROGRAM = ThirdPartyProgram(
    "diffrax_node",
    "neural ordinary differential equation",
    ("diffrax", "equinox"),
    build,
    tensor_parallel=StatedLayout(
        "data:2 model:4", "batch:data; layers/0/weight=[model, -]; layers/0/bias=[model]; layers/1/weight=[-, model]"
    ),
)
