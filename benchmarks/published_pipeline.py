"""The tables of GPipe (Huang et al. 2019) for its Transformer, from the workbench's own pipeline model with the source's configuration.

The embedding, the parts of a layer and the head are priced as kernels of a real program of the zoo, planned for the hardware; balanced over
the partitions by the exact rule, and simulated by the GPipe schedule, everything recomputed. The source does not say how fine its layers
were cut; measured as it is at 97 % of ideal on eight partitions, three layers and a head on the last one cannot have been it. Here a cut
may fall behind each product. Nothing is fitted.

    python benchmarks/published_pipeline.py [--quick] [--json]      published beside predicted; --quick is the same, it takes seconds
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from typing import NamedTuple

import workbench as wb
from tests.support.residual_bytes import count_residual_bytes
from workbench.core.pipeline_spec import PipelineSpec
from workbench.core.schedules.stage_cost import StageCost
from workbench.cost.collective_times import collective_seconds
from workbench.hardware.catalogue import parse_hardware
from workbench.hardware.hardware import Hardware
from workbench.models.decoder import decoder_stage
from workbench.models.decoder.decoder_config import DecoderConfig
from workbench.pipeline.balance import balance
from workbench.pipeline.simulate_pipeline import simulate
from workbench.pipeline.stage_transfer import Transfer
from workbench.reports.report import Report
from workbench.reports.simulated_pipeline import SimulatedPipeline

TRANSFORMER = DecoderConfig(
    vocab=32000, layers=1, d_model=2048, kv_heads=32, q_per_kv=1, d_head=64, d_ff=8192, seq=1024, batch=1, norm="layer", positions="learned"
)
"""One layer and one sequence of GPipe's Transformer-L (table 1: model 2048, feed-forward 8192, 32 heads, 32k words, 1024 tokens)."""

# Published: (table, hardware, layers, of M = 32 the throughput by partitions, normalised as `BASE` says).
TABLES = {
    "GP-2": ("TPU v3 4x4", 48, {2: 1.8, 4: 3.4, 8: 6.3}),
    "GP-3": ("8 P100", 24, {2: 1.0, 4: 1.8, 8: 3.3}),
}
BASE = {"GP-2": (2, 1), "GP-3": (2, 32)}  # partitions and micro-batches of the throughput that is 1
RECOMPUTED = 22.5 / 65.6  # of computation: the step's breakdown (GP-4)
# GP-1, Transformer-L on TPU v3: partitions, layers, parameters, peak activation memory of all cores in GB.
MEMORY = [(1, 13, 785.8e6, 6.4), (8, 103, 5.3e9, 50.9), (32, 415, 21.0e9, 199.9), (128, 1663, 83.9e9, 796.1)]


@dataclass(frozen=True)
class Prediction:
    """Of one table its figures by number of partitions."""

    table: str
    published: Mapping[int, float]
    predicted: Mapping[int, float]

    @property
    def errors(self) -> Mapping[int, float]:
        """Signed, relative to what was measured."""
        return {partitions: self.predicted[partitions] / value - 1 for partitions, value in self.published.items()}


def throughput(table: str) -> Prediction:
    name, layers, published = TABLES[table]
    hardware = hardware_of(name)
    base = _rate(hardware, layers, *BASE[table])
    return Prediction(table, published, {partitions: _rate(hardware, layers, partitions, 32) / base for partitions in published})


def _rate(hardware: Hardware, layers: int, partitions: int, micro_batches: int) -> float:
    """Sequences a second, of one a micro-batch."""
    return micro_batches / step(hardware, layers, partitions, micro_batches).seconds


def step(hardware: Hardware, layers: int, partitions: int, micro_batches: int) -> SimulatedPipeline:
    """A step of the Transformer, balanced over so many partitions."""
    units = _units(hardware, layers)
    starts = balance([unit.forward + unit.backward for unit in units], partitions).starts
    bounds = (0, *starts, len(units))
    costs = []
    for stage, (a, b) in enumerate(pairwise(bounds)):
        forward, backward = sum(unit.forward for unit in units[a:b]), sum(unit.backward for unit in units[a:b])
        sends = ((stage + 1, units[b - 1].sends),) if stage + 1 < partitions else ()
        costs.append(StageCost(forward, backward / 2, backward / 2, sends=sends))
    mesh = wb.Mesh(f"stage:{partitions}")
    transfer = Transfer(lambda count: collective_seconds("collective-permute", ("stage",), count, mesh, hardware))
    return simulate(PipelineSpec(partitions, micro_batches, "gpipe"), costs, transfer)


class Unit(NamedTuple):
    """What no cut goes through: seconds forward and backward, bytes that a cut behind it sends."""

    forward: float
    backward: float
    sends: int


# The scopes of a layer's parts, and how many times the stream what is alive behind each is wide.
PARTS = {
    ("attention/norm", "attention/normal", "attention/query_key_value"): 4,
    ("attention/core",): 2,
    ("attention/output", "attention/residual"): 1,
    ("mlp/norm", "mlp/up", "mlp/activation"): 1 + TRANSFORMER.d_ff // TRANSFORMER.d_model,
    ("mlp/down", "mlp/residual"): 1,
}


@cache
def _units(hardware: Hardware, layers: int) -> tuple[Unit, ...]:
    """The embedding, the parts of each layer, the head with the loss."""
    first, last = (micro_batch(hardware, first=first, last=not first) for first in (True, False))
    stream = TRANSFORMER.seq * TRANSFORMER.d_model * (2 if hardware.chip.platform == "tpu" else 4)
    parts = [Unit(*seconds_of(first, [f"layers/0/{scope}" for scope in scopes]), stream * wide) for scopes, wide in PARTS.items()]
    return (
        Unit(*seconds_of(first, ("embedding",)), stream),
        *parts * layers,
        Unit(*seconds_of(last, ("norm", "head", "loss")), 0),
    )


def seconds_of(report: Report, scopes: Sequence[str]) -> tuple[float, float]:
    """Of the kernels in these scopes, forward and backward."""
    sums = {False: 0.0, True: 0.0}
    for kernel in report.kernel_costs:
        path = kernel.path.removeprefix("grad/")
        if any(path == scope or path.startswith(f"{scope}/") for scope in scopes):
            sums[path != kernel.path] += kernel.total_seconds
    return sums[False], sums[True]


@cache
def micro_batch(hardware: Hardware, *, first: bool, last: bool) -> Report:
    config = replace(TRANSFORMER, compute="bfloat16" if hardware.chip.platform == "tpu" else "float32")
    return wb.Plan(decoder_stage.micro_batch(config, first=first, last=last), "model:1", hardware=hardware).report()


@cache
def hardware_of(name: str) -> Hardware:
    return parse_hardware(name)


def recomputed_share() -> float:
    """What is computed again, over what is computed anyway, of the Transformer on TPU."""
    units = _units(hardware_of(TABLES["GP-2"][0]), 48)
    forward, backward = sum(unit.forward for unit in units), sum(unit.backward for unit in units)
    return forward / (forward + backward)


def activation_memory(partitions: int, layers: int, micro_batches: int = 32) -> int:
    """Bytes of activations on the fullest core: what entered, of every micro-batch, and one micro-batch's layers whole (table 1, whose
    batch is 32 sequences; computed in float32)."""
    share = -(-layers // partitions)
    entering = TRANSFORMER.seq * TRANSFORMER.d_model * 4 * (32 // micro_batches)
    costs = [
        StageCost(1.0, 1.0, 1.0, residuals=share * _kept_of_a_layer() * (32 // micro_batches), input_activations=entering)
    ] * partitions
    return max(simulate(PipelineSpec(partitions, micro_batches, "gpipe"), costs).peaks)


@cache
def _kept_of_a_layer() -> int:
    config = replace(TRANSFORMER, compute="float32")
    one, two = (
        count_residual_bytes(wb.Plan(decoder_stage.micro_batch(replace(config, layers=layers), first=False, last=False), "model:1"))
        for layers in (1, 2)
    )
    return two - one


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="nothing is left out: it takes seconds")
    parser.add_argument("--json", action="store_true", help="end with one line of JSON")
    options = parser.parse_args()
    figures = {}
    for table in TABLES:
        found = throughput(table)
        figures[table] = max(map(abs, found.errors.values()))
        for partitions, value in found.published.items():
            print(f"{table}  K={partitions}  {value:.2f}  {found.predicted[partitions]:.2f}  {found.errors[partitions]:+.1%}")
    figures["recomputed"] = recomputed_share()
    print(f"GP-4  recomputed, of computation  {RECOMPUTED:.1%}  {figures['recomputed']:.1%}")
    for partitions, layers, parameters, memory in MEMORY:
        predicted = activation_memory(partitions, layers) / 1e9
        count = replace(TRANSFORMER, layers=layers).parameters
        print(
            f"GP-1  K={partitions:<4} {parameters / 1e6:9.1f}M {count / 1e6:9.1f}M  a core {memory / partitions:.2f} GB  {predicted:.2f} GB"
        )
        figures[f"memory_{partitions}"] = predicted
    if options.json:
        print(json.dumps({name: round(value, 4) for name, value in figures.items()}))


if __name__ == "__main__":
    main()
