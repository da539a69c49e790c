"""Memory of one stage over a step by role and by tensor, consistent with the pipeline's figures."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property

from workbench.core.schedules.schedule import Kind, Task
from workbench.core.tensor import Role
from workbench.hardware.runtime import Runtime
from workbench.pipeline.stage_work import UPDATE, ResidentSlices, StageWork
from workbench.reports.device_memory import Alive, Memory, MemoryCurve
from workbench.reports.simulated_pipeline import Held, Moment, SimulatedPipeline

_DONE = (Kind.BACKWARD, Kind.BACKWARD_WEIGHT)  # tasks that free the rest of a micro-batch
_NAMES = {Kind.BACKWARD_INPUT: "gradient of the input", Kind.BACKWARD_WEIGHT: "gradient of the weights"}


class StageMemory:
    """Moments of a stage's step: those of the simulated pipeline, and the update."""

    def __init__(self, work: StageWork, slices: ResidentSlices) -> None:
        self._work, self._slices = work, slices
        self._step: SimulatedPipeline = work.planned.simulated

    @cached_property
    def moments(self) -> tuple[Moment, ...]:
        update = Moment(self._step.update_span(self._work.device)[0], self._step.update_bytes(self._work.device))
        return (*self._step.memory(self._work.device), update)

    @cached_property
    def curve(self) -> MemoryCurve:
        """Bytes of each role at each moment, and the running task."""
        resident = self._slices.by_role
        inputs = [*self._input_bytes(), 0]
        resident_bytes = sum(resident.values())
        last = len(self.moments) - 1
        activations = [
            moment.bytes - resident_bytes - batch_bytes for moment, batch_bytes in zip(self.moments[:last], inputs, strict=False)
        ]
        borrowed = self.moments[last].bytes - resident_bytes
        constant = {role: (count,) * (last + 1) for role, count in resident.items()}
        constant[Role.GRADIENT] = (*(resident[Role.GRADIENT],) * last, resident[Role.GRADIENT] + borrowed)
        by_role = {**constant, Role.INPUT: tuple(inputs), Role.ACTIVATION: (*activations, 0)}
        return MemoryCurve(tuple(self._task_names()), by_role, tuple(moment.start for moment in self.moments))

    def _input_bytes(self) -> list[int]:
        costs, device = self._step.costs, self._work.device
        total = sum(costs[stage].batch_inputs for stage in self._step.stages_of(device)) * len(self._step.recomputed[device])
        ends = sorted((span.end, costs[span.task.stage].batch_inputs) for span in self._step.devices[device] if span.task.kind in _DONE)
        freed = [0]
        for _, count in ends:
            freed.append(freed[-1] + count)
        times = [end for end, _ in ends]
        return [total - freed[bisect_right(times, moment.start)] for moment in self.moments[:-1]]

    def _task_names(self) -> Iterator[str]:
        spans = self._step.devices[self._work.device]
        starts = [span.start for span in spans]
        for moment in self.moments[:-1]:
            place = bisect_right(starts, moment.start) - 1
            yield self._name_task(spans[place].task) if place >= 0 and moment.start < spans[place].end else "waiting"
        yield UPDATE

    def _name_task(self, task: Task) -> str:
        chunk = f", virtual stage {task.stage}" if len(self._step.stages_of(self._work.device)) > 1 else ""
        return f"{_NAMES.get(task.kind, task.kind.value)} of micro-batch {task.micro_batch}{chunk}"

    @cached_property
    def peak(self) -> int:
        counts = [moment.bytes for moment in self.moments]
        return counts.index(max(counts))

    def memory(self, capacity: int, runtime: Runtime) -> Memory:
        roles = {role: counts[self.peak] for role, counts in self.curve.by_role.items()}
        return Memory(roles, capacity=capacity, working=roles[Role.ACTIVATION]).held_by(runtime)

    def alive(self, place: int) -> tuple[Alive, ...]:
        """List the contents of a device at a moment, largest first."""
        contents = [*self._slices.alive]
        if place == len(self.moments) - 1:
            borrowed = self.moments[place].bytes - sum(self._slices.by_role.values())
            contents += [Alive("gradients (summed over devices)", Role.GRADIENT, borrowed, 1)] if borrowed else []
        else:
            contents += self._of_micro_batches(self._step.held(self._work.device, self.moments[place].start))
        return tuple(sorted((entry for entry in contents if entry.bytes), key=lambda entry: (-entry.bytes, entry.path)))

    def _of_micro_batches(self, held: Sequence[Held]) -> Iterator[Alive]:
        batch_bytes, kept = 0, Counter[tuple[int, bool]]()
        for entry in held:
            batch = 0 if entry.what == "arrived" else self._step.costs[entry.stage].batch_inputs
            batch_bytes += batch
            if entry.what == "kept":
                kept[entry.stage, self._step.recomputed[self._work.device][entry.micro_batch]] += 1
            elif entry.bytes > batch:
                yield Alive(self._describe(entry), Role.ACTIVATION, entry.bytes - batch, 1)
        if batch_bytes:
            yield Alive("batch", Role.INPUT, batch_bytes, sum(entry.what != "arrived" for entry in held))
        for (stage, recomputed), count in kept.items():
            for path, size in self._slices.kept_parts(stage, recomputed=recomputed):
                yield Alive(path, Role.ACTIVATION, size * count, count)

    def _describe(self, held: Held) -> str:
        name = self._work.planned.virtual_stages[held.stage].name
        if held.task is not None and held.what == "task":
            return f"{name} ({self._name_task(held.task)})"
        state = "arrived, waits for its task" if held.what == "arrived" else "waits for the gradient of the weights"
        return f"{name} (micro-batch {held.micro_batch}, {state})"
