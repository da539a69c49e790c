"""Plan import and export: save, open, export, link. A failure is an error of the gesture and changes nothing."""

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
from workbench.widgets.gestures.gesture import Handlers, handlers_of, on
from workbench.widgets.gestures.view_gestures import CloseSheetGesture, ExportGesture, LinkGesture, OpenFileGesture, SaveGesture

MOST_FILE = 1 << 20  # characters of a plan document

Sheet = dict[str, Any]


class Files:
    """The files of one board: a sheet that follows the plan, and a download and message until the next gesture."""

    def __init__(self, session: Session, host: Host, measured: Callable[[Plan], Measurement | None] = lambda _plan: None) -> None:
        self._session, self._host, self._measured = session, host, measured
        self._sheet = ""  # key of an export, `link` or `save`
        self._download: dict[str, Any] | None = None
        self._downloads = 0
        self._word = ""

    def forget(self) -> None:
        self._download, self._word = None, ""

    def handlers(self) -> Handlers:
        """Gesture handlers; each raises a `WorkbenchError` if a plan cannot be saved, opened or written."""
        return handlers_of(
            on(SaveGesture, self._save),
            on(OpenFileGesture, self._open),
            on(ExportGesture, self._export),
            on(LinkGesture, lambda _: self._open_sheet("link")),
            on(CloseSheetGesture, self._close_sheet),
        )

    def state(self) -> dict[str, Any]:
        """Return the JSON state; `download` names the view that requested it, so that no other view downloads."""
        sheet = None
        if self._sheet:
            try:
                sheet = _sheet(self._sheet, self._session.plan, self._host)
            except DocumentError as error:  # the edited plan no longer fits a link
                self._sheet, self._word = "", error.message
        offered = {"saves": self._host.saves, "exchanges": self._host.exchanges}
        return {"path": self._host.path, **offered, "word": self._word, "download": self._download, "sheet": sheet}

    def _export(self, gesture: ExportGesture) -> None:
        form = next((export for export in FILE_EXPORTS if export.key == gesture.form), None)
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
        plan, given = self._session.plan, " ".join(gesture.name.split())
        if self._host.names_saved and not given:
            self._open_sheet("save")
            return
        if self._host.save is not None:
            place = self._host.save(plan.updated(name=given[:MOST_NAME]) if given else plan)
            self._sheet, self._word = "", f"Saved to {place}." if place else ""
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
    """Return text to copy, an export, a link or the name to save as; raises `DocumentError` if no link can hold the plan."""
    if key == "link":
        return _link_sheet(plan, host)
    if key == "save":
        return _plain_sheet("save", "Save to the gallery", "A name under which others will find this plan.", plan.name)
    form = next((export for export in ALL_EXPORTS if export.key == key), None)
    if form is None:
        labels = ", ".join(export.label for export in (*ALL_EXPORTS, *FILE_EXPORTS))
        raise DocumentError(f"Unknown export `{key[:40]}`.", [f"choose {labels}"])
    try:
        text, problem = form.write(plan), None
    except DocumentError as error:
        text, problem = "", {"message": error.message, "ways_out": list(error.ways_out)}
    return {
        "kind": "export",
        "title": "Export",
        "forms": [{"key": export.key, "label": export.label, "open": export is form} for export in ALL_EXPORTS],
        "files": [{"key": export.key, "label": export.label, "about": export.about} for export in FILE_EXPORTS],
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
    return _plain_sheet("link", "Link", about, address)


def _plain_sheet(kind: str, title: str, about: str, text: str) -> Sheet:
    return {"kind": kind, "title": title, "forms": [], "files": [], "about": about, "text": text, "problem": None, "name": ""}
