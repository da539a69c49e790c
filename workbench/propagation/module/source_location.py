"""Reads an operation's location: the named scope it was traced under and the user's source line."""

import functools
import re
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import jax
from jax.extend.mlir import ir

# Words that JAX's machinery adds to a name stack, as opposed to the user's named scopes.
_MACHINERY = re.compile(
    r"while|turns=\d+|body|cond|closed_call|eval_jaxpr|checkpoint|rematted_computation|core_call|remat|branch_\d+_fun|custom_(jvp|vjp)_call.*|.*->.*"
)
TURNS = "turns="
"""Prefix of the trip count at the end of a loop's name, where a layout states it."""
_TRANSFORM = re.compile(r"(?P<name>jit|pjit|jvp|vmap|transpose|remat|checkpoint|custom_jvp|custom_vjp)\((?P<inner>.*)\)")
_WORKBENCH = Path(__file__).resolve().parents[2]
_LIBRARIES = tuple(
    str(path) for path in (sysconfig.get_path("stdlib"), sysconfig.get_path("purelib"), Path(jax.__file__).parent, _WORKBENCH)
)
_INSTALLED = ("/site-packages/", "/dist-packages/")  # of this Python, the user's own, or the system's
_INTERACTIVE = ("<stdin>", "<python-input", "<ipython-input")
_ZOO = str(_WORKBENCH / "models")  # the zoo's models are user code


def scope_of(location: ir.Location) -> str:
    """The raw name stack and primitive, `jit(step)/jvp(mlp)/dot_general`; empty if the location has no name.

    A location is a name around a call stack, or, after fusion of operations, several of them; the first name is used.
    """
    if isinstance(location, ir.NameLoc):
        return location.name_str
    if isinstance(location, ir.FusedLoc) and location.locations:
        return next((name for part in location.locations if (name := scope_of(part))), "")
    return ""


@functools.lru_cache(maxsize=65536)
def readable_path(raw: str) -> str:
    """The path as users know it: without JAX's machinery, the backward pass under `grad/`, functions by their names.

    >>> readable_path("jit(step)/transpose(jvp(mlp))/bsm,mf->bsf/dot_general")
    'grad/mlp/dot_general'
    >>> readable_path("jit(step)/jvp(blocks)/while/body/closed_call/mlp/jit(relu)/max")
    'blocks/mlp/relu/max'
    >>> readable_path("jit(step)/jvp(blocks)/while/body/eval_jaxpr/mlp/max")  # so from JAX 0.11 on
    'blocks/mlp/max'
    >>> readable_path("jit(step)/transpose(jvp(blocks))/0/jvp(blocks)/0/checkpoint/mlp/mul")  # said twice
    'grad/blocks/0/mlp/mul'
    """
    backward = False
    words: list[str] = []
    outer: list[str] = []
    for index, word in enumerate(_split_scopes(without_marks(raw))):
        inner, transforms = _unwrap_transforms(word)
        if backward and transforms[:1] == ("jvp",):
            outer, words = [*outer, *words], []
        backward |= "transpose" in transforms
        if index == 0 and transforms and transforms[0] in ("jit", "pjit"):
            continue  # the step function itself
        words.extend(scope for scope in _split_scopes(inner) if scope and not _MACHINERY.fullmatch(scope))
    words = words if words[: len(outer)] == outer else [*outer, *words]
    return "/".join((["grad"] if backward else []) + words)


def _split_scopes(raw: str) -> list[str]:
    """Split at the slashes outside parentheses: a transform may wrap several scopes, `jvp(a/b)`."""
    words, depth, start = [], 0, 0
    for i, char in enumerate(raw):
        depth += (char == "(") - (char == ")")
        if char == "/" and depth == 0:
            words.append(raw[start:i])
            start = i + 1
    return [*words, raw[start:]]


def _unwrap_transforms(word: str) -> tuple[str, tuple[str, ...]]:
    transforms: list[str] = []
    while match := _TRANSFORM.fullmatch(word):
        transforms.append(match["name"])
        word = match["inner"]
    return word, tuple(transforms)


def source_of(location: ir.Location) -> str:
    """The innermost line in the user's code, `gpt.py:42`; empty if there is none."""
    frame = user_frame(location)
    return short_line(*frame) if frame else ""


def user_frame(location: ir.Location) -> tuple[str, int] | None:
    """The file and innermost line in the user's code, if there is one."""
    return next(((name, line) for name, line in _frames(location) if not is_library(name)), None)


def short_line(filename: str, line: int) -> str:
    """The form in which lines are reported and selected: `gpt.py:42`."""
    return f"{Path(filename).name}:{line}"


def _frames(location: ir.Location) -> Iterator[tuple[str, int]]:
    pending = [location]
    while pending:
        item = pending.pop()
        if isinstance(item, ir.NameLoc):
            pending.append(item.child_loc)
        elif isinstance(item, ir.CallSiteLoc):
            pending += [item.caller, item.callee]
        elif isinstance(item, ir.FusedLoc):
            pending += reversed(item.locations)
        elif isinstance(item, ir.FileLineColLoc):
            yield item.filename, item.start_line


@functools.cache
def is_library(filename: str) -> bool:
    """Return whether a file is installed, part of the workbench, or generated (`<string>`, but not `<stdin>`)."""
    if filename.startswith("<"):
        return not filename.startswith(_INTERACTIVE)
    is_installed = filename.startswith(_LIBRARIES) or any(part in filename for part in _INSTALLED)
    return is_installed and not filename.startswith(_ZOO)


# Named scopes whose operations are one hand-written kernel on the target, marked in the scope's name.
#
# Flash attention, a fused softmax or a fused loss is written in plain JAX under such a scope. Values inside are never stored: the kernel
# reads the scope's inputs and writes its outputs. `work` is the fraction of the dots inside that it computes: causal attention skips the
# masked half.

_MARK = re.compile(r"(?P<name>[^/()@]+)@kernel(?:=(?P<work>[0-9.]+))?")


def kernel_scope(name: str, work: float = 1.0) -> str:
    """The name of a scope that is one hand-written kernel; `work` is the fraction of the dots inside that it computes.

    >>> kernel_scope("softmax"), kernel_scope("flash_attention", 0.5)
    ('softmax@kernel', 'flash_attention@kernel=0.5')
    """
    return f"{name}@kernel" if work == 1.0 else f"{name}@kernel={work:.9f}".rstrip("0")


def without_marks(path: str) -> str:
    """The path without kernel marks.

    >>> without_marks("jit(step)/jvp(attention/flash_attention@kernel=0.5)/exp")
    'jit(step)/jvp(attention/flash_attention)/exp'
    """
    return _MARK.sub(lambda found: found["name"], path) if "@kernel" in path else path


@functools.lru_cache(maxsize=65536)
def marked_kernel(path: str) -> tuple[str, float] | None:
    """The kernel scope of an operation with this raw path, and the fraction of the work it does; `None` outside
    kernels.

    >>> marked_kernel("jit(step)/jvp(attention/flash_attention@kernel=0.5)/exp")
    ('flash_attention', 0.5)
    >>> marked_kernel("jit(step)/mlp/exp")
    """
    match = _MARK.search(path) if "@kernel" in path else None
    return (match["name"], float(match["work"] or 1)) if match else None
