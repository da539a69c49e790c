"""Check a program's source without running it: `python source_check.py FOLDER MODULE FUNCTION`.

It runs in a sandbox, because a file can be crafted to crash the parser. It prints JSON with `problem`, empty if there
is none, and `ways_out`. It is run by path and imports nothing of the workbench.
"""

import ast
import importlib.util
import json
import sys
from collections.abc import Iterator
from pathlib import Path

ANNOTATIONS = ("Program", "wb.Program", "workbench.Program")
_MOST = 2_000  # maximum number of files


class SourceError(Exception):
    """A problem and its suggested fixes."""


def main(folder: Path, module: str, function: str) -> None:
    try:
        _check(folder, module, function)
        result: tuple[str, tuple[str, ...]] = ("", ())
    except SourceError as problem:
        result = problem.args[0], problem.args[1:]
    except (RecursionError, MemoryError):
        result = "Its source is nested too deeply.", ("write it plainly",)
    print(json.dumps({"problem": result[0], "ways_out": result[1]}))  # noqa: T201 - read by the server


def source_root(folder: Path, module: str) -> Path | None:
    return next((root for root in (folder, folder / "src") if _file_of(root, module)), None)


def _check(folder: Path, module: str, function: str) -> None:
    root = source_root(folder, module)
    if root is None:
        names = ", ".join(f"`{module_name}`" for module_name in sorted(_top_names(folder) | _top_names(folder / "src"))[:20])
        raise SourceError(f"There is no module `{module}` in it; there are {names or 'none'}.", "use the import name of the module")
    for name in sorted(_top_names(root) & set(sys.stdlib_module_names)):
        raise SourceError(f"Its module `{name}` would shadow the Python module of that name.", f"rename `{name}`")
    _check_function(_parsed(_file_of(root, module), module), module, function)
    _check_imports(root, module)


def _top_names(root: Path) -> set[str]:
    if not root.is_dir():
        return set()
    files = {entry.stem for entry in root.glob("*.py")}
    return {entry for entry in files | {entry.parent.name for entry in root.glob("*/__init__.py")} if entry.isidentifier()} - {
        "setup",
        "conftest",
    }


def _file_of(root: Path, module: str) -> Path | None:
    path = root.joinpath(*module.split("."))
    return next((candidate for candidate in (path / "__init__.py", path.with_name(path.name + ".py")) if candidate.is_file()), None)


def _parsed(file: Path | None, module: str) -> ast.Module:
    try:
        return ast.parse(file.read_bytes() if file else b"")
    except (SyntaxError, ValueError) as error:
        raise SourceError(f"`{module}` is not Python: {error}.", f"fix `{module}`") from None


def _check_function(tree: ast.Module, module: str, function: str) -> None:
    functions = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    imported = {name.asname or name.name for node in tree.body if isinstance(node, ast.ImportFrom) for name in node.names}
    if function in functions:
        annotation = functions[function].returns
        text = annotation.value if isinstance(annotation, ast.Constant) else ast.unparse(annotation) if annotation else None
        if text not in ANNOTATIONS:
            raise SourceError(
                f"`{module}:{function}` is not declared to return a program.", f"declare it `def {function}(...) -> wb.Program:`"
            )
    elif function not in imported:
        names = ", ".join(f"`{name}`" for name in sorted(functions)[:20])
        raise SourceError(f"There is no function `{function}` in `{module}`; there are {names or 'none'}.", "use one of these names")


def _check_imports(root: Path, module: str) -> None:
    waiting, seen = [module], {module}
    while waiting and len(seen) < _MOST:
        current = waiting.pop()
        parents = current.split(".")
        for name in _imports(_parsed(_file_of(root, current), current), current, _is_package(root, current)):
            if _file_of(root, name.partition(".")[0]) or (root / name.partition(".")[0]).is_dir():
                inner = [candidate for candidate in (name, name.rpartition(".")[0]) if candidate and _file_of(root, candidate)]
                waiting += [candidate for candidate in inner[:1] if candidate not in seen]
                seen |= set(inner[:1])
            elif not _is_installed(name.partition(".")[0]):
                top = name.partition(".")[0]
                raise SourceError(
                    f"`{'.'.join(parents)}` imports `{top}`, which is neither in the program nor on this server; "
                    "dependencies are not installed.",
                    f"ask an administrator to install `{top}`",
                    "put it into the program",
                    "import it where it is needed, in `try`",
                )


def _is_package(root: Path, module: str) -> bool:
    file = _file_of(root, module)
    return file is not None and file.name == "__init__.py"


def _imports(tree: ast.Module, module: str, is_package: bool) -> Iterator[str]:
    package = module.split(".") if is_package else module.split(".")[:-1]
    for statement in tree.body:
        if isinstance(statement, ast.Import):
            yield from (name.name for name in statement.names)
        elif isinstance(statement, ast.ImportFrom):
            base = package[: len(package) - statement.level + 1] if statement.level else []
            start = ".".join([*base, *([statement.module] if statement.module else [])])
            yield from (f"{start}.{name.name}" if start else name.name for name in statement.names)


def _is_installed(name: str) -> bool:
    try:
        return name in sys.builtin_module_names or importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
