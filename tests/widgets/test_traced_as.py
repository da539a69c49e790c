"""How the program is traced, chosen in the head of the board: remat, precision, what stays on the host."""

from dataclasses import replace

import jax.numpy as jnp
import pytest

from tests.support.choosing import share_of
from tests.support.layered import stack
from workbench.core.offload import Offload
from workbench.core.precision import Precision
from workbench.core.remat import Remat
from workbench.models import ALL_MODELS, build
from workbench.public_plan import Plan
from workbench.session.plan_history import Session
from workbench.tracing import checkpoint_name, layer, trace_training
from workbench.widgets.board.board import Board

pytestmark = pytest.mark.compile


CHEAP = ("two_layer", "einsum", "mnist", "deep_unet", "decoder_decode", "mixture_decode")  # the others take seconds for one choice


class Screen:
    def __init__(self, program) -> None:
        self.shown, self.seq = {}, 0
        self.session = Session(Plan(program, "data:4", "batch:data"))
        self.board = Board(self.session, self.shown.__setitem__)

    def do(self, **gesture) -> None:
        self.seq += 1
        self.board.answer({**gesture, "view": "v", "seq": self.seq})

    def choose(self, option: str, name: str) -> None:
        self.do(verb="traced_as", option=option, name=name)

    @property
    def options(self) -> dict:
        return {each["key"]: each for each in self.shown["board"]["program"]["options"]}

    @property
    def values(self) -> dict:
        return {key: each["value"] for key, each in self.options.items()}


@pytest.fixture(scope="module")
def program():
    return build("gpt", layers=2)


def test_each_item_of_the_menus_is_done_and_shown():
    screen = Screen(stack(width=16))
    assert screen.values == {"remat": "as traced", "precision": "as traced", "offload": "nothing"}
    for key, option in screen.options.items():
        for item in option["menu"]:
            assert item.get("note") != item["label"]
            if not item["ask"]:
                screen.do(**item["gesture"])
                assert screen.shown["board"]["refusal"] is None, item["label"]
                assert (screen.values[key], str(getattr(screen.session.plan.program, key))) == (item["label"], item["label"])
                assert [each["label"] for each in screen.options[key]["menu"] if each.get("note") == "now"] == [item["label"]]


def test_a_choice_is_an_edit_that_is_taken_back(program):
    screen = Screen(program)
    screen.choose("remat", "full")
    assert screen.session.plan.program.remat == Remat("full")
    screen.choose("offload", "optimizer_state")
    assert screen.session.plan.program.offload == Offload(optimizer_state=True)
    assert screen.shown["board"]["undo"] == "Undo offload optimizer_state"
    before = len(screen.session.edits)
    screen.choose("remat", "full")
    assert len(screen.session.edits) == before, "what is so already leaves no trace"
    screen.do(verb="undo")
    screen.do(verb="undo")
    assert screen.values == {"remat": "as traced", "precision": "as traced", "offload": "nothing"}


@pytest.mark.parametrize(
    ("option", "name", "says"),
    [
        ("remat", "most", "There is no remat policy `most`"),
        ("remat", "save:nothing", "There is no named value `nothing`"),
        ("precision", "float7", "`float7` is not a compute type"),
        ("offload", "gradients", "`gradients` cannot be kept in host memory"),
        ("colour", "red", "There is no option `colour`"),
    ],
)
def test_what_cannot_be_is_said_in_its_place(program, option, name, says):
    screen = Screen(program)
    screen.choose(option, name)
    refusal = screen.shown["board"]["refusal"]
    assert refusal["zone"] == "program"
    assert refusal["message"].startswith(says)
    assert refusal["ways_out"]
    assert screen.values == {"remat": "as traced", "precision": "as traced", "offload": "nothing"}


def test_values_that_a_function_names_are_offered():
    @layer
    def block(x, w):
        return x + jnp.tanh(checkpoint_name(x @ w, "wide"))

    def loss(params, batch):
        return jnp.mean(block(batch, params["w"]) ** 2)

    import optax

    program = trace_training(loss, {"w": jnp.ones((8, 8))}, jnp.ones((4, 8)), optimizer=optax.sgd(0.1), dims={"batch": "batch io"})
    assert ("remat", "save:wide") in program.choices
    assert "save:wide" in [each["label"] for each in Screen(program).options["remat"]["menu"]]


def test_a_forward_function_has_a_precision_and_what_cannot_be_traced_otherwise_no_options(program):
    assert list(Screen(build("two_layer")).options) == ["precision"]
    assert Screen(build("decoder_decode", preset="tiny")).options == {}, "the function fixes its types"
    assert Screen(replace(program, retrace=None)).options == {}


@pytest.mark.parametrize(
    "name", [each.name if each.name in CHEAP else pytest.param(each.name, marks=pytest.mark.nightly) for each in ALL_MODELS]
)
def test_what_is_offered_for_a_model_of_the_zoo_is_accepted(name, request):
    program = build(name)
    for option, text in share_of(request.config, program.choices, 5):
        value = {"remat": Remat, "precision": Precision, "offload": Offload}[option].parse(text)
        assert getattr(program.variant(**{option: value}), option) == value


def test_without_layers_scopes_are_recomputed_and_moments_alone_are_kept_on_the_host():
    offered = build("mnist").choices
    assert [text for option, text in offered if option == "remat"] == [
        "as traced",
        "none",
        "recompute:hidden",
        "recompute:logits",
        "recompute:loss",
    ]
    assert ("precision", "float8") not in offered
    assert ("offload", "optimizer_state") not in offered
    assert ("offload", "optimizer_state") in build("mnist", optimizer="adam").choices
