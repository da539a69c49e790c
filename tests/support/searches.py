"""The results of searches, made by hand: a front of four plans on two numbers of devices, and nothing found."""

from workbench.core.mesh import Mesh
from workbench.models import build
from workbench.public_plan import Plan
from workbench.search.evaluator import Evaluator
from workbench.search.layout_choices import LayoutChoice
from workbench.search.plan_candidate import PlanCandidate
from workbench.search.present_plan import PresentPlan
from workbench.search.requirements import AtMost, Requirement
from workbench.search.search_figures import Figures, ParetoFront
from workbench.search.search_result import SearchResult
from workbench.search.search_space import SearchSpace
from workbench.search.search_state import SearchState

GIB = 1024**3
PRESENT = PresentPlan(Figures(2.4, 18.0 * GIB, 16, 12.8))
LIMITS = (AtMost("memory", 16 * GIB), AtMost("seconds", 6.0))


def candidate_on(mesh: str, *, zero: str = "no ZeRO", micro_batches: int = 1, schedule: str = "") -> PlanCandidate:
    """A candidate with Megatron's layout."""
    return PlanCandidate("", Mesh(mesh).axes, "megatron", zero, "none", micro_batches, schedule)


FOUND = (
    (candidate_on("stage:1 data:4 model:4"), Figures(1.5, 12.5 * GIB, 16, 8.0)),
    (candidate_on("stage:2 data:4 model:2", zero="zero_1", micro_batches=16, schedule="1f1b"), Figures(2.0, 4.0 * GIB, 16, 10.7)),
    (candidate_on("stage:2 data:1 model:4", micro_batches=32, schedule="1f1b"), Figures(3.0, 14.0 * GIB, 8, 8.0)),
    (candidate_on("stage:4 data:1 model:2", micro_batches=64, schedule="1f1b"), Figures(5.0, 6.0 * GIB, 8, 13.3)),
)
OTHERS = (
    (candidate_on("stage:1 data:8 model:2"), Figures(1.2, 40.0 * GIB, 16, 6.4)),
    (candidate_on("stage:1 data:2 model:8"), Figures(2.5, 13.0 * GIB, 16, 13.3)),
    (candidate_on("stage:1 data:1 model:16"), Figures(9.0, 8.0 * GIB, 16, 48.0)),
)


def make_result(
    found: tuple[tuple[PlanCandidate, Figures], ...],
    requirements: tuple[Requirement, ...] = LIMITS,
    present: PresentPlan | None = None,
) -> SearchResult:
    """A completed search that found these plans."""
    front: ParetoFront[PlanCandidate] = ParetoFront()
    for candidate, figures in found:
        front = front.with_item(candidate, figures)
    space = SearchSpace(Plan(build("two_layer"), "", ""), (("", 16), ("", 8)), ("stage", "data", "model"), (LayoutChoice("megatron"),))
    least = min((figures.seconds for _, figures in found), default=0.0)
    state = SearchState(1.0, "seconds", front, least, len(found), len(found), 0, is_proved=bool(found), is_complete=True)
    return SearchResult(space, requirements, state, Evaluator(space), present)


def front_result() -> SearchResult:
    """Four plans on the front, two on 16 devices and two on 8, and a present plan that is beyond a limit."""
    return make_result(FOUND, present=PRESENT)


def proof_states() -> tuple[SearchState, ...]:
    """Six rounds of a search: nothing found, a plan, a better bound, a better plan, a bound that does not rise, the proof."""
    first, second = (ParetoFront[PlanCandidate]().with_item(*each) for each in (FOUND[3], FOUND[0]))
    rounds = (
        (ParetoFront[PlanCandidate](), 0.0, 0, 0),
        (first, 0.5, 1, 4),
        (first, 1.0, 1, 12),
        (second, 1.0, 5, 12),
        (second, 1.0, 6, 14),
        (second, 1.5, 9, 16),
    )
    return tuple(
        SearchState(0.1 * number, "seconds", front, least, evaluated, bounded, 3, is_proved=number == len(rounds) - 1)
        for number, (front, least, evaluated, bounded) in enumerate(rounds)
    )
