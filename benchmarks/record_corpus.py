"""Records what XLA:TPU says of the third-party programs (`benchmarks/corpus/answers/`), for `accuracy.py` to hold predictions against.

Only what is missing or stale is compiled, unless `--anew` is given. A layout that the workbench or the compiler refuses is recorded too,
with the first line of the reason.

    python benchmarks/record_corpus.py [PROGRAM ...] [--anew]
"""

import argparse
import os
from dataclasses import replace

os.environ.setdefault("JAX_PLATFORMS", "cpu")  # this process only plans

import workbench as wb
from benchmarks.corpus.answers import Answer, Answers, answer_of, begin_answers, digest_of, read_answers, versions_of, write_answers
from benchmarks.corpus.program import ThirdPartyProgram
from benchmarks.corpus.third_party import PROGRAMS
from workbench.engine import compile_plan
from workbench.errors import WorkbenchError


def record(program: ThirdPartyProgram, *, anew: bool) -> None:
    """Compile the layouts of a program, and write its file after each."""
    known = None if anew else read_answers(program.name)
    answers = begin_answers(program)
    for layout in program.layouts:
        plan = program.plan(layout)
        if known is not None and not known.why_stale(layout, plan, versions_of(program)):
            answer = known.layouts[layout]
        else:
            answer = compile_answer(plan)
            print(f"{plan.name:<52} {answer.refused or f'compiled in {answer.compile_seconds:.0f} s'}", flush=True)
        answers = with_answer(answers, layout, answer)
        write_answers(answers)


def compile_answer(plan: wb.Plan) -> Answer:
    try:
        return answer_of(plan, compile_plan(plan, keep=False))
    except WorkbenchError as error:
        return Answer(str(plan.mesh), digest_of(plan), refused=str(error).splitlines()[0][:300])


def with_answer(answers: Answers, layout: str, answer: Answer) -> Answers:
    return replace(answers, layouts={**answers.layouts, layout: answer})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs="*", help="names; all if none is given")
    parser.add_argument("--anew", action="store_true", help="compile what is recorded too")
    options = parser.parse_args()
    for program in PROGRAMS:
        if options.programs and program.name not in options.programs:
            continue
        if program.missing:
            print(f"{program.name} is left out: {', '.join(program.missing)} not installed (pip install 'sharding-workbench[corpus]').")
            continue
        record(program, anew=options.anew)


if __name__ == "__main__":
    main()
