"""Every way in which a plan document can be wrong, and what is said of it, whole."""

import json

import pytest

from tests.support.programs import mlp, program
from workbench.core.program import Reference
from workbench.documents import dump_plan, export_script, load_plan, parse_plan, save_plan
from workbench.errors import DocumentError, LayoutError, MeshError, WorkbenchError
from workbench.public_plan import Plan

GOOD = json.loads(dump_plan(Plan(mlp(), "data:4 model:2", "batch:data")))
CHOOSE = "\n  Try: choose a *.plan.json that `workbench` or `plan.save` wrote."
MEND = "\n  Try: fix that entry · save the plan again."


def changed(**entries) -> str:
    return json.dumps({**GOOD, **entries})


def named(target: str, **arguments) -> str:
    return changed(program={"target": target, "arguments": arguments})


TEXTS = [
    ("not json at all", "The text is not JSON: Expecting value: line 1 column 1 (char 0)." + CHOOSE),
    ('{"format": ', "The text is not JSON: Expecting value: line 1 column 12 (char 11)." + CHOOSE),
    ('{"a": 1, "a": 2}', 'The text is not JSON: "a" occurs twice in one object.' + CHOOSE),
    ("[1, 2]", 'The text is JSON, but not a plan document: it lacks "format": "sharding-workbench.plan".' + CHOOSE),
    ('{"nbformat": 4}', 'The text is JSON, but not a plan document: it lacks "format": "sharding-workbench.plan".' + CHOOSE),
    (
        changed(version=2, a_new_thing=True),
        "The text is a plan document of version 2; this workbench reads up to version 1."
        "\n  Try: install a newer workbench: git pull in the checkout.",
    ),
    (changed(version="1"), "The text is not a valid plan document: at `$.version`, 1 was expected." + MEND),
    (changed(mesh=[["data", "4"]]), "The text is not a valid plan document: at `$.mesh[0][1]`, '4' is not of type 'integer'." + MEND),
    (changed(mesh=[["data"]]), "The text is not a valid plan document: at `$.mesh[0]`, ['data'] is too short." + MEND),
    (
        changed(layout={"rules": {"batch": ["data"]}}),
        "The text is not a valid plan document: at `$.layout.rules.batch`, ['data'] is not of type 'string'." + MEND,
    ),
    (
        changed(code="import os"),
        "The text is not a valid plan document: at `$`, Additional properties are not allowed ('code' was unexpected)." + MEND,
    ),
    (
        json.dumps({"format": GOOD["format"], "version": 1}),
        "The text is not a valid plan document: at `$`, 'name' is a required property." + MEND,
    ),
    (
        named("no_such_module_here:build"),
        "The program is `no_such_module_here:build`, but there is no module `no_such_module_here` here."
        "\n  Try: start in the folder that holds no_such_module_here · put that folder on PYTHONPATH · install its package.",
    ),
    (
        named("tests.support.importable:regresion"),
        "The program is `tests.support.importable:regresion`. There is no function `regresion` in `tests.support.importable`; there are `Program`, `mlp`, "
        "`regression`, `forward`, `breaks`, `returns_a_list`, `does_not_say`.\n  Did you mean `regression`?",
    ),
    (
        named("tests.support.importable:NOT_A_FUNCTION"),
        "The program is `tests.support.importable:NOT_A_FUNCTION`. There is no function `NOT_A_FUNCTION` in `tests.support.importable`; there are `Program`, "
        "`mlp`, `regression`, `forward`, `breaks`, `returns_a_list`, `does_not_say`.\n  Try: use one of these names.",
    ),
    (
        named("tests.support.importable:breaks", layers=2),
        "The program `tests.support.importable:breaks(layers=2)` raised KeyError: 'no such layer'."
        "\n  Try: fix the function · fix its arguments in the document.",
    ),
    (
        named("tests.support.importable:regression", colour=2),  # like no argument there is: Python 3.13 asks whether that was meant
        "The program `tests.support.importable:regression(colour=2)` raised TypeError: regression() got an unexpected keyword argument 'colour'."
        "\n  Try: fix the function · fix its arguments in the document.",
    ),
    (
        named("tests.support.importable:returns_a_list"),
        "The program `tests.support.importable:returns_a_list()` returned list, not a Program."
        "\n  Try: end the function with `return wb.trace(...)` or `return wb.trace_training(...)`.",
    ),
    (
        named("os:system", command="touch pwned"),
        "`os:system` is not declared to return a program, so a document may not call it."
        "\n  Try: declare it `def system(...) -> wb.Program:`.",
    ),
    (
        named("gtp"),
        "There is no model `gtp`; there are `two_layer`, `einsum`, `mnist`, `decoder`, `mixture`, `t5`, `conformer`, `unet`, `amoebanet`, "
        "`deep_unet`, `decoder_prefill`, `decoder_decode`, `mixture_prefill`, `mixture_decode`, `gpt`.\n  Did you mean `gpt`?",
    ),
]


@pytest.mark.parametrize(("text", "message"), TEXTS, ids=[message[:60] for _, message in TEXTS])
def test_a_wrong_document_is_told_in_whole_sentences(text, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DocumentError) as caught:
        parse_plan(text, allow="tests.support.importable, no_such_module_here, os")
    assert str(caught.value) == message
    assert list(tmp_path.iterdir()) == []


def test_a_module_that_fails_when_it_is_imported_says_how(tmp_path, monkeypatch):
    (tmp_path / "broken_on_import.py").write_text("import a_library_that_is_not_there\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(DocumentError) as caught:
        parse_plan(named("broken_on_import:build"), allow="broken_on_import")
    assert str(caught.value) == (
        "The program is `broken_on_import:build`, and importing `broken_on_import` raised ModuleNotFoundError: "
        "No module named 'a_library_that_is_not_there'.\n  Try: fix `broken_on_import`."
    )


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (changed(mesh=[["data", 4], ["data", 2]]), MeshError),
        (changed(layout={"rules": {"batch": "rows"}}), LayoutError),
        (changed(layout={"overrides": {"params/layers/0/w1": "data"}}), LayoutError),
        (changed(dims={"d_f": "hidden"}), WorkbenchError),
    ],
)
def test_an_illegal_plan_is_refused_as_it_would_be_by_hand(text, error):
    with pytest.raises(error):
        parse_plan(text, allow="tests")


def test_deeply_nested_json_is_refused():
    with pytest.raises(DocumentError):
        parse_plan("[" * 100_000)


def test_a_program_without_a_reference_cannot_be_saved_or_exported(tmp_path):
    plan = Plan(program(name="mine"), "data:4")
    with pytest.raises(DocumentError) as caught:
        save_plan(plan, tmp_path / "mine.plan.json")
    assert str(caught.value) == (
        "`mine` cannot be saved: a plan document contains no code, and this program has no reference."
        "\n  Try: put the code that builds it into an importable function, `def build() -> wb.Program` in my_module.py"
        ' · trace with `reference=wb.Reference("my_module:build")` · start from a model of the zoo.'
    )
    with pytest.raises(DocumentError) as caught:
        export_script(plan)
    assert str(caught.value) == (
        "`mine` cannot be exported: its program has no reference, so a script could not build it."
        "\n  Try: put the code that builds it into an importable function and trace with "
        '`reference=wb.Reference("my_module:build")`.'
    )
    assert list(tmp_path.iterdir()) == []


def test_a_reference_with_arguments_that_are_not_json_cannot_be_saved():
    plan = Plan(program(name="mine", reference=Reference("my_module:build", {"dtype": float})), "data:4")
    with pytest.raises(DocumentError) as caught:
        dump_plan(plan)
    assert str(caught.value) == (
        "`mine` cannot be saved: the arguments of `my_module:build` are not JSON values (Object of type type is not JSON serializable)."
        "\n  Try: pass only numbers, strings, booleans and lists of these."
    )


def test_a_file_that_is_not_there_or_not_text_is_named(tmp_path):
    missing, binary = tmp_path / "missing.json", tmp_path / "binary.json"
    binary.write_bytes(b"\xff\xfe\x00")
    for path, message in (
        (missing, f"`{missing}` cannot be read: No such file or directory.\n  Try: check the path."),
        (binary, f"`{binary}` is not JSON: it is not text in UTF-8.{CHOOSE}"),
    ):
        with pytest.raises(DocumentError) as caught:
            load_plan(path)
        assert str(caught.value) == message
    with pytest.raises(DocumentError, match="cannot be written: No such file or directory"):
        save_plan(Plan(mlp(), "data:4"), tmp_path / "no folder" / "x.json")


UNSAVED = [
    (Reference("__main__:build"), "a function of this notebook or script", "move the function into a file, my_module.py"),
    (
        Reference("tests.support.importable:<lambda>"),
        "There is no function `<lambda>` in `tests.support.importable`",
        "use one of these names",
    ),
    (Reference("tests.support.importable:regresion"), "There is no function", "did you mean `regression`?"),
    (
        Reference("tests.support.importable:regression", {"widht": 3}),
        "does not take these arguments",
        "the arguments of the function",
    ),
    (Reference("tests.support.importable:does_not_say"), "is not declared to return a program", "-> wb.Program:"),
    (Reference("no_such_module_here:build"), "there is no module `no_such_module_here` here", "put that folder on PYTHONPATH"),
    (Reference("gtp"), "There is no model `gtp`", "did you mean `gpt`?"),
    (Reference("gpt", {"layers": 0}), "it should be", "omit it"),
]


@pytest.mark.parametrize(("reference", "reason", "way_out"), UNSAVED, ids=lambda each: str(each)[:40])
def test_a_plan_that_could_not_be_opened_again_is_not_saved(reference, reason, way_out, tmp_path):
    plan = Plan(program(name="mine", reference=reference), "data:2")
    with pytest.raises(DocumentError) as caught:
        plan.save(tmp_path / "mine.plan.json")
    assert caught.value.message.startswith("`mine` cannot be saved because it could not be reopened.")
    assert reason in caught.value.message
    assert way_out in " ".join(caught.value.ways_out)
    assert list(tmp_path.iterdir()) == []


def test_a_name_that_no_document_may_have_is_refused_when_it_is_saved():
    with pytest.raises(DocumentError, match=r"at `\$.name`, 'nnn.* … n+' is too long\.\n.*give it another name"):
        dump_plan(Plan(mlp(), "data:2", name="n" * 500))
