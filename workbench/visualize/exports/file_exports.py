"""Export formats of a report, shared by the page, notebooks, the command line and the API."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from workbench.documents import dump_plan
from workbench.documents.chrome_trace import chrome_trace
from workbench.documents.durable_files import explain_write_errors, replace_file
from workbench.documents.export_formats import ALL_EXPORTS, Export
from workbench.errors import DocumentError, unknown_name
from workbench.reports.measurement import Measurement
from workbench.reports.report import Report
from workbench.visualize.exports.board_picture import board_picture
from workbench.visualize.exports.report_page import report_page


class FileExport(NamedTuple):
    """An export format; `ending` is the file name suffix, `media` the MIME type; `write` may raise `WorkbenchError`."""

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
"""For the command line and the API; the board saves and downloads its plan separately."""

_FORMS: tuple[FileExport | Export, ...] = (*ALL_EXPORTS, *FILE_EXPORTS, PLAN_EXPORT)


def export_file(report: Report, path: str | Path, form: str = "", measurement: Measurement | None = None) -> Path:
    """Write a report or its plan in a format, by default that of the suffix; returns the path. Raises `WorkbenchError`."""
    target = Path(path)
    form = form or form_of(target)
    if not form:
        endings = ", ".join(export.ending for export in FILE_EXPORTS)
        raise DocumentError(f"Unknown export `{target.name}`.", [f"use a name ending in {endings} or .py", "pass the format"])
    content = export_bytes(report, form, measurement)
    with explain_write_errors(target, DocumentError):
        replace_file(target, content)
    return target


def export_bytes(report: Report, form: str, measurement: Measurement | None = None) -> bytes:
    """The file content in a format of `FILE_EXPORTS` or `ALL_EXPORTS`. Raises `WorkbenchError`."""
    export = find_export(form)
    return export.write(report.plan).encode() if isinstance(export, Export) else export.write(report, measurement)


def find_export(form: str) -> FileExport | Export:
    """The export format with this key. Raises `DocumentError` if there is none."""
    forms = {export.key: export for export in _FORMS}
    if form not in forms:
        raise DocumentError(*unknown_name("export", form, forms))
    return forms[form]


def form_of(path: Path) -> str:
    """The format of a file name by its longest matching suffix, else empty: `gpt_specs.py` is not a script."""
    forms = sorted(_FORMS, key=lambda export: -len(export.ending))
    return next((candidate.key for candidate in forms if path.name.lower().endswith(candidate.ending)), "")
