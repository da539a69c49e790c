"""A report as files for others: the trace keeps to its format, the page needs nothing from outside, the picture has its size."""

import io
import json
import re
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser

import jsonschema
import pytest
from PIL import Image

from tests.support.trace_format import EVENTS, verify_threads
from workbench.analysis.compiled_report import with_compiled
from workbench.cli.main import main
from workbench.documents import parse_plan
from workbench.documents.chrome_trace import COMPILED
from workbench.errors import DocumentError, WorkbenchError
from workbench.models import build
from workbench.public_plan import Plan
from workbench.reports.compiled import Compiled, CompiledKernel, CompiledMemory
from workbench.reports.device_trace import TraceEvent, summarize_trace
from workbench.reports.measurement import Measurement, TaskTime
from workbench.visualize.exports.board_picture import board_picture
from workbench.visualize.exports.file_exports import FILE_EXPORTS, export_bytes, export_file, find_export, report_page

STEP = Measurement("cpu", 2, 1, 0.1, (2e-3, 3e-3), (1.0,), (), {}, 0)


@pytest.fixture(scope="module")
def plan():
    return Plan(build("gpt", layers=2), "data:4 model:2", "batch:data; d_ff:model; heads:model", hardware="TPU v5e 2x4")


@pytest.fixture(scope="module")
def pipelined():
    spec = "stages:4 micro_batches:8 schedule:interleaved chunks:2"
    return Plan(build("gpt"), "stage:4 data:2", "batch:data", hardware="TPU v5e 2x4", pipeline=spec)


def traced(*events):
    """A measurement with a profile: events as (device, stream, start, seconds)."""
    about = ("fusion.1", "dot", "mlp/up", "gpt.py:1")
    found = (TraceEvent(device, stream, *about, *when) for device, stream, *when in events)
    return Measurement("cpu", 2, 1, 0.1, (2e-3,), (), (), {}, 0, trace=summarize_trace(found))


def events_of(report, measurement=None):
    document = json.loads(export_bytes(report, "trace", measurement))
    jsonschema.validate(document, EVENTS)
    verify_threads(document["traceEvents"])
    return document["traceEvents"]


def named(events, kind):
    return {(each["pid"], each["tid"]): each["args"]["name"] for each in events if each["name"] == kind}


def test_a_trace_is_the_predicted_step_kernel_by_kernel(plan):
    report = plan.report()
    events = events_of(report)
    assert list(named(events, "process_name").values()) == ["predicted: each of 8 devices, TPU v5e 2x4"]
    assert list(named(events, "thread_name").values()) == ["compute", "data", "model"]
    done = [each for each in events if each["ph"] == "X"]
    lasting = [each for each in report.timeline.events if each.seconds]
    assert len(done) == len(lasting)
    assert sum(each["dur"] for each in done) == pytest.approx(sum(each.seconds for each in lasting) * 1e6, abs=1e-3 * len(done))
    assert max(each["ts"] + each["dur"] for each in done) == pytest.approx(report.timeline.seconds * 1e6, abs=2e-3)
    (dot,) = (each for each in done if each["name"] == "up/dot_general" and not each["args"]["path"].startswith("grad"))
    assert dot["args"]["times_a_step"] == 2
    assert dot["args"]["bytes"] > 0
    assert re.fullmatch(r"\w+\.py:\d+", dot["args"]["source"])
    sent = [each for each in done if each["cat"] == "all-reduce"]
    assert all(each["args"]["mesh_axes"] in ("data", "model") and each["args"]["sent_bytes"] > 0 for each in sent)


def test_what_was_measured_stands_beside_it_as_processes_of_its_own(plan):
    events = events_of(plan.report(), traced((0, "compute", 0.0, 2e-4), (0, "compute", 1e-4, 2e-4), (1, "data", 0.0, 1e-4)))
    assert [name for (pid, _), name in named(events, "process_name").items() if pid > 1000] == [
        "measured: device 0, cpu",
        "measured: device 1, cpu",
    ]
    threads = [name for (pid, _), name in named(events, "thread_name").items() if pid > 1000]
    assert threads == ["compute", "compute 2", "data"]  # two at once on one stream


def test_the_compilers_kernels_stand_between_what_was_predicted_and_measured(plan):
    kernels = (
        CompiledKernel("fusion.1", "fusion", 2, "mlp/up", "gpt.py:1", 3e-5, 8, 4),
        CompiledKernel("copy", "copy", 1, "", "", None, 0, 4),
    )
    compiled = Compiled(
        "TPU", 8, 1.0, CompiledMemory(1, 1, 0, 1), (), (*kernels, replace(kernels[0], name="dot.2")), compiler="XLA of a test"
    )
    events = events_of(with_compiled(plan.report(), compiled), traced((0, "compute", 0.0, 2e-4)))
    assert list(named(events, "process_name").values()) == [
        "predicted: each of 8 devices, TPU v5e 2x4",
        "compiled: each of 8 devices, XLA of a test",
        "measured: device 0, cpu",
    ]
    first, second = (each for each in events if each["ph"] == "X" and each["pid"] == COMPILED)
    assert (first["ts"], first["dur"], second["ts"]) == (0, 60, 60)  # in µs; a copy without an estimate is not shown
    assert first["args"]["times_a_step"] == 2


def test_a_pipeline_has_a_process_for_each_stage(pipelined):
    tasks = tuple(TaskTime(device, "forward", device, 0, device * 1e-3, 1e-3) for device in range(4))
    report, measured = pipelined.report(), Measurement("cpu", 8, 1, 0.1, (4e-3,), (), (), {}, 0, tasks=tasks)
    events, simulated = events_of(report, measured), report.pipeline.simulated
    names = list(named(events, "process_name").values())
    assert names == [*(f"predicted: stage {i}" for i in range(4)), *(f"measured: stage {i}, cpu" for i in range(4))]
    done = [each for each in events if each["ph"] == "X" and each["pid"] < 1000]
    threads = {place: name for place, name in named(events, "thread_name").items() if place[0] < 1000}
    tasks_done = [each for each in done if threads[each["pid"], each["tid"]] == "tasks"]
    assert Counter(each["cat"] for each in tasks_done) == Counter({"update": 4, "forward": 64, "backward": 64})
    assert "compute" in threads.values()  # and the kernels of each task below it
    assert len(done) > 10 * len(tasks_done)
    assert len([each for each in events if each["ph"] == "b"]) == len(simulated.arrivals)
    assert max(each["args"]["bytes"] for each in events if each["ph"] == "C") <= max(simulated.peaks)
    assert max(each["ts"] + each["dur"] for each in done) == pytest.approx(simulated.seconds * 1e6, abs=2e-3)


def test_without_times_there_is_no_trace():
    with pytest.raises(WorkbenchError, match="has no predicted timeline: the plan has no hardware"):
        Plan(build("two_layer"), "all:4", "batch:all").to_chrome_trace()


class Links(HTMLParser):
    """What a page would fetch, run and show."""

    def __init__(self):
        super().__init__()
        self.tags, self.links, self.text = Counter(), [], {}
        self._open = ""

    def handle_starttag(self, tag, attrs):
        self.tags[tag] += 1
        self.links += [value for name, value in attrs if name in ("src", "href", "action", "data") and value]
        self._open = dict(attrs).get("id", "")

    def handle_data(self, data):
        if self._open:
            self.text[self._open] = self.text.get(self._open, "") + data

    def handle_endtag(self, _tag):
        self._open = ""


@pytest.mark.parametrize("which", ["plan", "pipelined"])
def test_a_page_has_everything_and_fetches_nothing(which, request):
    report = request.getfixturevalue(which).report()
    page = Links()
    page.feed(report_page(report, STEP))
    assert page.tags["svg"] >= 6
    assert page.tags["script"] == page.tags["img"] == page.tags["link"] == page.tags["iframe"] == 0
    assert all(each.startswith("data:application/json;base64,") for each in page.links)
    assert parse_plan(page.text["plan"]) == report.plan
    text = report_page(report)
    assert "default-src 'none'" in text
    assert "prefers-color-scheme:dark" in text
    assert "@import" not in text


def test_a_page_of_a_plan_that_no_file_holds_says_so():
    own = replace(build("two_layer"), reference=None)
    assert "The plan cannot be saved" in report_page(Plan(own, "all:2").report())


def test_a_picture_of_the_board_has_its_size(plan):
    picture = board_picture(plan.report())
    image = Image.open(io.BytesIO(picture.png("white")))
    assert image.size == (2 * picture.drawing.width, 2 * picture.drawing.height)
    assert image.getpixel((1, 1))[:3] == (255, 255, 255)
    assert "d_ff 256 → 128" in picture.text
    assert all(label.x + 6.8 * len(label.text) <= picture.drawing.width for label in picture.drawing.labels)


@pytest.mark.parametrize("each", FILE_EXPORTS, ids=lambda each: each.key)
def test_each_form_is_written_by_code_and_by_command(each, plan, tmp_path):
    written = plan.export_file(tmp_path / f"mine{each.ending}")
    assert written.read_bytes() == each.write(plan.report(), None)
    plan.save(tmp_path / "gpt.plan.json")
    by_command = tmp_path / f"by command{each.ending}"
    assert main(["export", str(tmp_path / "gpt.plan.json"), "--planned", "-o", str(by_command)]) == 0
    assert by_command.read_bytes() == written.read_bytes()


def test_a_form_is_found_by_its_name_and_by_the_end_of_a_files(plan, tmp_path):
    assert find_export("trace").ending == ".trace.json"
    assert b"partition_specs" in export_file(plan.report(), tmp_path / "x_specs.py").read_bytes()
    assert export_file(plan.report(), tmp_path / "x", "svg").read_bytes().startswith(b"<svg")
    with pytest.raises(DocumentError, match=r"Unknown export `x\.pdf`"):
        export_file(plan.report(), tmp_path / "x.pdf")
    assert main(["export", "--model", "two_layer", "-o", str(tmp_path / "x.pdf")]) == 1
    assert not (tmp_path / "x.pdf").exists()
    with pytest.raises(DocumentError, match="There is no export `htm`"):
        find_export("htm")
