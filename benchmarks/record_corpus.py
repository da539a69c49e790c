"""Records what XLA:TPU says of the third-party programs (`benchmarks/corpus/answers/`), for `accuracy.py` to hold predictions against.

Only what is missing or stale is compiled, unless `--anew` is given, and the file is written after each case. A layout that the workbench
or the compiler refuses is recorded too, with the first line of the reason.

    python benchmarks/record_corpus.py [PROGRAM ...] [--layout NAME] [--anew]
"""

import argparse
import os
from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256

os.environ.setdefault("JAX_PLATFORMS", "cpu")  # this process only plans

import workbench as wb
from benchmarks.corpus.answers import Answer, answer_of, begin_answers, digest_of, read_answers, write_answers
from benchmarks.corpus.program import LAYOUTS, ThirdPartyProgram
from benchmarks.corpus.third_party import PROGRAMS
from workbench.engine import compile_plan
from workbench.errors import WorkbenchError


def record(program: ThirdPartyProgram, layout: str, *, anew: bool) -> None:
    """Compile one layout of a program if its answer is missing or stale, and write the file."""
    plan = program.plan(layout)
    known, begun = read_answers(program.name), begin_answers(program)
    if known is not None and not anew and not known.why_stale(layout, plan, begun.versions):
        return
    answer = compile_answer(plan)
    print(f"{plan.name:<52} {answer.refused or f'compiled in {answer.compile_seconds:.0f} s'}", flush=True)
    kept = known.layouts if known is not None and known.header == begun.header else {}
    write_answers(replace(begun, layouts={**kept, layout: answer}))


def compile_answer(plan: wb.Plan) -> Answer:
    try:
        return answer_of(plan, compile_plan(plan, keep=False))
    except WorkbenchError as error:
        return Answer(str(plan.mesh), digest_of(plan), refused=str(error).splitlines()[0][:300])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", help="names; all if none is given")
    parser.add_argument("--layout", choices=LAYOUTS, help="one alone")
    parser.add_argument("--anew", action="store_true", help="compile what is recorded too")
    options = parser.parse_args()
    chosen = [each for each in PROGRAMS if each.name in (options.programs or [each.name])]
    for program in chosen:
        if program.missing:
            print(f"{program.name} is left out: {', '.join(program.missing)} not installed (pip install -e '.[corpus]').")
    for program, layout in shuffled([each for each in chosen if not each.missing], [options.layout] if options.layout else LAYOUTS):
        record(program, layout, anew=options.anew)


def shuffled(programs: Sequence[ThirdPartyProgram], layouts: Sequence[str]) -> list[tuple[ThirdPartyProgram, str]]:
    """All cases by the digest of their names: what is recorded at any time is then a fair sample of them."""
    cases = [(program, layout) for program in programs for layout in layouts]
    return sorted(cases, key=lambda case: sha256(f"{case[0].name}/{case[1]}".encode()).digest())


if __name__ == "__main__":
    main()
