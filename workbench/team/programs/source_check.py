"""Read a program without running it: `python source_check.py FOLDER MODULE FUNCTION` prints what would prevent it from being built.

It runs in a sandbox, for a file may be made to bring a parser down. It prints JSON: `problem`, empty where there is none, and `ways_out`.
It is run by its path and imports nothing of the workbench.
"""

import ast
import importlib.util
import json
import sys
from collections.abc import Iterator
from pathlib import Path

ANNOTATIONS = ("Program", "wb.Program", "workbench.Program")
_MOST = 2_000  # files that are read


class SourceError(Exception):
    """What prevents it, and the ways out."""


def main(folder: Path, module: str, function: str) -> None:
    try:
        _check(folder, module, function)
        found: tuple[str, tuple[str, ...]] = ("", ())
    except SourceError as problem:
        found = problem.args[0], problem.args[1:]
    except (RecursionError, MemoryError):
        found = "Its source is nested too deeply.", ("write it plainly",)
    print(json.dumps({"problem": found[0], "ways_out": found[1]}))  # noqa: T201 - the answer


def source_root(folder: Path, module: str) -> Path | None:
    """The folder that goes on the path of Python: the tree, or its `src`."""
    return next((root for root in (folder, folder / "src") if _file_of(root, module)), None)


def _check(folder: Path, module: str, function: str) -> None:
    root = source_root(folder, module)
    if root is None:
        names = ", ".join(f"`{each}`" for each in sorted(_top_names(folder) | _top_names(folder / "src"))[:20])
        raise SourceError(f"There is no module `{module}` in it; there are {names or 'none'}.", "use the import name of the module")
    for name in sorted(_top_names(root) & set(sys.stdlib_module_names)):
        raise SourceError(f"Its module `{name}` would shadow the Python module of that name.", f"rename `{name}`")
    _check_function(_parsed(_file_of(root, module), module), module, function)
    _check_imports(root, module)


def _top_names(root: Path) -> set[str]:
    if not root.is_dir():
        return set()
    files = {each.stem for each in root.glob("*.py")}
    return {each for each in files | {each.parent.name for each in root.glob("*/__init__.py")} if each.isidentifier()} - {
        "setup",
        "conftest",
    }


def _file_of(root: Path, module: str) -> Path | None:
    path = root.joinpath(*module.split("."))
    return next((each for each in (path / "__init__.py", path.with_name(path.name + ".py")) if each.is_file()), None)


def _parsed(file: Path | None, module: str) -> ast.Module:
    try:
        return ast.parse(file.read_bytes() if file else b"")
    except (SyntaxError, ValueError) as error:
        raise SourceError(f"`{module}` is not Python: {error}.", f"fix `{module}`") from None


def _check_function(tree: ast.Module, module: str, function: str) -> None:
    functions = {each.name: each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef)}
    imported = {name.asname or name.name for each in tree.body if isinstance(each, ast.ImportFrom) for name in each.names}
    if function in functions:
        annotation = functions[function].returns
        text = annotation.value if isinstance(annotation, ast.Constant) else ast.unparse(annotation) if annotation else None
        if text not in ANNOTATIONS:
            raise SourceError(
                f"`{module}:{function}` is not declared to return a program.", f"declare it `def {function}(...) -> wb.Program:`"
            )
    elif function not in imported:
        names = ", ".join(f"`{each}`" for each in sorted(functions)[:20])
        raise SourceError(f"There is no function `{function}` in `{module}`; there are {names or 'none'}.", "use one of these names")


def _check_imports(root: Path, module: str) -> None:
    """Every module that is imported unconditionally, by the program's module and those of its own that it imports, must be there."""
    waiting, seen = [module], {module}
    while waiting and len(seen) < _MOST:
        current = waiting.pop()
        parents = current.split(".")
        for name in _imports(_parsed(_file_of(root, current), current), current, _is_package(root, current)):
            if _file_of(root, name.partition(".")[0]) or (root / name.partition(".")[0]).is_dir():
                inner = [each for each in (name, name.rpartition(".")[0]) if each and _file_of(root, each)]
                waiting += [each for each in inner[:1] if each not in seen]
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
    """Absolute names that the statements of a module itself import."""
    package = module.split(".") if is_package else module.split(".")[:-1]
    for each in tree.body:
        if isinstance(each, ast.Import):
            yield from (name.name for name in each.names)
        elif isinstance(each, ast.ImportFrom):
            base = package[: len(package) - each.level + 1] if each.level else []
            start = ".".join([*base, *([each.module] if each.module else [])])
            yield from (f"{start}.{name.name}" if start else name.name for name in each.names)


def _is_installed(name: str) -> bool:
    try:
        return name in sys.builtin_module_names or importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
