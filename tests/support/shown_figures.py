"""The figures that the views of a plan show, as they are written, by what they are of: to hold that one thing has one figure."""

import re
from collections import defaultdict
from typing import Any

from workbench.analysis.analyze import analyze
from workbench.plan.plan import Plan
from workbench.reports.report import Report
from workbench.session.plan_history import Session
from workbench.units import format_bytes, format_count, format_seconds
from workbench.visualize import (
    communication,
    memory,
    memory_map,
    memory_over_step,
    stage_memory,
    stage_traffic,
    step_time,
    timeline,
)
from workbench.widgets.board.board import Board
from workbench.widgets.tabs.board_tabs import SECTIONS

Shown = dict[str, dict[str, str]]
"""By what a figure is of: the view and what it writes."""


def shown_figures(plan: Plan) -> Shown:
    """Every figure that two views of the plan have: of the board with all its tabs and answers, of the pictures' texts, of the report."""
    found: Shown = defaultdict(dict)
    report = analyze(plan)
    _of_board(report, found)
    _of_text(report, found)
    for each in report.stages:
        _of_stage(each, found)
    if not report.is_of_devices:
        _of_all_stages(report, found)
    return found


def disagreements(found: Shown) -> list[str]:
    """What has more than one figure, with the views that show each."""
    return [f"{what}: {views}" for what, views in found.items() if len(set(views.values())) > 1]


def _of_board(report: Report, found: Shown) -> None:
    states: dict[str, Any] = {}
    board = Board(Session(report.plan), states.__setitem__)
    try:
        _of_head(states["board"]["figures"], found)
        figures = {each["key"]: each for each in states["board"]["figures"]}
        fullest = _stage_in(figures["memory"]["title"])
        for stage in ("",) if report.is_of_devices else ("", f"{len(report.stages) - 1}"):
            board.answer({"verb": "show_stage", "stage": stage, "seq": 1})
            for tab in (section.key for section in SECTIONS if section.is_shared or section.key == "resharding"):
                board.answer({"verb": "open", "tab": tab, "seq": 2})
                _of_tab(tab, stage, fullest, states["table"], found)
        _of_answers(board, states, found)
    finally:
        board.close()


def _of_head(figures: list[dict[str, Any]], found: Shown) -> None:
    names = {"predicted": "step", "memory": "peak", "passed": "between", "sent": "sent", "flops": "flops", "bubble": "bubble"}
    for each in figures:
        if each["key"] in names:
            stage = _stage_in(each["note"] + each["title"])
            found[_of(names[each["key"]], stage)]["head"] = each["text"]


def _stage_in(text: str) -> str:
    match = re.search(r"stage (\d+)", text)
    return match[1] if match else ""


def _of(what: str, stage: object) -> str:
    return what if stage in ("", None) or what in ("step", "between", "bubble") else f"{what} of stage {stage}"


def _of_tab(tab: str, stage: str, fullest: str, table: dict[str, Any], found: Shown) -> None:
    """What the tables of a tab write, of the picked stage or the fullest; the pictures are asked for their texts."""
    for block in table["blocks"]:
        assert "could not be made" not in block["note"], block["note"]
        if block["title"] == "By role, at the peak":
            found[_of("peak", stage or fullest)][f"{tab} {stage}, by role"] = block["rows"][-1]["cells"][2]
        if block.get("stages", {}).get("kind") == "pipeline":
            for each in block["stages"]["figures"]:
                what = {"step": "step", "bubble": "bubble", "peak": "peak", "sent": "between"}.get(each["key"])
                if what:
                    found[_of(what, _stage_in(each["note"]))]["pipeline, figures"] = each["text"]
            for number, head in enumerate(block["stages"]["board"]["heads"]):
                for fact in head["facts"]:
                    if fact["label"] == "memory":
                        found[_of("peak", number)]["pipeline, stages"] = fact["text"]


def _of_answers(board: Board, states: dict[str, Any], found: Shown) -> None:
    figures = {each["key"]: each for each in states["board"]["figures"]}
    for key, what in (("memory", "peak"), ("sent", "sent"), ("flops", "flops"), ("predicted", "step")):
        if key in figures:
            board.answer({"verb": "why", "of": f"figure {key}", "seq": 3})
            stage = _stage_in(figures[key]["note"] + figures[key]["title"])
            title = states["table"]["why"]["title"]
            match = re.search(r"Why (.*?)(?: on each device| a step| sent)?\?", title)
            assert match, title
            found[_of(what, stage)]["why"] = match[1].removesuffix(" FLOP").replace("FLOP", "").strip()


def _of_text(report: Report, found: Shown) -> None:
    lines = str(report).splitlines()
    for start, what in (
        ("memory per device", "peak"),
        ("step time, predicted", "step"),
        ("sent per device and step", "sent"),
        ("sent between stages", "between"),
        ("arithmetic per device", "flops"),
    ):
        line = next((each.strip() for each in lines if each.strip().startswith(start)), None)
        if line is not None:
            figure = re.search(r"([\d.,]+ ?[^\s·(]*)", line.removeprefix(start).strip())
            assert figure, line
            stage = _stage_in(line)
            found[_of(what, stage)]["text"] = figure[1].removesuffix("FLOP").strip()


def _of_stage(report: Report, found: Shown) -> None:
    """The records of one stage, and the texts of the pictures of it."""
    stage = report.stage
    found[_of("peak", stage)]["record"] = format_bytes(report.memory.peak)
    curve = report.memory_curve
    found[_of("peak", stage)]["curve"] = format_bytes(max(map(sum, zip(*curve.by_role.values(), strict=True))))
    found[_of("peak", stage)]["alive"] = format_bytes(sum(each.bytes for each in report.alive))
    for name, draw in (("memory", memory), ("memory over the step", memory_over_step), ("memory map", memory_map)):
        title = draw(report).about
        match = re.search(r"([\d.,]+ (?:[KMGTP]iB|B))", title)
        assert match, title
        found[_of("peak", stage)][name] = match[1]
    found[_of("sent", stage)]["record"] = format_bytes(report.sent)
    if match := re.search(r"sends ([\d.]+ \w+) (?:in a step|a step within)", communication(report).text):
        found[_of("sent", stage)]["communication"] = match[1]
    found[_of("flops", stage)]["record"] = format_count(report.flops.per_device)
    found[_of("flops", stage)]["products"] = format_count(sum(each.per_device * each.count for each in report.products))
    if report.step_time is not None:
        assert report.timeline is not None
        found["step"][f"record {stage}"] = format_seconds(report.step_time.total)
        found["step"][f"timeline {stage}"] = format_seconds(report.timeline.seconds)
        timed = re.search(r"predicted: (\S+ \S+)", timeline(report).text)
        assert timed
        found["step"][f"timeline {stage}, text"] = timed[1]


def _of_all_stages(report: Report, found: Shown) -> None:
    assert report.pipeline is not None
    for row in stage_memory(report).text.splitlines()[4:]:
        stage, figure = row.split()[0], " ".join(row.split()[1:3])
        found[_of("peak", stage)]["stages side by side"] = figure
    title = stage_traffic(report).text.splitlines()[0]
    between = re.search(r": (\S+(?: [KMGTP]?i?B)?) a step between stages", title)
    assert between, title
    found["between"]["traffic"] = between[1]
    if report.step_time is not None:
        step = re.search(r"one step, (\S+ \S+) predicted", step_time(report).text)
        assert step
        found["step"]["step, all stages"] = step[1]
