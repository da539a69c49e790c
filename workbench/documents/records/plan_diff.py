"""Two plans side by side as plain values, for `--json`."""

from collections.abc import Mapping
from typing import Any

from workbench.analysis.plan_diff import PlanDiff, PlanSetting


def plan_diff_record(diff: PlanDiff) -> Mapping[str, Any]:
    """All of a diff; bytes, seconds and FLOP per device and step, not rounded."""
    return {
        "before": str(diff.before.plan),
        "after": str(diff.after.plan),
        "changes": [{**each._asdict(), "before": _plain_value(each.before), "after": _plain_value(each.after)} for each in diff.changes],
        "figures": [{**each._asdict(), "delta": each.delta, "ratio": each.ratio} for each in diff.figures],
        "traffic": [{**each._asdict(), "axes": list(each.axes), "delta": each.delta} for each in diff.traffic],
        "placements": [
            {
                **each._asdict(),
                "dims": list(each.dims),
                "before": _plain_value(each.before),
                "after": _plain_value(each.after),
                "delta": each.delta,
            }
            for each in diff.placements
        ],
    }


def _plain_value(decided: PlanSetting) -> Any:
    if decided is None or isinstance(decided, int):
        return decided
    return list(decided) if isinstance(decided, tuple) else str(decided)
