"""Import the framework of a model when one is given, and say what to install where it is missing."""

import importlib
from typing import Any

from workbench.errors import WorkbenchError


class AdapterError(WorkbenchError):
    """A model that an adapter cannot put in."""


def required(module: str, distribution: str, adapter: str) -> Any:
    """The module of this name; raises `AdapterError` if its distribution is not installed."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != module.partition(".")[0]:
            raise
        raise AdapterError(f"`{adapter}` needs {distribution}, which is not installed here.", [f"pip install {distribution}"]) from error
