"""A plan as a link, and what is said of a link that is none."""

import base64
import json
import zlib

import pytest

from tests.support.programs import mlp, program
from workbench.core.program import Reference
from workbench.documents import dump_plan, link_text, parse_link, program_from_reference
from workbench.documents.plan_link import MARK, MOST_DOCUMENT, MOST_TEXT
from workbench.errors import DocumentError, LayoutError, WorkbenchError
from workbench.models import ALL_MODELS
from workbench.public_plan import Plan

pytestmark = pytest.mark.compile


def packed(text: str | bytes) -> str:
    raw = text.encode() if isinstance(text, str) else text
    return MARK + base64.urlsafe_b64encode(zlib.compress(raw, 9)).decode().rstrip("=")


ZOO = Plan(program_from_reference(Reference("two_layer", {"batch": 16})), "data:4 model:2", "batch:data; hidden:model")
MINE = Plan(mlp(), "data:4 model:2", "batch:data", name="modèle → été")


@pytest.mark.parametrize("plan", [ZOO, ZOO.updated(hardware="TPU v5e 4x2", axis_assignment="data:x; model:y"), MINE], ids=str)
def test_a_link_is_the_plan(plan):
    text = link_text(plan)
    assert parse_link(text, known=MINE) == plan
    assert parse_link(text, known=MINE).name == plan.name
    assert set(text) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.")


@pytest.mark.share(3)
@pytest.mark.parametrize("model", ALL_MODELS, ids=lambda each: each.name)
def test_a_link_to_a_model_of_the_zoo_is_short(model):
    mesh, layout = model.layouts[-1]
    assert len(link_text(Plan(program_from_reference(Reference(model.name, {})), mesh, layout))) < 600


def test_a_link_imports_nothing_but_the_program_that_is_open():
    text = packed(dump_plan(MINE).replace("tests.support.importable:mlp", "antigravity:build"))
    for known in (None, ZOO, MINE):
        with pytest.raises(DocumentError, match="may only name models of the zoo or the current program"):
            parse_link(text, known)
    with pytest.raises(DocumentError, match="may only name"):
        parse_link(link_text(MINE), ZOO)


@pytest.mark.parametrize("cut", [1, 10, 40, 100])
def test_a_link_that_was_cut_off_is_told(cut):
    with pytest.raises(DocumentError, match="ask for the link again"):
        parse_link(link_text(ZOO)[:-cut])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello",
        MARK,
        MARK + "!!!",
        MARK + "AAAA",
        "p2." + "A" * 40,
        MARK + "A" * MOST_TEXT,
        packed(b"\xff\xfe"),
        packed("[]"),
        packed("{}"),
    ],
    ids=lambda text: text[:12],
)
def test_what_is_no_plan_is_a_document_error(text):
    with pytest.raises(DocumentError):
        parse_link(text)


def test_a_small_text_that_unpacks_to_a_large_one_is_not_unpacked():
    with pytest.raises(DocumentError, match="has extra data"):
        parse_link(packed(b" " * (2 * MOST_DOCUMENT)))


def test_every_changed_letter_is_an_error_or_the_same_plan():
    text = link_text(ZOO)
    for place in range(len(MARK), len(text)):
        changed = text[:place] + ("A" if text[place] != "A" else "B") + text[place + 1 :]
        try:
            assert parse_link(changed) == ZOO
        except WorkbenchError:
            continue


def test_a_plan_of_a_link_is_judged_as_any_other():
    document = json.loads(dump_plan(ZOO)) | {"mesh": [["data", 3], ["model", 2]]}
    with pytest.raises(LayoutError, match="16 % 3 = 1"):
        parse_link(packed(json.dumps(document)))


def test_a_plan_too_long_for_an_address_is_sent_as_a_file(monkeypatch):
    monkeypatch.setattr("workbench.documents.plan_link.MOST_TEXT", 100)
    with pytest.raises(DocumentError, match="save the plan and send the file"):
        link_text(MINE)


def test_a_plan_that_cannot_be_saved_has_no_link():
    with pytest.raises(DocumentError, match="no reference"):
        link_text(Plan(program(name="mine"), "data:2"))
