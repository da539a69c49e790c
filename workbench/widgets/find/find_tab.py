"""The *Find* tab: the form, the progress, plans as rows, the explanation of the chosen one, and two charts; and its panel of a board."""

from collections.abc import Callable
from typing import Any

from workbench.core.text_tables import count_text
from workbench.plan.plan import Plan
from workbench.reports.report import Report
from workbench.search.present_plan import outside_decision
from workbench.search.requirement_conflicts import Relaxation, conflict_sentence, relaxation_text
from workbench.search.requirements import AtMost, against_best_text, present_text, present_ways
from workbench.search.search_figures import NOMINAL_SECONDS, figures_text
from workbench.search.search_state import ending_text, nothing_found_text
from workbench.search.tier_ranks import PlanRow, present_row
from workbench.session.plan_history import Session
from workbench.visualize import found_plans, search_progress
from workbench.visualize.charts.front_chart import FoundPlan, FrontOverlays, front_chart
from workbench.visualize.front_axes import Up
from workbench.widgets.board.background_queries import BackgroundQueries
from workbench.widgets.board.board_host import Part
from workbench.widgets.find.find_form import PINS, count_options, form_fields
from workbench.widgets.find.find_progress import FindProgress
from workbench.widgets.find.finder import Finder
from workbench.widgets.find.found_explained import chosen_blocks, comparison_blocks
from workbench.widgets.find.found_rows import parts_text, present_candidate, present_figures, rank_rows, rows_block
from workbench.widgets.gestures import panel_gestures as gestures
from workbench.widgets.gestures.gesture import Handlers, handlers_of, on
from workbench.widgets.run.runner_protocol import Runner
from workbench.widgets.shared_states import Defer
from workbench.widgets.tabs.board_tabs import NO_SEARCH
from workbench.widgets.tabs.table_blocks import Block, Opens, act, note_block, picture_block

INVITATION = (
    "The search chooses mesh, layout, ZeRO, rematerialisation, stages, schedule and micro-batches. The first plans appear within a second "
    "or two; XLA's partitioner checks those that are ahead."
)


def find_blocks(finder: Finder, report: Report, background: BackgroundQueries | None) -> list[Block]:
    """Return the tab's blocks for the present plan; questions use the prediction of its report."""
    if not finder.can_find:
        return [note_block(NO_SEARCH)]
    progress = finder.progress
    figures, report = present_figures(finder, report, background), report.prediction
    present = present_candidate(finder, report, background)
    rows = rank_rows(progress, report.plan, present, figures)
    blocks = [{**note_block(""), "find": controls_state(finder, report.plan, rows)}]
    if progress.chosen is not None:
        blocks += chosen_blocks(finder, progress.chosen, is_present=progress.chosen == present)
    blocks += [rows_block(finder, report, rows, background)] if rows else []
    if not progress.front:
        return blocks
    blocks += _front_pictures(progress, rows)
    blocks += [picture_block(search_progress(progress.states), name="best and bound")] if len(progress.states) > 1 else []
    if progress.chosen is None:
        return blocks
    return [*blocks, *comparison_blocks(finder, progress.chosen, report, background, is_present=progress.chosen == present)]


def controls_state(finder: Finder, plan: Plan, rows: tuple[PlanRow, ...]) -> dict[str, Any]:
    progress, form = finder.progress, finder.form_for(plan)
    count = count_options(form)
    return {
        "phase": progress.phase,
        "running": progress.running or progress.is_checking,
        "label": "Find" if progress.number == 0 else "Find again",
        "fields": form_fields(form, plan, progress.space),
        "options": f"Options ({count} set)" if count else "Options",
        "line": _line(progress),
        "fraction": round(min(progress.state.elapsed / progress.within, 1.0), 4) if progress.state else 0.0,
        "gap": _gap(progress),
        **_present(progress, plan, rows),
        **_message(progress, rows),
        "said": _announcement(progress),
    }


def _present(progress: FindProgress, plan: Plan, rows: tuple[PlanRow, ...]) -> dict[str, Any]:
    """Compare the present plan with the best in one tier, with a button for each decision that can be pinned."""
    outside = _outside(progress, plan, rows)
    row, best = present_row(rows), next((plan_row for plan_row in rows if plan_row.is_best), None)
    if row is None or best is None or progress.state is None:
        return {"present": f"present plan {outside}" if outside else "", "pins": []}
    now, other = (plan_row.known.figures for plan_row in (row, best))
    same = row.known.tier == best.known.tier
    text = present_text(now, other, progress.state.objective, progress.requirements) if same else figures_text(now)
    pins = (
        []
        if row.candidate is None
        else [
            act(f"Pin {'ZeRO' if name == 'zero' else name}", gestures.PinChoiceGesture(name), title=_PIN)
            for name in PINS
            if name != "offload"
        ]
    )
    return {"present": " · ".join(filter(None, (f"present plan {text}", outside))), "pins": pins}


_PIN = "Search again with this choice of the present plan fixed"


def _line(progress: FindProgress) -> str:
    """Format the progress, `12.4 of 30 s · 37 planned, 264 excluded by bounds`, or how the search ended."""
    state, checking = progress.state, _checking(progress)
    if state is None:
        return f"{_STARTING[progress.phase]}, {progress.elapsed:.0f} s" if progress.running else ""
    time = f"{state.elapsed:.1f} of {progress.within:,.0f} s"
    if not progress.running:
        ending = ending_text(state, progress.space.size) if progress.space else ""
        return " · ".join(filter(None, (time, ending, checking)))
    counts = f"{state.evaluated:,} planned, {state.bounded:,} excluded by bounds"
    size = f" of {progress.space.size:,} combinations" if progress.space else ""
    looking = state.is_complete and state.best is None
    waiting = "no plan yet" if not state.is_complete and state.best is None else ""
    waiting = f"looking for what {'would help' if progress.clash else 'clashes'}…" if looking else waiting
    return " · ".join(filter(None, (time, f"{counts}{size}", waiting, checking)))


_STARTING = {"preparing": "tracing the program with each remat", "searching": "starting the search process and planning the first plan"}
"""Parts of the start-up, before the time limit begins, by the phase of the progress."""


def _checking(progress: FindProgress) -> str:
    if not progress.verified and not progress.is_checking:
        return ""
    checked = sum(candidate in progress.verified for candidate, _ in progress.contenders)
    return f"{checked} of {len(progress.contenders)} checked by XLA"


def _gap(progress: FindProgress) -> dict[str, Any] | None:
    state, ranked = progress.state, progress.ranked
    if state is None or ranked is None or ranked.best is None:
        return None
    candidate, figures = ranked.best
    devices = f"{count_text(figures.devices, 'device')}, " if state.objective == "devices" else ""
    tier = progress.known(candidate, figures).tier
    text = state.status if tier == "planned" else f"as planned {state.status}"
    best = f"best {devices}{figures_text(figures)}{'' if tier == 'planned' else f', {tier}'}"
    return {"best": best, "text": text, "share": round(1 - state.gap, 4), "proved": state.is_proved}


def _message(progress: FindProgress, rows: tuple[PlanRow, ...]) -> dict[str, Any]:
    if progress.message:
        return {"message": progress.message, "tone": "bad", "ways_out": list(progress.ways_out), "acts": []}
    clash = progress.clash
    if clash is not None and clash.is_proved:
        acts = [act(_relaxation_text(relaxation), gestures.RelaxGesture(str(place))) for place, relaxation in enumerate(clash.relaxations)]
        ways = list(map(_relaxed_plan, clash.relaxations))
        return {"message": conflict_sentence(clash), "tone": "bad", "ways_out": ways, "acts": acts}
    if progress.phase in ("done", "stopped") and progress.state and progress.state.best is None:
        text = nothing_found_text(progress.state, progress.space.size if progress.space else 0)
        row = present_row(rows)
        keep = present_ways(progress.requirements, row.known.figures) if row else []
        return {"message": text, "tone": "bad", "ways_out": ["search longer", *keep], "acts": []}
    return {"message": INVITATION if progress.number == 0 else _remark(progress), "tone": "muted", "ways_out": [], "acts": []}


def _remark(progress: FindProgress) -> str:
    if progress.phase == "stopped" and not progress.front:
        return "The search stopped before it found a plan."
    if progress.front and progress.space and not all(hardware for hardware, _ in progress.space.hardware):
        return NOMINAL_SECONDS
    return ""


def _outside(progress: FindProgress, plan: Plan, rows: tuple[PlanRow, ...]) -> str:
    """Say which decision of the present plan is outside the search space; empty if none is known to be."""
    row, is_origin = present_row(rows), plan == progress.origin
    if progress.space is None or (progress.start if is_origin else row and row.candidate) is not None:
        return ""
    decision = outside_decision(progress.space, plan)
    if not decision and is_origin:
        decision = "its layout or pipeline options" if plan.pipeline else "its layout"
    return f"outside the search space: {decision}" if decision else ""


def _relaxation_text(each: Relaxation) -> str:
    return f"Allow {each.weakened}" if isinstance(each.weakened, AtMost) else f"Remove: {each.requirement}"


def _relaxed_plan(each: Relaxation) -> str:
    return f"With `{each.weakened}` ({relaxation_text(each)}) there is {each.candidate}: {figures_text(each.figures)}."


def _announcement(progress: FindProgress) -> str:
    state = progress.state
    match progress.phase:
        case "done":
            if state is None or state.best is None:
                return "No plan was found."
            return f"The search is done: {len(progress.front)} plans on the front, {state.status}."
        case "stopped":
            return "The search was stopped."
        case "failed":
            return f"The search failed. {progress.message}"
    return ""


def _front_pictures(progress: FindProgress, rows: tuple[PlanRow, ...]) -> list[Block]:
    """Plot step time against memory and, if the number of devices is open, against devices or cost."""
    front = {candidate for candidate, _ in progress.front}
    plans = [
        FoundPlan(str(place), str(plan), progress.known(plan, figures).figures, plan in front, parts_text(figures))
        for place, (plan, figures) in enumerate(progress.found)
    ]
    signs, opens = _signs(progress, rows), Opens(gestures.TakeFoundGesture, "plan")
    pictures: list[Block] = []
    for up in _sides(progress):
        picture, chart = found_plans(plans, up, signs), front_chart(plans, up, signs)
        pictures.append(picture_block(picture, "" if pictures else _HINT, f"front by {up}", opens, [chart] if chart else []))
    return pictures


_HINT = "Plans above and right of the line are worse in both."


def _signs(progress: FindProgress, rows: tuple[PlanRow, ...]) -> FrontOverlays:
    row, state = present_row(rows), progress.ranked
    now = row.known.figures if row else None
    if state is None:
        return FrontOverlays(now=now)
    limits = tuple(requirement for requirement in progress.requirements if isinstance(requirement, AtMost))
    is_open = state.objective == "seconds" and not state.is_proved and not progress.verified
    return FrontOverlays(
        chosen=progress.number_of(progress.chosen) if progress.chosen else "",
        now=now,
        against_best=against_best_text(now, state.best and state.best[1], state.objective, limits) if now else "",
        limits=limits,
        least=state.least if is_open else None,
    )


def _sides(progress: FindProgress) -> tuple[Up, ...]:
    if len({figures.devices for _, figures in progress.front}) < 2:
        return ("memory",)
    return ("memory", "dollars") if all(figures.dollars for _, figures in progress.front) else ("memory", "devices")


class FindPanel:
    """The search of one board. `show(part)` publishes a part of the board; `is_seen()` tells whether the tab is open."""

    def __init__(
        self, session: Session, runner: Runner | None, defer: Defer, show: Callable[[Part], None], is_seen: Callable[[], bool]
    ) -> None:
        self._session, self._show, self._is_seen = session, show, is_seen
        self.finder = Finder(runner, defer, self._show_news)
        self._shown_badge = ""

    def handlers(self) -> Handlers:
        session, finder = self._session, self.finder
        return handlers_of(
            on(gestures.FindGesture, lambda gesture: finder.find(gesture, session.plan)),
            on(gestures.StopFindingGesture, lambda _: finder.stop()),
            on(gestures.ChooseFoundGesture, lambda gesture: finder.choose(gesture.plan)),
            on(gestures.TakeFoundGesture, self._take),
            on(gestures.ExplainFoundGesture, lambda gesture: finder.explain(gesture.plan, gesture.than)),
            on(gestures.VerifyFoundGesture, lambda gesture: finder.verify(gesture.plan)),
            on(gestures.StopVerifyingGesture, lambda _: finder.stop_verifying()),
            on(gestures.PinChoiceGesture, lambda gesture: finder.pin(gesture.decision, session.plan)),
            on(gestures.RelaxGesture, lambda gesture: finder.relax(gesture.place, session.plan)),
        )

    def blocks(self, report: Report, background: BackgroundQueries | None) -> list[Block]:
        return find_blocks(self.finder, report, background)

    def _take(self, gesture: gestures.TakeFoundGesture) -> None:
        edit = self.finder.take(gesture.plan, self._session.plan)
        if edit is not None:
            self._session.apply(edit)

    def _show_news(self) -> None:
        if self._is_seen():
            self._show("table")
        if self.finder.badge != self._shown_badge:
            self._shown_badge = self.finder.badge
            self._show("board")
