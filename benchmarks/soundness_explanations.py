"""Explains random axes of random plans of the zoo, and counts what dies of it.

A plan is a program of the zoo on a random mesh, with rules, priorities, overrides, constraints, groups and barriers drawn at random, as far
as each is legal there. Of each, a few axes are drawn, and explained with their way, what lost there and what else could bring them. It is
done in processes of their own, some thousand explanations each, so that the death of one is counted.

    python benchmarks/soundness_explanations.py [--quick] [--json] [--seed N]
"""

import argparse
import json
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from functools import cache

os.environ.setdefault("JAX_PLATFORMS", "cpu")

from workbench.core.layout_text import DIRECTIONS
from workbench.core.mesh import Mesh
from workbench.core.program import Program
from workbench.core.sharding import Sharding
from workbench.errors import PartitionError, WorkbenchError
from workbench.models import build
from workbench.plan.edits import Constrain, Edit, GroupValues, Override, Prioritize, SetBarrier, ShardDim
from workbench.propagation import propagation_of
from workbench.public_plan import Plan
from workbench.reports.propagation import Propagation

MODELS = ("two_layer", "mnist", "gpt", "deep_unet", "decoder", "conformer", "unet", "mixture", "t5")
WEIGHTS = (6, 6, 10, 4, 1, 1, 1, 1, 1)  # the large ones take a second each
AXES = ("data", "model", "stage")
POINTS = 8  # explained of each plan at most
BATCH = 2_500  # explanations that one process makes
SECONDS = 3600  # that it may take


def explanations(count: int, seed: int) -> dict[str, int]:
    """Explanations made, deaths of the process that asked, explanations answered by the message that Shardy ended; and the seed."""
    made = deaths = worker_deaths = batch = 0
    while made < count:
        found = _batch(min(BATCH, count - made), seed * 1_000_003 + batch)
        batch += 1
        deaths += found is None
        made += found["explanations"] if found else 1  # the one it died of
        worker_deaths += found["worker_deaths"] if found else 0
    return {"explanations": made, "deaths": deaths, "worker_deaths": worker_deaths, "seed": seed}


def _batch(count: int, seed: int) -> dict[str, int] | None:
    """What a process of its own made of it; `None` if it died."""
    command = [sys.executable, __file__, "--here", str(count), "--seed", str(seed)]
    with suppress(subprocess.TimeoutExpired):
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=SECONDS, check=False)
        if done.returncode == 0:
            return json.loads(done.stdout.splitlines()[-1])
        print(f"a process ended with {done.returncode}: --here {count} --seed {seed}", file=sys.stderr)
    return None


def explain_here(count: int, seed: int) -> dict[str, int]:
    """The same in this process."""
    draw, found = random.Random(seed), Counter(explanations=0, worker_deaths=0)  # noqa: S311 - to be drawn again by its seed
    while found["explanations"] < count:
        plan = random_plan(draw)
        try:
            replay = propagation_of(plan)
        except PartitionError as error:
            if "to record how" not in error.message and "itself ended" not in error.message:
                continue  # Shardy refuses it: it has no figures either
            found.update(explanations=1, worker_deaths=1)
            print(f"{error.message}\n  {plan.program.name} on {plan.mesh}: {plan.layout}", file=sys.stderr)
            continue
        for value, dim, axis in _points(draw, replay, min(POINTS, count - found["explanations"])):
            replay.axis(value, dim, axis)
            found["explanations"] += 1
    return dict(found)


def random_plan(draw: random.Random) -> Plan:
    """A program of the zoo on one to three axes, with up to twelve statements."""
    sizes = draw.choices((2, 3, 4, 8), k=draw.randint(1, 3))
    plan = Plan(_program(draw.choices(MODELS, WEIGHTS)[0]), Mesh(tuple(zip(AXES, sizes, strict=False))), "")
    for edit in _edits(draw, plan):
        with suppress(WorkbenchError):  # not legal here
            plan = plan.apply(edit)
    return plan


@cache
def _program(name: str) -> Program:
    return build(name)


def _edits(draw: random.Random, plan: Plan) -> Iterator[Edit]:
    program, names = plan.program, plan.mesh.names
    values = [each for each in program.operations if each.path and each.shape and each.kind not in ("constant", "data_flow_edge")]
    for dim in draw.sample(sorted(program.dims), min(len(program.dims), draw.randint(0, 4))):
        yield ShardDim(dim, tuple(draw.sample(names, draw.randint(1, len(names)))))
        if draw.random() < 0.3:
            yield Prioritize(dim, draw.randint(1, 3))
    for tensor in draw.sample(program.arguments, min(len(program.arguments), draw.randint(0, 3))):
        yield Override(tensor.path, _sharding(draw, names, len(tensor.shape)))
    for value in draw.sample(values, min(len(values), draw.randint(0, 3))):
        yield Constrain(f"/{value.path}", _sharding(draw, names, len(value.shape)))
    if draw.random() < 0.15:
        one = draw.choice(values)
        yield GroupValues((f"@/{one.path}", f"@/{draw.choice([each for each in values if each.shape == one.shape]).path}"))
    if draw.random() < 0.15:
        yield SetBarrier(f"@/{draw.choice(values).path}", draw.choice(DIRECTIONS))


def _sharding(draw: random.Random, names: tuple[str, ...], rank: int) -> Sharding:
    """Each dimension whole, open, or on axes that no other has."""
    free = draw.sample(names, len(names))
    kinds = (draw.choice(("open", "whole", "split")) for _ in range(rank))
    return Sharding(tuple(None if kind == "open" else (free.pop(),) if kind == "split" and free else () for kind in kinds))


def _points(draw: random.Random, replay: Propagation, count: int) -> list[tuple[int, int, str]]:
    found = [
        (number, dim, axis)
        for number, site in enumerate(replay.values)
        for dim, axes in enumerate(site.sharding.dims)
        for axis in axes or ()
    ]
    return draw.sample(found, min(count, len(found)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="500 explanations instead of 20,000")
    parser.add_argument("--json", action="store_true", help="the last line is one JSON object")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32), help="of the plans; another in each run")
    parser.add_argument("--here", type=int, metavar="COUNT", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.here is not None:
        print(json.dumps(explain_here(options.here, options.seed)))
        return
    found = explanations(500 if options.quick else 20_000, options.seed)
    print(", ".join(f"{value:,} {name.replace('_', ' ')}" for name, value in found.items() if name != "seed"), f"(seed {found['seed']})")
    if options.json:
        print(json.dumps(found))


if __name__ == "__main__":
    main()
