"""Programs by reference: models of the zoo, or functions that are imported and called."""

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from types import ModuleType
from typing import Any

from workbench.core.parse_untrusted import ALLOW_VARIABLE, read_allowed
from workbench.core.program import Program, Reference, was_built_in_process
from workbench.errors import DocumentError, WorkbenchError, unknown_name

# Required return annotation of a function named by a plan. Other functions are not called: an untrusted document
# could otherwise name `os:system` with an argument.
_PROGRAM_ANNOTATIONS = (Program, "Program", "wb.Program", "workbench.Program")


def program_from_reference(reference: Reference) -> Program:
    """Build the program of a reference: `gpt` is in the zoo, `package.module:function` is imported and called.

    References from documents must pass `verify_allowed` first. Raises `DocumentError` if the function cannot be
    imported, is not declared `-> wb.Program`, raises, or returns something else.
    """
    if ":" in reference.target:
        program = _call_function(reference, load_function(reference))
    else:
        from workbench.models import build

        program = build(reference.target, **reference.arguments)
    return program if program.reference == reference else replace(program, reference=reference)


def verify_reference(reference: Reference) -> None:
    """Check, without building or importing, that a document with this reference can be read again.

    Raises `DocumentError` for a function that does not exist, exists only in this notebook or script, or takes other
    arguments.
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
    """Import the function of a reference. Raises `DocumentError` if it is not a program builder."""
    module_name, _, attribute = reference.target.partition(":")
    return _find_function(_import_module(module_name, reference), attribute, reference)


def verify_arguments(reference: Reference, function: Callable[..., Any]) -> None:
    """Raises `DocumentError` if the function does not take the arguments of the reference."""
    try:
        inspect.signature(function).bind(**reference.arguments)
    except TypeError as error:
        raise DocumentError(
            f"The program is `{reference}`, and the function does not take these arguments: {error}.",
            ["pass the arguments of the function"],
        ) from None


def _is_found(module: str) -> bool:
    """Whether the top-level package can be found; its content is unknown until it is imported."""
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
    except (Exception, SystemExit) as error:  # an import may raise anything; the user gets a message
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
    """The error for a function that is not declared to build a program; if it takes arguments, it proposes a builder."""
    name = target.partition(":")[2]
    declared = f"declare it `def {name}(...) -> wb.Program:`"
    parameters = list(inspect.signature(function).parameters.values()) if inspect.isfunction(function) else []
    arguments = [entry.name for entry in parameters if entry.default is entry.empty and entry.kind is entry.POSITIONAL_OR_KEYWORD]
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
        f"`{target}` is not a program builder: it takes {' and '.join(f'`{entry}`' for entry in arguments)}, and does not declare that it "
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
            f"The program `{reference}` raised {_exception_text(error)}.", ["fix the function", "fix its arguments in the document"]
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
        f"The program is `{reference.target}`, but there is no module `{name}` here.",
        [f"start in the folder that holds {top}", "put that folder on PYTHONPATH", "install its package"],
    )


def _import_failed_error(name: str, reference: Reference, error: BaseException) -> DocumentError:
    return DocumentError(f"The program is `{reference.target}`, and importing `{name}` raised {_exception_text(error)}.", [f"fix `{name}`"])


def _exception_text(error: BaseException) -> str:
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0][:200].rstrip('.')}" if text else type(error).__name__


# Programs that a document may name: models of the zoo, programs that the user allows, and programs built in this process.
#
# Documents are untrusted and importing a module runs code, so the name is checked before any import. A zoo model
# that is slow to trace must also be allowed by name.


def verify_allowed(reference: Reference, name: str, allow: str | Iterable[str] = ()) -> None:
    """Check that a document, `name` in errors, may name this program; imports nothing.

    Raises `DocumentError` for a function whose module is neither allowed nor the origin of a program built here, and
    for a model that is not in the zoo, does not take these arguments, or is slow to trace.
    """
    target = reference.target
    module, colon, _ = target.partition(":")
    if any(_covers(allowed, target, module) for allowed in read_allowed(allow)):
        return
    if not colon:
        _verify_model(reference, name)
        return
    if was_built_in_process(reference) and module in sys.modules:
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
    """Whether the user allowed the program by name or built it in this process."""
    module = reference.target.partition(":")[0]
    return was_built_in_process(reference) or any(_covers(allowed, reference.target, module) for allowed in read_allowed(allow))


def _verify_model(reference: Reference, name: str) -> None:
    """Check a zoo model, which is traced when a document is opened: a slow one must be allowed by name, such as `gpt`."""
    from workbench.models.registry import verify_quick

    if not was_built_in_process(reference):
        verify_quick(reference.target, reference.arguments, name)


def _covers(allowed: str, target: str, module: str) -> bool:
    """Whether an allowed name covers a target: `mine` covers `mine.sub:build`; `mine:build` only itself."""
    return allowed in (target, module) or module.startswith(f"{allowed}.")
