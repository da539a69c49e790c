"""What a micro-batch keeps between its passes, layer by layer."""

import re

from tests.support.residual_bytes import count_residual_bytes
from workbench.core.tensor import Role
from workbench.models import build
from workbench.models.config_fields import choose_preset
from workbench.models.decoder import decoder_stage
from workbench.models.decoder.decoder_config import PRESETS
from workbench.public_plan import Plan


def test_one_more_layer_keeps_what_its_kernels_read():
    """Llama's layer with fused kernels: bfloat16 of the stream twice, its two normalised forms, queries, keys, values, attention's result,
    both halves of SwiGLU and their product."""
    kept = [count_residual_bytes(Plan(_micro_batch(layers), "model:1")) for layers in (1, 2)]
    config = choose_preset(PRESETS, "llama3-70b", batch=1)
    heads, keys = config.kv_heads * config.q_per_kv * config.d_head, 2 * config.kv_heads * config.d_head
    a_token = 4 * config.d_model + 2 * heads + keys + 3 * config.d_ff
    assert kept[1] - kept[0] == 2 * a_token * config.seq


def _micro_batch(layers: int):
    return decoder_stage.micro_batch(choose_preset(PRESETS, "llama3-70b", layers=layers, batch=1), first=False, last=False)


def test_what_a_scan_keeps_is_named_by_the_values_it_holds():
    """Not by the buffer of zeros that the loop is given: a layer keeps the same under the same names when it is written out."""
    scanned, unrolled = (Plan(build("gpt", layers=2, scan=scan), "data:8", "batch:data").report() for scan in (True, False))
    layer = re.compile(r"^layers/(\d+/)?")
    kept = {layer.sub("layers/", each.path) for each in scanned.alive if each.role is Role.ACTIVATION and each.path.startswith("layers")}
    written_out = {layer.sub("layers/", each.path) for each in unrolled.alive if each.role is Role.ACTIVATION}
    assert {"layers/attention/scores/exp", "layers/mlp/up/mul", "layers/mlp/up/dot_general"} <= kept & written_out
    assert not {each for each in kept if each == "layers" or "broadcast_in_dim" in each}
    assert sum(each.bytes for each in scanned.alive) == scanned.memory.peak
