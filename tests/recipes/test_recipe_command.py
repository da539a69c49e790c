import json

from workbench.cli.main import main
from workbench.documents import load_plan
from workbench.models import build
from workbench.public_plan import Plan

MNIST = ["--model", "mnist", "--mesh", "data:4 model:2"]


def test_recipes_are_listed_with_what_speaks_against_each(capsys):
    assert main(["recipe", *MNIST]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "data_parallel 1 edit examples sharded; weights replicated" in printed
    assert "zero_1 no ZeRO 1 shards the optimizer's state, but `mnist` has none." in printed
    assert "`params/b2` (40 B) stays whole: `data` (4) divides none of its dimensions" in printed


def test_recipes_are_applied_in_turn_and_the_plan_is_written(tmp_path, capsys):
    file = tmp_path / "sharded.plan.json"
    assert main(["recipe", *MNIST, "data_parallel", "megatron", "-o", str(file)]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("batch → data\nhidden → model\n\nA mnist on data:4 model:2: replicated\n")
    assert load_plan(file) == Plan(build("mnist"), "data:4 model:2", "batch:data; hidden:model")


def test_a_saved_plan_and_an_axis_may_be_given(tmp_path, capsys):
    file = tmp_path / "whole.plan.json"
    Plan(build("mnist"), "x:4 y:2").save(file)
    assert main(["recipe", str(file), "data-parallel", "--axis", "x", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["edits"] == ["batch → x"]
    assert {"recipes", "edits", "notes", "diff"} == set(record)


def test_a_recipe_that_does_not_apply_is_an_error_with_ways_out(capsys):
    assert main(["recipe", *MNIST, "expert_parallel"]) == 1
    assert capsys.readouterr().err == (
        "workbench: Expert parallel shards the expert dimension, but no weight of `mnist` has one; its dimensions are `hidden`, `classes`, "
        "`rows`, `cols`, `batch`.\n  Try: choose another recipe · plan a mixture of experts, --model mixture.\n"
    )


def test_an_unknown_recipe_names_those_there_are(capsys):
    assert main(["recipe", *MNIST, "megatorn"]) == 1
    assert "Did you mean `megatron`?" in capsys.readouterr().err
