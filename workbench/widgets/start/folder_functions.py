"""Functions of a folder that a plan can begin with: program builders, and losses. Files are read as text (`ast`) and never imported."""

import ast
import importlib.util
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from workbench.core.parse_untrusted import read_text
from workbench.documents import read_allowed

MOST_FILES, MOST_SHOWN, MOST_CHARACTERS = 200, 40, 1 << 18
LOSS_PARAMETERS = 2
"""A loss takes the parameters and a batch."""
_ANNOTATIONS = ("Program", "wb.Program", "workbench.Program")
_OUTSIDE = {"build", "dist", "node_modules", "site-packages", "tests", "venv"}

BUILDER_LINES = """\
import jax, optax, workbench as wb
def program() -> wb.Program:
    params = jax.eval_shape(init, jax.random.key(0))  # your init: shapes alone, nothing is allocated
    batch = {{"tokens": jax.ShapeDtypeStruct((64, 1024), "int32")}}
    return wb.trace_training({loss}, params, batch, optimizer=optax.adamw(1e-3), dims={{"tokens": "batch seq"}})"""
"""What turns a loss into a program builder."""


@dataclass(frozen=True, slots=True)
class FolderFunction:
    """A function at the top of a module: a builder of a program, which a plan can name, or a loss, which still needs one."""

    module: str
    name: str
    is_builder: bool
    required: int = 0

    @property
    def target(self) -> str:
        return f"{self.module}:{self.name}"

    @property
    def lines(self) -> str:
        """The lines to write for a loss; empty for a builder."""
        return "" if self.is_builder else BUILDER_LINES.format(loss=self.name)


def functions_in_folder(folder: Path) -> tuple[FolderFunction, ...]:
    """The builders and the losses of the Python files in a folder and in its packages, builders first."""
    modules = ((".".join(file.relative_to(folder).with_suffix("").parts), file) for file in _python_files(folder))
    return _order(chain.from_iterable(_read_functions(*module) for module in modules))


def functions_of_allowed(allow: Iterable[str]) -> tuple[FolderFunction, ...]:
    """The builders and the losses of modules that documents may name; their files are found without importing them."""
    found = []
    for allowed in read_allowed(allow):
        module, _, function = allowed.partition(":")
        if "." not in module and (file := _file_of(module)) is not None:
            found += [each for each in _read_functions(module, file) if function in ("", each.name)]
    return _order(found)


def _order(found: Iterable[FolderFunction]) -> tuple[FolderFunction, ...]:
    return tuple(sorted(set(found), key=lambda each: (not each.is_builder, each.target)))[:MOST_SHOWN]


def _file_of(module: str) -> Path | None:
    """The file of a module at the top; for one in a package, the package would be imported."""
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        return None
    return Path(spec.origin) if spec is not None and spec.origin and spec.origin.endswith(".py") else None


def _python_files(folder: Path) -> Iterator[Path]:
    """Those of the folder, then those of the packages in it; hidden and foreign folders are left out."""
    own = sorted(folder.glob("*.py"))
    packages = [each for each in sorted(folder.glob("*/__init__.py")) if each.parent.name not in _OUTSIDE]
    inner = chain.from_iterable(sorted(each.parent.glob("*.py")) for each in packages if not each.parent.name.startswith("."))
    for count, file in enumerate(chain(own, inner)):
        if count == MOST_FILES:
            return
        if file.is_file() and file.name not in ("__init__.py", "setup.py", "conftest.py") and not file.name.startswith("test_"):
            yield file


def _read_functions(module: str, file: Path) -> Iterator[FolderFunction]:
    if not all(part.isidentifier() for part in module.split(".")):
        return
    try:
        text = read_text(file, MOST_CHARACTERS)
        has_any = len(text) <= MOST_CHARACTERS and ("Program" in text or "loss" in text.casefold())  # to parse takes 20 times as long
        tree = ast.parse(text) if has_any else ast.Module([], [])
    except (OSError, SyntaxError, UnicodeDecodeError, ValueError, RecursionError, MemoryError):
        return
    for each in tree.body:
        if isinstance(each, ast.FunctionDef) and not each.name.startswith("_") and (_is_builder(each) or _is_loss(each)):
            required = len(each.args.posonlyargs) + len(each.args.args) - len(each.args.defaults) + each.args.kw_defaults.count(None)
            yield FolderFunction(module, each.name, _is_builder(each), required)


def _is_builder(function: ast.FunctionDef) -> bool:
    """Whether it says that it returns a program, which is what a document may call."""
    returns = function.returns
    text = returns.value if isinstance(returns, ast.Constant) else ast.unparse(returns) if returns is not None else ""
    return text in _ANNOTATIONS


def _is_loss(function: ast.FunctionDef) -> bool:
    takes = len(function.args.posonlyargs) + len(function.args.args)
    return "loss" in function.name.lower() and takes >= LOSS_PARAMETERS and not _is_builder(function)
