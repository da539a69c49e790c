"""Modules of PyTorch: outputs and gradients are PyTorch's own, a sharded run equals the unsharded one, and nothing is allocated to plan."""

import importlib.util
import re
from pathlib import Path

import jax
import numpy as np
import optax
import pytest

import workbench as wb
from tests.support.adapter_models import S
from workbench.adapters import AdapterError
from workbench.core.tensor import Role
from workbench.errors import TraceError
from workbench.public_plan import Plan

torch = pytest.importorskip("torch")
if not importlib.util.find_spec("torchax"):
    pytest.skip("torchax is not installed", allow_module_level=True)
functional = torch.nn.functional
pytestmark = [pytest.mark.compile, pytest.mark.filterwarnings("default")]  # PyTorch and torchax warn of themselves


class Block(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = torch.nn.LayerNorm(width)
        self.attention = torch.nn.MultiheadAttention(width, 4, batch_first=True)
        self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

    def forward(self, x):
        y = self.norm(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.down(functional.gelu(self.up(x)))


class Encoder(torch.nn.Module):
    """Layers of attention, with the table of tokens for the weights of the last product, too."""

    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(24, 16)
        self.blocks = torch.nn.ModuleList([Block(16), Block(16)])
        self.head = torch.nn.Linear(16, 24, bias=False)
        self.head.weight = self.table.weight

    def forward(self, ids):
        x = self.table(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


class UNet(torch.nn.Module):
    """Down and up again, with a skip; the time of a diffusion is added in the middle."""

    def __init__(self):
        super().__init__()
        self.into, self.down = torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.Conv2d(8, 16, 3, stride=2, padding=1)
        self.norm, self.time = torch.nn.GroupNorm(4, 16), torch.nn.Linear(4, 16)
        self.out = torch.nn.Conv2d(24, 3, 3, padding=1)

    def forward(self, image, time):
        skip = functional.silu(self.into(image))
        middle = functional.silu(self.norm(self.down(skip)) + self.time(time)[:, :, None, None])
        return self.out(torch.cat([skip, functional.interpolate(middle, scale_factor=2.0, mode="nearest")], 1))


class Statistics(torch.nn.Module):
    """Buffers that change, a constant, a frozen parameter, changes in place, and values without a gradient."""

    def __init__(self):
        super().__init__()
        self.up, self.norm, self.down = torch.nn.Linear(8, 32), torch.nn.BatchNorm1d(32), torch.nn.Linear(32, 4)
        self.scale = torch.tensor([1.0, 2.0, 3.0, 4.0])
        self.register_buffer("shift", torch.arange(4.0))
        self.frozen = torch.nn.Parameter(torch.full((4,), 0.5), requires_grad=False)

    def forward(self, x):
        hidden = functional.relu(self.norm(self.up(x)), inplace=True)
        with torch.no_grad():
            target = self.down(hidden) * self.scale
        hidden = hidden * 2
        hidden += 1
        return self.down(hidden) * self.frozen + target + self.down(hidden).detach() + self.shift


class Dropping(torch.nn.Sequential):
    def __init__(self):
        super().__init__(torch.nn.Linear(8, 64), torch.nn.Dropout(0.5), torch.nn.Linear(64, 4))


def ids_loss(model, batch):
    return functional.cross_entropy(model(batch["ids"]).flatten(0, 1), batch["ids"].flatten())


def image_loss(model, batch):
    return functional.mse_loss(model(batch["image"], batch["time"]), batch["image"])


def labels_loss(model, batch):
    return functional.cross_entropy(model(batch["x"]), batch["y"])


def tensors(**shapes):
    torch.manual_seed(1)
    return {name: torch.randint(0, 4, shape) if name in ("ids", "y") else torch.randn(shape) for name, shape in shapes.items()}


MODELS = {
    "encoder": (Encoder, ids_loss, tensors(ids=(4, 6))),
    "unet": (UNet, image_loss, tensors(image=(4, 3, 8, 8), time=(4, 4))),
    "statistics": (Statistics, labels_loss, tensors(x=(16, 8), y=(16,))),
}


def program_of(make, loss, batch, optimizer=None):
    return wb.from_torch(make, batch, loss, optimizer=optimizer or optax.sgd(1.0))


def after_a_step(program):
    """The arguments that the first step begins with, and its results, by path."""
    leaves = jax.jit(program.step.initialize)(jax.random.key(0), program.step.given)
    results = jax.jit(program.step.call)(*leaves, *program.step.feed(0))
    before = {program.arguments[i].path: leaf for i, leaf in zip(program.state, leaves, strict=True)}
    return before, {each.path: leaf for each, leaf in zip(program.results, results, strict=True)}


@pytest.mark.parametrize("name", MODELS)
def test_loss_gradients_and_buffers_are_those_of_pytorch(name):
    make, loss, batch = MODELS[name]
    torch.manual_seed(0)
    model = make()
    before, after = after_a_step(program_of(model, loss, batch))
    value = loss(model, batch)
    value.backward()
    assert float(after["loss"]) == pytest.approx(value.item(), rel=1e-5, abs=1e-6)
    trained = {f"params/{path.replace('.', '/')}": each for path, each in model.named_parameters() if each.requires_grad}
    assert {path for path in before if path.startswith("params/")} == set(trained)
    for path, each in trained.items():
        np.testing.assert_allclose(np.asarray(before[path]) - np.asarray(after[path]), each.grad, atol=2e-6, err_msg=path)
    changed = {path: each for path, each in model.named_buffers() if f"state/{path.replace('.', '/')}" in after}
    assert set(changed) == ({"norm.running_mean", "norm.running_var", "norm.num_batches_tracked"} if name == "statistics" else set())
    for path, each in changed.items():
        np.testing.assert_allclose(np.asarray(after[f"state/{path.replace('.', '/')}"]), each, atol=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_outputs_are_those_of_pytorch(name):
    make, _, batch = MODELS[name]
    model = make().eval()
    inputs = tuple(each for key, each in batch.items() if key != "y")
    program = wb.from_torch(model, inputs if len(inputs) > 1 else inputs[0])
    assert program.name == make.__name__
    results = jax.jit(program.step.call)(*jax.jit(program.step.initialize)(jax.random.key(0), program.step.given), *program.step.feed(0))
    with torch.no_grad():
        np.testing.assert_allclose(np.asarray(results[0]), model(*inputs), atol=1e-5)


@pytest.mark.worker
@pytest.mark.share(3)
@pytest.mark.parametrize("name", MODELS)
def test_a_sharded_run_equals_the_unsharded_one(name):
    make, loss, batch = MODELS[name]
    program = program_of(make, loss, batch, optax.sgd(0.1))
    measurement = Plan(program, "data:2 model:2", "batch:data").run(steps=2, check=True, profile=False)
    assert measurement.shards_agree
    assert measurement.max_error == pytest.approx(0, abs=2e-5)


def test_a_function_that_makes_a_module_allocates_nothing_and_a_run_begins_with_its_values():
    def make():
        return torch.nn.Sequential(torch.nn.Linear(1 << 20, 1 << 20), torch.nn.Linear(1 << 20, 4))  # 4 TiB

    program = wb.from_torch(make, S((8, 1 << 20), "float32"))
    assert [each.path for each in program.arguments] == ["params/0/bias", "params/0/weight", "params/1/bias", "params/1/weight", "batch"]
    encoder = program_of(*MODELS["encoder"])
    before, _ = after_a_step(encoder)
    assert np.asarray(before["params/blocks/1/norm/weight"]) == pytest.approx(1)
    weight = np.asarray(before["params/blocks/1/up/weight"])
    assert 0.2 < np.abs(weight).max() <= 0.25  # uniform to 1 / sqrt(16)
    with torch.device("meta"):
        on_meta = program_of(Encoder(), *MODELS["encoder"][1:])
    assert [each.shape for each in on_meta.arguments] == [each.shape for each in encoder.arguments]


def test_dropout_draws_anew_in_each_step():
    program = program_of(Dropping, labels_loss, MODELS["statistics"][2], optax.sgd(0.0))
    assert [each.path for each in program.arguments if each.role is Role.MODEL_STATE] == ["state/key"]
    leaves = list(jax.jit(program.step.initialize)(jax.random.key(0), program.step.given))
    losses = []
    for _ in range(2):
        results = jax.jit(program.step.call)(*leaves, *program.step.feed(0))
        losses.append(float(results[program.step.loss]))
        leaves = [results[result] for result, _ in program.carried]
    assert losses[0] != losses[1]
    assert not [each for each in program_of(Dropping().eval(), labels_loss, MODELS["statistics"][2]).arguments if "key" in each.path]


def test_modules_are_scopes_and_lines_are_those_of_the_modules():
    program = program_of(*MODELS["encoder"])
    found = {each.path: each.source for each in program.operations}
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    up = 1 + next(number for number, line in enumerate(lines) if "self.down(functional.gelu" in line)
    assert found["blocks/1/up/dot_general"] == f"test_torch_model.py:{up}"
    assert found["grad/blocks/1/up/dot_general"] == f"test_torch_model.py:{up}"
    assert {"batch", "seq", "d_ff", "d_model", "vocab"} <= {name for each in program.arguments for name in each.dims}


def test_a_pipeline_cuts_between_modules_and_micro_batches_are_smaller():
    plan = Plan(program_of(*MODELS["encoder"]), "stage:2 data:2", "batch:data", pipeline="stages:2 micro_batches:2 schedule:1f1b")
    text = str(plan.report().pipeline)
    assert re.search(r"^ 0 +table .. blocks/0 ", text, re.MULTILINE), text
    assert re.search(r"^ 1 +blocks/1 .. head ", text, re.MULTILINE), text


def test_what_cannot_be_exported_or_lowered_is_said():
    class Branch(torch.nn.Module):
        def forward(self, x):
            return x * 2 if x.sum() > 0 else x

    class Airy(torch.nn.Module):
        def forward(self, x):
            return torch.special.airy_ai(x)

    with pytest.raises(TraceError, match=r"^`torch.export` cannot trace `Branch`: Could not guard on data-dependent expression"):
        wb.from_torch(Branch, S((4,), "float32"))
    with pytest.raises(
        AdapterError, match=r"^torchax cannot lower `aten.special_airy_ai.default`, which `1` calls at test_torch_model.py:"
    ):
        wb.from_torch(lambda: torch.nn.Sequential(torch.nn.ReLU(), Airy()), S((4,), "float32"))
    with pytest.raises(AdapterError) as caught:
        wb.from_torch(Encoder, tensors(ids=(4, 6)), optimizer=optax.sgd(0.1))
    assert caught.value.message == "`Encoder` returns no loss: neither a scalar nor an output with `loss`."


def test_the_code_of_the_documentation_runs():
    pytest.importorskip("transformers")
    text = (Path(__file__).parents[2] / "docs" / "pytorch.md").read_text(encoding="utf-8")
    names: dict = {}
    for code in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        exec(compile(code, "pytorch.md", "exec"), names)
    assert {"d_ff", "vocab", "heads"} <= {each for argument in names["plan"].program.arguments for each in argument.dims}
    assert "state/norm/running_mean" in {each.path for each in names["program"]().arguments}


def family(name):
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    if name == "ViT":
        config = transformers.ViTConfig(**sizes, image_size=16, patch_size=4, num_labels=5)
        return lambda: transformers.ViTForImageClassification(config), {
            "pixel_values": torch.randn(4, 3, 16, 16),
            "labels": torch.arange(4),
        }
    config = getattr(transformers, f"{name}Config")(**sizes, vocab_size=96, num_key_value_heads=2, attention_dropout=0.0)
    ids = torch.randint(0, 96, (4, 12))
    return lambda: getattr(transformers, f"{name}ForCausalLM")(config), {"input_ids": ids, "labels": ids.clone(), "use_cache": False}


@pytest.mark.share(3)
@pytest.mark.parametrize("name", ["Llama", "Mixtral", "ViT"])
def test_models_of_transformers_have_the_gradients_of_pytorch(name):
    torch.manual_seed(0)
    make, batch = family(name)
    model = make()
    before, after = after_a_step(wb.from_torch(model, batch, optimizer=optax.sgd(1.0)))
    value = model(**batch).loss
    value.backward()
    assert float(after["loss"]) == pytest.approx(value.item(), rel=1e-5)
    for path, each in ((f"params/{path.replace('.', '/')}", each) for path, each in model.named_parameters() if each.grad is not None):
        np.testing.assert_allclose(np.asarray(before[path]) - np.asarray(after[path]), each.grad, atol=1e-5, err_msg=path)
