"""What a recipe makes worse: the step, or what each device computes, beside the plan before."""

import warnings

from workbench.analysis.analyze import analyze
from workbench.plan.plan import Plan
from workbench.recipes.recipe import Recipe
from workbench.reports.report import Report
from workbench.units import format_bytes, format_seconds

_NOTABLE = 0.25
"""By how much more a step or a device's work is a drawback; predicted step times of one program differ by less for other reasons."""


class RecipeWarning(UserWarning):
    """A recipe made the plan worse."""


def recipe_drawback(before: Report, after: Report, recipe: Recipe) -> str:
    """The drawback of a recipe in a sentence; empty if there is none. A recipe that saves memory may take longer for it."""
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
    """Warn where a recipe makes a plan worse whose hardware is known; without hardware nothing says how long a step takes."""
    if before.hardware is None or before.pipeline is not None:
        return
    if drawback := recipe_drawback(analyze(before), analyze(after), recipe):
        warnings.warn(
            f"{drawback} See `plan.diff(other)`; `plan.apply(edit)` applies one edit of the recipe alone.", RecipeWarning, stacklevel=3
        )
