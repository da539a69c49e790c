"""Named scopes whose operations are one hand-written kernel on the target: how the scope's name says so.

A flash attention, a fused softmax or a fused loss is written in plain JAX under such a scope. Values inside are never stored: the kernel
reads the scope's inputs and writes its outputs. `work` is the share of the dots inside that it computes: a causal attention skips the half
that its mask would hide.
"""

import functools
import re

_MARK = re.compile(r"(?P<name>[^/()@]+)@kernel(?:=(?P<work>[0-9.]+))?")


def kernel_scope(name: str, work: float = 1.0) -> str:
    """The name of such a scope.

    >>> kernel_scope("softmax"), kernel_scope("flash_attention", 0.5)
    ('softmax@kernel', 'flash_attention@kernel=0.5')
    """
    return f"{name}@kernel" if work == 1.0 else f"{name}@kernel={work:g}"


def without_marks(path: str) -> str:
    """The path as a person reads it.

    >>> without_marks("jit(step)/jvp(attention/flash_attention@kernel=0.5)/exp")
    'jit(step)/jvp(attention/flash_attention)/exp'
    """
    return _MARK.sub(lambda found: found["name"], path) if "@kernel" in path else path


@functools.lru_cache(maxsize=65536)
def marked_kernel(path: str) -> tuple[str, float] | None:
    """The scope of the kernel that an operation of this raw path belongs to, and the share of the work it does; `None` for no kernel.

    >>> marked_kernel("jit(step)/jvp(attention/flash_attention@kernel=0.5)/exp")
    ('flash_attention', 0.5)
    >>> marked_kernel("jit(step)/mlp/exp")
    """
    found = _MARK.search(path) if "@kernel" in path else None
    return (found["name"], float(found["work"] or 1)) if found else None
