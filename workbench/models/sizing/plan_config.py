"""`plan_config`: whether a model fits on a cluster, the time and devices it needs, and the best layouts."""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from workbench.errors import HardwareError, SearchError, WorkbenchError, wrong_type
from workbench.hardware.hardware import Hardware
from workbench.hardware.resize_hardware import resize_hardware
from workbench.models.sizing.candidate_layouts import Outline, Outliner, ParallelLayout, powers_of_two
from workbench.models.sizing.cluster_answer import GOALS, ClusterAnswer
from workbench.models.sizing.cluster_question import ClusterQuestion, NamedModel, read_question
from workbench.models.sizing.nearest_program import list_approximations
from workbench.models.sizing.plan_layout import LayoutPlanner, PlannedLayout, estimated_layout
from workbench.plan.plan import Plan

MOST_DEVICES = 1 << 16
ALIKE = 0.1  # relative difference of step time or price that outlines cannot resolve
PLENTY = 0.9  # share of the memory below which an outline is certain to fit
FIRST_LAYOUT = 10.0  # multiple of `seconds` after which the search ends even without a planned layout


def plan_config(
    config: str | Path | NamedModel,
    on: str | Hardware,
    *,
    tokens: int | str | None = None,
    batch: int | str | None = None,
    seq: int | str | None = None,
    inference: bool = False,
    optimizer: str = "adamw",
    precision: str = "",
    lora: int = 0,
    seconds: float = 2.0,
    on_progress: Callable[[ClusterAnswer], None] | None = None,
    plan_class: type[Plan] = Plan,
) -> ClusterAnswer:
    """Whether a model fits on a cluster, and its fastest, smallest and cheapest layouts: `plan_config("config.json", "64 H100")`.

    - `config`: a Hugging Face `config.json`, the folder that holds one, or a preset of the zoo; nothing is downloaded;
    - `batch`: the batch of a step in sequences, `512`, or in tokens, `"4M"`; with `inference`, the number of sequences to decode, each
      with `seq` cached tokens;
    - `optimizer`: a name, such as `"lion"` (`wb.optimizer`);
    - `precision`: in training `"float8"` or `"float8 rowwise"`, for the weight products of layers; in decoding the type of the weights,
      `"bfloat16"`, `"float8"`, `"int8"` or `"int4"`, by default that of the file; with `lora` also that of frozen weights, `"int4"`;
    - `lora`: rank of low-rank adapters, which are trained alone; 0 trains all weights;
    - `seconds`: the time limit for planning layouts. At least one layout is planned; the figures of the others are estimates.

    `print` the result. Raises `DocumentError` for a model that cannot be read, `HardwareError` for an unknown cluster,
    `TraceError` for an unknown optimizer and `SearchError` for invalid numbers.
    """
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds < float("inf"):
        raise SearchError(wrong_type("seconds", seconds, "a number of seconds"), ["write `seconds=10`"])
    sizes = {"tokens": tokens, "batch": batch, "seq": seq}
    question = read_question(config, on, **sizes, inference=inference, optimizer=optimizer, precision=precision, lora=lora)
    sizing = _Sizing(question, time.monotonic(), seconds, LayoutPlanner(question, plan_class))
    for answer in sizing.answers():
        if on_progress is not None:
            on_progress(answer)
    return sizing.answer(with_approximations=True)


@dataclass
class _Sizing:
    question: ClusterQuestion
    started: float
    seconds: float
    planner: LayoutPlanner
    hardware: dict[int, Hardware] = field(default_factory=dict)
    outlines: dict[tuple[int, ParallelLayout], Outline] = field(default_factory=dict)
    planned: dict[tuple[int, ParallelLayout], PlannedLayout | None] = field(default_factory=dict)
    outlined: int = 0

    def answers(self) -> Iterator[ClusterAnswer]:
        """Plan layouts for each goal in turn until time is over or no outline is better than the planned layouts."""
        self._outline_cluster()
        yield self.answer()
        while not self._is_over() and ((goals := list(self._next_round())) or self._outline_more()):
            for goal in goals:
                if not self._is_over() and (best := self._most_promising(goal)) is not None:
                    self._plan(best)
                    yield self.answer()
        while not self._candidates() and self._outline_more():  # planned layouts did not fit, so try outlines on more devices
            pass

    def _is_over(self) -> bool:
        spent = time.monotonic() - self.started
        return spent > (self.seconds if any(self.planned.values()) else FIRST_LAYOUT * self.seconds)

    def _outline_cluster(self) -> None:
        size = self.question.hardware.size
        for count in dict.fromkeys((*powers_of_two(size), size)):
            self._outline(count)
        if not self.outlines:
            self._outline_more()

    def _outline_more(self) -> bool:
        """Outline layouts on more devices than the cluster has, if nothing fits there; returns whether there are any."""
        if self._fitting():
            return False
        before = len(self.outlines)
        while len(self.outlines) == before and (count := 2 * max((*self.hardware, self.question.hardware.size))) <= MOST_DEVICES:
            if not self._outline(count):
                return False
        return len(self.outlines) > before

    def _outline(self, count: int) -> bool:
        """Outline the layouts on `count` devices; returns whether such hardware exists."""
        whole = self.question.hardware
        try:
            hardware = whole if count == whole.size else resize_hardware(whole, count)
        except HardwareError:
            return count < whole.size
        outliner = Outliner(self.question.architecture, self.question.workload, hardware)
        self.hardware[count] = hardware
        for outline in outliner.outlines():
            self.outlines[count, outline.choice] = outline
            self.outlined += 1
        return True

    def _ratios(self) -> tuple[float, float]:
        """Median ratios of planned to outlined step time and memory, to correct the remaining outlines."""
        pairs = [(self.outlines[key], layout) for key, layout in self.planned.items() if layout is not None]
        if not pairs:
            return 1.0, 1.0
        return (
            median(layout.seconds / outline.seconds for outline, layout in pairs),
            median(layout.memory / outline.memory for outline, layout in pairs),
        )

    def _candidates(self, *, hopeful: bool = False) -> list[PlannedLayout]:
        """Corrected outlines that fit and are not planned; `hopeful` does not increase step times, as few planned
        layouts say little.
        """
        time_ratio, memory_ratio = self._ratios()
        time_ratio = min(1.0, time_ratio) if hopeful else time_ratio
        layouts = []
        for (count, choice), outline in self.outlines.items():
            if (count, choice) not in self.planned:
                hardware = self.hardware[count]
                corrected = Outline(choice, outline.seconds * time_ratio, outline.memory * memory_ratio, outline.held)
                if corrected.memory <= hardware.chip.memory:
                    layouts.append(estimated_layout(corrected, hardware))
        return layouts

    def _best(self, goal: str, layouts: list[PlannedLayout]) -> PlannedLayout | None:
        return min(layouts, key=GOALS[goal], default=None)

    def _fitting(self) -> list[PlannedLayout]:
        return [layout for layout in self.planned.values() if layout is not None and layout.fits]

    def _most_promising(self, goal: str) -> PlannedLayout | None:
        """The best outline for a goal, or a similar one that is faster to plan, if better than all planned."""
        key, best = GOALS[goal], self._best(goal, self._fitting())
        remaining = sorted(self._candidates(hopeful=True), key=key)
        if not remaining or (best is not None and key(remaining[0]) >= key(best)):
            return None
        return min([layout for layout in remaining if self._is_alike(goal, layout, remaining[0])] or remaining[:1], key=self._effort)

    def _is_alike(self, goal: str, layout: PlannedLayout, first: PlannedLayout) -> bool:
        if goal == "fewest devices":
            return layout.devices == first.devices and layout.memory <= PLENTY * layout.hardware.chip.memory
        return GOALS[goal](layout)[0] <= (1 + ALIKE) * GOALS[goal](first)[0]

    def _effort(self, layout: PlannedLayout) -> tuple[bool, int, float]:
        traced = {(choice.replicas * choice.micro_batch, choice.recompute) for _, choice in self.planned}
        choice = layout.choice
        return (choice.replicas * choice.micro_batch, choice.recompute) not in traced, choice.stages, layout.seconds

    def _next_round(self) -> Iterator[str]:
        return (goal for goal in GOALS if self._most_promising(goal) is not None)

    def _plan(self, layout: PlannedLayout) -> None:
        key = layout.devices, layout.choice
        try:
            self.planned[key] = self.planner.evaluate(layout.choice, layout.hardware)
        except WorkbenchError:
            self.planned[key] = None

    def answer(self, *, with_approximations: bool = False) -> ClusterAnswer:
        layouts = self._layouts()
        size = self.question.hardware.size
        fits = any(layout.devices <= size for layout in layouts.values())
        least = None if fits else Outliner(self.question.architecture, self.question.workload, self.question.hardware).least_outline()
        program = (
            self.planner.program(next((recompute for recompute, _ in self.planner.programs), "kernels")) if with_approximations else None
        )
        return ClusterAnswer(
            self.question,
            layouts,
            fits,
            self.outlined,
            len(self.planned),
            sum(layout is None for layout in self.planned.values()),
            tuple(self.hardware),
            time.monotonic() - self.started,
            lambda layout: layout.plan or self.planner.plan(layout.choice, layout.hardware),
            list_approximations(self.question.architecture, self.question.workload, program) if program else (),
            least.memory if least else 0.0,
            not any(map(self._most_promising, GOALS)),
        )

    def _layouts(self) -> Mapping[str, PlannedLayout]:
        layouts = {}
        fitting = self._fitting()
        candidates = [
            layout for layout in self._candidates() if layout.memory <= PLENTY * layout.hardware.chip.memory
        ] or self._candidates()
        size = self.question.hardware.size
        for goal, key in GOALS.items():
            chosen, outlined = self._best(goal, fitting), self._best(goal, candidates)
            if chosen is None or (outlined is not None and key(outlined)[0] < (1 - ALIKE) * key(chosen)[0]):
                chosen = outlined
            if chosen is not None:
                layouts[goal] = chosen
        if any(layout.devices <= size for layout in layouts.values()):
            return layouts
        fewest = layouts.get("fewest devices")
        return {} if fewest is None else {"fewest devices": fewest}
