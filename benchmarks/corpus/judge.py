"""Predictions of the third-party programs, made now, beside what the compiler said of them when its answers were recorded."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from benchmarks.corpus.answers import Answer, Answers, read_answers, versions_of
from benchmarks.corpus.program import LAYOUTS, ThirdPartyProgram
from benchmarks.corpus.split import Half
from workbench.analyze import analyze
from workbench.comparison import compare_collectives
from workbench.errors import WorkbenchError
from workbench.plan import Plan
from workbench.ranges import KERNELS, MEMORY, SENT, ranges_of
from workbench.report import Report

NOT_RECORDED = "not recorded"


@dataclass(frozen=True, slots=True)
class Judged:
    """One case, `program/layout`: whether its collectives agree within 2 %, and relative, signed errors; `None` where the compiler gives
    no figure. `inside`: by figure that has a range, whether the compiler's lies in it."""

    name: str
    half: Half
    is_exact: bool
    memory: float | None
    time: float | None
    inside: Mapping[str, bool]


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A case that is not judged, and why."""

    name: str
    half: Half
    reason: str


def judge_programs(programs: Iterable[ThirdPartyProgram], part_of_name: str = "") -> Iterator[Judged | LeftOut]:
    """The cases of these programs whose name contains `part_of_name`; packages that are missing are named once a program."""
    for program in programs:
        layouts = [layout for layout in LAYOUTS if part_of_name in f"{program.name}/{layout}"]
        if layouts and program.missing:
            yield LeftOut(program.name, program.half, f"{', '.join(program.missing)} not installed")
            continue
        answers = read_answers(program.name)
        yield from (judge(program, layout, answers) for layout in layouts)


def judge(program: ThirdPartyProgram, layout: str, answers: Answers | None) -> Judged | LeftOut:
    """One case; whatever fails in planning is a reason, for another case may well go through."""
    name = f"{program.name}/{layout}"
    if answers is None or layout not in answers.layouts:
        return LeftOut(name, program.half, NOT_RECORDED)
    try:
        plan = program.plan(layout)
        if stale := answers.why_stale(layout, plan, versions_of(program)):
            return LeftOut(name, program.half, f"stale: {stale}")
        answer = answers.layouts[layout]
        return (
            LeftOut(name, program.half, f"not compiled: {answer.refused}") if answer.refused else compare_answer(plan, answer, program.half)
        )
    except WorkbenchError as error:
        return LeftOut(name, program.half, f"not planned: {error.message}")


def compare_answer(plan: Plan, answer: Answer, half: Half) -> Judged:
    """The prediction for a plan beside the answer for it."""
    report = analyze(plan)
    is_exact = all(row.is_close for row in compare_collectives(report.as_run, answer.volumes))
    memory = report.as_run.memory.peak / answer.peak - 1 if answer.peak else None
    seconds = report.step_time.estimate if report.step_time else None
    time = seconds / answer.kernel_seconds - 1 if seconds and answer.kernel_seconds else None
    return Judged(plan.name, half, is_exact, memory, time, _inside(report, answer))


def _inside(report: Report, answer: Answer) -> Mapping[str, bool]:
    """Bytes that leave a device follow from the payload, which is what the compiler's answer has."""
    planned, found = sum(report.by_axis_and_kind.values()), sum(answer.payload.values())
    true = {MEMORY: answer.peak, KERNELS: answer.kernel_seconds, SENT: report.sent * found / planned if planned else 0}
    return {figure: true[figure] in each for figure, each in ranges_of(report).items() if true.get(figure)}
