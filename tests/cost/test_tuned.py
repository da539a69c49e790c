"""Tuned constants: each says what it counts and where it is from, and is used."""

import re
from pathlib import Path

from workbench.cost.tuned_constants import load_tuned

COST = Path(__file__).parents[2] / "workbench" / "cost"


def test_each_constant_says_what_it_counts_and_where_it_is_from():
    for name, constant in load_tuned().items():
        assert constant.value > 0, name
        assert all((constant.unit, constant.measured, constant.by)), name


def test_each_constant_is_used_once():
    used = [name for file in COST.rglob("*.py") for name in re.findall(r'= (?:int\()?tuned\("(\w+)"\)', file.read_text(encoding="utf-8"))]
    assert sorted(used) == sorted(load_tuned())
