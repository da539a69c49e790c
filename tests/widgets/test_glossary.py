"""The words of the board: each has one sentence and somewhere to read on, and the labels that people meet are among them."""

import json
import re
from pathlib import Path

import pytest

from workbench.hardware.catalogue import parse_hardware
from workbench.models import build
from workbench.public_plan import Plan
from workbench.widgets.board.key_figures import figures
from workbench.widgets.glossary.glossary import GROUPS, KEYS, glossary_state
from workbench.widgets.glossary.lessons import COURSES, DOCS_VARIABLE, lesson_of, page_of
from workbench.widgets.glossary.plan_terms import INFERENCE
from workbench.widgets.tabs.question_answers import DECODE_WORDS, PREFILL_WORDS, WORDS

TERMS = [term for _, terms in GROUPS for term in terms]
NOTEBOOKS = Path(__file__).parents[2] / "notebooks"


@pytest.mark.parametrize("term", TERMS, ids=lambda term: term.name)
def test_a_term_is_said_in_a_sentence_or_two_and_can_be_read_about(term):
    assert term.says.endswith(".")
    assert len(term.says) < 260
    assert re.fullmatch(r"https://[\w./-]+", term.link)
    assert term.on
    assert all(label == label.lower() for label in term.on)


def test_what_a_why_is_about_is_in_the_glossary():
    assert {word for asked in (WORDS, DECODE_WORDS, PREFILL_WORDS) for words in asked.values() for word in words} <= {
        term.name for term in TERMS
    }


def test_the_words_of_inference_are_reached_from_what_the_board_shows_of_it():
    reached = {word for asked in (DECODE_WORDS, PREFILL_WORDS) for words in asked.values() for word in words}
    assert {term[0] for term in INFERENCE} <= reached
    assert {lesson_of(term[0])["title"] for term in INFERENCE} <= set(COURSES["Inference"].values())


def test_a_word_leads_to_its_page_where_the_site_is_known(monkeypatch):
    monkeypatch.delenv(DOCS_VARIABLE, raising=False)
    assert (page_of("Mesh"), lesson_of("Mesh")["link"], lesson_of("MFU")) == ("", "", None)
    monkeypatch.setenv(DOCS_VARIABLE, "https://example.org/docs/")
    assert page_of("Round (priority)") == "https://example.org/docs/glossary/round_priority.html"
    assert lesson_of("Mesh") == {
        "title": "One product on two devices",
        "link": "https://example.org/docs/lessons/one_product/lesson.html",
    }
    monkeypatch.setenv(DOCS_VARIABLE, "javascript:alert(1)")
    assert page_of("Mesh") == ""


def test_no_label_has_two_meanings():
    labels = [label for term in TERMS for label in dict.fromkeys((term.name.lower(), *term.on))]
    assert len(labels) == len(set(labels))


@pytest.mark.parametrize("number", sorted({term.number for term in TERMS}))
def test_what_the_help_names_of_a_notebook_is_a_heading_there(number):
    [path] = NOTEBOOKS.glob(f"{number}_*.ipynb")
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    headings = {line.lstrip("# ").strip() for cell in cells for line in cell["source"] if line.startswith("#")}
    assert {term.notebook for term in TERMS if term.number == number} - {""} <= headings


def test_every_figure_of_a_planned_model_is_explained():
    plan = Plan(build("gpt"), "data:4 model:4", "batch:data; heads:model", hardware=parse_hardware("TPU v5e 4x4"))
    known = {label for term in TERMS for label in term.on}
    assert {figure.key for figure in figures(plan.report())} <= known


def test_the_front_end_gets_all_of_it_as_json():
    state = json.loads(json.dumps(glossary_state(), allow_nan=False))
    assert [len(group["terms"]) for group in state["groups"]] == [len(terms) for _, terms in GROUPS]
    assert len(state["keys"]) == len(KEYS)
