"""The pictures of what a search found, and where the present plan stands in them."""

from workbench.errors import WorkbenchError
from workbench.plan.plan import Plan
from workbench.reports.report import Report
from workbench.search.candidates import PlanCandidate
from workbench.search.figures import Figures, evaluate_plan
from workbench.search.present_plan import on_searched_hardware
from workbench.search.requirements import AtMost, against_best_text
from workbench.visualize import found_plans
from workbench.visualize.charts.front_chart import front_chart
from workbench.visualize.found_plans import FoundPlan, FrontSigns
from workbench.visualize.front_chart import Up
from workbench.widgets.board.background_queries import BackgroundQueries, compute_in_background
from workbench.widgets.find.find_progress import FindProgress
from workbench.widgets.find.finder import Finder
from workbench.widgets.find.found_text import found_text, parts_text
from workbench.widgets.gestures.finding import TakeFoundGesture
from workbench.widgets.tabs.blocks import Block, Opens, picture_block

MOST_FRONT = 24
_HINT = (
    "Point at a plan to see what it changes; click it, and the board has it: undo brings back the old one. "
    "What lies above the line and right of it is beaten by a plan upon it."
)


def front_pictures(finder: Finder, report: Report, now: Figures | None, background: BackgroundQueries | None) -> list[Block]:
    """Step time against memory, and where the number of devices is open, against that or what it costs; `now` is the present plan."""
    progress, front = finder.progress, {candidate for candidate, _ in finder.progress.front}
    changes = _changes_of_front(finder, report, background)
    found = [
        FoundPlan(str(place), found_text(each), figures, each in front, "\n".join(filter(None, (parts_text(figures), changes.get(each)))))
        for place, (each, figures) in enumerate(progress.found)
    ]
    opens = Opens(TakeFoundGesture, "plan")
    pictures: list[Block] = []
    for up in _sides(progress):
        signs = _signs(progress, now)
        picture, chart = found_plans(found, up, signs), front_chart(found, up, signs)
        pictures.append(picture_block(picture, "" if pictures else _HINT, f"front by {up}", opens, [chart] if chart else []))
    return pictures


def present_figures(progress: FindProgress, report: Report, background: BackgroundQueries | None) -> Figures | None:
    """The figures of the present plan as a search has them, before XLA is asked; `None` where there are none, or not yet."""
    placed = None if progress.space is None else on_searched_hardware(progress.space, report.plan)
    if placed is None:
        return None
    return compute_in_background(background, report, f"present plan on {placed.hardware}", lambda: _evaluate(placed))


def _evaluate(plan: Plan) -> Figures | None:
    try:
        return evaluate_plan(plan)
    except WorkbenchError:
        return None


def _signs(progress: FindProgress, now: Figures | None) -> FrontSigns:
    state = progress.state
    if state is None:
        return FrontSigns(now=now)
    limits = tuple(each for each in progress.requirements if isinstance(each, AtMost))
    return FrontSigns(
        chosen=progress.number_of(progress.chosen) if progress.chosen else "",
        now=now,
        against_best=against_best_text(now, state.best and state.best[1], state.objective, limits) if now else "",
        limits=limits,
        least=state.least if state.objective == "seconds" and not state.is_proved else None,
    )


def _changes_of_front(finder: Finder, report: Report, background: BackgroundQueries | None) -> dict[PlanCandidate, str]:
    """What each plan of the front changes of the present one, once that is worked out."""
    front = [candidate for candidate, _ in finder.progress.front[:MOST_FRONT]]
    name = f"changes of {finder.progress.number} {hash(tuple(front))}"

    def work() -> dict[PlanCandidate, str]:
        return {each: finder.changes_of(each, report.plan) for each in front}

    return compute_in_background(background, report, name, work, patience=0.0) or {}


def _sides(progress: FindProgress) -> tuple[Up, ...]:
    """Step time against memory; where the number of devices is open, against that and what it costs, too."""
    if len({figures.devices for _, figures in progress.front}) < 2:
        return ("memory",)
    return ("memory", "dollars") if all(figures.dollars for _, figures in progress.front) else ("memory", "devices")
