"""Functions of a folder that a plan can begin with: program builders and losses. Files are parsed, never imported."""

import ast
import importlib.util
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from workbench.core.parse_untrusted import read_allowed, read_text

MOST_FILES, MOST_SHOWN, MOST_CHARACTERS = 200, 40, 1 << 18
LOSS_PARAMETERS = 2
"""Parameters of a loss: the model parameters and a batch."""
_ANNOTATIONS = ("Program", "wb.Program", "workbench.Program")
_OUTSIDE = {"build", "dist", "node_modules", "site-packages", "tests", "venv"}

BUILDER_LINES = """\
import jax, optax, workbench as wb
def program() -> wb.Program:
    params = jax.eval_shape(init, jax.random.key(0))  # your init: shapes alone, nothing is allocated
    batch = {{"tokens": jax.ShapeDtypeStruct((64, 1024), "int32")}}
    return wb.trace_training({loss}, params, batch, optimizer=optax.adamw(1e-3), dims={{"tokens": "batch seq"}})"""
"""Code that turns a loss into a program builder."""


@dataclass(frozen=True, slots=True)
class FolderFunction:
    """A top-level program builder or loss; `required` counts parameters without defaults."""

    module: str
    name: str
    is_builder: bool
    required: int = 0

    @property
    def target(self) -> str:
        return f"{self.module}:{self.name}"

    @property
    def lines(self) -> str:
        """Builder code for a loss; empty for a builder."""
        return "" if self.is_builder else BUILDER_LINES.format(loss=self.name)


def functions_in_folder(folder: Path) -> tuple[FolderFunction, ...]:
    """List the builders and losses in the Python files of a folder and its packages, builders first."""
    modules = ((".".join(file.relative_to(folder).with_suffix("").parts), file) for file in _python_files(folder))
    return _order(chain.from_iterable(_read_functions(*module) for module in modules))


def functions_of_allowed(allow: Iterable[str]) -> tuple[FolderFunction, ...]:
    """List the builders and losses of modules that documents may name, found without importing them."""
    functions = []
    for allowed in read_allowed(allow):
        module, _, function = allowed.partition(":")
        if "." not in module and (file := _file_of(module)) is not None:
            functions += [entry for entry in _read_functions(module, file) if function in ("", entry.name)]
    return _order(functions)


def _order(found: Iterable[FolderFunction]) -> tuple[FolderFunction, ...]:
    return tuple(sorted(set(found), key=lambda function: (not function.is_builder, function.target)))[:MOST_SHOWN]


def _file_of(module: str) -> Path | None:
    """Return the file of a top-level module; a module in a package is skipped, since the package would be imported."""
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        return None
    return Path(spec.origin) if spec is not None and spec.origin and spec.origin.endswith(".py") else None


def _python_files(folder: Path) -> Iterator[Path]:
    """Yield the Python files of a folder, then of its packages; hidden and foreign folders are skipped."""
    top_level = sorted(folder.glob("*.py"))
    packages = [file_ for file_ in sorted(folder.glob("*/__init__.py")) if file_.parent.name not in _OUTSIDE]
    inner = chain.from_iterable(sorted(file_.parent.glob("*.py")) for file_ in packages if not file_.parent.name.startswith("."))
    for count, file in enumerate(chain(top_level, inner)):
        if count == MOST_FILES:
            return
        if file.is_file() and file.name not in ("__init__.py", "setup.py", "conftest.py") and not file.name.startswith("test_"):
            yield file


def _read_functions(module: str, file: Path) -> Iterator[FolderFunction]:
    if not all(part.isidentifier() for part in module.split(".")):
        return
    try:
        text = read_text(file, MOST_CHARACTERS)
        has_any = len(text) <= MOST_CHARACTERS and ("Program" in text or "loss" in text.casefold())  # parsing takes 20 times as long
        tree = ast.parse(text) if has_any else ast.Module([], [])
    except (OSError, SyntaxError, UnicodeDecodeError, ValueError, RecursionError, MemoryError):
        return
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_") and (_is_builder(node) or _is_loss(node)):
            required = len(node.args.posonlyargs) + len(node.args.args) - len(node.args.defaults) + node.args.kw_defaults.count(None)
            yield FolderFunction(module, node.name, _is_builder(node), required)


def _is_builder(function: ast.FunctionDef) -> bool:
    returns = function.returns
    text = returns.value if isinstance(returns, ast.Constant) else ast.unparse(returns) if returns is not None else ""
    return text in _ANNOTATIONS


def _is_loss(function: ast.FunctionDef) -> bool:
    takes = len(function.args.posonlyargs) + len(function.args.args)
    return "loss" in function.name.lower() and takes >= LOSS_PARAMETERS and not _is_builder(function)
