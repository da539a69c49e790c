"""`fused_kernel`: what is traced inside is one hand-written kernel on the target."""

from contextlib import AbstractContextManager

import jax

from workbench.propagation import kernel_scope


def fused_kernel(name: str, *, work: float = 1.0) -> AbstractContextManager[None]:
    """A named scope that the planner treats as one kernel, as a Pallas or cuDNN kernel would implement it.

    Values that no one outside reads are never stored; traffic is only the scope's inputs and outputs. `work` is the share of the dots that
    the kernel computes, 0.5 for an attention that skips what its causal mask hides. A compiled or live run computes the plain form. What
    the backward pass needs is kept unless the call itself is under `jax.checkpoint`, that of the function called in the scope; under a
    checkpoint of a whole layer it is computed again, and kept until that layer's backward pass has used it.

    >>> with fused_kernel("softmax"):
    ...     pass
    """
    return jax.named_scope(kernel_scope(name, work))
