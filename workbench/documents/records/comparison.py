"""A comparison as plain values, for `--json`."""

from collections.abc import Mapping
from typing import Any

from workbench.analysis.tier_comparison import Comparison


def comparison_record(comparison: Comparison) -> Mapping[str, Any]:
    """Figures by tier, collectives by mesh axes and class, differences with their causes; bytes, seconds, FLOP."""
    return {
        "plan": str(comparison.report.plan),
        "target": comparison.compiled.target if comparison.compiled else None,
        "figures": [{**each._asdict(), "error": each.error} for each in comparison.figures],
        "collectives": [{**row._asdict(), "axes": list(row.axes), "close": row.is_close} for row in comparison.collectives],
        "differences": [
            {
                "cause": each.cause.name,
                "meaning": each.cause.text,
                "axes": list(each.axes),
                "kind": each.kind,
                "path": each.path,
                "source": each.source,
                "predicted": each.predicted,
                "compiled": each.compiled,
            }
            for each in comparison.differences
        ],
    }
