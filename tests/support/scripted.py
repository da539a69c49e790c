"""A runner that needs no devices: it tells a given story, at once or step by step from a thread; a search is done in a thread."""

import queue
import threading
import time
from contextlib import suppress

from workbench.engine.search.serve_searches import SearchServer
from workbench.hardware.catalogue import parse_hardware
from workbench.hardware.hardware import Hardware
from workbench.public_plan import Plan
from workbench.reports.compiled import Compiled, CompiledCollective, CompiledKernel, CompiledMemory
from workbench.reports.measurement import Measurement, ShardCheck, TaskTime
from workbench.reports.run_events import CalibrationDone, Cancelled, CompileDone, Failed, Progress, RunDone, RunListener, StepDone
from workbench.search.search_messages import SearchCommand, SearchListener
from workbench.search.search_space import SearchSpace


def measurement(plan: Plan, steps: int = 3, *, wrong: int = 0, **changes) -> Measurement:
    """What a run of `plan` might measure; the first `wrong` shards are not as planned."""
    report = plan.report()
    shards = tuple(
        ShardCheck(placed.tensor.path, placed.local_shape, (7,) if place < wrong else placed.local_shape)
        for place, placed in enumerate(report.arguments)
    )
    fields = {
        "device_kind": "cpu",
        "devices": plan.mesh.size,
        "processes": 1,
        "compile_seconds": 1.5,
        "step_seconds": tuple(0.010 + 0.001 * step for step in range(steps)),
        "losses": tuple(5.0 - step for step in range(steps)),
        "shards": shards,
        "compiled": dict(report.by_axis_and_kind),
        "compiled_peak": 2 * report.memory.peak,
        "predicted_seconds": 0.005,
        "tasks": _tasks(plan),
        **changes,
    }
    return Measurement(**fields)


def _tasks(plan: Plan, slower: float = 1.25) -> tuple[TaskTime, ...]:
    """Of a plan with a pipeline: each task as predicted, and a quarter longer."""
    if plan.pipeline is None:
        return ()
    spans = plan.report().pipeline.simulated.spans
    return tuple(TaskTime(s.device, s.task.kind, s.task.stage, s.task.micro_batch, slower * s.start, slower * s.seconds) for s in spans)


def compiled(plan: Plan, *, widened: int = 1, target: str = "8 attached cpu") -> Compiled:
    """What a compiler might make of `plan`: half as much memory again, all as it was planned but for `widened` times the bytes sent."""
    report = plan.report()
    held = sum(placed.local_bytes for placed in report.arguments)
    return Compiled(
        target,
        plan.mesh.size,
        2.5,
        CompiledMemory(arguments=held, outputs=0, aliased=0, temporary=report.memory.peak * 3 // 2 - held),
        tuple(
            CompiledCollective(each.kind, each.axes, each.payload * widened, each.count, each.path, each.source)
            for each in report.collectives
        ),
        (CompiledKernel("fusion", "fusion", 1, "", "", 0.002, report.flops.per_device, 0),),
        compiler="XLA of a script",
    )


class StoppedError(Exception):
    """A search was cancelled."""


class ThreadedSearch:
    """Searches in a thread of this process; what it says after it was cancelled nobody hears."""

    def __init__(self, space: SearchSpace, on_event: SearchListener) -> None:
        self._hear, self._commands, self._cancelled = on_event, queue.SimpleQueue(), threading.Event()
        server = SearchServer(space, self._tell, self._commands)
        self._thread = threading.Thread(target=self._serve, args=(server,), daemon=True)
        self._thread.start()

    def send(self, command: SearchCommand) -> None:
        self._commands.put(command)

    def cancel(self) -> None:
        self._cancelled.set()
        self._commands.put(None)
        self._hear(Cancelled())

    def _tell(self, event) -> None:
        if not self._cancelled.is_set():
            self._hear(event)
        elif threading.current_thread() is self._thread:
            raise StoppedError

    def _serve(self, server: SearchServer) -> None:
        with suppress(StoppedError):
            while (command := self._commands.get()) is not None:
                server.answer(command)


class ScriptedRunner:
    """Steps every `pause` seconds from a thread, as the engine does; `wrong` shards disagree; `message` is an error instead of an end."""

    def __init__(self, pause: float = 0.0, wrong: int = 0, message: str = "") -> None:
        self.pause, self.wrong, self.message = pause, wrong, message
        self.started: list[tuple[Plan, int]] = []
        self.expected: Plan | None = None
        self.cancelled = threading.Event()

    def start(self, plan: Plan, steps: int, on_event: RunListener) -> "ScriptedRunner":
        self.started.append((plan, steps))
        self.cancelled.clear()
        threading.Thread(target=self._tell, args=(plan, steps, on_event), daemon=True).start()
        return self

    def compile(self, plan: Plan, on_event: RunListener, *, behind: bool = False) -> "ScriptedRunner":  # noqa: ARG002
        self.cancelled.clear()
        threading.Thread(target=self._compile, args=(plan, on_event), daemon=True).start()
        return self

    kept: Hardware | None = None  # what was measured before

    def calibrate(self, plan: Plan, on_event: RunListener) -> "ScriptedRunner":
        def tell() -> None:
            on_event(Progress("calibrating", 0.5))
            time.sleep(self.pause)
            on_event(Failed(self.message) if self.message else CalibrationDone(parse_hardware(f"{plan.mesh.size} H100")))

        threading.Thread(target=tell, daemon=True).start()
        return self

    def calibrated(self, _plan: Plan) -> Hardware | None:
        return self.kept

    def expect(self, plan: Plan) -> None:
        self.expected = plan

    def refuses(self, _plan: Plan) -> str:
        return ""

    def search(self, space: SearchSpace, on_event: SearchListener) -> ThreadedSearch:
        return ThreadedSearch(space, on_event)

    def expect_search(self, plan: Plan) -> None:
        self.expected = plan

    def cancel(self) -> None:
        self.cancelled.set()

    def _compile(self, plan: Plan, on_event: RunListener) -> None:
        for stage in ("lowering", "compiling", "reading"):
            on_event(Progress(stage, 0.5, 0.0))
            if self.cancelled.wait(self.pause * 10):
                on_event(Cancelled())
                return
        on_event(Failed(self.message) if self.message else CompileDone(compiled(plan, widened=2)))

    def _tell(self, plan: Plan, steps: int, on_event: RunListener) -> None:
        on_event(Progress("compiling", 0.5))
        for step in range(steps):
            if self.cancelled.wait(self.pause):
                on_event(Cancelled())
                return
            on_event(StepDone(step + 1, steps, 0.01 + 0.001 * step, 5.0 - step / steps))
        ending = Failed(self.message) if self.message else RunDone(measurement(plan, steps, wrong=self.wrong))
        on_event(ending)


class HeldSearch:
    """Says nothing by itself: the test holds `hear`, and sees what was `sent`."""

    def __init__(self, space: SearchSpace, hear: SearchListener) -> None:
        self.space, self.hear, self.sent, self.cancels = space, hear, [], 0

    def send(self, command: SearchCommand) -> None:
        self.sent.append(command)

    def cancel(self) -> None:
        self.cancels += 1


class HeldRunner:
    """Tells nothing by itself: the test holds `tell`. `refusal`: why it compiles nothing, if it does not."""

    refusal = ""
    expected: Plan | None = None

    def start(self, plan: Plan, steps: int, on_event: RunListener) -> "HeldRunner":
        self.plan, self.steps, self.tell, self.cancels = plan, steps, on_event, 0
        return self

    def compile(self, plan: Plan, on_event: RunListener, *, behind: bool = False) -> "HeldRunner":
        self.plan, self.tell, self.cancels, self.behind = plan, on_event, 0, behind
        return self

    kept: Hardware | None = None

    def calibrate(self, plan: Plan, on_event: RunListener) -> "HeldRunner":
        self.plan, self.tell, self.cancels = plan, on_event, 0
        return self

    def calibrated(self, _plan: Plan) -> Hardware | None:
        return self.kept

    def expect(self, plan: Plan) -> None:
        self.expected = plan

    def refuses(self, _plan: Plan) -> str:
        return self.refusal

    def cancel(self) -> None:
        self.cancels += 1

    def search(self, space: SearchSpace, on_event: SearchListener) -> HeldSearch:
        self.searches = [*getattr(self, "searches", []), HeldSearch(space, on_event)]
        return self.searches[-1]

    def expect_search(self, plan: Plan) -> None:
        self.expected = plan
