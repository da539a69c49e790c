"""The accuracy that the documentation states is that of the last results of its benchmarks."""

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.clusters import page_text

ROOT = Path(__file__).parents[1]
STATED = {
    "docs/comparison.md": (
        "mean error {training:.0%} in training, {float8:.0%} with float8, {decoding:.0%} in decoding, {mixture:.0%} for mixtures of"
        " experts; by software stack {least:.0%} to {most:.0%}",
        "{eager:.0%} in eager PyTorch, {xla:.0%} under XLA",
        "median error of memory {memory_p50:.0%} on zoo programs and {foreign_memory:.0%} on third-party programs",
    ),
    "docs/limits.md": (
        "is {time_p50:.0%} for step time and {memory_p50:.0%} for memory on zoo programs, and {foreign_time:.0%} for step time and"
        " {foreign_memory:.0%} for memory on third-party programs",
        "{coverage:.0%} of the latter's figures are in the displayed range",
        "is {settled_time:.0%} for step time and {settled_memory:.0%} for memory",
    ),
}


def results(name: str) -> dict[str, Any]:
    return json.loads((ROOT / "benchmarks" / "results" / f"{name}.json").read_text(encoding="utf-8"))


def test_the_accuracy_page_is_made_of_the_last_results():
    assert (ROOT / "docs" / "accuracy.md").read_text(encoding="utf-8") == page_text(results("clusters"))


@pytest.fixture(scope="module")
def measured() -> dict[str, float]:
    clusters, foreign, gpu = results("clusters"), results("third_party"), results("h100")["summary"]
    by_stack = [row["step_mape"] for row in clusters["stacks"].values() if row["step_mape"] is not None]
    return {
        **clusters["step_mape"],
        "least": min(by_stack),
        "most": max(by_stack),
        "eager": gpu["steps, eager"]["error"],
        "xla": gpu["steps, XLA"]["error"],
        "coverage": foreign["coverage"],
        **{f"foreign_{name}": foreign["third_party"][f"{name}_p50"] for name in ("time", "memory")},
        **{f"settled_{name}": foreign["third_party_settled"][f"{name}_p50"] for name in ("time", "memory")},
        **{name: results("accuracy")[name] for name in ("time_p50", "memory_p50")},
    }


@pytest.mark.parametrize("document", STATED)
def test_a_page_states_the_accuracy_that_was_measured(document, measured):
    text = " ".join((ROOT / document).read_text(encoding="utf-8").split())
    for sentence in STATED[document]:
        assert sentence.format(**measured).replace("%", " %") in text
