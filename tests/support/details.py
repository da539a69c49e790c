"""Reports whose details are made up."""

from dataclasses import replace
from typing import Any

from workbench.reports.report import Report
from workbench.reports.report_details import Details

NAMES = tuple(name for name in vars(Details) if not name.startswith("_"))


class GivenDetails(Details[Report]):
    """Some of them given, a function or what it would answer; the others those of another report."""

    def __init__(self, others: Details[Report], given: dict[str, Any]) -> None:
        assert set(given) <= set(NAMES), set(given) - set(NAMES)
        for name in NAMES:
            made = given.get(name, getattr(others, name))
            setattr(self, name, made if callable(made) else lambda *_, made=made: made)


def with_details(report: Report, **given: Any) -> Report:
    return replace(report, details=GivenDetails(report.details, given))
