"""Which programs a document may name: models of the zoo, those that the user allows, and those built in this process already.

A document may come from anyone, and importing a module runs it. So the name of a program is checked before anything is imported. A model of
the zoo that takes long to trace is allowed in the same way, by its name.
"""

import os
import sys
from collections.abc import Iterable

from workbench.core.program import Reference, is_built_here
from workbench.errors import DocumentError, wrong_type

ALLOW_VARIABLE = "WORKBENCH_ALLOW"
"""The environment variable that allows modules where there is no command line: for a Jupyter server, say."""

_WAY_OUT = 'name modules, "mine" or "mine,other.models", or one function of a module, "mine:build"'


def read_allowed(given: str | Iterable[str]) -> tuple[str, ...]:
    """Modules and functions that documents may name, from texts with `,` between them.

    >>> read_allowed("mine, other.models:build")
    ('mine', 'other.models:build')

    Raises `DocumentError` for an invalid name.
    """
    texts = [given] if isinstance(given, str) else list(given) if isinstance(given, Iterable) else [given]
    if not all(isinstance(each, str) for each in texts):
        raise DocumentError(wrong_type("allow", given, "names of modules"), [_WAY_OUT])
    names = [name.strip() for text in texts for name in text.split(",") if name.strip()]
    for name in names:
        module, colon, function = name.partition(":")
        if not all(part.isidentifier() for part in (*module.split("."), *([function] if colon else []))):
            raise DocumentError(f"`{name[:80]}` names no module, so nothing of it can be allowed.", [_WAY_OUT])
    return tuple(dict.fromkeys(names))


def read_allowed_here() -> tuple[str, ...]:
    """The names that the environment allows. Raises `DocumentError` for an invalid name."""
    return read_allowed(os.environ.get(ALLOW_VARIABLE, ""))


def verify_allowed(reference: Reference, name: str, allow: str | Iterable[str] = ()) -> None:
    """Check that the document called `name` may name this program. Nothing is imported.

    Raises `DocumentError` for a function of a module that is neither allowed nor the origin of a program that was built here, and for a
    model that is not in the zoo, does not take these arguments, or takes long to trace.
    """
    target = reference.target
    module, colon, _ = target.partition(":")
    if any(_covers(each, target, module) for each in read_allowed(allow)):
        return
    if not colon:
        _verify_model(reference, name)
        return
    if is_built_here(reference) and module in sys.modules:
        return
    top = module.partition(".")[0][:80] or "mine"
    raise DocumentError(
        f"{name} names the program `{target[:160]}`, which is not of the zoo and was not allowed here: it is not "
        "opened, and nothing was imported.",
        [
            f"if you trust the code of `{top}`, add `--allow {top}` to the command",
            f'or load it with `allow="{top}"`',
            f"or set {ALLOW_VARIABLE}={top} where JupyterLab is started",
        ],
    )


def is_allowed(reference: Reference, allow: str | Iterable[str]) -> bool:
    """Whether the user has allowed the program by name, or has built it in this process."""
    module = reference.target.partition(":")[0]
    return is_built_here(reference) or any(_covers(each, reference.target, module) for each in read_allowed(allow))


def _verify_model(reference: Reference, name: str) -> None:
    """Check a model of the zoo, which is traced when a document is opened: one that takes long must be allowed by its name, `gpt`."""
    from workbench.models.registry import verify_quick

    if not is_built_here(reference):
        verify_quick(reference.target, reference.arguments, name)


def _covers(allowed: str, target: str, module: str) -> bool:
    """`mine` covers `mine:build` and `mine.sub:build`; `mine:build` only itself."""
    return allowed in (target, module) or module.startswith(f"{allowed}.")
