"""What the gallery keeps of a plan: a document that parses back, its digest, its figures, and a picture that is well formed."""

import json
from types import SimpleNamespace
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings

from tests.support.programs import program
from tests.support.room_sessions import STORIES, Room, first_plan, tell
from workbench import __version__
from workbench.documents import dump_plan, parse_plan
from workbench.errors import DocumentError
from workbench.hardware.catalogue import parse_hardware
from workbench.models import build
from workbench.plan.edits import RenameDim, SetHardware, ShardDim
from workbench.public_plan import Plan
from workbench.team.planning.grade_answers import describe_plan, description_record
from workbench.team.rooms.planners import read_answer
from workbench.team.store.store import digest_of
from workbench.team.web.team_services import DescribedPlan


def described(plan):
    return describe_plan(plan, plan.report())


def verify(found, plan):
    assert parse_plan(found.document) == plan
    assert dump_plan(parse_plan(found.document)) == found.document, "it is canonical"
    assert found.digest == digest_of(found.document)
    picture = ET.fromstring(found.thumbnail)
    assert picture.tag == "{http://www.w3.org/2000/svg}svg"
    assert not [each for each in picture.iter() if each.tag.endswith(("script", "foreignObject", "image"))]
    sent = json.loads(json.dumps(description_record(found), allow_nan=False))
    assert sent["version"] == __version__
    assert read_answer(DescribedPlan, sent) == found, "as the server has it"


@given(STORIES)
@settings(max_examples=12)
def test_whatever_a_room_came_to_can_be_kept(story):
    room = Room.begin()
    tell(room, story)
    verify(describe_plan(room.session.plan, room.session.report), room.session.plan)


@pytest.mark.compile
@pytest.mark.parametrize(
    "plan",
    [
        lambda: Plan(build("mnist"), "data:4 model:2", "batch:data", hardware="TPU v5e 4x2", name="Ziffern & <b>"),
        pytest.param(lambda: Plan(build("gpt", preset="tiny"), "data:2 model:2", "batch:data; d_ff:model"), marks=pytest.mark.nightly),
    ],
    ids=["mnist", "gpt"],
)
def test_plans_of_other_models_can_be_kept(plan):
    verify(described(plan()), plan())


def test_what_the_gallery_searches_by():
    plan = (
        first_plan().apply(ShardDim("hidden", ("model",))).apply(RenameDim("io", "width")).apply(SetHardware(parse_hardware("TPU v5e 4x2")))
    )
    found = described(plan)
    assert (found.target, found.mesh, found.devices, found.hardware) == ("two_layer", "data:4 model:2", 8, "TPU v5e 4x2")
    assert (found.layout, found.dims) == ("batch:data; hidden:model", ("batch", "width", "hidden"))
    report = plan.report()
    assert found.figures == {
        "planned": {
            "peak_bytes": report.peak,
            "sent_bytes": report.most(lambda each: each.sent).sent,
            "step_seconds": report.seconds,
            "fits": True,
        }
    }


def test_without_hardware_there_is_no_time_and_nothing_to_fit_into():
    figures = described(first_plan()).figures["planned"]
    assert (figures["step_seconds"], figures["fits"]) == (None, None)
    assert figures["peak_bytes"] > 0


def test_two_plans_have_one_digest_exactly_if_they_are_equal():
    plans = [first_plan(), first_plan(), first_plan().apply(ShardDim("hidden", ("model",)))]
    same, again, other = (described(each).digest for each in plans)
    assert same == again != other


def test_a_plan_without_a_document_is_refused():
    with pytest.raises(DocumentError, match="this program has no reference"):
        describe_plan(Plan(program(name="mine"), "data:2"), first_plan().report())


def test_a_plan_of_a_surer_tier_keeps_its_planned_figures_so_that_any_two_are_compared_in_one(monkeypatch):
    plan, report = first_plan(), first_plan().report()
    monkeypatch.setattr("workbench.team.planning.grade_answers.analyze", lambda _: report)
    surer = SimpleNamespace(**{name: getattr(report, name) for name in dir(report) if not name.startswith("__")})
    surer.tier = "partitioned"
    monkeypatch.setattr("workbench.team.planning.grade_answers.thumbnail", lambda _: "")
    assert set(describe_plan(plan, surer).figures) == {"planned", "partitioned"}
