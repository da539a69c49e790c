"""The attached devices, offered where a plan names no hardware: measured behind the page, used, kept, and never in the way."""

import pytest

from tests.support.scripted import HeldRunner
from tests.widgets.test_board import Screen
from workbench.errors import EngineError
from workbench.hardware.catalogue import parse_hardware
from workbench.models import build
from workbench.public_plan import Plan
from workbench.reports.run_events import CalibrationDone, Cancelled, Failed, Progress, Waiting
from workbench.session.plan_history import Session
from workbench.widgets.run.calibration import CANCEL, LABEL, OFFER

HERE = parse_hardware("8 H100").renamed("cpu x 8, calibrated")


class RunnerScreen(Screen):
    """With the runner at hand."""

    def __init__(self, session, runner):
        self.runner = runner
        super().__init__(session, runner=runner)


@pytest.fixture
def plan():
    return Plan(build("two_layer"), "data:4 model:2", "batch:data")


@pytest.fixture
def screen(plan):
    return RunnerScreen(Session(plan), HeldRunner())


def attached(screen):
    return screen.shown["board"]["hardware"]["attached"]


def labels(screen):
    return [each["label"] for each in screen.shown["board"]["figures"]]


def test_a_plan_without_hardware_is_offered_the_attached_devices(screen):
    assert attached(screen) == {"text": OFFER, "button": LABEL, "busy": False}
    assert "Step, predicted" not in labels(screen)


def test_they_are_measured_while_the_board_goes_on_and_then_there_are_times(screen):
    screen.send("calibrate")
    runner, tell = screen.runner, screen.runner.tell
    assert attached(screen)["text"] == "Measuring the attached devices: starting …"
    tell(Waiting(1))
    assert attached(screen) == {"text": "Measuring the attached devices: behind 1 other …", "button": CANCEL, "busy": True}
    tell(Progress("calibrating", 0.5))
    assert screen.send("drop", dim="hidden", source="", target="model")["layout"] == "batch:data; hidden:model"
    screen.send("calibrate")
    assert runner.tell is tell  # one is enough
    tell(CalibrationDone(HERE))
    assert labels(screen)[0] == "Step, predicted"
    assert attached(screen)["text"] == "Predicted for the attached devices, cpu x 8, calibrated. Choose other hardware to compare."
    assert screen.board.session.plan.hardware is None  # the plan is nobody's machine's
    assert screen.send("hardware", chip="H100", shape="8")["hardware"]["attached"] is None


def test_measuring_is_cancelled_and_may_be_begun_again(screen):
    screen.send("cancel_calibration")  # of nothing
    screen.send("calibrate")
    screen.send("cancel_calibration")
    assert screen.runner.cancels == 1
    screen.runner.tell(Cancelled())
    assert attached(screen) == {"text": OFFER, "button": LABEL, "busy": False}
    screen.send("calibrate")
    screen.runner.tell(CalibrationDone(HERE))
    assert labels(screen)[0] == "Step, predicted"


FAILURE = Failed("It broke", ("mend it",)), "The measurement failed: It broke"


@pytest.mark.parametrize(("ending", "says"), [FAILURE, (Cancelled(), OFFER)])
def test_what_fails_is_said_and_may_be_tried_again(screen, ending, says):
    screen.send("calibrate")
    screen.runner.tell(ending)
    assert attached(screen)["text"].startswith(says)
    assert attached(screen)["button"] == LABEL


def test_a_runner_that_cannot_start_says_why(screen, monkeypatch):
    def fail(*_):
        raise EngineError("No process can be started.")

    monkeypatch.setattr(screen.runner, "calibrate", fail)
    screen.send("calibrate")
    assert attached(screen)["text"] == "The measurement failed: No process can be started."


def test_what_was_measured_before_is_used_at_once(screen, plan):
    screen.runner.kept = HERE
    screen.send("calibrate")
    assert labels(screen)[0] == "Step, predicted"
    opened = RunnerScreen(Session(plan), screen.runner)
    assert "Step, predicted" not in labels(opened)
    opened.board.begin_settling(lambda *_: None, lambda _: None)
    assert labels(opened)[0] == "Step, predicted"


def test_a_board_without_a_runner_offers_none(plan):
    assert attached(Screen(Session(plan), runner=None)) is None
