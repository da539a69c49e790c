"""Which plan a page shows: the served one, or one that its URL asks for; and the resulting visit."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from workbench.app.page.document_visit import LabVisit
from workbench.app.page.visit import FileVisit, Visit, VisitContext
from workbench.app.page.watched_plan_file import PlanFile, file_under
from workbench.app.runners.worker_runner import RUN_LIMIT
from workbench.documents import parse_link
from workbench.errors import DocumentError
from workbench.exercises import Exercise
from workbench.plan.plan import Plan
from workbench.widgets.board.board_host import Host


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """What the pages show: a first plan from `make`, or `file`, or with `?file=` any plan file under `root`.

    A board's run or compilation may take `time_limit` seconds. `allow` are modules whose programs the plan files may name; links may not.
    `exercise` is what is to be answered on each board. With `start` a page that names no plan begins with the start panel, which looks for
    functions in `folder`, if there is one, and in the modules of `allow`.
    """

    make: Callable[[], Plan]
    file: Path | None = None
    root: Path | None = None
    tour: bool = False
    time_limit: float = RUN_LIMIT
    allow: tuple[str, ...] = ()
    exercise: Exercise | None = None
    start: bool = False
    folder: Path | None = None

    def host(self, *, begins: bool) -> Host:
        """The host of a board of this server; `begins` with the start panel, if the server does."""
        starts = self.exercise is None
        start_open = starts and self.start and begins
        return Host(link=address_of, allow=self.allow, exercise=self.exercise, starts=starts, start_open=start_open, folder=self.folder)


def open_visit(served: ServeOptions, query: Mapping[str, str], context: VisitContext) -> Visit:
    """The visit that a URL asks for. An error becomes a text on the page: an exception would show a spinner for ever."""
    try:
        return _make_visit(served, query, context)
    except Exception as error:  # noqa: BLE001 - the page must show it, whatever failed
        failed = Visit(context._replace(keeping=None, settling=None))
        failed.show_failure(error, by_link="plan" in query)
        return failed


def _make_visit(served: ServeOptions, query: Mapping[str, str], context: VisitContext) -> Visit:
    if query.get("host") == "jupyterlab":
        return LabVisit(served.make, context._replace(keeping=None), served.host(begins=True))
    file = file_asked_for(served, query)
    if file and "plan" not in query:
        return FileVisit(PlanFile(file, served.allow), context, replace(served.host(begins=False), exercise=None))
    visit = Visit(context)
    tour = served.tour and not {"plan", "board"} & query.keys()
    visit.show(lambda: _first_plan(served, query), served.host(begins="plan" not in query), tour=tour)
    return visit


def _first_plan(served: ServeOptions, query: Mapping[str, str]) -> Plan:
    """The first plan, or the one that the URL contains."""
    return parse_link(query["plan"], known=served.make()) if "plan" in query else served.make()


def file_asked_for(served: ServeOptions, query: Mapping[str, str]) -> Path | None:
    """The plan file that the URL asks for, else the one that is served. Raises `DocumentError` where files are not served."""
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
    """The URL of this page with the text of a link; the browser completes it."""
    return f"?plan={link}"
