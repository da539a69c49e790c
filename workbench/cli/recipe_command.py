"""`workbench recipe`: list the recipes that apply to a plan, or apply some and show their effect."""

import argparse
import json
from dataclasses import asdict

from workbench.analysis.analyze import analyze
from workbench.analysis.plan_diff import PlanDiff
from workbench.analysis.recipe_effect import recipe_drawback
from workbench.cli.plan_arguments import plan_on_the_cpu
from workbench.core.text_tables import table_text
from workbench.documents import plan_diff_record, save_plan
from workbench.pipeline.balance import apply_edit
from workbench.plan.edits import EditGroup
from workbench.plan.plan import Plan
from workbench.recipes import find_recipe, list_recipes


def recipe(options: argparse.Namespace) -> None:
    """Without a name, list all recipes and whether each applies; with names, print the edits of each and the figures
    before and after.
    """
    if options.plan and options.model:  # there is no PLAN.json then, and the first word is a recipe already
        options.plan, options.names = None, [options.plan, *options.names]
    if options.axis and len(options.names) != 1:
        options.parser.error("give --axis with one recipe")
    plan = plan_on_the_cpu(options)
    if options.names:
        _apply(plan, options)
    else:
        _list(plan, options)


def _list(plan: Plan, options: argparse.Namespace) -> None:
    rows = list_recipes(plan)
    if options.json:
        print(json.dumps([asdict(row) for row in rows], indent=1))
        return
    print(f"{plan}\n")
    found = [
        (row.name, f"{len(row.edits)} edit{'s' * (len(row.edits) != 1)}" if row.applies else "no", row.reason or row.about) for row in rows
    ]
    print(table_text(["recipe", "applies", "what it is, or why not~"], found))


def _apply(plan: Plan, options: argparse.Namespace) -> None:
    after, edits, notes = plan, list[str](), list[str]()
    for name in options.names:
        chosen = find_recipe(name, tuple(options.axis))
        draft = chosen.draft_within_axes(after)
        if not draft.edits:
            notes.append(f"{name} is already applied and was skipped.")
            continue
        after = apply_edit(after, EditGroup(str(chosen), draft.edits))
        edits += map(str, draft.edits)
        notes += draft.notes
    found = PlanDiff(analyze(plan), analyze(after))
    notes += filter(None, [recipe_drawback(found.before, found.after, chosen)])
    if options.output:
        save_plan(after, options.output)
    if options.json:
        print(json.dumps({"recipes": options.names, "edits": edits, "notes": notes, "diff": plan_diff_record(found)}, indent=1))
        return
    print("\n".join([*edits, *(f"note: {note}" for note in notes), "", str(found)]))
