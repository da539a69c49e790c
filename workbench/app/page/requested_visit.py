"""Chooses the plan of a page, the served one or one requested by its URL, and opens the visit."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from workbench.app.page.document_visit import DocumentExercise, LabVisit
from workbench.app.page.lesson_text import LessonText
from workbench.app.page.serve_options import ServeOptions
from workbench.app.page.visit import FileVisit, Visit, VisitContext
from workbench.app.page.watched_plan_file import PlanFile, file_under
from workbench.documents import parse_link
from workbench.errors import DocumentError
from workbench.exercises.lesson_answers import exercise_text, merge_stored_answers, read_stored_answers
from workbench.plan.plan import Plan
from workbench.widgets.board.board_host import Host


def open_visit(served: ServeOptions, query: Mapping[str, str], context: VisitContext) -> Visit:
    """Open the visit of a URL; an error is shown on the page, since an exception would leave a spinner."""
    try:
        return _make_visit(served, query, context)
    except Exception as error:  # noqa: BLE001 - the page must show it, whatever failed
        failed = Visit(context._replace(keeping=None, settling=None))
        failed.show_failure(error, by_link="plan" in query)
        return failed


def _make_visit(served: ServeOptions, query: Mapping[str, str], context: VisitContext) -> Visit:
    if query.get("host") == "jupyterlab":
        return LabVisit(served.make, context._replace(keeping=None), host_of(served, begins=True))
    file = requested_file(served, query)
    if file and "plan" not in query:
        return FileVisit(PlanFile(file, served.allow), context, replace(host_of(served, begins=False), exercise=None))
    if "lesson" in query:
        return LessonVisit(query["lesson"], context, is_kept=served.folder is not None)
    visit = Visit(context)
    if "lessons" in query:
        visit.show(served.make, replace(host_of(served, begins=True), start_open=True, only_lessons=True))
        return visit
    tour = served.tour and not {"plan", "board"} & query.keys()
    visit.show(lambda: _first_plan(served, query), host_of(served, begins="plan" not in query), tour=tour)
    return visit


def host_of(served: ServeOptions, *, begins: bool) -> Host:
    """Return the host of a board; `begins` opens the start panel if the server offers it."""
    exercise = served.load_exercise()
    starts = exercise is None
    host = Host(link=address_of, allow=served.allow, exercise=exercise, starts=starts, folder=served.folder)
    return replace(host, start_open=starts and served.start and begins, opens_lessons=served.folder is not None)


class LessonVisit(Visit):
    """A lesson beside a board that asks its questions, with neither Find nor runs, which would answer them; `is_kept` if this machine keeps
    the answers."""

    def __init__(self, name: str, context: VisitContext, *, is_kept: bool) -> None:
        super().__init__(context)
        text = LessonText(name)
        keep = partial(merge_stored_answers, name) if is_kept else lambda _record: None
        asked = DocumentExercise(exercise_text(name), read_stored_answers(name) if is_kept else "", keep)
        question = next((each.name for each in asked.exercise.questions if not asked.progress.attempts[each.name].is_done), "")
        host = Host(link=address_of, exercise=asked.exercise, question=question, progress=asked.progress, handing_in=asked)
        self.show(lambda: asked.first_plan(question), replace(host, lesson=text, searches=False, runs=False, exchanges=False))
        if asked.problem:
            self.window.tell(notice={"title": "Earlier answers", "text": asked.problem, "choices": [["dismiss", "All right"]]})


def _first_plan(served: ServeOptions, query: Mapping[str, str]) -> Plan:
    return parse_link(query["plan"], known=served.make()) if "plan" in query else served.make()


def requested_file(served: ServeOptions, query: Mapping[str, str]) -> Path | None:
    """Return the plan file of the URL, else the served one. Raises `DocumentError` if files are not served."""
    if "file" not in query:
        return served.file
    if served.root:
        return file_under(served.root, query["file"])
    if served.file and served.file.name == query["file"]:
        return served.file
    raise DocumentError(
        f"The address asks for the file `{query['file'][:200]}`, but this server has no plan folder.",
        ["start it with `--root FOLDER`", "remove `?file=` from the address"],
    )


def address_of(link: str) -> str:
    """Return the relative URL of a link text; the browser completes it."""
    return f"?plan={link}"
