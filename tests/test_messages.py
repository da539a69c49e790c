"""Every error text of the nouns, whole: the user's names, the arithmetic, the ways out."""

from types import SimpleNamespace

import pytest

import workbench
from tests.support.programs import batch, mlp, parameter, program
from workbench.core.layout import Layout
from workbench.core.mesh import Mesh
from workbench.core.sharding import Sharding
from workbench.errors import WorkbenchError, unknown_name
from workbench.models.registry import build
from workbench.plan.mesh_edits import ReorderAxes
from workbench.public_plan import Plan

FFN = program(parameter("params/w1", d_model=1024, d_ff=4096), batch("batch/x", batch=12, d_model=1024))


def lay(layout: str, mesh: str = "data:8 model:6"):
    return lambda: Plan(FFN, mesh, layout)


MESSAGES = [
    # meshes
    (lambda: Mesh("data"), '`data` is not a mesh axis.\n  Try: write axes as "data:4 model:2".'),
    (lambda: Mesh("2d:4"), "`2d` is not a valid name of a mesh axis.\n  Try: use at most 64 letters, digits and `_`."),
    (lambda: Mesh("a:2 a:4"), "The mesh has two axes named `a`.\n  Try: give each axis its own name."),
    (lambda: Mesh("a:0"), "Mesh axis `a` has size 0; a size is a whole number from 1.\n  Try: remove the axis."),
    (
        lambda: Mesh("data:99999999999999999999"),
        "Mesh axis `data` has size more than 10**18; a mesh has at most 1,048,576 devices.\n  Try: make the axis smaller.",
    ),
    (lambda: Mesh("a:2048 b:1024"), "2048 x 1024 = 2,097,152 devices; a mesh has at most 1,048,576.\n  Try: make an axis smaller."),
    (lambda: Mesh("data:4")["dta"], "There is no mesh axis `dta`; there are `data`.\n  Did you mean `data`?"),
    (
        lambda: Mesh(8),
        '`mesh` is 8; it should be axes with names and sizes, such as "data:4 model:2".\n  Try: name the axes, "data:8".',
    ),
    (
        lambda: Plan(FFN, (4, 2)),
        '`mesh` is (4, 2); it should be axes with names and sizes, such as "data:4 model:2".\n  Try: name the axes, "data:4 model:2".',
    ),
    (
        lambda: Mesh(None),
        '`mesh` is None; it should be axes with names and sizes, such as "data:4 model:2".\n  Try: write axes as "data:4 model:2".',
    ),
    (
        lambda: Mesh(["data:4", "model:2"]),
        "`mesh` is ['data:4', 'model:2']; it should be axes with names and sizes, such as \"data:4 model:2\".\n"
        '  Try: write "data:4 model:2".',
    ),
    (
        lambda: Mesh(SimpleNamespace(shape={"data": 2, "model": 4})),  # as a mesh of JAX has it
        '`mesh` is of type `SimpleNamespace`; it should be axes with names and sizes, such as "data:4 model:2".\n'
        '  Try: write "data:2 model:4".',
    ),
    (lambda: Mesh("data:4")[0], "There is no mesh axis `0`; there are `data`.\n  Try: use one of these names."),
    # shardings
    (lambda: Sharding.parse("data"), '`data` is not a sharding.\n  Try: write "[data, -, model]", one entry per dimension.'),
    (lambda: Sharding.parse("[data, ]"), "`[data, ]` has an empty entry.\n  Try: write `-` for an unsharded dimension."),
    (
        lambda: Sharding.parse("[a b]"),
        "`a b` in `[a b]` is not an entry of a sharding.\n  Try: `x+y` shards over x, then y · `x?` allows more axes · "
        "`x p1` propagates later · `-` is whole · `?` is open.",
    ),
    (
        lambda: Sharding.parse("[x] replicated:y p1"),
        "`p1` after the sharding `[x] replicated:y p1` is not understood.\n  Try: write `replicated:x+y`, once, for axes that may "
        "shard no dimension · `unreduced:x` for a partial sum · write a priority after the axes of a dimension, `[model p1, -]`.",
    ),
    (
        lambda: Sharding.parse("[-, - p1]"),
        "[-, - p1] gives priority 1 to an unsharded dimension, which has nothing to propagate.\n"
        "  Try: write `-` without a priority · write `? p1` to leave it to propagation.",
    ),
    (
        lambda: Sharding.parse("[x p-1]"),
        "[x p-1] has priority -1; 0 is the first to propagate.\n  Try: use 0, 1, 2, ... · give the others a larger one.",
    ),
    (
        lambda: Sharding.parse("[x, -] unreduced:x"),
        "[x, -] unreduced:x has mesh axis `x` both on a dimension and as unreduced.\n"
        "  Try: use an axis for one dimension of a tensor only · name `x` once.",
    ),
    (
        lambda: Sharding.parse("[-] replicated:x unreduced:x"),
        "[-] replicated:x unreduced:x uses mesh axis `x` twice.\n  Try: use an axis for one dimension of a tensor only · name `x` once.",
    ),
    (
        lambda: Sharding.parse("[x:(1)2, x]"),
        "[x:(1)2, x] uses `x:(1)2` and `x`, which overlap.\n  Try: use an axis for one dimension of a tensor only.",
    ),
    (lambda: Sharding((("x",), ("x",))), "[x, x] uses mesh axis `x` twice.\n  Try: use an axis for one dimension of a tensor only."),
    # layouts
    (
        lambda: Layout("d_ff"),
        "`d_ff` is not a layout statement.\n  Try: a rule is `d_ff:model` · an override `params/w=[data, -]` · "
        "a constraint `@mlp/dot_general=[data, ?, model]` · a group `group[@q/dot_general, @k/dot_general]` · "
        "a barrier `barrier[@mlp/dot_general]` · the iterations of a loop `turns[solve/while]=8`.",
    ),
    (lambda: Layout("I:x K:y"), "`I:x K:y` is not a layout statement.\n  Try: put `;` between two: `I:x; K:y`."),
    (
        lambda: Layout("J:x result=[x, -]"),
        "`J:x result=[x, -]` is not a layout statement.\n  Try: put `;` between two: `J:x; result=[x, -]`.",
    ),
    (
        lambda: Layout("I=x+y"),
        "`I=x+y` is not a layout statement.\n  Try: write `I:x+y` for a dimension · write `I=[x+y, -]`, one entry per dimension, for "
        "a tensor.",
    ),
    (
        lambda: Layout("d_ff:model; d_ff:data"),
        "Dimension `d_ff` has two rules, `d_ff:model` and `d_ff:data`.\n  Try: to shard it over several axes write `d_ff:a+b`.",
    ),
    (
        lambda: Layout("d_ff:model p-2"),
        "The rule of `d_ff` has priority -2; 0 is the first to propagate.\n  Try: use 0, 1, 2, ... · give the others a larger one.",
    ),
    (
        lambda: Layout("d_ff:model").with_priority("d_model", 1),
        "Dimension `d_model` has priority 1 but no rule, so there is nothing to propagate.\n"
        "  Try: add a rule for `d_model` · leave the priority out.",
    ),
    (
        lambda: Layout("group[w1]"),
        "`group[w1]` is not a group.\n  Try: name two places or more, `group[params/embed, @head/dot_general]`.",
    ),
    (
        lambda: Layout("barrier[w1] allows:both"),
        "`barrier[w1] allows:both` is not a barrier.\n  Try: `barrier[@mlp/dot_general]` blocks propagation · "
        "`allows:forward` and `allows:backward` block one direction.",
    ),
    (lambda: Layout("d_ff:x+x"), "The rule `d_ff:x+x` uses mesh axis `x` twice.\n  Try: name it once."),
    (
        lambda: Layout(17),
        '`layout` is 17; it should be statements, such as "batch:data", or a `Layout`.\n  Try: write "batch:data; d_ff:model".',
    ),
    (
        lambda: Plan(FFN, "data:4", 3),
        '`layout` is 3; it should be statements, such as "batch:data", or a `Layout`.\n  Try: write "batch:data; d_ff:model".',
    ),
    (
        lambda: Layout(["batch:data", "d_ff:model"]),
        "`layout` is ['batch:data', 'd_ff:model']; it should be statements, such as \"batch:data\", or a `Layout`.\n"
        '  Try: write "batch:data; d_ff:model".',
    ),
    (
        lambda: Layout({"batch": None}),
        '`layout["batch"]` is None; it should be mesh axes.\n  Try: write {"batch": "data"} · leave `batch` out.',
    ),
    (
        lambda: Layout({3: "data"}),
        '`layout` is {3: \'data\'}; it should be rules of named dimensions.\n  Try: write {"batch": "data"}.',
    ),
    # plans
    (
        lambda: Plan("gpt", "data:4"),
        "`program` is 'gpt'; it should be a `Program`.\n  Try: write `workbench.models.build(\"gpt\")`.",
    ),
    (
        lambda: Plan("mine.plan.json", "data:4"),
        "`program` is 'mine.plan.json'; it should be a `Program`.\n  Try: load a plan, `workbench.load(\"mine.plan.json\")`.",
    ),
    (
        lambda: Plan(mlp, "data:4"),
        "`program` is of type `function`; it should be a `Program`.\n  Try: trace it, `workbench.trace_training(loss, params, batch, "
        "optimizer=...)` · `workbench.trace(function, *arguments)`.",
    ),
    (
        lambda: Plan(None, "data:4"),
        '`program` is None; it should be a `Program`.\n  Try: build a model, `workbench.models.build("gpt")` · '
        "trace a function, `workbench.trace_training(...)`.",
    ),
    (
        lambda: Plan(FFN, "data:4", pipeline=5),
        '`pipeline` is 5; it should be text or a `PipelineSpec`.\n  Try: write it as "stages:4 micro_batches:16 schedule:1f1b".',
    ),
    (
        lambda: Plan(FFN, "data:4", hardware=8),
        '`hardware` is 8; it should be a kind of device and how many there are.\n  Try: write "TPU v5e 2x4" · "8 H100".',
    ),
    (
        lambda: Plan(FFN, "data:4").compile(8),
        '`hardware` is 8; it should be a kind of device and how many there are.\n  Try: write "TPU v5e 2x4" · "8 H100".',
    ),
    (
        lambda: Plan(FFN, "data:4", hardware="8 H100", axis_assignment=["data:x"]),
        "`axis_assignment` is ['data:x']; it should be text or an `AxisAssignment`.\n  Try: write \"data:x+y; model:z\".",
    ),
    (
        lambda: Plan(FFN, "data:4", hardware="TPU v5e 2x4", axis_assignment="data:q"),
        "There is no physical axis `q` of TPU v5e 2x4; there are `x`, `y`.\n  Try: use one of these names.",
    ),
    (
        lambda: Plan(FFN, "data:4").recipe(3),
        '`name` is 3; it should be the name of a recipe.\n  Try: write `plan.recipe("data_parallel")`.',
    ),
    (
        lambda: Plan(FFN, "data:4").recipe("megatron", 3),
        '`axes` is 3; it should be names of mesh axes.\n  Try: write `plan.recipe("megatron", "model")`.',
    ),
    (
        lambda: Plan(FFN, "data:4").diff(3),
        '`other` is 3; it should be a `Plan`.\n  Try: write `plan.diff(plan.recipe("megatron"))`, say.',
    ),
    (lambda: Plan(FFN, "data:4").save(3), '`path` is 3; it should be the path of a file.\n  Try: write "mine.plan.json".'),
    # legality: M3, M5, M6
    (lay("d_f:model"), "There is no dimension `d_f`; there are `d_model`, `d_ff`, `batch`.\n  Did you mean `d_ff`?"),
    (lay("D_FF:model"), "There is no dimension `D_FF`; there are `d_model`, `d_ff`, `batch`.\n  Did you mean `d_ff`?"),
    (
        lay("w1:model"),
        "There is no dimension `w1`; there are `d_model`, `d_ff`, `batch`.\n"
        "  Try: `params/w1` is an argument: place it with `w1=[-, -]`, one entry per dimension.",
    ),
    (lay("d_ff:modle"), "There is no mesh axis `modle`; there are `data`, `model`.\n  Did you mean `model`?"),
    (lay("params/w1=[-, modle]"), "There is no mesh axis `modle`; there are `data`, `model`.\n  Did you mean `model`?"),
    (
        lay("d_model:data; d_ff:data"),
        "`params/w1: float32[d_model=1024, d_ff=4096]` would have both `d_model` and `d_ff` on mesh axis `data`; an axis shards one dimension "
        "of a tensor.\n  Try: put `d_ff` on another axis · override `params/w1` · leave `d_ff` whole.",
    ),
    (
        lay("d_ff:model"),
        "`params/w1: float32[d_model=1024, d_ff=4096]`: the layout puts `d_ff` (4096) on mesh axis `model` (6), and 4096 % 6 = 4. "
        "JAX requires equal parts.\n"
        "  Try: make the parts 4 or 8 · put `d_ff` on `data` (8 divides 4096) · pad `d_ff` to 4098 · leave `d_ff` whole.",
    ),
    (
        lay("batch:data+model", "data:4 model:2"),
        "`batch/x: float32[batch=12, d_model=1024]`: the layout puts `batch` (12) on mesh axis `data+model` (4 x 2 = 8), and 12 % 8 = 4. "
        "JAX requires equal parts.\n"
        "  Try: make the parts 4 or 6 · pad `batch` to 16 · leave `batch` whole.",
    ),
    (
        lay("params/w2=[-, model]"),
        "There is no argument `params/w2`; there are `params/w1`, `batch/x`.\n  Did you mean `params/w1`?",
    ),
    (
        lay("params/nosuch=[-, model]"),
        "There is no argument `params/nosuch`; there are `params/w1`, `batch/x`.\n  Try: use one of these names.",
    ),
    (
        lay("params/w1=[data]"),
        "`params/w1: float32[d_model=1024, d_ff=4096]` has 2 dimensions; [data] places 1.\n  Try: write one entry per dimension, `-` for unsharded.",
    ),
    (
        lay("params/w1=[-, data:(1)2]"),
        "`data:(1)2` is a part of mesh axis `data`; only propagation creates such parts, and JAX cannot name them.\n"
        "  Try: make two axes of `data`, such as `data_major` and `data_minor` · use the whole axis `data`.",
    ),
    (lay("params/w1=[-, -] replicated:dat"), "There is no mesh axis `dat`; there are `data`, `model`.\n  Did you mean `data`?"),
    (
        lay("group[params/w1, batch/x]"),
        "`group[params/w1, batch/x]` groups `params/w1` of shape [1024, 4096] and `batch/x` of shape [12, 1024]; a group "
        "requires equal shapes.\n  Try: group values of equal shape · override or constrain each separately.",
    ),
    (
        lambda: Plan(mlp(), "data:4", "barrier[mlp/dot_general]"),
        "There is no argument `mlp/dot_general`; there are `params/layers/0/w1`, `params/layers/0/w2`, `params/layers/1/w1`, "
        "`params/layers/1/w2`, `opt_state/0/count`, `opt_state/0/mu/layers/0/w1`, `opt_state/0/mu/layers/0/w2`, "
        "`opt_state/0/mu/layers/1/w1`, `opt_state/0/mu/layers/1/w2`, `batch/x`.\n  Try: write `@mlp/dot_general` for the intermediate value.",
    ),
    (
        lambda: Plan(mlp(), "data:4", "barrier[@model.py:7]"),
        "There is no line with an intermediate value `model.py:7`; there are `toy.py:7`.\n  Did you mean `toy.py:7`?",
    ),
    (
        lambda: Plan(mlp(), "data:4", "barrier[@toy.py:9]"),
        "There is no line with an intermediate value `toy.py:9`; there are `toy.py:7`.\n  Try: the nearest is `toy.py:7`.",
    ),
    (
        lambda: Plan(mlp(), "data:4", "@mlp/dot=[data, -]"),
        "There is no intermediate value `mlp/dot`; there are `mlp/dot_general`, `mlp/out/dot_general`.\n  Did you mean `mlp/dot_general`?",
    ),
    (
        lambda: Plan(mlp(), "data:4", "@mlp/dot_general=[data]"),
        "`mlp/dot_general` has 2 dimensions; [data] places 1.\n  Try: write one entry per dimension, `-` for unsharded.",
    ),
    # dimension names
    (
        lambda: FFN.rename({"d_f": "x"}),
        "There is no dimension `d_f`; there are `d_model`, `d_ff`, `batch`.\n  Did you mean `d_ff`?",
    ),
    (
        lambda: FFN.rename({"d_ff": "d ff"}),
        "`d ff` is not a valid dimension name.\n  Try: use at most 80 letters, digits and `_`.",
    ),
    (
        lambda: FFN.rename({"d_ff": "d_model"}),
        "`params/w1: float32[d_model=1024, d_model=4096]` would have two dimensions named `d_model`; a rule for `d_model` would be "
        "ambiguous.\n  Try: name the second one, for example, `d_model_out`.",
    ),
    # edits
    (
        lambda: Plan(FFN, "data:8 model:2").apply(ReorderAxes(("data", "data"))),
        "data, data is not an order of data, model.\n  Try: name each axis once.",
    ),
]


@pytest.mark.parametrize(("mistake", "text"), MESSAGES, ids=[text[:70] for _, text in MESSAGES])
def test_a_mistake_is_told_in_whole_sentences(mistake, text):
    with pytest.raises(WorkbenchError) as caught:
        mistake()
    assert str(caught.value) == text


def test_an_error_without_ways_out_is_its_message():
    assert str(WorkbenchError("The disk is full.")) == "The disk is full."


def test_a_long_list_of_names_is_cut_and_a_long_name_too():
    message, ways_out = unknown_name("dimension", "q" * 500, [f"d{i}" for i in range(100)])
    assert message.endswith("`d19` and more.")
    assert len(message) < 400
    assert ways_out == ("use one of these names",)
    assert unknown_name("model", "x", [])[0] == "There is no model `x`; there are none."


def test_the_models_that_messages_name_are_there_without_an_import_of_their_own():
    assert workbench.__getattr__("models").build is build
