"""The tables of one board as JSON: the open tab, and the answer to the last question."""

import logging
from collections.abc import Callable
from typing import Any

from workbench.errors import WorkbenchError
from workbench.reports.report import Report
from workbench.visualize.draw.palette import fixed_axis_colours
from workbench.widgets.board.background_queries import BackgroundQueries
from workbench.widgets.board.comparison_state import ComparisonState
from workbench.widgets.board.view_state import Sight
from workbench.widgets.run.job_progress import RunProgress
from workbench.widgets.shared_states import SharedStates
from workbench.widgets.tabs.board_tabs import Facts, FindBlocks, failed_state, section_of, table_state
from workbench.widgets.tabs.question_answers import why
from workbench.widgets.tabs.shown_stage import shown_stage
from workbench.widgets.tabs.source_context import source_state
from workbench.widgets.tabs.table_blocks import Paint

_log = logging.getLogger(__name__)


def table_part(
    report: Report,
    sight: Sight,
    live: RunProgress,
    comparison_state: ComparisonState | None,
    background: BackgroundQueries,
    find_blocks: FindBlocks,
    is_asked: Callable[[str], bool],
    shared: SharedStates,
    colours: dict[str, int],
    *,
    remedies: bool = True,
) -> dict[str, Any]:
    """Return the open tab of a report; a view that fails becomes an error message.

    `find_blocks` builds the search tab; `is_asked` tells by name whether the text form of a picture, and the SVG form
    of its charts, is requested; `shared` caches states across the boards of the session; `colours` maps mesh axes to
    colours; `remedies` shows suggested fixes with the notes.
    """
    ran = live.of(report.plan)
    measured = ran.measurement if ran else None
    facts = Facts(
        report,
        comparison_state,
        measured.trace if measured else None,
        colours,
        *(sight.selected, sight.toggled, sight.views, sight.replay, background),
        tasks=measured.tasks if measured else (),
        trial=sight.trial,
        is_asked=is_asked,
        find_blocks=find_blocks,
        remedies=remedies,
    )
    try:
        with fixed_axis_colours(colours):
            shown = _shown(facts, sight, shared)
    except Exception as error:  # noqa: BLE001 - a view that fails becomes an error message
        _log.exception("The view %r failed", sight.tab)
        shown = failed_state(sight.tab, error)
    source = _source(report, sight)
    return {**shown, "source": source, "why": _answer(report, sight, live, Paint(colours), background)}


def _shown(facts: Facts, sight: Sight, shared: SharedStates) -> dict[str, Any]:
    """Return the open tab, shared by all boards that show the same unless one board's results are in it."""
    is_own = facts.comparison_state or facts.trace or facts.tasks or facts.trial or not facts.remedies
    if is_own or not section_of(sight.tab).is_shared or facts.is_asked != sight.is_asked:
        return table_state(facts, sight.tab, sight.search)
    name = ("table", sight.tab, sight.search, sight.selected, sight.toggled, sight.views, sight.asked)
    return shared.get(facts.report, name, lambda: table_state(facts, sight.tab, sight.search))


def _source(report: Report, sight: Sight) -> dict[str, Any] | None:
    try:
        return source_state(shown_stage(report.prediction, sight.views.stage), sight.selected)
    except WorkbenchError:  # invalid pipeline: the tab shows the reason
        return None
    except Exception:  # noqa: BLE001 - a file that cannot be read is no reason to lose the tables
        _log.exception("No source for %r", sight.selected)
        return None


def _answer(report: Report, sight: Sight, live: RunProgress, paint: Paint, background: BackgroundQueries) -> dict[str, Any] | None:
    question = sight.question
    if not question:
        return None
    ran = live.run_to_show(report.plan)
    try:
        return why(question, report.prediction, paint, ran.measurement if ran else None, background, sight.views.stage)
    except WorkbenchError as error:
        return {"of": question, "title": "No answer", "lead": [str(error)], "blocks": [], "words": []}
    except Exception:  # noqa: BLE001 - a question without an answer is no reason to lose the tables
        _log.exception("No answer to %r", question)
        return None
