"""The error for an exception of a user's function during tracing, with the user's own line and a way to see more."""

import traceback
from pathlib import Path

import jax

from workbench.errors import TraceError
from workbench.propagation.module.location import is_library


def untraceable_error(error: Exception, name: str) -> TraceError:
    """The `TraceError` to raise from `error`."""
    first = next(iter(str(error).strip().splitlines()), type(error).__name__)
    line = _user_line(error)
    where = f" ({line})" if line else ""
    if isinstance(error, jax.errors.JAXTypeError):
        return TraceError(
            f"JAX cannot trace `{name}`{where}: {first}",
            [
                "use jnp.where or jax.lax.cond instead of `if` on a traced value",
                "keep NumPy calls off traced arrays",
                "make sizes plain integers",
            ],
        )
    return TraceError(f"`{name}` raised {type(error).__name__} while it was traced{where}: {first}", _ways_out(error, name))


def _ways_out(error: Exception, name: str) -> list[str]:
    """Suggestions. A call on real arrays would not do: what fails only in a trace, or in the gradient, passes there."""
    called = name if name.replace(".", "_").isidentifier() else "f"
    alone = f"see the whole traceback with `jax.eval_shape({called}, ...)`, or, of its gradient, `jax.eval_shape(jax.grad({called}), ...)`"
    if type(error).__name__ == "TraceContextError":  # Flax NNX: a module made outside the function is changed in it
        return ["make the module inside the function, `nnx.merge(graphdef, params, copy=True)`", alone]
    return [alone]


def _user_line(error: Exception) -> str:
    """The last line of the traceback that is in no installed library, `mine.py:42`; empty if there is none."""
    frames = [each for each in traceback.extract_tb(error.__traceback__) if not is_library(each.filename)]
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
