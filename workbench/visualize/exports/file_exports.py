"""What a report is written as for others, as bytes of a file: from the page, a cell, the command line and code."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from workbench.documents import dump_plan
from workbench.documents.durable_files import explain_write_errors, replace_file
from workbench.documents.export.chrome_trace import chrome_trace
from workbench.documents.export.export_formats import ALL_EXPORTS, Export
from workbench.errors import DocumentError, unknown_name
from workbench.reports.measurement import Measurement
from workbench.reports.report import Report
from workbench.visualize.exports.board_picture import board_picture
from workbench.visualize.exports.report_page import report_page


class FileExport(NamedTuple):
    """One kind of file: `ending` is the end of its name, `media` its type; `write` may raise `WorkbenchError`."""

    key: str
    label: str
    about: str
    ending: str
    media: str
    write: Callable[[Report, Measurement | None], bytes]


FILE_EXPORTS = (
    FileExport(
        "html",
        "Report (HTML)",
        "A self-contained report: figures, pictures, tables, and the plan itself. Needs no network.",
        ".html",
        "text/html",
        lambda report, measurement: report_page(report, measurement).encode(),
    ),
    FileExport(
        "trace",
        "Trace (Perfetto)",
        "The predicted and measured timeline of a step, for ui.perfetto.dev.",
        ".trace.json",
        "application/json",
        lambda report, measurement: chrome_trace(report, measurement).encode(),
    ),
    FileExport(
        "png",
        "Board (PNG)",
        "The board as a picture at double resolution, on white.",
        ".png",
        "image/png",
        lambda report, _measurement: board_picture(report).png("white"),
    ),
    FileExport(
        "svg",
        "Board (SVG)",
        "The board as a vector drawing.",
        ".svg",
        "image/svg+xml",
        lambda report, _measurement: board_picture(report).svg.encode(),
    ),
)

PLAN_EXPORT = Export("plan", "Plan", "The plan document.", ".plan.json", dump_plan)
"""Of the command line and code; a board saves and downloads its plan by itself."""

_FORMS: tuple[FileExport | Export, ...] = (*ALL_EXPORTS, *FILE_EXPORTS, PLAN_EXPORT)


def export_file(report: Report, path: str | Path, form: str = "", measurement: Measurement | None = None) -> Path:
    """Write a report, or its plan as code, in a form by its key or by the end of the name. Raises `WorkbenchError`."""
    target = Path(path)
    form = form or form_of(target)
    if not form:
        endings = ", ".join(each.ending for each in FILE_EXPORTS)
        raise DocumentError(f"Unknown export `{target.name}`.", [f"use a name ending in {endings} or .py", "pass the format"])
    content = export_bytes(report, form, measurement)
    with explain_write_errors(target, DocumentError):
        replace_file(target, content)
    return target


def export_bytes(report: Report, form: str, measurement: Measurement | None = None) -> bytes:
    """What a file of this form holds: of `FILE_EXPORTS`, or code of `ALL_EXPORTS`. Raises `WorkbenchError`."""
    found = find_export(form)
    return found.write(report.plan).encode() if isinstance(found, Export) else found.write(report, measurement)


def find_export(form: str) -> FileExport | Export:
    """The form by its key. Raises `DocumentError` for one that does not exist."""
    known = {each.key: each for each in _FORMS}
    if form not in known:
        raise DocumentError(*unknown_name("export", form, known))
    return known[form]


def form_of(path: Path) -> str:
    """The form whose files have names that end so, the longest ending first: `gpt_specs.py` is no script. Empty if there is none."""
    forms = sorted(_FORMS, key=lambda each: -len(each.ending))
    return next((each.key for each in forms if path.name.lower().endswith(each.ending)), "")
