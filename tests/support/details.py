"""Reports whose details are made up."""

from dataclasses import replace
from typing import Any

from workbench.reports.report import Report


def with_details(report: Report, **given: Any) -> Report:
    """A report with some details given, a function or what it would answer."""
    made = {name: value if callable(value) else lambda *_, value=value: value for name, value in given.items()}
    return replace(report, details=replace(report.details, **made))
