"""Choices of the start panel: models of the zoo, a `config.json`, functions of modules."""

import ast
import importlib.util
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain, islice
from pathlib import Path
from typing import Any

from workbench.core.parse_untrusted import UnreadableError, parse_json, read_allowed, read_text, verify_length
from workbench.core.program import Reference
from workbench.documents import parse_plan
from workbench.documents.program_references import is_allowed
from workbench.errors import DocumentError, unknown_name
from workbench.models.registry import ALL_MODELS, Model, verify_model
from workbench.models.sizing.cluster_question import NamedModel, format_amount, sizable_presets
from workbench.models.sizing.read_config import CONFIG_NAME, read_architecture, read_preset
from workbench.plan.plan import Plan

# Functions of a folder that a plan can begin with: program builders and losses. Files are parsed, never imported.


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


# The choices of the start panel.


FIRST = ("decoder/llama3-8b", "decoder/llama3-70b", "decoder/llama3-405b", "mixture/deepseek-v3", "gpt/gpt3-175b", "t5/t5-11b")
"""Keys of the best-known models."""
_PLAN_FORMAT = "sharding-workbench."
MOST_CONFIGS = 40


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """The chosen model: one with a known architecture (`sized`), or a program by its reference."""

    key: str
    title: str
    about: str
    sized: NamedModel | None = None
    reference: Reference | None = None


@cache
def zoo_cards() -> tuple[Mapping[str, str], ...]:
    """Return a card for each preset of the zoo: `FIRST`, then other published ones, then tiny ones."""
    order = {key: place - len(FIRST) for place, key in enumerate(FIRST)}
    cards = [_card(model, preset) for model in ALL_MODELS for preset in model.presets or ("",)]
    return tuple(sorted(cards, key=lambda card: order.get(card["key"], "tiny" in card["key"] or "/" not in card["key"])))


def _card(model: Model, preset: str) -> Mapping[str, str]:
    config = model.presets.get(preset)
    count = getattr(config, "parameters", 0) if preset else model.parameters
    size = f"{format_amount(count)} parameters" if count else ""
    return {"key": f"{model.name}/{preset}" if preset else model.name, "title": preset or model.name, "model": model.name, "size": size}


@cache
def model_abouts() -> Mapping[str, str]:
    return {model.name: model.about for model in ALL_MODELS}


def find_choice(key: str, functions: Iterable[FolderFunction], allow: tuple[str, ...]) -> ModelChoice:
    """Return the choice of a key (`decoder/llama3-8b`, `my_module:program`) without importing; raises `DocumentError`."""
    if ":" in key:
        return _function_choice(key, functions, allow)
    name, _, preset = key.partition("/")
    model = verify_model(name, {})
    if preset and preset not in model.presets:
        raise DocumentError(*unknown_name("preset", preset, model.presets))
    sizable = sizable_presets().get(preset)
    sized = NamedModel(preset, read_preset(*sizable)) if sizable is not None and sizable[0] == name else None
    size = _card(model, preset)["size"]
    about = f"{name}, {size}" if preset else f"{model.about}; {size}" if size else model.about
    return ModelChoice(key, preset or name, about, sized, Reference(name, {"preset": preset} if preset else {}))


def _function_choice(key: str, functions: Iterable[FolderFunction], allow: tuple[str, ...]) -> ModelChoice:
    match = next((function for function in functions if function.target == key), None)
    if match is None:
        raise DocumentError(f"There is no function `{key[:80]}` here to start with.", ["choose one from the list"])
    reference = Reference(key)
    if not match.is_builder:
        raise DocumentError(f"`{key}` is a loss: a plan starts with a function that returns a program.", ["add the five lines below it"])
    if not is_allowed(reference, allow):
        top = match.module.partition(".")[0]
        raise DocumentError(
            f"`{key}` was not allowed here, so its module is not imported.",
            [f"if you trust its code, start with `workbench serve --allow {top}`"],
        )
    if match.required:
        example = f"workbench serve --model {key} -a NAME=VALUE"
        raise DocumentError(f"`{key}` takes arguments that the page does not know.", [f"start with `{example}`", "give them defaults"])
    return ModelChoice(key, key, f"function of `{match.module}`", reference=reference)


def read_start_file(name: str, text: str, allow: tuple[str, ...]) -> ModelChoice | Plan:
    """Return the model of a `config.json`, or the plan of a plan file. Raises `DocumentError` for any other file."""
    quoted = f"`{name[:80] or CONFIG_NAME}`"
    try:
        verify_length(text, quoted, CONFIG_NAME)
        values = parse_json(text)
    except UnreadableError as error:
        raise DocumentError(f"{quoted} is not valid JSON: {error}.", ["choose a `config.json` or a plan file"]) from None
    if isinstance(values, Mapping) and str(values.get("format", "")).startswith(_PLAN_FORMAT):
        return parse_plan(text, quoted, allow)
    architecture = read_architecture(values, quoted)
    title = _config_title(name, values)
    about = f"{architecture.family}, {format_amount(architecture.parameters)} parameters, from {quoted.strip('`')}"
    return ModelChoice(f"file/{title}", title, about, NamedModel(title, architecture))


def configs_in_folder(folder: Path) -> Iterator[ModelChoice]:
    """Yield the models of the `config.json` files in a folder and its subfolders; files of other kinds are skipped."""
    below = sorted(file for file in folder.glob(f"*/{CONFIG_NAME}") if not file.parent.name.startswith("."))
    for file in islice([folder / CONFIG_NAME, *below], MOST_CONFIGS):
        with suppress(OSError, UnicodeDecodeError, DocumentError):
            choice = read_start_file(CONFIG_NAME, read_text(file), ())
            if isinstance(choice, ModelChoice):
                yield replace(choice, key=f"file/{file.relative_to(folder).as_posix()}")


def _config_title(name: str, values: Mapping[str, Any]) -> str:
    stem = name.removesuffix(".json")
    stated = values.get("_name_or_path") or values.get("model_type")
    return (str(stated).rstrip("/").rpartition("/")[2] if stem in ("", "config") else stem)[:80] or "model"
