"""What it takes to put models of other packages in: python -m benchmarks.adapters [--quick] [--json FILE].

A row for each third-party program: the adapter, the lines of glue (statements that call the workbench), the seconds until it is a program,
its parameters, and how many of the dimensions of its parameters and batch have a name that a person gave, in the glue or in the model:
the others are called by their size (`d512`). Programs whose packages are not installed are left out (`pip install -e ".[corpus]"`).
"""

import argparse
import json
import os
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.corpus.adapted import ADAPTED, adapter_of, lines_of_glue
from benchmarks.corpus.program import SETTINGS, ThirdPartyProgram, version_of
from benchmarks.corpus.third_party import PROGRAMS
from workbench.core.program import Program
from workbench.core.tensor import Role

QUICK = ("haiku_lstm", "linen_seq2seq", "diffrax_node", "keras_gru")
"""A small one of each framework."""
_BY_SIZE = re.compile(r"d\d+(_\w+)?")


@dataclass(frozen=True, slots=True)
class AdaptedRow:
    """One program through its adapter; `named` is the share of dimensions, `seconds` are of a second trace, with everything imported."""

    program: str
    packages: str
    adapter: str
    glue: int
    parameters: int
    seconds: float
    named: float


def measure(program: ThirdPartyProgram) -> AdaptedRow:
    build = ADAPTED.get(program.name, program.build)
    build()  # imports the packages
    start = time.perf_counter()
    traced = build()
    seconds = time.perf_counter() - start
    packages = ", ".join(f"{each} {version_of(each)}" for each in program.packages)
    return AdaptedRow(
        program.name, packages, adapter_of(build), lines_of_glue(build), traced.parameters, round(seconds, 2), round(share_named(traced), 3)
    )


def share_named(program: Program) -> float:
    """Of the dimensions of parameters and inputs, how many have a name that is not their size."""
    dims = [dim for each in program.arguments if each.role in (Role.PARAMETER, Role.INPUT) for dim in each.dims]
    return sum(not _BY_SIZE.fullmatch(dim) for dim in dims) / max(len(dims), 1)


def table(rows: Sequence[AdaptedRow]) -> str:
    """As Markdown."""
    lines = ["| program | packages | adapter | lines of glue | parameters | seconds | named |", "|---|---|---|--:|--:|--:|--:|"]
    for row in rows:
        figures = f"{row.glue} | {row.parameters / 1e6:.1f} M | {row.seconds:.1f} | {row.named:.0%}"
        lines.append(f"| {row.program} | {row.packages} | `wb.{row.adapter}` | {figures} |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None, tell: Callable[[str], None] = print) -> list[AdaptedRow]:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="one program of each framework")
    parser.add_argument("--json", type=Path, help="write the rows to this file")
    options = parser.parse_args(arguments)
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
    chosen = [each for each in PROGRAMS if not options.quick or each.name in QUICK]
    for each in chosen:
        if each.missing:
            tell(f"{each.name} left out: {', '.join(each.missing)} not installed")
    rows = [measure(each) for each in chosen if not each.missing]
    tell(table(rows))
    if options.json:
        options.json.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n", encoding="utf-8")
    return rows


if __name__ == "__main__":
    main()
