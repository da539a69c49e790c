"""Launcher options for a layout: MaxText, Megatron-LM, torchtitan, nanotron, DeepSpeed, and vLLM for decoding.

Each launcher has options and a list of unsupported features. Names are those of MaxText's `base.yml`, Megatron Core's
`arguments.py`, torchtitan's `job_config.py`, nanotron's and DeepSpeed's configuration and `vllm serve`, read in
November 2026.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import gcd

from workbench.errors import SearchError, unknown_name
from workbench.hardware.hardware import Hardware
from workbench.models.sizing.candidate_layouts import ZERO_1, ZERO_3, ParallelLayout
from workbench.models.sizing.nearest_program import Workload


@dataclass(frozen=True, slots=True)
class LauncherOptions:
    """The options of one launcher in its own syntax, and the unsupported features of the layout."""

    launcher: str
    text: str
    unsupported: tuple[str, ...] = ()


def launcher_options(choice: ParallelLayout, workload: Workload, hardware: Hardware, only: str = "") -> tuple[LauncherOptions, ...]:
    """Options of all launchers for such a step, or of one. Raises `SearchError` for an unknown launcher."""
    makers = DECODING if workload.is_inference else TRAINING
    if only and only not in makers:
        raise SearchError(*unknown_name("launcher", only, makers))
    found = (make(choice, workload, hardware) for name, make in makers.items() if only in ("", name))
    notes = _note(workload.optimizer != "adamw", f"the optimizer, {workload.optimizer}, is not among these options")
    notes += _note(bool(workload.precision), f"{workload.precision} is not among these options")
    notes += _note(workload.lora > 0, f"the adapters of rank {workload.lora} are not among these options")
    notes += _note(workload.weights != "bfloat16", f"the weights in {workload.weights} are not among these options")
    return tuple(replace(each, unsupported=(*each.unsupported, *notes)) for each in found)


def _note(condition: bool, text: str) -> tuple[str, ...]:
    return (text,) if condition else ()


def _maxtext(choice: ParallelLayout, workload: Workload, hardware: Hardware) -> LauncherOptions:
    sharded = choice.zero == ZERO_3
    sizes = {"tensor": choice.model, "context": choice.context, "expert": choice.expert}
    sizes |= {"fsdp" if sharded else "data": choice.data, "pipeline": choice.stages}
    room = hardware.axes[-1].size if hardware.axes[-1].name == "device" else choice.devices
    options: dict[str, object] = {}
    for axis, size in sizes.items():  # the busiest axes go inside a node or slice, the rest between them
        inner = gcd(size, room)
        room //= inner
        options |= {f"ici_{axis}_parallelism": inner} if inner > 1 else {}
        options |= {f"dcn_{axis}_parallelism": size // inner} if size > inner else {}
    shared = choice.context * choice.model * choice.stages  # devices that share a replica's sequences
    options |= {"context_parallel_strategy": "all_gather"} if choice.context > 1 else {}
    options |= {"per_device_batch_size": choice.micro_batch / shared, "max_target_length": workload.seq}
    if choice.stages > 1:
        options["per_device_batch_size"] = choice.micro_batch * choice.micro_batches / shared
        options["num_pipeline_microbatches"] = choice.micro_batches
    else:
        options["gradient_accumulation_steps"] = choice.micro_batches
    options |= {"remat_policy": "full" if choice.recomputes else "minimal", "scan_layers": True}
    options |= {"shard_optimizer_over_data": True} if choice.zero == ZERO_1 else {}
    notes = _note(choice.stages > 1, "its pipeline is GPipe or circular in one program, not 1F1B: more activations are alive")
    return LauncherOptions("MaxText", " ".join(f"{name}={_plain(value)}" for name, value in options.items()), notes)


def _plain(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _megatron(choice: ParallelLayout, workload: Workload, _: Hardware) -> LauncherOptions:
    flags = [f"--tensor-model-parallel-size {choice.model}", f"--pipeline-model-parallel-size {choice.stages}"]
    flags += ["--sequence-parallel"] if choice.model > 1 else []
    flags += [f"--context-parallel-size {choice.context}", "--cp-comm-type all_gather"] if choice.context > 1 else []
    flags += [f"--expert-model-parallel-size {choice.expert}"] if choice.expert > 1 else []
    flags += [f"--micro-batch-size {choice.micro_batch}", f"--global-batch-size {workload.batch}", f"--seq-length {workload.seq}", "--bf16"]
    if choice.zero == ZERO_3:
        flags += ["--use-megatron-fsdp", "--data-parallel-sharding-strategy optim_grads_params", "--use-distributed-optimizer"]
        flags += ["--ckpt-format fsdp_dtensor", "--no-gradient-accumulation-fusion"]
    flags += ["--use-distributed-optimizer"] if choice.zero == ZERO_1 else []
    flags += ["--recompute-granularity full", "--recompute-method uniform", "--recompute-num-layers 1"] if choice.recomputes else []
    return LauncherOptions("Megatron-LM", " ".join(flags))


def _torchtitan(choice: ParallelLayout, workload: Workload, _: Hardware) -> LauncherOptions:
    is_sharded = choice.zero != "" or choice.expert > 1  # expert parallelism requires sharding of the other weights
    parallelism = {
        "data_parallel_replicate_degree": 1 if is_sharded else choice.replicas,
        "data_parallel_shard_degree": choice.replicas if is_sharded else 1,
        "tensor_parallel_degree": choice.model,
        "pipeline_parallel_degree": choice.stages,
    }
    parallelism |= {"expert_parallel_degree": choice.expert} if choice.expert > 1 else {}
    parallelism |= {"context_parallel_degree": choice.context} if choice.context > 1 else {}
    training = {"seq_len": workload.seq, "global_batch_size": workload.batch, "local_batch_size": choice.micro_batch}
    lines = ["[training]", *_toml(training), "[parallelism]", *_toml(parallelism)]
    if choice.stages > 1:
        lines[3] = f"local_batch_size = {choice.micro_batch * choice.micro_batches}"
        lines += ['pipeline_parallel_schedule = "1F1B"', f"pipeline_parallel_microbatch_size = {choice.micro_batch}"]
    lines += ['fsdp_reshard_after_forward = "never"'] if is_sharded and choice.zero != ZERO_3 else []
    lines += ["[activation_checkpoint]", f'mode = "{"full" if choice.recomputes else "selective"}"']
    notes = _note(
        choice.zero == ZERO_1, "it has no ZeRO 1: FSDP without resharding after the forward pass is ZeRO 2, which holds no more memory"
    )
    return LauncherOptions("torchtitan", "\n".join(lines), notes)


def _toml(values: Mapping[str, int]) -> list[str]:
    return [f"{name} = {value}" for name, value in values.items()]


def _nanotron(choice: ParallelLayout, workload: Workload, _: Hardware) -> LauncherOptions:
    lines = ["parallelism:", f"  dp: {choice.replicas}", f"  tp: {choice.model}", f"  pp: {choice.stages}", "  pp_engine: 1f1b"]
    lines += ["  tp_mode: REDUCE_SCATTER", f"  expert_parallel_size: {choice.expert}"]
    lines += [f"  recompute_layer: {str(choice.recomputes).lower()}", "optimizer:", f"  zero_stage: {1 if choice.zero else 0}"]
    lines += ["tokens:", f"  sequence_length: {workload.seq}", f"  micro_batch_size: {choice.micro_batch}"]
    lines += [f"  batch_accumulation_per_replica: {choice.micro_batches}"]
    notes = _note(choice.context > 1, f"its options shard no sequence over {choice.context} devices")
    notes += _note(choice.zero == ZERO_3, "it has no ZeRO 3: each replica holds all weights and gradients, which may not fit")
    return LauncherOptions("nanotron", "\n".join(lines), notes)


def _deepspeed(choice: ParallelLayout, workload: Workload, _: Hardware) -> LauncherOptions:
    stage = {"": 0, ZERO_1: 1, ZERO_3: 3}[choice.zero]
    values: dict[str, object] = {
        "train_batch_size": workload.batch,
        "train_micro_batch_size_per_gpu": choice.micro_batch,
        "gradient_accumulation_steps": choice.micro_batches,
        "bf16": {"enabled": True},
        "zero_optimization": {"stage": stage},
    }
    values |= {"tensor_parallel": {"autotp_size": choice.model}} if choice.model > 1 else {}
    notes = _note(choice.stages > 1, f"set {choice.stages} stages in the model: `PipelineModule(layers, num_stages={choice.stages})`")
    notes += _note(choice.expert > 1, f"set experts in the model: `deepspeed.moe.layer.MoE(..., ep_size={choice.expert})`")
    notes += _note(choice.recomputes, "set recomputation in the model: `deepspeed.checkpointing` or `gradient_checkpointing_enable()`")
    notes += _note(choice.context > 1, f"these options shard no sequence over {choice.context} devices; see Ulysses, `sp_size`")
    notes += _note(stage == 3 and choice.model > 1, "AutoTP works only with ZeRO 0 to 2")
    return LauncherOptions("DeepSpeed", json.dumps(values), notes)


def _vllm(choice: ParallelLayout, workload: Workload, _: Hardware) -> LauncherOptions:
    flags = [f"--tensor-parallel-size {choice.model}"]
    flags += [f"--data-parallel-size {choice.replicas}"] if choice.replicas > 1 else []
    flags += ["--enable-expert-parallel"] if choice.expert > 1 else []
    flags += [f"--max-model-len {workload.seq}", f"--max-num-seqs {choice.micro_batch}", "--dtype bfloat16"]
    notes = _note(choice.expert > 1, "it shards experts over all devices of both axes together")
    return LauncherOptions("vLLM", " ".join(flags), notes)


TRAINING: Mapping[str, Callable[[ParallelLayout, Workload, Hardware], LauncherOptions]] = {
    "maxtext": _maxtext,
    "megatron": _megatron,
    "torchtitan": _torchtitan,
    "nanotron": _nanotron,
    "deepspeed": _deepspeed,
}
DECODING: Mapping[str, Callable[[ParallelLayout, Workload, Hardware], LauncherOptions]] = {"vllm": _vllm}
