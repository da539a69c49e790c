"""Predictions of the third-party programs, made now, beside what the compiler said of them when its answers were recorded."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from benchmarks.corpus.answers import Answer, Answers, read_answers, versions_of
from benchmarks.corpus.program import LAYOUTS, ThirdPartyProgram
from benchmarks.corpus.split import Half
from workbench.analysis.prediction_intervals import KERNELS, MEMORY, SENT, ranges_of
from workbench.analysis.tier_comparison import compare_collectives
from workbench.errors import WorkbenchError
from workbench.public_plan import Plan
from workbench.reports.report import Report

NOT_RECORDED = "not recorded"
JUDGED_TIERS = ("planned", "partitioned")


@dataclass(frozen=True, slots=True)
class Judged:
    """One case, `program/layout`, at one tier: whether its collectives agree within 2 %, and relative, signed errors; `None` where the
    compiler gives no figure. `inside`: by figure that has a range, whether the compiler's lies in it."""

    name: str
    half: Half
    tier: str
    is_exact: bool
    memory: float | None
    time: float | None
    inside: Mapping[str, bool]


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A case that is not judged, at either tier or at one, and why."""

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
        for layout in layouts:
            yield from judge(program, layout, answers)


def judge(program: ThirdPartyProgram, layout: str, answers: Answers | None) -> Iterator[Judged | LeftOut]:
    """One case, as planned and as XLA's partitioner has it; whatever fails is a reason, for another case may well go through."""
    name = f"{program.name}/{layout}"
    if answers is None or layout not in answers.layouts:
        yield LeftOut(name, program.half, NOT_RECORDED)
        return
    try:
        plan = program.plan(layout)
        stale, answer = answers.why_stale(layout, plan, versions_of(program)), answers.layouts[layout]
        if stale or answer.refused:
            yield LeftOut(name, program.half, f"stale: {stale}" if stale else f"not compiled: {answer.refused}")
            return
        for tier in JUDGED_TIERS:
            yield compare_answer(plan, answer, program.half, tier)
    except WorkbenchError as error:
        yield LeftOut(name, program.half, f"not predicted: {error.message}")


def compare_answer(plan: Plan, answer: Answer, half: Half, tier: str = "planned") -> Judged:
    """The prediction for a plan beside the answer for it. Raises what `Plan.report` raises."""
    report = plan.report(tier)
    is_exact = all(row.is_close for row in compare_collectives(report, answer.volumes))
    memory = report.memory.peak / answer.peak - 1 if answer.peak else None
    seconds = report.step_time.estimate if report.step_time else None
    time = seconds / answer.kernel_seconds - 1 if seconds and answer.kernel_seconds else None
    return Judged(plan.name, half, tier, is_exact, memory, time, _inside(report, answer))


def _inside(report: Report, answer: Answer) -> Mapping[str, bool]:
    """Bytes that leave a device follow from the payload, which is what the compiler's answer has."""
    planned, found = sum(report.by_axis_and_kind.values()), sum(answer.payload.values())
    true = {MEMORY: answer.peak, KERNELS: answer.kernel_seconds, SENT: report.sent * found / planned if planned else 0}
    return {figure: true[figure] in each for figure, each in ranges_of(report).items() if true.get(figure)}
