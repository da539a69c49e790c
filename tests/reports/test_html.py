"""What a notebook shows of plans, reports and measurements: the same facts as their texts, as HTML without a user interface library."""

import re
from html import unescape

import pytest

from workbench.models import build
from workbench.public_plan import Plan


@pytest.fixture(scope="module")
def plan():
    return Plan(build("two_layer", batch=16, io=64, hidden=30), "data:4 model:2", "batch:data", hardware="8 H100")


def words(text: str) -> list[str]:
    return re.findall(r"[\w:.%]+", unescape(re.sub(r"<[^>]*>", " ", text)))


def test_a_report_says_in_html_what_it_says_in_text(plan):
    report = plan.report()
    html = report._repr_html_()
    assert words(html) == words(str(report))
    assert html.count("<table") == html.count("</table>") >= 2
    assert "\0" not in html


def test_after_html_texts_are_texts_again(plan):
    before = str(plan.report())
    plan.report()._repr_html_()
    assert str(plan.report()) == before
    assert "<table" not in before


def test_a_plan_shows_its_program_mesh_layout_and_hardware(plan):
    shown = words(plan._repr_html_())
    assert {"two", "data:4", "model:2", "batch:data", "8", "devices", "H100"} <= set(shown)


def test_names_in_html_are_escaped(plan):
    assert "<img" not in Plan(plan.program, "data:4", name="<img src=x>").report()._repr_html_()
