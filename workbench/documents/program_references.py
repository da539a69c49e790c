"""From a reference to a program: a model of the zoo, or a function that is imported and called."""

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable
from dataclasses import replace
from types import ModuleType
from typing import Any

from workbench.core.program import Program, Reference
from workbench.errors import DocumentError, WorkbenchError, unknown_name

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
            f"The program is `{reference.target}`, a function of this notebook or script: where the document is opened, it is not there.",
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
            ["give it the arguments that the function has"],
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
        raise DocumentError(
            f"`{reference.target}` does not say that it returns a program, so a document may not call it.",
            [f"declare it `def {attribute}(...) -> wb.Program:`"],
        )
    return function


def _call_function(reference: Reference, function: Callable[..., Any]) -> Program:
    try:
        program = function(**reference.arguments)
    except WorkbenchError:
        raise
    except Exception as error:
        raise DocumentError(
            f"The program `{reference}` raised {_exception_text(error)}.",
            ["mend the function", "mend its arguments in the document"],
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
    return DocumentError(
        f"The program is `{reference.target}`, and importing `{name}` raised {_exception_text(error)}.", [f"mend `{name}`"]
    )


def _exception_text(error: BaseException) -> str:
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0][:200].rstrip('.')}" if text else type(error).__name__
