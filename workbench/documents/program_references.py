"""From a reference to a program: a model of the zoo, or a function that is imported and called."""

import importlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from types import ModuleType
from typing import Any

from workbench.core.program import Program, Reference, is_built_here
from workbench.errors import DocumentError, WorkbenchError, unknown_name, wrong_type

# What a function named by a plan must say it returns. Anything else is not called: a document from a stranger
# could otherwise name `os:system` and bring its argument along.
_PROGRAM_ANNOTATIONS = (Program, "Program", "wb.Program", "workbench.Program")


def program_from_reference(reference: Reference) -> Program:
    """Build the program of a reference: `gpt` is in the zoo, `package.module:function` is imported and called.

    Whoever calls this vouches for the module; the reference of a document goes through `allowed_programs.verify_allowed` first.

    Raises `DocumentError` if the function cannot be imported, is not declared `-> wb.Program`, raises, or returns something else.
    """
    if ":" in reference.target:
        program = _call_function(reference, load_function(reference))
    else:
        from workbench.models import build

        program = build(reference.target, **reference.arguments)
    return program if program.reference == reference else replace(program, reference=reference)


def verify_reference(reference: Reference) -> None:
    """Check that a document which names this program could be read again, as far as possible without building or importing anything.

    Raises `DocumentError` for a function that does not exist, that exists only in this notebook or script, or that takes other arguments.
    """
    module_name, colon, attribute = reference.target.partition(":")
    if not colon:
        from workbench.models.registry import verify_model

        verify_model(reference.target, reference.arguments)
    elif module_name == "__main__":
        raise DocumentError(
            f"The program is `{reference.target}`, a function of this notebook or script, which is not available "
            "where the document is opened.",
            ["move the function into a file, my_module.py", 'trace with `reference=wb.Reference("my_module:build")`'],
        )
    elif module_name in sys.modules:
        verify_arguments(reference, _find_function(sys.modules[module_name], attribute, reference))
    elif not _is_found(module_name):
        raise _no_module_error(module_name, reference)


def load_function(reference: Reference) -> Callable[..., Any]:
    """The function that a reference names; its module is imported. Raises `DocumentError` where it does not exist, or is no function."""
    module_name, _, attribute = reference.target.partition(":")
    return _find_function(_import_module(module_name, reference), attribute, reference)


def verify_arguments(reference: Reference, function: Callable[..., Any]) -> None:
    """Raises `DocumentError` for arguments that the function does not have."""
    try:
        inspect.signature(function).bind(**reference.arguments)
    except TypeError as error:
        raise DocumentError(
            f"The program is `{reference}`, and the function does not take these arguments: {error}.",
            ["pass the arguments of the function"],
        ) from None


def _is_found(module: str) -> bool:
    """Whether a package of this name could be imported; its content is known only once it has run."""
    try:
        return importlib.util.find_spec(module.partition(".")[0]) is not None
    except (ImportError, ValueError):
        return False


def _import_module(name: str, reference: Reference) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise _no_module_error(error.name, reference) from None
        raise _import_failed_error(name, reference, error) from error
    except (Exception, SystemExit) as error:  # whatever a module raises when it is imported, the person who opened a plan gets a sentence
        raise _import_failed_error(name, reference, error) from error


def _find_function(module: ModuleType, attribute: str, reference: Reference) -> Callable[..., Any]:
    function = getattr(module, attribute, None)
    if not callable(function):
        functions = [name for name, value in vars(module).items() if callable(value) and not name.startswith("_")]
        message, ways_out = unknown_name("function", attribute, functions, f" in `{module.__name__}`")
        raise DocumentError(f"The program is `{reference.target}`. {message}", ways_out)
    if getattr(function, "__annotations__", {}).get("return") not in _PROGRAM_ANNOTATIONS:
        raise _no_builder_error(reference.target, module.__name__, function)
    return function


def _no_builder_error(target: str, module: str, function: Callable[..., Any]) -> DocumentError:
    """The error about a function that does not declare that it builds a program; of one with arguments, a loss say, with the builder."""
    name = target.partition(":")[2]
    declared = f"declare it `def {name}(...) -> wb.Program:`"
    parameters = list(inspect.signature(function).parameters.values()) if inspect.isfunction(function) else []
    arguments = [each.name for each in parameters if each.default is each.empty and each.kind is each.POSITIONAL_OR_KEYWORD]
    if not arguments:
        return DocumentError(f"`{target}` is not declared to return a program, so a document may not call it.", [declared])
    call = f"trace_training({name}, {', '.join(arguments)}, optimizer=optax.adam(1e-3))" if len(arguments) == 2 else None
    builder = f"""
    import jax, optax
    import workbench as wb

    def program() -> wb.Program:
        {", ".join(arguments)} = ...  # arrays, or shapes: jax.ShapeDtypeStruct((64, 1024), "float32")
        return wb.{call or f"trace({name}, {', '.join(arguments)})"}
"""
    return DocumentError(
        f"`{target}` is not a program builder: it takes {' and '.join(f'`{each}`' for each in arguments)}, and does not declare that it "
        f"returns a `wb.Program`. If it is {'a loss' if call else 'a function to plan'}, add a builder to `{module}` and name "
        f"`{module}:program`:\n{builder}",
        [f"if it is a builder, {declared}"],
    )


def _call_function(reference: Reference, function: Callable[..., Any]) -> Program:
    try:
        program = function(**reference.arguments)
    except WorkbenchError:
        raise
    except Exception as error:
        raise DocumentError(
            f"The program `{reference}` raised {_exception_text(error)}.",
            ["fix the function", "fix its arguments in the document"],
        ) from error
    if not isinstance(program, Program):
        raise DocumentError(
            f"The program `{reference}` returned {type(program).__name__}, not a Program.",
            ["end the function with `return wb.trace(...)` or `return wb.trace_training(...)`"],
        )
    return program


def _no_module_error(name: str, reference: Reference) -> DocumentError:
    top = reference.target.partition(":")[0].partition(".")[0]
    return DocumentError(
        f"The program is `{reference.target}`, and there is no module `{name}` here.",
        [f"start in the folder that holds {top}", "put that folder on PYTHONPATH", "install its package"],
    )


def _import_failed_error(name: str, reference: Reference, error: BaseException) -> DocumentError:
    return DocumentError(f"The program is `{reference.target}`, and importing `{name}` raised {_exception_text(error)}.", [f"fix `{name}`"])


def _exception_text(error: BaseException) -> str:
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0][:200].rstrip('.')}" if text else type(error).__name__


# Which programs a document may name: models of the zoo, those that the user allows, and those built in this process already.
#
# A document may come from anyone, and importing a module runs it. So the name of a program is checked before anything is imported. A model
# of the zoo that takes long to trace is allowed in the same way, by its name.

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
            raise DocumentError(f"`{name[:80]}` does not name a module.", [_WAY_OUT])
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
        f"{name} names the program `{target[:160]}`, which is not in the zoo and not allowed here: it was not "
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
