"""Candidate layouts of a model on a number of devices, with closed-form memory and step time in microseconds of
computation.

These outlines only rank the candidates and drop those that cannot fit; the figures come from the planner. The closed
forms are those of Megatron-LM (Narayanan et al. 2021; Korthikanti et al. 2022) and ZeRO (Rajbhandari et al. 2020) with
the state that the zoo's programs hold.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from workbench.hardware.hardware import Hardware
from workbench.models.sizing.architecture import Architecture
from workbench.models.sizing.nearest_program import RECOMPUTE, Workload
from workbench.tracing.named_optimizers import find_optimizer

ZERO_1, ZERO_3 = "zero_1", "zero_3"
PARAMETER, GRADIENT, HALF = 4, 4, 2  # bytes a parameter: float32 weights, gradients; bfloat16 values
MOST_EXPERT_DEVICES = 64
MOST_STAGES = 32
LEAST_CONTEXT = 1 << 13  # tokens of a sequence on a device under context parallelism; shorter ones need none
MOST_TENSOR = 16
MOST_MICRO_TOKENS = 1 << 15  # per replica; larger micro-batches are no faster
KEPT_SCORES = 3  # copies of the attention scores that a layer without a fused kernel keeps
STREAM_VALUES = 5  # as wide as the stream that such a layer keeps for its backward pass
SCORE_TRAFFIC = 105  # bytes of memory traffic of such a layer per score, forward and backward, mostly in float32
SLACK = 1.08  # outlines up to this multiple of the device memory are still planned
REACHED = 0.62  # share of the peak that the products of a training step reach
WEIGHT_TRAFFIC = 30  # bytes per parameter and micro-batch: weights read and cast forward and backward, gradients added
HIDDEN = 0.7  # share of the arithmetic that overlaps with weight gathers
REDUCE_LATENCY = 20e-6  # seconds of a small all-reduce in a decoding step


@dataclass(frozen=True, slots=True)
class ParallelLayout:
    """A parallel layout: sizes of the mesh axes, ZeRO stage, recomputation, and sequences per micro-batch."""

    data: int
    expert: int
    model: int
    stages: int
    zero: str = ""
    recompute: str = RECOMPUTE[0]
    micro_batch: int = 1
    micro_batches: int = 1
    context: int = 1

    @property
    def devices(self) -> int:
        return self.replicas * self.context * self.model * self.stages

    @property
    def replicas(self) -> int:
        """Devices that hold the same dense weights before ZeRO."""
        return self.data * self.expert

    @property
    def recomputes(self) -> bool:
        return self.recompute == "full"

    @property
    def splits_stream(self) -> bool:
        """Whether tensor parallelism splits the tokens between its products (Korthikanti et al. 2022).

        Not where ZeRO 3 and context parallelism are combined: with the tokens of the stream on two axes, those of the products on one, and
        gradients on a third, the partitioner gathers the examples instead of summing gradients.
        """
        return self.model > 1 and not (self.context > 1 and self.zero == ZERO_3)

    @property
    def mesh(self) -> str:
        """The mesh in plan notation; without sharded experts, the expert axis is omitted."""
        sizes = {"data": self.data, "stage": self.stages, "expert": self.expert, "context": self.context, "model": self.model}
        return " ".join(f"{name}:{size}" for name, size in sizes.items() if size > 1 or name == "stage" or self.devices == size == 1)

    def __str__(self) -> str:
        sizes = {"data": self.data, "expert": self.expert, "context": self.context, "tensor": self.model, "pipeline": self.stages}
        parts = [f"{name} {size}" for name, size in sizes.items() if size > 1] or ["one device"]
        parts += [f"ZeRO {self.zero[-1]}"] if self.zero else []
        parts += ["full recomputation"] if self.recomputes else []
        return " · ".join(parts)


@dataclass(frozen=True, slots=True)
class Outline:
    """A layout with closed-form step seconds, peak bytes on the fullest device, and bytes held between steps."""

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
    """Outlines of one architecture and workload on hardware."""

    architecture: Architecture
    workload: Workload
    hardware: Hardware

    def outlines(self) -> Iterator[Outline]:
        """Iterate over the outlines of all layouts whose state fits into the device memory."""
        capacity = self.hardware.chip.memory
        for choice in self._choices():
            outline = self._decode(choice) if self.workload.is_inference else self._train(choice)
            if outline.held <= capacity and outline.memory <= capacity * SLACK:
                yield outline

    def least_outline(self) -> Outline | None:
        """The outline with the least memory, even if it does not fit; `None` without a layout."""
        find = self._decode if self.workload.is_inference else self._train
        return min(map(find, self._choices()), key=lambda outline: outline.memory, default=None)

    def _choices(self) -> Iterator[ParallelLayout]:
        devices = self.hardware.size
        for model in self._model_sizes():
            for expert in self._expert_sizes(devices // model):
                for stages in powers_of_two(1 if self.workload.is_inference else min(MOST_STAGES, self.architecture.layers // 2)):
                    for context in self._context_sizes(expert):
                        if devices % (model * expert * stages * context) == 0:
                            data = devices // (model * expert * stages * context)
                            yield from self._with_batches(ParallelLayout(data, expert, model, stages, context=context))

    def _model_sizes(self) -> Iterator[int]:
        architecture, copies_heads = self.architecture, self.workload.copies_kv_heads(self.architecture)
        widths = [architecture.heads if architecture.kv_rank or architecture.encoder_layers or copies_heads else architecture.kv_heads]
        widths += [
            width
            for width in (
                architecture.d_ff if architecture.dense_layers or not architecture.experts else 0,
                architecture.d_expert,
                architecture.d_shared,
            )
            if width
        ]
        inner = self.hardware.axes[-1].size if len(self.hardware.axes) == 1 or self._has_nodes else MOST_TENSOR
        if self.workload.is_inference:  # only tensor parallelism shards a batch of one, so it may cross nodes
            inner = MOST_TENSOR
        for size in powers_of_two(min(inner, self.hardware.size, MOST_TENSOR)):
            if all(width % size == 0 for width in widths) and (
                size <= architecture.kv_heads or size % architecture.kv_heads == 0 or not copies_heads
            ):
                yield size

    @property
    def _has_nodes(self) -> bool:
        return self.hardware.axes[-1].name == "device"

    def _expert_sizes(self, devices: int) -> Iterator[int]:
        for size in powers_of_two(min(self.architecture.experts or 1, devices, MOST_EXPERT_DEVICES)):
            if not self.architecture.experts or self.architecture.experts % size == 0:
                yield size

    def _context_sizes(self, expert: int) -> Iterator[int]:
        has_none = self.workload.is_inference or self.architecture.kind != "decoder" or expert > 1
        yield from powers_of_two(1 if has_none else max(1, self.workload.seq // LEAST_CONTEXT))

    def _with_batches(self, choice: ParallelLayout) -> Iterator[ParallelLayout]:
        batch, seq = self.workload.batch, self.workload.seq
        if batch % choice.replicas:
            return
        per_replica = batch // choice.replicas
        if self.workload.is_inference:
            yield replace(choice, micro_batch=per_replica)
            return
        for micro_batch in powers_of_two(max(1, min(per_replica, MOST_MICRO_TOKENS * choice.context // seq))):
            count = per_replica // micro_batch
            if per_replica % micro_batch == 0 and (choice.stages == 1 or count >= choice.stages):
                for zero in self._zeros(choice):
                    for recompute in RECOMPUTE:
                        yield replace(choice, zero=zero, recompute=recompute, micro_batch=micro_batch, micro_batches=count)

    def _zeros(self, choice: ParallelLayout) -> tuple[str, ...]:
        if choice.data == 1:
            return ("",)
        return (ZERO_1, ZERO_3) if choice.stages == 1 else (ZERO_1,)

    @cached_property
    def _parameters(self) -> int:
        return self.architecture.parameters

    @cached_property
    def _trained(self) -> int:
        return self.architecture.adapter_parameters * self.workload.lora or self._parameters

    @cached_property
    def _state(self) -> float:
        """Bytes of the optimizer's state a parameter."""
        return find_optimizer(self.workload.optimizer).state_bytes

    @cached_property
    def _step_flops(self) -> float:
        return step_flops(self.architecture, self.workload)

    @cached_property
    def _expert_weights(self) -> int:
        architecture = self.architecture
        return architecture.sparse_layers * architecture.experts * (architecture.gates + 1) * architecture.d_model * architecture.d_expert

    def _train(self, choice: ParallelLayout) -> Outline:
        held = self._held(choice)
        memory = held + self._activations(choice)
        return Outline(choice, self._step_seconds(choice), memory, held)

    def _held(self, choice: ParallelLayout) -> float:
        split = choice.model * choice.stages
        if self.workload.lora:
            frozen, replicas = self.workload.weight_bytes * self._parameters, choice.data * choice.context if choice.zero == ZERO_3 else 1
            return (frozen + (2 * HALF + self._state) * self._trained) / split / replicas
        dense, expert = (self._parameters - self._expert_weights) / split, self._expert_weights / split / choice.expert
        sharded = choice.data * choice.context if choice.zero else 1  # ZeRO shards dense weights not along `expert`
        if choice.zero == ZERO_3:
            return (PARAMETER + GRADIENT + self._state) * (dense + expert) / sharded
        return (PARAMETER + GRADIENT + self._state / sharded) * (dense + expert)

    def _activations(self, choice: ParallelLayout) -> float:
        architecture = self.architecture
        tokens = choice.micro_batch * self._longest / choice.context
        layers = (architecture.layers + architecture.encoder_layers) / choice.stages
        scores = (
            KEPT_SCORES * architecture.heads * self._longest if architecture.encoder_layers else 0
        )  # the zoo's T5 has no fused attention
        inputs = HALF * tokens * architecture.d_model / (choice.model if choice.splits_stream else 1)
        kept = STREAM_VALUES * inputs + HALF * tokens * (self._wide_values + scores) / choice.model
        in_flight = min(choice.stages, choice.micro_batches)
        layer = kept * layers if not choice.recomputes else inputs * layers + kept
        logits = 6 * tokens * architecture.vocab / choice.model if choice.stages == 1 else 0
        one_hot = HALF * tokens * architecture.vocab if architecture.encoder_layers else 0  # of its token lookup
        return layer * in_flight + logits + one_hot

    @cached_property
    def _scores(self) -> float:
        """Attention scores of a step without a fused kernel; the zoo's T5 has none."""
        architecture, target = self.architecture, self.workload.seq
        source = architecture.source or target
        pairs = architecture.encoder_layers * source**2 + architecture.layers * (target**2 + target * source)
        return self.workload.batch * architecture.heads * pairs if architecture.encoder_layers else 0

    @property
    def _longest(self) -> int:
        return max(self.architecture.source, self.workload.seq)

    @cached_property
    def _wide_values(self) -> float:
        """Values per token, besides those as wide as the stream, that a layer keeps for its backward pass with `kernels` recomputed."""
        architecture = self.architecture
        wide = max(
            architecture.d_ff if architecture.dense_layers or not architecture.experts else 0,
            architecture.top_k * (architecture.d_expert + architecture.d_model) + architecture.d_shared,
        )
        heads = (
            architecture.heads * (architecture.d_head + architecture.d_rotary)
            + 2 * (architecture.heads if architecture.kv_rank else architecture.kv_heads) * architecture.d_head
        )
        return heads + (architecture.gates + 1) * wide

    def _step_seconds(self, choice: ParallelLayout) -> float:
        architecture, chip = self.architecture, self.hardware.chip
        tokens = self.workload.batch * self.workload.seq
        again = 4 / 3 if choice.recomputes else 1.03
        work = again * self._step_flops / choice.devices / (REACHED * chip.peak(self.workload.compute))
        if not self.hardware.runtime.balances_causal:  # under the causal mask, the last part attends to everything
            work *= 1 + self._attention_share * (1 - 1 / choice.context)
        work += choice.micro_batches * (self._tensor_seconds(choice) + WEIGHT_TRAFFIC * self._weights(choice) / chip.memory_bandwidth)
        work += again * SCORE_TRAFFIC * self._scores / choice.devices / chip.memory_bandwidth
        bubble = (choice.stages - 1) / choice.micro_batches
        sent = self._gather_seconds(choice)
        work += choice.micro_batches * self._context_seconds(choice)
        all_to_all = (
            6
            * HALF
            * architecture.top_k
            * architecture.d_model
            * tokens
            / choice.replicas
            / choice.model
            / choice.stages
            * architecture.sparse_layers
        )
        routed = all_to_all / self._bandwidth(choice.expert * choice.model) if choice.expert > 1 else 0
        return work * (1 + bubble) + max(0.0, sent * choice.micro_batches - HIDDEN * work) + routed + self._update_seconds(choice)

    def _bandwidth(self, devices: int) -> float:
        inner = self.hardware.axes[-1]
        if devices <= inner.size or not self._has_nodes:
            return inner.link.bandwidth * (0.8 if self._has_nodes else 2.0)
        return self.hardware.axes[0].link.bandwidth_of_device(inner.size) * 0.8

    @cached_property
    def _attention_share(self) -> float:
        """Share of attention in the model FLOPs of a step."""
        architecture, seq = self.architecture, self.workload.seq
        scores = 2 * architecture.seen_keys(seq) * architecture.heads * (architecture.d_head + architecture.d_rotary)
        return scores / (scores + architecture.active)

    def _context_seconds(self, choice: ParallelLayout) -> float:
        """Seconds of the gathers of keys and values, twice, and of the reduce-scatters of their gradients."""
        architecture, parts = self.architecture, choice.context
        values = 2 * architecture.kv_heads * architecture.d_head * choice.micro_batch * self.workload.seq / choice.model
        sent = 3 * HALF * values * architecture.layers / choice.stages * (parts - 1) / parts
        return sent / self._bandwidth(parts * choice.model)

    def _tensor_seconds(self, choice: ParallelLayout) -> float:
        if choice.model == 1:
            return 0.0
        architecture, tokens = self.architecture, choice.micro_batch * self.workload.seq / choice.context
        values = 4 + (
            12 * architecture.top_k if architecture.experts else 4
        )  # the outputs of all experts are summed, including empty slots
        sent = values * HALF * tokens * architecture.d_model * (choice.model - 1) / choice.model
        return (architecture.layers + architecture.encoder_layers) / choice.stages * sent / self._bandwidth(choice.model)

    def _gather_seconds(self, choice: ParallelLayout) -> float:
        if choice.zero != ZERO_3:
            return 0.0
        return 3 * HALF * self._weights(choice) / self._bandwidth(choice.devices)

    def _weights(self, choice: ParallelLayout) -> float:
        return (self._parameters - self._expert_weights * (1 - 1 / choice.expert)) / choice.model / choice.stages

    def _update_seconds(self, choice: ParallelLayout) -> float:
        """Seconds of the update, and of gradient sums over the replicas if they run once per step."""
        weights = self._weights(choice) * self._trained / self._parameters
        sums = (
            0.0
            if choice.replicas * choice.context == 1 or choice.zero == ZERO_3
            else 2 * GRADIENT * weights / self._bandwidth(choice.devices)
        )
        sharded = choice.data * choice.context if choice.zero else 1
        return sums + 2 * (PARAMETER + GRADIENT + self._state) * weights / sharded / self.hardware.chip.memory_bandwidth

    def _decode(self, choice: ParallelLayout) -> Outline:
        architecture, chip = self.architecture, self.hardware.chip
        dense = (self._parameters - self._expert_weights) / choice.model
        weights = self.workload.weight_bytes * (dense + self._expert_weights / choice.model / choice.expert)
        values = architecture.cached_values
        shared = 1 if architecture.kv_rank else min(choice.model, architecture.kv_heads)
        cache = HALF * values * architecture.cached_rows(self.workload.seq) * choice.micro_batch / shared
        sums = 2 * architecture.layers * REDUCE_LATENCY * ((choice.model > 1) + (choice.expert > 1))
        return Outline(choice, (weights + cache) / chip.memory_bandwidth + sums, 1.05 * (weights + cache), weights + cache)


def step_flops(architecture: Architecture, workload: Workload) -> float:
    """Model FLOPs: 6 per active parameter and token (2 in inference, 4 for a frozen one), plus attention, half of it under a
    causal mask and less in local layers.
    """
    model = architecture
    times, tokens = (2, workload.batch) if workload.is_inference else (6, workload.batch * workload.seq)
    width = model.heads * (model.d_head + model.d_rotary + (model.d_value or model.d_head))
    pairs = model.cached_rows(workload.seq) if workload.is_inference else model.seen_keys(workload.seq)
    source = (model.source or workload.seq) if model.encoder_layers else 0  # every decoder token attends to all source tokens
    encoder = model.encoder_layers * (model.attention_parameters + model.dense_parameters)
    frozen = tokens * 2 * model.active if workload.lora else 0
    written = tokens * (model.active + model.adapter_parameters * workload.lora - encoder + width * (pairs + model.layers * source))
    return -frozen + times * (written + source * workload.batch * (encoder + model.encoder_layers * width * source))
