"""Candidate layouts of a model on a number of devices, and an outline of each: memory and step time by closed forms, in microseconds.

Outlines only order the candidates and leave out those that cannot fit; figures come from the planner. The closed forms are those of
Megatron-LM (Narayanan et al. 2021; Korthikanti et al. 2022) and ZeRO (Rajbhandari et al. 2020) with the state that the zoo's programs hold.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from workbench.hardware.hardware import Hardware
from workbench.models.sizing.architecture import Architecture
from workbench.models.sizing.nearest_program import RECOMPUTE, Workload

ZERO_1, ZERO_3 = "zero_1", "zero_3"
PARAMETER, GRADIENT, MOMENTS, HALF = 4, 4, 8, 2  # bytes a parameter: float32 weights, gradients, both moments of AdamW; bfloat16 values
MOST_EXPERT_DEVICES = 64
MOST_STAGES = 32
MOST_TENSOR = 16
MOST_MICRO_TOKENS = 1 << 15  # of a micro-batch of one replica: larger ones are no faster
KEPT_SCORES = 3  # copies of the scores of attention that a layer without a fused kernel keeps
SCORE_TRAFFIC = 105  # bytes that such a layer moves for each score, forward and backward, mostly in float32
SLACK = 1.08  # an outline may be so much above a device's memory, and is planned all the same
REACHED = 0.62  # share of the peak that products of a training step reach
WEIGHT_TRAFFIC = 30  # bytes a parameter that a micro-batch moves: weights read and cast forward and backward, gradients added
HIDDEN = 0.7  # share of the arithmetic that gathers of weights run beside
REDUCE_LATENCY = 20e-6  # seconds of a small all-reduce in a decoding step


@dataclass(frozen=True, slots=True)
class ParallelLayout:
    """A way to share a step among devices: sizes of the mesh axes, ZeRO's stage, what is recomputed, sequences of a micro-batch."""

    data: int
    expert: int
    model: int
    stages: int
    zero: str = ""
    recompute: str = RECOMPUTE[0]
    micro_batch: int = 1
    micro_batches: int = 1

    @property
    def devices(self) -> int:
        return self.replicas * self.model * self.stages

    @property
    def replicas(self) -> int:
        """Devices that hold the same dense weights before ZeRO shards them."""
        return self.data * self.expert

    @property
    def recomputes(self) -> bool:
        """Whether the backward pass computes each layer again."""
        return self.recompute == "full"

    @property
    def mesh(self) -> str:
        """The mesh as a plan writes it; experts share the axis of the examples where they are sharded."""
        sizes = {"data": self.data, "stage": self.stages, "expert": self.expert, "model": self.model}
        return " ".join(f"{name}:{size}" for name, size in sizes.items() if size > 1 or name == "stage" or self.devices == size == 1)

    def __str__(self) -> str:
        sizes = {"data": self.data, "expert": self.expert, "tensor": self.model, "pipeline": self.stages}
        parts = [f"{name} {size}" for name, size in sizes.items() if size > 1] or ["one device"]
        parts += [f"ZeRO {self.zero[-1]}"] if self.zero else []
        parts += ["full recomputation"] if self.recomputes else []
        return " · ".join(parts)


@dataclass(frozen=True, slots=True)
class Outline:
    """A choice with the closed forms of its step: seconds, bytes of the fullest device, and bytes that it holds between steps."""

    choice: ParallelLayout
    seconds: float
    memory: float
    held: float


def powers_of_two(most: int) -> Iterator[int]:
    size = 1
    while size <= most:
        yield size
        size *= 2


@dataclass(frozen=True)
class Outliner:
    """The outlines of one architecture and workload on hardware."""

    architecture: Architecture
    workload: Workload
    hardware: Hardware

    def outlines(self) -> Iterator[Outline]:
        """The outline of every choice whose state fits into the devices' memory."""
        capacity = self.hardware.chip.memory
        for choice in self._choices():
            found = self._decode(choice) if self.workload.is_inference else self._train(choice)
            if found.held <= capacity and found.memory <= capacity * SLACK:
                yield found

    def least_outline(self) -> Outline | None:
        """The outline with the least memory, whether or not it fits; `None` where no choice has so many devices."""
        find = self._decode if self.workload.is_inference else self._train
        return min(map(find, self._choices()), key=lambda outline: outline.memory, default=None)

    def _choices(self) -> Iterator[ParallelLayout]:
        devices = self.hardware.size
        for model in self._model_sizes():
            for expert in self._expert_sizes(devices // model):
                for stages in powers_of_two(1 if self.workload.is_inference else min(MOST_STAGES, self.architecture.layers // 2)):
                    if devices % (model * expert * stages) == 0:
                        yield from self._with_batches(ParallelLayout(devices // (model * expert * stages), expert, model, stages))

    def _model_sizes(self) -> Iterator[int]:
        one = self.architecture
        widths = [one.heads if one.kv_rank or one.encoder_layers else one.kv_heads]
        widths += [width for width in (one.d_ff if one.dense_layers or not one.experts else 0, one.d_expert, one.d_shared) if width]
        inner = self.hardware.axes[-1].size if len(self.hardware.axes) == 1 or self._has_nodes else MOST_TENSOR
        if self.workload.is_inference:  # nothing but tensor parallelism shards a batch of one: nodes are joined for it
            inner = MOST_TENSOR
        for size in powers_of_two(min(inner, self.hardware.size, MOST_TENSOR)):
            if all(width % size == 0 for width in widths):
                yield size

    @property
    def _has_nodes(self) -> bool:
        return self.hardware.axes[-1].name == "device"

    def _expert_sizes(self, devices: int) -> Iterator[int]:
        for size in powers_of_two(min(self.architecture.experts or 1, devices, MOST_EXPERT_DEVICES)):
            if not self.architecture.experts or self.architecture.experts % size == 0:
                yield size

    def _with_batches(self, choice: ParallelLayout) -> Iterator[ParallelLayout]:
        batch, seq = self.workload.batch, self.workload.seq
        if batch % choice.replicas:
            return
        each = batch // choice.replicas
        if self.workload.is_inference:
            yield ParallelLayout(choice.data, choice.expert, choice.model, 1, micro_batch=each)
            return
        for micro_batch in powers_of_two(max(1, min(each, MOST_MICRO_TOKENS // seq))):
            count = each // micro_batch
            if each % micro_batch == 0 and (choice.stages == 1 or count >= choice.stages):
                for zero in self._zeros(choice):
                    for recompute in RECOMPUTE:
                        yield ParallelLayout(choice.data, choice.expert, choice.model, choice.stages, zero, recompute, micro_batch, count)

    def _zeros(self, choice: ParallelLayout) -> tuple[str, ...]:
        if choice.data == 1:
            return ("",)
        return (ZERO_1, ZERO_3) if choice.stages == 1 else (ZERO_1,)

    @cached_property
    def _parameters(self) -> int:
        return self.architecture.parameters

    @cached_property
    def _step_flops(self) -> float:
        return step_flops(self.architecture, self.workload)

    @cached_property
    def _expert_weights(self) -> int:
        one = self.architecture
        return one.sparse_layers * one.experts * (one.gates + 1) * one.d_model * one.d_expert

    def _train(self, choice: ParallelLayout) -> Outline:
        held = self._held(choice)
        memory = held + self._activations(choice)
        return Outline(choice, self._step_seconds(choice), memory, held)

    def _held(self, choice: ParallelLayout) -> float:
        """Bytes of weights, gradients and moments on one device."""
        split = choice.model * choice.stages
        dense, expert = (self._parameters - self._expert_weights) / split, self._expert_weights / split / choice.expert
        sharded = choice.data if choice.zero else 1  # ZeRO shards dense weights along `data` alone
        if choice.zero == ZERO_3:
            return (PARAMETER + GRADIENT + MOMENTS) * (dense + expert) / sharded
        return (PARAMETER + GRADIENT + MOMENTS / sharded) * (dense + expert)

    def _activations(self, choice: ParallelLayout) -> float:
        one = self.architecture
        tokens = choice.micro_batch * self._longest
        layers = (one.layers + one.encoder_layers) / choice.stages
        scores = KEPT_SCORES * one.heads * self._longest if one.encoder_layers else 0  # the zoo's T5 has no fused attention
        kept = HALF * tokens * (self._kept_values + scores) / choice.model
        inputs = HALF * tokens * one.d_model / choice.model
        in_flight = min(choice.stages, choice.micro_batches)
        layer = kept * layers if not choice.recomputes else inputs * layers + kept
        logits = 6 * choice.micro_batch * self.workload.seq * one.vocab / choice.model if choice.stages == 1 else 0
        one_hot = HALF * tokens * one.vocab if one.encoder_layers else 0  # by which it looks tokens up
        return layer * in_flight + logits + one_hot

    @cached_property
    def _scores(self) -> float:
        """Scores of attention of a step that no fused kernel computes: the zoo's T5 has none."""
        one, target = self.architecture, self.workload.seq
        source = one.source or target
        pairs = one.encoder_layers * source**2 + one.layers * (target**2 + target * source)
        return self.workload.batch * one.heads * pairs if one.encoder_layers else 0

    @property
    def _longest(self) -> int:
        """Tokens of the longer sequence, where an encoder reads another one than the decoder."""
        return max(self.architecture.source, self.workload.seq)

    @cached_property
    def _kept_values(self) -> float:
        """Values of a token that a layer keeps for its backward pass where kernels are recomputed."""
        one = self.architecture
        wide = max(one.d_ff if one.dense_layers or not one.experts else 0, one.top_k * (one.d_expert + one.d_model) + one.d_shared)
        heads = one.heads * (one.d_head + one.d_rotary) + 2 * (one.heads if one.kv_rank else one.kv_heads) * one.d_head
        return 5 * one.d_model + heads + (one.gates + 1) * wide

    def _step_seconds(self, choice: ParallelLayout) -> float:
        one, chip = self.architecture, self.hardware.chip
        tokens = self.workload.batch * self.workload.seq
        again = 4 / 3 if choice.recomputes else 1.03
        work = again * self._step_flops / choice.devices / (REACHED * chip.peak(self.workload.compute))
        work += choice.micro_batches * (self._tensor_seconds(choice) + WEIGHT_TRAFFIC * self._weights(choice) / chip.memory_bandwidth)
        work += again * SCORE_TRAFFIC * self._scores / choice.devices / chip.memory_bandwidth
        bubble = (choice.stages - 1) / choice.micro_batches
        sent = self._gather_seconds(choice)
        all_to_all = 6 * HALF * one.top_k * one.d_model * tokens / choice.replicas / choice.model / choice.stages * one.sparse_layers
        routed = all_to_all / self._bandwidth(choice.expert * choice.model) if choice.expert > 1 else 0
        return work * (1 + bubble) + max(0.0, sent * choice.micro_batches - HIDDEN * work) + routed + self._update_seconds(choice)

    def _bandwidth(self, devices: int) -> float:
        """Bytes a second that a device sends to the others of its group of so many neighbours."""
        inner = self.hardware.axes[-1]
        if devices <= inner.size or not self._has_nodes:
            return inner.link.bandwidth * (0.8 if self._has_nodes else 2.0)
        return self.hardware.axes[0].link.bandwidth_of_device(inner.size) * 0.8

    def _tensor_seconds(self, choice: ParallelLayout) -> float:
        """Gathers and scatters of activations in one micro-batch."""
        if choice.model == 1:
            return 0.0
        one, tokens = self.architecture, choice.micro_batch * self.workload.seq
        values = 4 + (12 * one.top_k if one.experts else 4)  # what experts make is summed for each of them, places left empty too
        sent = values * HALF * tokens * one.d_model * (choice.model - 1) / choice.model
        return (one.layers + one.encoder_layers) / choice.stages * sent / self._bandwidth(choice.model)

    def _gather_seconds(self, choice: ParallelLayout) -> float:
        """Gathers of sharded weights and sums of their gradients in one micro-batch."""
        if choice.zero != ZERO_3:
            return 0.0
        return 3 * HALF * self._weights(choice) / self._bandwidth(choice.devices)

    def _weights(self, choice: ParallelLayout) -> float:
        """Parameters that a device computes with, gathered where ZeRO shards them."""
        return (self._parameters - self._expert_weights * (1 - 1 / choice.expert)) / choice.model / choice.stages

    def _update_seconds(self, choice: ParallelLayout) -> float:
        """Sums of gradients over the replicas, where they are made once a step, and the update."""
        weights = self._weights(choice)
        sums = 0.0 if choice.replicas == 1 or choice.zero == ZERO_3 else 2 * GRADIENT * weights / self._bandwidth(choice.devices)
        sharded = choice.data if choice.zero else 1
        return sums + 2 * (PARAMETER + GRADIENT + MOMENTS) * weights / sharded / self.hardware.chip.memory_bandwidth

    def _decode(self, choice: ParallelLayout) -> Outline:
        one, chip = self.architecture, self.hardware.chip
        dense = (self._parameters - self._expert_weights) / choice.model
        weights = HALF * (dense + self._expert_weights / choice.model / choice.expert)
        values = one.cached_values
        shared = 1 if one.kv_rank else choice.model
        cache = HALF * values * one.layers * self.workload.seq * choice.micro_batch / shared
        sums = 2 * one.layers * REDUCE_LATENCY * ((choice.model > 1) + (choice.expert > 1))
        return Outline(choice, (weights + cache) / chip.memory_bandwidth + sums, 1.05 * (weights + cache), weights + cache)


def step_flops(architecture: Architecture, workload: Workload) -> float:
    """Model FLOPs of a step: 6 for each parameter that a token passes and trains (2 in inference), and the attention's scores and mix,
    half of them under a causal mask."""
    one = architecture
    times, tokens = (2, workload.batch) if workload.is_inference else (6, workload.batch * workload.seq)
    width = one.heads * (one.d_head + one.d_rotary + (one.d_value or one.d_head))
    pairs = workload.seq if workload.is_inference else workload.seq / 2
    source = (one.source or workload.seq) if one.encoder_layers else 0  # every token of the one stack attends to all of these
    encoder = one.encoder_layers * (one.attention_parameters + one.dense_parameters)
    written = tokens * (one.active - encoder + one.layers * width * (pairs + source))
    return times * (written + source * workload.batch * (encoder + one.encoder_layers * width * source))
