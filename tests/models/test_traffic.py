"""What the zoo's layouts send, against the figures of their papers."""

import pytest

from workbench.models import build, two_layer
from workbench.models.gpt_config import PRESETS
from workbench.public_plan import Plan

BATCH, IO, HIDDEN = 512, 1024, 4096
WEIGHTS = 2 * IO * HIDDEN
ELEMENTS = {
    "": 0,
    "batch:all": WEIGHTS,
    "hidden:all": BATCH * IO,
    "batch:rows; hidden:cols": BATCH * IO // 2 + WEIGHTS // 4,
    "batch:rows; io:cols": 2 * BATCH * HIDDEN // 2 + WEIGHTS // 4,
    "io:rows; hidden:cols": 2 * BATCH * HIDDEN // 4 + BATCH * IO // 2,
    "batch:x; io:y; hidden:z": 2 * BATCH * HIDDEN // 4 + BATCH * IO // 4 + WEIGHTS // 4,
}
"""All-reduced elements per device: Mesh-TensorFlow's table for forward and weight gradients."""


@pytest.mark.parametrize(("mesh", "layout"), two_layer.LAYOUTS)
def test_the_two_layer_example_sends_what_the_paper_says(mesh, layout):
    collectives = Plan(build("two_layer"), mesh, layout).report().collectives
    assert {each.kind for each in collectives} <= {"all-reduce"}
    assert sum(each.count * each.payload for each in collectives) == 4 * ELEMENTS[layout]


@pytest.mark.parametrize("scan", [True, False])
def test_megatrons_layout_reduces_four_activations_a_layer(scan):
    """Shoeybi et al. 2019, figure 4: two all-reduces forward and two backward, each of [batch, seq, d_model]."""
    config = PRESETS["tiny"]
    report = Plan(build("gpt", scan=scan), "data:4 model:2", "batch:data; d_ff:model; heads:model").report()
    sent = [(each.kind, each.payload) for each in report.collectives for _ in range(each.count) if each.axes == ("model",)]
    activation = 4 * config.batch // 4 * config.seq * config.d_model
    assert sent == [("all-reduce", activation)] * (4 * config.layers)


def test_the_head_and_the_table_split_over_the_vocabulary_never_send_logits():
    config = PRESETS["tiny"]
    report = Plan(build("gpt"), "data:2 model:4", "batch:data; vocab:model").report()
    activation = 4 * config.batch // 2 * config.seq * config.d_model
    outside = sorted(each.payload for each in report.collectives if each.axes == ("model",))
    assert outside == [activation // config.d_model] * 3 + [activation] * 2
