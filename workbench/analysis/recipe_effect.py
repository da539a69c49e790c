"""Detect drawbacks of a recipe: a longer step, or more computation per device."""

import warnings

from workbench.analysis.analyze import analyze
from workbench.plan.plan import Plan
from workbench.recipes.recipe import Recipe
from workbench.reports.report import Report
from workbench.units import format_bytes, format_seconds

_NOTABLE = 0.25
"""Relative increase that counts as a drawback; predicted step times of one program vary by less for other reasons."""


class RecipeWarning(UserWarning):
    """A recipe made the plan worse."""


def recipe_drawback(before: Report, after: Report, recipe: Recipe) -> str:
    """Describe the drawback of a recipe; empty if there is none. Recipes that save memory may take longer."""
    saved = before.memory.peak - after.memory.peak
    if recipe.saves_memory:
        return "" if saved > 0 else f"{recipe.title} saves no memory here: a device still needs {format_bytes(after.memory.peak)}."
    first, second = before.step_time, after.step_time
    memory = f"; a device holds {format_bytes(abs(saved))} {'less' if saved > 0 else 'more'}"
    if first is not None and second is not None and second.total > (1 + _NOTABLE) * first.total:
        longer = second.total / first.total - 1
        return (
            f"{recipe.title} makes the step {longer:.0%} longer, {format_seconds(first.total)} to {format_seconds(second.total)}{memory}."
        )
    if after.flops.per_device > (1 + _NOTABLE) * before.flops.per_device:
        return f"{recipe.title} makes each device compute {after.flops.per_device / before.flops.per_device:.1f} times as much{memory}."
    return ""


def warn_of_drawback(before: Plan, after: Plan, recipe: Recipe) -> None:
    """Warn if a recipe makes a plan worse; only with hardware, since step times are unknown without it."""
    if before.hardware is None or before.pipeline is not None:
        return
    if drawback := recipe_drawback(analyze(before), analyze(after), recipe):
        warnings.warn(
            f"{drawback} See `plan.diff(other)`; `plan.apply(edit)` applies one edit of the recipe alone.", RecipeWarning, stacklevel=3
        )
