"""Plans in and out of the board: save, open, export, link. A failure is an error of the gesture, and changes nothing."""

import base64
from collections.abc import Callable
from typing import Any

from workbench.documents import ALL_EXPORTS, dump_plan, link_text, parse_plan
from workbench.errors import DocumentError
from workbench.plan.edits import OpenPlan
from workbench.plan.plan import Plan
from workbench.public_plan import as_public
from workbench.reports.measurement import Measurement
from workbench.session.plan_history import Session
from workbench.visualize.exports.file_exports import FILE_EXPORTS, FileExport
from workbench.widgets.board.board_host import ENDING, MOST_NAME, Host, file_name
from workbench.widgets.gestures.gesture import Handlers, on
from workbench.widgets.gestures.view_gestures import CloseSheetGesture, ExportGesture, LinkGesture, OpenFileGesture, SaveGesture

MOST_FILE = 1 << 20  # characters of a plan document

Sheet = dict[str, Any]


class Files:
    """The files of one board: a sheet with text to copy, a download, a message about what was done.

    A download and a message belong to one gesture, and are gone with the next; a sheet stays, and follows the plan, until it is closed.
    """

    def __init__(self, session: Session, host: Host, measured: Callable[[Plan], Measurement | None] = lambda _plan: None) -> None:
        """`measured` finds what a run of a plan measured."""
        self._session, self._host, self._measured = session, host, measured
        self._sheet = ""  # key of an export, or `link`
        self._download: dict[str, Any] | None = None
        self._downloads = 0
        self._word = ""

    def forget(self) -> None:
        """A new gesture begins: drop the last one's download and message."""
        self._download, self._word = None, ""

    def handlers(self) -> Handlers:
        """Its handlers; each raises a `WorkbenchError` for what cannot be saved, opened or written."""
        return dict(
            [
                on(SaveGesture, self._save),
                on(OpenFileGesture, self._open),
                on(ExportGesture, self._export),
                on(LinkGesture, lambda _: self._open_sheet("link")),
                on(CloseSheetGesture, self._close_sheet),
            ]
        )

    def state(self) -> dict[str, Any]:
        """The state. `download` names the view that asked for it, so that no other one downloads as well; a key of the page names none."""
        sheet = None
        if self._sheet:
            try:
                sheet = _sheet(self._sheet, self._session.plan, self._host)
            except DocumentError as error:  # the plan became one that fits no link
                self._sheet, self._word = "", error.message
        offered = {"saves": self._host.saves, "exchanges": self._host.exchanges}
        return {"path": self._host.path, **offered, "word": self._word, "download": self._download, "sheet": sheet}

    def _export(self, gesture: ExportGesture) -> None:
        """Code is shown, to copy; a file goes to the view that asked."""
        form = next((each for each in FILE_EXPORTS if each.key == gesture.form), None)
        if form is None:
            self._open_sheet(ALL_EXPORTS[0].key if gesture.form is None else gesture.form)
            return
        report = self._session.report
        self._download_file(form, form.write(report, self._measured(report.plan)), gesture.view)

    def _download_file(self, form: FileExport, content: bytes, view: str) -> None:
        name = file_name(self._session.plan.name, form.ending)
        self._downloads += 1
        coded = {"base64": base64.b64encode(content).decode(), "media": form.media}
        self._download = {"name": name, "text": "", "view": view, "seq": self._downloads, **coded}
        self._word = f"{name} is in your downloads."

    def _open_sheet(self, key: str) -> None:
        _sheet(key, self._session.plan, self._host)  # errors are reported before anything opens
        self._sheet = key

    def _close_sheet(self, _gesture: CloseSheetGesture) -> None:
        self._sheet = ""

    def _save(self, gesture: SaveGesture) -> None:
        plan = self._session.plan
        if self._host.save is not None:
            self._word = f"Saved to {self._host.save(plan)}."
            return
        name = file_name(plan.name, ENDING)
        text = dump_plan(plan)
        self._downloads += 1
        self._download = {"name": name, "text": text, "view": gesture.view, "seq": self._downloads}
        self._word = f"{name} is in your downloads."
        self._host.downloaded(plan)

    def _open(self, gesture: OpenFileGesture) -> None:
        name, text = gesture.name[:MOST_NAME] or "the file", gesture.text
        if text is None or len(text) > MOST_FILE:
            raise DocumentError(
                f"`{name}` is too large for a plan document.", [f"choose a *{ENDING} that `workbench` or `plan.save` wrote"]
            )
        plan = as_public(parse_plan(text, f"`{name}`", self._host.allow))
        self._session.apply(OpenPlan(plan, name))
        self._word = f"Opened {name}. Undo returns to the previous plan."


def _sheet(key: str, plan: Plan, host: Host) -> Sheet:
    """Text to copy: an export in one of its formats, or a link.

    Raises `DocumentError` if no link can hold the plan. A format in which it cannot be exported says why in `problem`: another one may
    work.
    """
    if key == "link":
        return _link_sheet(plan, host)
    form = next((each for each in ALL_EXPORTS if each.key == key), None)
    if form is None:
        labels = ", ".join(each.label for each in (*ALL_EXPORTS, *FILE_EXPORTS))
        raise DocumentError(f"Unknown export `{key[:40]}`.", [f"choose {labels}"])
    try:
        text, problem = form.write(plan), None
    except DocumentError as error:
        text, problem = "", {"message": error.message, "ways_out": list(error.ways_out)}
    return {
        "kind": "export",
        "title": "Export",
        "forms": [{"key": each.key, "label": each.label, "open": each is form} for each in ALL_EXPORTS],
        "files": [{"key": each.key, "label": each.label, "about": each.about} for each in FILE_EXPORTS],
        "about": form.about,
        "text": text,
        "problem": problem,
        "name": file_name(plan.name, form.ending).replace("-", "_"),
    }


def _link_sheet(plan: Plan, host: Host) -> Sheet:
    text = link_text(plan)
    address = host.link(text) if host.link else text
    about = (
        "Anyone with this address can see the plan: the link contains the whole plan, and nothing is stored. "
        "The address points to this workbench, which must be reachable for them."
        if host.link
        else f"This text contains the whole plan. Append it to the address of a `workbench serve` page after ?plan=. {host.sharing}".strip()
    )
    return {"kind": "link", "title": "Link", "forms": [], "files": [], "about": about, "text": address, "problem": None, "name": ""}
