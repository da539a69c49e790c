"""The per-operation problem of automatic sharding on public instances: what `solve` finds within the contest's time, and its bound.

The instances are those of Google's contest at ASPLOS / EuroSys 2025 (https://github.com/google/iopddl, Apache License 2.0), six that it
published; they are not part of this repository. Beside each stand the cost of the best team of the contest and the best cost known.

    python benchmarks/search_iopddl.py [INSTANCE ...] [--quick] [--json] [--instances FOLDER] [--seed N]

`score` is the sum over the instances of best known / ours (the contest's own score, with the best known in place of the best team's).
"""

import argparse
import json
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.contest_file import read_contest_file
from workbench.errors import SearchError
from workbench.search.per_operation.choice_problem import assess
from workbench.search.per_operation.solve_problem import Solution, solve

FOLDER = Path(__file__).parents[2] / "shared" / "iopddl"
_RESERVE = 2.0  # seconds of the limit that are left for looking at the answer


@dataclass(frozen=True)
class Instance:
    """One instance: the contest's time limit in seconds, and the costs to compare with."""

    name: str
    limit: float
    best_team: float
    best_known: float

    @property
    def file_name(self) -> str:
        return f"asplos-2025-iopddl-{self.name}.json.gz"


INSTANCES = (
    Instance("A", 60, 6_548_641_531, 6_548_641_531),
    Instance("B", 60, 532_843, 532_843),
    Instance("G", 120, 217_039, 217_039),
    Instance("K", 180, 2_274_276_676, 2_242_640_000),
    Instance("P", 240, 662_197_407_330, 651_833_000_000),
    Instance("V", 300, 1_632_051, 1_617_080),
)
QUICK = ("B", "G")
QUICK_SECONDS = 15.0


def measure(quick: bool, folder: Path = FOLDER, names: Iterable[str] = (), seed: int = 0) -> dict[str, Any]:
    """Every instance solved, one after the other: the record of `solved` for each; `feasible`, how many have an allowed choice; `score`.

    Raises `SearchError` where the instances are missing.
    """
    chosen = set(names) or ({*QUICK} if quick else {each.name for each in INSTANCES})
    found = [solved(each, folder, QUICK_SECONDS if quick else each.limit, seed) for each in INSTANCES if each.name in chosen]
    return {
        "instances": {each["name"]: each for each in found},
        "feasible": sum(each["feasible"] for each in found),
        "of": len(found),
        "score": round(sum(each["ratio"] for each in found), 4),
    }


def solved(instance: Instance, folder: Path, limit: float, seed: int = 0) -> dict[str, Any]:
    """One instance: cost, bound, seconds (reading the file included) and best known / ours, 0 where nothing allowed was found."""
    began = time.monotonic()
    problem = read_contest_file(_path(instance, folder))
    history: list[Solution] = []
    solution = solve(problem, limit - _RESERVE - (time.monotonic() - began), seed, history.append)
    seconds = time.monotonic() - began
    feasible = solution.strategies is not None and assess(problem, solution.strategies).is_feasible
    return {
        "name": instance.name,
        "nodes": len(problem.nodes),
        "cost": solution.cost if feasible else None,
        "bound": round(solution.bound, 3),
        "gap": round(solution.gap, 4),
        "seconds": round(seconds, 1),
        "limit": limit,
        "best_team": instance.best_team,
        "best_known": instance.best_known,
        "ratio": round(instance.best_known / solution.cost, 6) if feasible else 0.0,
        "feasible": feasible,
        "within_1_percent_of_final_after": _seconds_until(history, solution.cost * 1.01),
    }


def _seconds_until(history: list[Solution], cost: float) -> float | None:
    return next((round(each.seconds, 1) for each in history if each.cost <= cost), None)


def _path(instance: Instance, folder: Path) -> Path:
    path = folder / instance.file_name
    if not path.is_file():
        raise SearchError(
            f"The instance {instance.file_name} is not in {folder}.",
            ["clone https://github.com/google/iopddl and give its benchmarks folder as --instances", "leave this benchmark out"],
        )
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help=", ".join(each.name for each in INSTANCES))
    parser.add_argument("--quick", action="store_true", help=f"{' and '.join(QUICK)} alone, for {QUICK_SECONDS:.0f} s each")
    parser.add_argument("--json", action="store_true", help="end with one line of JSON")
    parser.add_argument("--instances", type=Path, default=FOLDER, help="the folder of the contest's files (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    try:
        found = measure(options.quick, options.instances, options.names, options.seed)
    except SearchError as error:
        raise SystemExit(str(error)) from None
    for each in found["instances"].values():
        print(_line(each))
    print(f"feasible {found['feasible']} of {found['of']}, score {found['score']:.3f}")
    if options.json:
        print(json.dumps(found))


def _line(each: dict[str, Any]) -> str:
    cost = f"{each['cost']:18,.0f}" if each["feasible"] else f"{'none found':>18}"
    return (
        f"{each['name']}  {each['nodes']:6,} nodes  {cost}  bound {each['bound']:20,.0f}  best known {each['best_known']:18,.0f}  "
        f"ratio {each['ratio']:.4f}  {each['seconds']:.0f} s of {each['limit']:.0f}"
    )


if __name__ == "__main__":
    main()
