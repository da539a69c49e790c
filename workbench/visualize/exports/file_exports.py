"""Export formats of a report, shared by the page, notebooks, the command line and the API."""

import base64
from collections.abc import Callable, Iterator
from html import escape
from pathlib import Path
from typing import NamedTuple

from workbench.analysis.tier_comparison import Comparison
from workbench.core.text_tables import html_text
from workbench.documents import dump_plan
from workbench.documents.chrome_trace import chrome_trace
from workbench.documents.durable_files import explain_write_errors, replace_file
from workbench.documents.export_formats import ALL_EXPORTS, Export
from workbench.errors import DocumentError, WorkbenchError, unknown_name
from workbench.reports.diagnostic import Diagnostic
from workbench.reports.measurement import Measurement
from workbench.reports.pipeline import PipelineReport
from workbench.reports.report import Report
from workbench.visualize.charts.gantt_chart import pipeline
from workbench.visualize.charts.memory_chart import memory_over_step
from workbench.visualize.charts.roofline_chart import roofline
from workbench.visualize.charts.timeline_chart import timeline
from workbench.visualize.communication_bars import communication
from workbench.visualize.draw.picture import Picture
from workbench.visualize.exports.board_picture import board_picture
from workbench.visualize.graph import graph
from workbench.visualize.memory_map import memory_map
from workbench.visualize.stage_memory_chart import stage_memory, stage_traffic
from workbench.visualize.step_time_bars import step_time

# A report as one self-contained HTML file: figures, pictures, tables, notes, and the plan document.
#
# Pictures are inline SVG, and the page's content security policy forbids scripts and requests. Light or dark follows the
# reader's system.


_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
_STYLE = """\
:root{color-scheme:light dark;--ground:#fff;--text:#1b1f24;--quiet:#57606a;--line:#d0d7de;--raised:#f6f8fa}
@media (prefers-color-scheme:dark){:root{--ground:#0d1117;--text:#e6edf3;--quiet:#9198a1;--line:#30363d;--raised:#161b22}}
body{margin:0 auto;max-width:1100px;padding:24px 20px 60px;background:var(--ground);color:var(--text);font:14px/1.55 system-ui,sans-serif}
h1{font-size:22px;margin:0 0 4px}h2{font-size:16px;margin:32px 0 8px;border-bottom:1px solid var(--line);padding-bottom:4px}
p{margin:4px 0}.quiet{color:var(--quiet)}code,pre,table{font:12px/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}
pre{overflow-x:auto;background:var(--raised);border:1px solid var(--line);border-radius:6px;padding:10px;white-space:pre-wrap}
figure{margin:12px 0;overflow-x:auto}svg{max-width:none}table{border-collapse:collapse;margin:6px 0}td,th{padding:2px 10px 2px 0}
section>div>p{white-space:pre-wrap!important;font:12px/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}
th{color:var(--quiet)}details{margin:6px 0}summary{cursor:pointer;color:var(--quiet)}li{margin:4px 0}a{color:inherit}
@media print{details:not([open])>*{display:none}}
"""


def report_page(report: Report, measurement: Measurement | None = None) -> str:
    """The HTML page of a report, with measured results if given."""
    name = report.title
    sections = [
        ("The plan", _drawn(lambda: board_picture(report))),
        ("Warnings", _notes(report.notes)),
        *_pictures(report, measurement),
        ("All figures", html_text(lambda: str(report))),
        *([("Measured", html_text(lambda: str(measurement)))] if measurement else []),
        ("Open this plan", _plan(report)),
    ]
    body = "\n".join(f"<section><h2>{escape(title)}</h2>\n{content}</section>" for title, content in sections if content)
    head = (
        f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><meta name="color-scheme" content="light dark">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}"><title>{escape(name)}</title><style>{_STYLE}</style>'
    )
    about = f'<h1>{escape(name)}</h1>\n<p class="quiet">{escape(_about(report, measurement))}</p>'
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>{about}\n{body}\n</body></html>\n'


def _about(report: Report, measurement: Measurement | None) -> str:
    where = f"planned for {report.hardware}" if report.hardware else "no hardware, so no times"
    ran = f", measured on {measurement.devices} × {measurement.device_kind}" if measurement else ""
    return f"Report of the sharding workbench: {where}{ran}. Communication: {report.tier}."


def _pictures(report: Report, measurement: Measurement | None) -> Iterator[tuple[str, str]]:
    comparison = Comparison(report, None, measurement) if measurement else None
    trace, tasks = (measurement.trace, measurement.tasks) if measurement else (None, ())
    planned = _pipeline(report)
    if planned is not None:
        yield "The pipeline over time", _drawn(lambda: pipeline(planned.simulated, tasks))
    if report.step_time is not None:
        yield "Step time", _drawn(lambda: step_time(report, comparison))
        yield "The step over time", _drawn(lambda: timeline(report, trace, tasks=tasks))
    if not report.is_of_devices and planned is not None:
        yield "Memory of the stages", _drawn(lambda: stage_memory(report))
        yield "Sent between stages", _drawn(lambda: stage_traffic(report))
    yield "Memory over the step", _drawn(lambda: memory_over_step(report))
    yield "Memory at the peak", _drawn(lambda: memory_map(report))
    yield "Communication", _drawn(lambda: communication(report))
    if report.step_time is not None:
        yield "Roofline", _drawn(lambda: roofline(report))
    yield "The graph", _drawn(lambda: graph(report))


def _pipeline(report: Report) -> PipelineReport | None:
    try:
        return report.pipeline
    except WorkbenchError:  # the report states the reason
        return None


def _drawn(draw: Callable[[], Picture]) -> str:
    try:
        picture = draw()
        svg = picture.svg
    except WorkbenchError as error:
        return f'<p class="quiet">{escape(str(error))}</p>'
    return f"<figure>{svg}</figure>\n<details><summary>as text</summary><pre>{escape(picture.text)}</pre></details>\n"


def _notes(notes: tuple[Diagnostic, ...]) -> str:
    rows = []
    for note in notes:
        mend = f" Suggested fix: {' · '.join(map(str, note.edits))}." if note.edits else ""
        rows.append(f"<li><b>{escape(note.subject)}</b>: {escape(note.message)}{escape(mend)}</li>")
    return f"<ul>{''.join(rows)}</ul>" if rows else ""


def _plan(report: Report) -> str:
    plan = report.plan
    line = f"<pre>{escape(str(plan))}</pre>"
    try:
        document = dump_plan(plan)
    except WorkbenchError as error:
        return f'{line}\n<p class="quiet">The plan cannot be saved: {escape(str(error))}</p>'
    link = "data:application/json;base64," + base64.b64encode(document.encode()).decode()
    name = f"{plan.name.replace(' ', '-')}.plan.json"
    how = f'Save <a download="{escape(name)}" href="{link}">{escape(name)}</a>, or the text below, and open it with '
    commands = f"<code>workbench serve {escape(name)}</code> or <code>workbench.load(&quot;{escape(name)}&quot;)</code>"
    return f'{line}\n<p>{how}{commands}.</p>\n<details><summary>the document</summary><pre id="plan">{escape(document)}</pre></details>'


# The formats, and the files in them.


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
    content = export_bytes(report, form or form_of(target), measurement)
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
    """The format of a file name by its longest matching suffix: `gpt_specs.py` is not a script. Raises `DocumentError`."""
    for export in sorted(_FORMS, key=lambda export: -len(export.ending)):
        if path.name.lower().endswith(export.ending):
            return export.key
    endings = ", ".join(export.ending for export in FILE_EXPORTS)
    raise DocumentError(f"Unknown export `{path.name}`.", [f"use a name ending in {endings} or .py", "pass the format"])
