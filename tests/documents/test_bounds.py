"""Every size that a document, a link, a gesture or a field can name has a bound, told in words; what is within is quick."""

import dataclasses
import json
import os
import re

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.programs import mlp_report
from workbench.core.layout import Layout
from workbench.core.layout_text import _split_statements
from workbench.core.mesh import Mesh
from workbench.core.parse_untrusted import MOST_TEXT
from workbench.core.pipeline_spec import PipelineSpec
from workbench.core.sharding import Sharding
from workbench.documents import load_plan, parse_fleet, parse_plan
from workbench.errors import DocumentError, WorkbenchError
from workbench.hardware.axis_placement import physical_spans
from workbench.hardware.catalogue import default_catalogue, parse_hardware
from workbench.models import ALL_MODELS, build
from workbench.models.registry import verify_model
from workbench.models.size_limits import MOST
from workbench.multimodel.fleet import Fleet, FleetModel
from workbench.public_plan import Plan
from workbench.session.plan_history import Session
from workbench.tracing import trace
from workbench.units import divisors, parse_bytes
from workbench.widgets.board.board import Board
from workbench.widgets.board.hardware_picker import shapes_for
from workbench.widgets.gestures.gesture_codec import verify_gesture
from workbench.widgets.tabs.shown_stage import _place

MANY = tuple((f"a{place}", 1) for place in range(2000))
LONG = "x" * 600

WORDS = [
    (lambda: Mesh(MANY), "The mesh has 2,000 axes; it may have 16.\n  Try: merge adjacent axes."),
    (
        lambda: Mesh((("a", 10**12),)),
        "Mesh axis `a` has size 1,000,000,000,000; a mesh has at most 1,048,576 devices.\n  Try: make the axis smaller.",
    ),
    (
        lambda: Mesh((("a", 10**5000),)),
        "Mesh axis `a` has size more than 10**18; a mesh has at most 1,048,576 devices.\n  Try: make the axis smaller.",
    ),
    (
        lambda: Layout("; ".join(f"@v{place}=[?]" for place in range(1001))),
        "The layout has 1,001 statements and places; the limit is 1,000."
        "\n  Try: match similar tensors with one pattern, `layers/*/mlp/w1` · split dimensions by rules.",
    ),
    (
        lambda: Layout(f"@{LONG}=[?]"),
        f"`{'x' * 40}…` has 600 characters; a name in a layout has at most 500.\n  Try: shorten it.",
    ),
    (
        lambda: Layout({"batch": "+".join(f"a{place}" for place in range(9000))}),
        "The rule of `batch` names 9,000 mesh axes; a mesh has at most 16.\n  Try: name each axis once.",
    ),
    (lambda: Layout("batch:data p2000"), "The rule of `batch` has priority 2,000; 1,000 is the last.\n  Try: use 0, 1, 2, ...."),
    (lambda: Sharding.parse("[data p2000]"), "[data p2000] has priority 2,000; 1,000 is the last.\n  Try: use 0, 1, 2, ...."),
    (
        lambda: Sharding.parse(f"[{'-, ' * 1000}-]"),
        f"`[{'-, ' * 13}…` has 3,003 characters; a sharding has at most 2,000.\n  Try: shorten it.",
    ),
    (
        lambda: PipelineSpec(4096, 4),
        "A pipeline of 4,096 stages is too long; it has at most 512.\n  Try: make `stages` smaller.",
    ),
    (
        lambda: PipelineSpec(64, 4096),
        "64 stages x 4,096 micro-batches are 262,144 forward passes; the limit is 32,768 per step."
        "\n  Try: make `micro_batches` 512 at most · make `stages` smaller.",
    ),
    (
        lambda: build("two_layer", batch=10**18),
        "Model `two_layer`: `batch` is 10**18 or more; the maximum is 16,777,216.\n  Try: take a smaller one · leave it out.",
    ),
    (
        lambda: build("mnist", learning_rate=float("inf")),
        "Model `mnist`: `learning_rate` is inf; the maximum is 1,000,000.\n  Try: take a smaller one · leave it out.",
    ),
    (
        lambda: build("gpt", preset="x" * 5000),
        "Model `gpt`: `preset` is 5,000 letters long; the maximum is 200.\n  Try: take a smaller one · leave it out.",
    ),
    (
        lambda: build("gpt", name="x"),
        "Model `gpt`: There is no argument `name`; there are `preset`, `scan`, `remat`, `vocab`, `layers`, `d_model`, `heads`, "
        "`d_head`, `d_ff`, `seq`, `batch`, `biases`, `compute`, `optimizer`, `learning_rate`."
        "\n  Try: use one of these names.",
    ),
    (
        lambda: trace(lambda x: x[:, None] * x, jax.ShapeDtypeStruct((1 << 30,), np.float32), name="outer"),
        "`outer` creates a value of 1,073,741,824 x 1,073,741,824 float32; the limit is 1.00 EiB.\n  Try: make a dimension smaller.",
    ),
    (
        lambda: verify_gesture({"verb": "rename_axis", "name": "x" * 3000}),
        "`name` of the gesture has 3,000 letters; the limit is 2,000.\n  Try: reload the page.",
    ),
    (
        lambda: verify_gesture({"verb": "order_axes", "names": ["x"] * 100}),
        "`names` of the gesture has 100 entries; the limit is 64.\n  Try: reload the page.",
    ),
    (
        lambda: verify_gesture({str(place): 1 for place in range(40)}),
        "The gesture has 40 fields; the limit is 32.\n  Try: reload the page.",
    ),
]


@pytest.mark.parametrize(("call", "message"), WORDS, ids=[message[:50] for _, message in WORDS])
def test_what_is_too_large_is_told_in_words(call, message):
    with pytest.raises(WorkbenchError) as caught:
        call()
    assert str(caught.value) == message


def document(**entries) -> str:
    plan = {"name": "x", "program": {"target": "two_layer"}, "mesh": [["data", 2]], "layout": {}}
    return json.dumps({"format": "sharding-workbench.plan", "version": 1, **plan, **entries})


TEXTS = [
    ("[" * 100_000, "are nested more than 16 levels deep"),
    (
        document(program={"target": "gpt", "arguments": {"batch": json.loads("[" * 30 + "]" * 30)}}),
        "are nested more than 16 levels deep",
    ),
    (document(mesh=[["data", 10**41]]), "a whole number has more than 40 digits"),
    (document().replace("2]", f"{'9' * 5000}]"), "a whole number has more than 40 digits"),
    (document(program={"target": "mnist", "arguments": {"learning_rate": float("nan")}}), "NaN is not a valid number"),
    (document(program={"target": "mnist"}).replace('"x"', "1e999"), "inf is not a valid number"),
    (document(name="\ud800"), "'\\ud800' contains half a character"),
    (document(mesh=[["a", 1]] * 60_000), "it has more than 100,000 entries"),
    (" " * (MOST_TEXT + 1), "it has more than 1,048,576 characters"),
]


@pytest.mark.parametrize(("text", "reason"), TEXTS, ids=[reason for _, reason in TEXTS])
def test_a_text_beyond_all_bounds_is_no_document(text, reason):
    with pytest.raises(DocumentError) as caught:
        parse_plan(text)
    assert reason in caught.value.message


def test_a_huge_file_is_read_no_further_than_documents_go(tmp_path):
    path = tmp_path / "huge.plan.json"
    path.touch()
    os.truncate(path, 1 << 40)  # it takes no room on the disk
    with pytest.raises(DocumentError, match="more than 1,048,576 characters"):
        load_plan(path)


@pytest.mark.parametrize("name", ["a" * 900_000, '"' * 900_000, "a." * 400_000, "'a'." * 200_000])
def test_a_long_line_of_a_fleet_file_is_judged_at_once(name):
    with pytest.raises(DocumentError):
        parse_fleet(f"{name} = 1")


def test_every_argument_that_counts_something_has_a_bound_and_published_models_are_within():
    for model in ALL_MODELS:
        kinds = {name: model.kind_of(name).kind for name in model.arguments}
        counted = {name for name, kind in kinds.items() if kind in (int, tuple)}
        assert counted <= MOST.keys()
        for name in counted:
            listed = kinds[name] is tuple
            verify_model(model.name, {name: [MOST[name]] if listed else MOST[name]})
            with pytest.raises(DocumentError, match="the maximum is"):
                verify_model(model.name, {name: [MOST[name] + 1] if listed else MOST[name] + 1})
        for preset, config in model.presets.items():
            verify_model(model.name, {"preset": preset, **dataclasses.asdict(config)})


def test_models_at_the_bounds_are_planned():
    large = build("two_layer", batch=MOST["batch"], io=MOST["io"], hidden=MOST["hidden"])
    assert Plan(large, "data:2", "batch:data").report().memory.peak > 0


def test_a_fleet_has_so_many_mini_batches():
    program = build("mnist")
    with pytest.raises(WorkbenchError) as caught:
        Fleet((FleetModel("a", program, mini_batches=10**6), FleetModel("b", program)))
    assert str(caught.value) == (
        "The fleet has 1,000,010 mini-batches (`a` has 1 x 1,000,000); it may have 1,000,000."
        "\n  Try: give fewer mini-batches or epochs · train the models in several fleets."
    )


def test_amounts_beyond_counting_are_no_amounts():
    assert parse_bytes("9" * 400 + " GiB") is None


@given(st.integers(1, 5000))
def test_divisors_are_all_that_divide(number):
    assert divisors(number) == tuple(each for each in range(1, number + 1) if number % each == 0)


@given(st.text("ab[],;:\n=+", max_size=60))
def test_statements_are_split_as_by_the_rule_that_needs_to_look_ahead(text):
    assert _split_statements(text) == re.split(r"[;\n]|,(?![^\[]*\])", text)


@pytest.mark.parametrize("mesh", ["a:1048576", "data:4 model:65536", "a:720720", " ".join(f"a{place}:2" for place in range(16))])
def test_large_meshes_are_laid_over_hardware_at_once(mesh):
    """Shapes of every kind of hardware were sought for minutes."""
    mesh = Mesh(mesh)
    for entry in default_catalogue().entries.values():
        for text in shapes_for(entry, mesh)[:1]:
            spans = physical_spans(mesh, parse_hardware(text))
            assert all(np.prod([each.size for each in spans[name]], initial=1) == size for name, size in mesh.axes)


def test_digits_without_end_are_no_place_and_no_boundary():
    with pytest.raises(WorkbenchError, match="The step has no place"):
        _place("0" * 5000, mlp_report())


def test_a_gesture_beyond_all_bounds_is_refused_on_the_board():
    board = Board(Session(Plan(build("two_layer"), "data:2")), lambda *_: None)
    board.answer({"verb": "fold", "seq": 1, "key": "k" * 5000})
    assert "`key` of the gesture has 5,000 letters" in board.state()["refusal"]["message"]
