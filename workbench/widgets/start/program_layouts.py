"""First plans of any program on a cluster, by recipes: the fastest that fits, the one on the fewest devices, the cheapest.

A model whose architecture is known is sized by `models.sizing.plan_config` instead, which compares many more layouts.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from workbench.core.mesh import Mesh
from workbench.core.program import Program
from workbench.core.remat import Remat
from workbench.core.text_tables import count_text
from workbench.cost.estimate import estimate
from workbench.errors import HardwareError, SearchError, WorkbenchError
from workbench.hardware.hardware import Hardware
from workbench.hardware.resize_hardware import resize_hardware
from workbench.models.sizing.candidate_layouts import powers_of_two
from workbench.models.sizing.plan_layout import apply_recipes
from workbench.plan.plan import Plan
from workbench.public_plan import Plan as PublicPlan

MOST_GROWTH = 6  # times the devices are doubled where nothing fits
TENSOR_SIZES = (8, 4, 2)  # devices of a tensor-parallel axis, the first that divides
FULL = Remat.parse("full")

Report = Callable[[str], None]
"""Hears of each phase; it may raise to stop."""


@dataclass(frozen=True, slots=True)
class RecipeLayout:
    """A plan that recipes made, with the planner's figures: seconds of a step, bytes of the fullest device."""

    plan: Plan
    hardware: Hardware
    recipes: str
    seconds: float
    memory: float

    @property
    def devices(self) -> int:
        return self.plan.mesh.size

    @property
    def fits(self) -> bool:
        return self.memory <= self.hardware.chip.memory

    @property
    def price(self) -> float:
        """Dollars of a step; seconds of devices where no price is known."""
        hourly = self.hardware.hourly_price
        return self.seconds * (self.devices if hourly is None else hourly / 3600)


@dataclass
class ProgramLayouts:
    """The layouts of a program that were tried, by number of devices."""

    program: Program
    name: str
    hardware: Hardware
    report: Report
    tried: list[RecipeLayout] = field(default_factory=list)
    problem: WorkbenchError | None = None

    def best(self) -> Mapping[str, RecipeLayout]:
        """The best that fits by goal. On the cluster itself, or if nothing fits there on the fewest devices of its kind that do.

        Raises the first refusal where no recipe applies at all.
        """
        self._try_cluster()
        if not self.tried and self.problem is not None:
            raise SearchError(f"No first layout of {self.name}: {self.problem.message}", self.problem.ways_out)
        fitting = [each for each in self.tried if each.fits]
        if not fitting:
            return {}
        goals = {
            "fastest": lambda each: (each.seconds, each.devices),
            "fewest devices": lambda each: (each.devices, each.seconds),
            "cheapest": lambda each: (each.price, each.devices),
        }
        found = {goal: min(fitting, key=key) for goal, key in goals.items()}
        fewest = found["fewest devices"]
        return found if fewest.devices <= self.hardware.size else {"fewest devices": fewest}

    @property
    def leanest(self) -> RecipeLayout | None:
        """The layout of the whole cluster that needs the least memory."""
        here = [each for each in self.tried if each.devices <= self.hardware.size]
        return min(here, key=lambda each: each.memory, default=None)

    def _try_cluster(self) -> None:
        """All layouts on the whole cluster, the lean ones on fewer devices as long as they fit, and on more where nothing fits."""
        size = self.hardware.size
        self._try_size(size)
        for count in reversed([count for count in powers_of_two(size) if count < size]):
            if self._try_size(count, lean=True) is False:
                break
        count = size
        while not any(each.fits for each in self.tried) and count < size << MOST_GROWTH:
            count *= 2
            self._try_size(count, lean=True)

    def _try_size(self, count: int, *, lean: bool = False) -> bool | None:
        """Try the layouts of so many devices, the `lean` ones alone where memory counts; whether one fits, `None` where none applies."""
        try:
            hardware = self.hardware if count == self.hardware.size else resize_hardware(self.hardware, count)
        except HardwareError:
            return None
        can_recompute = self.program.retrace is not None and self.program.step.training is not None
        found: list[RecipeLayout] = []
        for remat in (None, FULL) if can_recompute else (None,):
            self.report(f"Planning {self.name} on {count_text(count, 'device')}")
            found += filter(None, (self._try_first(choices, remat, hardware) for choices in self._choices(count, lean=lean)))
            if any(each.fits for each in found):
                break
        self.tried += found
        return any(each.fits for each in found) if found else None

    def _choices(self, count: int, *, lean: bool) -> Iterator[Iterator[tuple[str, tuple[str, ...]]]]:
        """Alternatives of mesh and recipes, of each of which the first that applies is planned."""
        sharded = ("zero_3",) if self.program.step.training is not None else ()
        if count == 1:
            yield iter([("data:1", ())])
            return
        if not (lean and sharded):
            yield iter([(f"data:{count}", ("data_parallel",))])
        if sharded:
            yield iter([(f"data:{count}", ("data_parallel", *sharded))])
        yield (_tensor_parallel(count, size, sharded) for size in TENSOR_SIZES if count % size == 0)

    def _try_first(self, choices: Iterator[tuple[str, tuple[str, ...]]], remat: Remat | None, hardware: Hardware) -> RecipeLayout | None:
        return next((layout for choice in choices if (layout := self._try(*choice, remat, hardware)) is not None), None)

    def _try(self, mesh: str, names: tuple[str, ...], remat: Remat | None, hardware: Hardware) -> RecipeLayout | None:
        """The layout with its figures; `None` where a recipe does not apply, or the plan is refused."""
        try:
            program = self.program if remat is None else self.program.variant(remat=remat)
            plan = apply_recipes(PublicPlan(program, Mesh(mesh), "", f"{self.name} on {hardware}", hardware), names)
            found = estimate(plan)
        except WorkbenchError as error:
            self.problem = self.problem or error
            return None
        assert found.step_time is not None  # the plan has hardware
        used = " + ".join((*names, *(["remat full"] if remat else []))) or "one device"
        return RecipeLayout(plan, hardware, used, found.step_time.total, found.memory.peak)


def _tensor_parallel(count: int, size: int, sharded: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """Tensor parallelism over `size` of the devices, and data parallelism over the others."""
    if count == size:
        return f"model:{size}", ("megatron",)
    return f"data:{count // size} model:{size}", ("data_parallel", "megatron", *sharded)
