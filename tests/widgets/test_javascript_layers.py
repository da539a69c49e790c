"""The JavaScript of the boards imports downwards only, and no module imports itself by way of others."""

import re
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

STATIC = Path(__file__).parents[2] / "workbench" / "widgets" / "static"

# From the ground up: a module imports modules of its own layer and of those before it. Modules of one layer are in no cycle either.
LAYERS = {
    "the page, and what reaches Python": (
        *("dom", "python_constants", "board_context", "model_parts", "outbox", "browser_storage", "bokeh", "stage_edges"),
    ),
    "terms and pop-ups": ("popup", "terms"),
    "blocks": ("blocks", "table_cells", "sort", "figures", "work", "wait_line"),
    "drag and select": ("drag", "chip_input", "chips", "menus", "select", "picking"),
    "charts": (
        *("chart", "chart_keys", "chart_look", "chart_scale", "chart_spans", "chart_timeline", "chart_titles"),
        *("picture", "widen"),
    ),
    "sections": (
        *(
            "axes",
            "board",
            "card_header",
            "curves",
            "exercise",
            "export_sheet",
            "files",
            "find",
            "fleet_controls",
            "fleet_parts",
            "found",
            "hardware",
        ),
        *("help", "history", "history_graph", "recipes", "replay", "run", "source", "stage_controls", "stage_drag", "stage_draw", "stages"),
        *("lesson", "model_strip", "sizing_answer", "start", "start_lists", "zoo_picker"),
        *("tables", "tensors", "theme", "tour", "why"),
    ),
    "main": ("main", "mount", "fleet", "notebook_cell", "recorded"),
}
LEVEL = {module: level for level, modules in enumerate(LAYERS.values()) for module in modules}

# `import … from "./a.js"`, also over several lines and for the side effect alone, `export … from "./a.js"` and `import("./a.js")`.
IMPORTED = re.compile(r"""(?:\bfrom\s*|\bimport\s*\(?\s*)["']\./(\w+)\.js["']""")

Imports = dict[str, set[str]]


def imports_of(texts: dict[str, str]) -> Imports:
    """The modules that each module imports, by the text of each."""
    return {module: set(IMPORTED.findall(text)) for module, text in texts.items()}


def committed_imports() -> Imports:
    return imports_of({path.stem: path.read_text(encoding="utf-8") for path in STATIC.glob("*.js")})


def cycle_in(imports: Imports) -> str:
    """A cycle as `a -> b -> a`, each the importer of the next; empty where there is none."""
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        return " -> ".join(reversed(error.args[1]))
    return ""


def upward_in(imports: Imports) -> list[str]:
    """The imports of a module in a higher layer."""
    edges = [(module, target) for module, targets in sorted(imports.items()) for target in sorted(targets)]
    return [f"{module} -> {target}" for module, target in edges if LEVEL[target] > LEVEL[module]]


def test_no_module_imports_itself_by_way_of_others():
    assert cycle_in(committed_imports()) == ""


def test_imports_go_down_only():
    imports = committed_imports()
    assert sum(map(len, imports.values())) > 150
    assert upward_in(imports) == []


def test_every_module_is_in_one_layer():
    assert sorted(module for modules in LAYERS.values() for module in modules) == sorted(path.stem for path in STATIC.glob("*.js"))


def test_a_cycle_is_told_by_its_path():
    imports = imports_of(
        {
            "a": 'import { b } from "./b.js";\n/** @import { Wb } from "./types/board_context.d.ts" */',
            "b": 'import {\n  c,\n  d,\n} from "./c.js";',
            "c": 'import "./d.js";',
            "d": 'const b = await import("./b.js");',
        }
    )
    assert imports == {"a": {"b"}, "b": {"c"}, "c": {"d"}, "d": {"b"}}
    assert cycle_in(imports) in {"b -> c -> d -> b", "c -> d -> b -> c", "d -> b -> c -> d"}
    assert cycle_in({**imports, "d": set()}) == ""


@pytest.mark.parametrize(("module", "target"), [("drag", "board"), ("terms", "help"), ("blocks", "chart"), ("select", "picture")])
def test_an_import_of_a_higher_layer_is_found(module, target):
    imports = committed_imports()
    imports[module] |= {target}
    assert upward_in(imports) == [f"{module} -> {target}"]
