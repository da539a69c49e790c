"""`plan_config`: does a model fit on a cluster, how long does it take, on how many devices, and with which layouts."""

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
ALIKE = 0.1  # a share of the step time or price that outlines do not tell apart
PLENTY = 0.9  # a share of the memory below which an outline is sure to fit
FIRST_LAYOUT = 10.0  # times `seconds`: after so long the search ends even where no layout was planned yet


def plan_config(
    config: str | Path | NamedModel,
    on: str | Hardware,
    *,
    tokens: int | str | None = None,
    batch: int | str | None = None,
    seq: int | str | None = None,
    inference: bool = False,
    seconds: float = 2.0,
    on_progress: Callable[[ClusterAnswer], None] | None = None,
    plan_class: type[Plan] = Plan,
) -> ClusterAnswer:
    """Whether a model fits on a cluster, and its fastest, smallest and cheapest layouts: `plan_config("config.json", "64 H100")`.

    - `config`: a Hugging Face `config.json`, the folder that holds one, or a preset of the zoo; nothing is downloaded;
    - `batch`: sequences of a step, `512`, or tokens, `"4M"`; of `inference`, sequences that are decoded at once after `seq` cached tokens;
    - `seconds`: how long layouts are planned; the ones that are not planned by then have estimated figures. One is planned in any case.

    `print` what comes back. Raises `DocumentError` for a model that cannot be read, `HardwareError` for an unknown cluster and
    `SearchError` for numbers that cannot be.
    """
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds < float("inf"):
        raise SearchError(wrong_type("seconds", seconds, "a number of seconds"), ["write `seconds=10`"])
    question = read_question(config, on, tokens=tokens, batch=batch, seq=seq, inference=inference)
    sizing = _Sizing(question, time.monotonic(), seconds, LayoutPlanner(question, plan_class))
    for answer in sizing.answers():
        if on_progress is not None:
            on_progress(answer)
    return sizing.answer(with_approximations=True)


@dataclass
class _Sizing:
    """One question being answered: the outlines by number of devices, and what was planned."""

    question: ClusterQuestion
    started: float
    seconds: float
    planner: LayoutPlanner
    hardware: dict[int, Hardware] = field(default_factory=dict)
    outlines: dict[tuple[int, ParallelLayout], Outline] = field(default_factory=dict)
    planned: dict[tuple[int, ParallelLayout], PlannedLayout | None] = field(default_factory=dict)
    outlined: int = 0

    def answers(self) -> Iterator[ClusterAnswer]:
        """Plan one layout after another, for each goal in turn, until time is over or no outline is better than what was planned."""
        self._outline_cluster()
        yield self.answer()
        while not self._is_over() and ((found := list(self._next_round())) or self._outline_more()):
            for goal in found:
                if not self._is_over() and (best := self._most_promising(goal)) is not None:
                    self._plan(best)
                    yield self.answer()
        while not self._candidates() and self._outline_more():  # what was planned did not fit: more devices, as far as outlines say
            pass

    def _is_over(self) -> bool:
        spent = time.monotonic() - self.started
        return spent > (self.seconds if any(self.planned.values()) else FIRST_LAYOUT * self.seconds)

    def _outline_cluster(self) -> None:
        """Outlines on every power of two of the cluster's devices, and on all of them."""
        size = self.question.hardware.size
        for count in dict.fromkeys((*powers_of_two(size), size)):
            self._outline(count)
        if not self.outlines:
            self._outline_more()

    def _outline_more(self) -> bool:
        """Outlines on more devices than the cluster has, where nothing fits there; whether there are any."""
        if self._fitting():
            return False
        before = len(self.outlines)
        while len(self.outlines) == before and (count := 2 * max((*self.hardware, self.question.hardware.size))) <= MOST_DEVICES:
            if not self._outline(count):
                return False
        return len(self.outlines) > before

    def _outline(self, count: int) -> bool:
        """Outline the choices on so many devices; whether there is such hardware."""
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
        """How far planned step times and memory are from their outlines, in the middle: it corrects the outlines that are left."""
        pairs = [(self.outlines[key], layout) for key, layout in self.planned.items() if layout is not None]
        if not pairs:
            return 1.0, 1.0
        return (
            median(layout.seconds / outline.seconds for outline, layout in pairs),
            median(layout.memory / outline.memory for outline, layout in pairs),
        )

    def _candidates(self, *, hopeful: bool = False) -> list[PlannedLayout]:
        """What is left, with its outline corrected, as far as it fits so. `hopeful` corrects no step time upward: few layouts were planned,
        and what is left may be better than they say."""
        time_ratio, memory_ratio = self._ratios()
        time_ratio = min(1.0, time_ratio) if hopeful else time_ratio
        found = []
        for (count, choice), outline in self.outlines.items():
            if (count, choice) not in self.planned:
                hardware = self.hardware[count]
                corrected = Outline(choice, outline.seconds * time_ratio, outline.memory * memory_ratio, outline.held)
                if corrected.memory <= hardware.chip.memory:
                    found.append(estimated_layout(corrected, hardware))
        return found

    def _best(self, goal: str, layouts: list[PlannedLayout]) -> PlannedLayout | None:
        return min(layouts, key=GOALS[goal], default=None)

    def _fitting(self) -> list[PlannedLayout]:
        return [layout for layout in self.planned.values() if layout is not None and layout.fits]

    def _most_promising(self, goal: str) -> PlannedLayout | None:
        """The outline that is the best for a goal, where it is better than everything planned. Of the ones that are about as good it is the
        one that is planned in the least time: with micro-batches of a size that was traced already, with few stages."""
        key, best = GOALS[goal], self._best(goal, self._fitting())
        left = sorted(self._candidates(hopeful=True), key=key)
        if not left or (best is not None and key(left[0]) >= key(best)):
            return None
        return min([layout for layout in left if self._is_alike(goal, layout, left[0])] or left[:1], key=self._effort)

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
        """The answer as far as it is known."""
        layouts = self._layouts()
        size = self.question.hardware.size
        fits = any(layout.devices <= size for layout in layouts.values())
        least = None if fits else Outliner(self.question.architecture, self.question.workload, self.question.hardware).least_outline()
        program = self.planner.program(next(iter(self.planner.programs), "kernels")) if with_approximations else None
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
        """The best planned layout of each goal; an outline where none is planned that fits, or where it is clearly better."""
        found = {}
        fitting = self._fitting()
        candidates = [each for each in self._candidates() if each.memory <= PLENTY * each.hardware.chip.memory] or self._candidates()
        size = self.question.hardware.size
        for goal, key in GOALS.items():
            known, outlined = self._best(goal, fitting), self._best(goal, candidates)
            if known is None or (outlined is not None and key(outlined)[0] < (1 - ALIKE) * key(known)[0]):
                known = outlined
            if known is not None:
                found[goal] = known
        if any(layout.devices <= size for layout in found.values()):
            return found
        fewest = found.get("fewest devices")
        return {} if fewest is None else {"fewest devices": fewest}
