from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.strategies import patterns
from workbench.core.path_patterns import match_patterns, matches, operations_at, selects, template
from workbench.models import build


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        ("w1", "params/layers/0/mlp/w1", True),
        ("mlp/w1", "params/layers/0/mlp/w1", True),
        ("mlp/w1/", "params/layers/0/mlp/w1", True),
        ("/mlp/w1", "params/layers/0/mlp/w1", False),
        ("/params/layers/*/mlp/w1", "params/layers/0/mlp/w1", True),
        ("lp/w1", "params/layers/0/mlp/w1", False),
        ("w1", "w1/kernel", False),
        ("layers/*/w", "params/layers/3/w", True),
        ("layers/*/w", "params/layers/3/mlp/w", False),
        ("layers/**/w", "params/layers/3/mlp/w", True),
        ("layers/**/w", "params/layers/w", False),
        ("w?", "params/w1", True),
        ("w?", "params/w12", False),
        ("w*", "params/w12", True),
        ("w.1", "params/w-1", False),
        ("**", "w", True),
        ("a*b*c", "x/abcbbc", True),
        ("a*b*c", "x/abc/c", False),
        ("*?*?", "params/w1", True),
        ("*?*?", "w", False),
    ],
)
def test_a_pattern_matches_a_path_or_its_tail(pattern, path, expected):
    assert matches(pattern, path) is expected


@given(st.text("abc*?", max_size=8), st.text("abc", max_size=8))
def test_within_a_component_patterns_are_those_of_the_shell(pattern, name):
    assert matches(f"/{pattern}", name) is fnmatchcase(name, pattern) or pattern == "**"


@pytest.mark.parametrize("pattern", ["*" * 60 + "x", "*?" * 20 + "x", "*a" * 20 + "x"])
def test_a_pattern_of_many_stars_is_tried_in_no_time(pattern):
    """A plan file or a link may bring any; this one took minutes, and the page of every visitor stood still."""
    assert not matches(pattern, "params/" + "a" * 40)


@given(st.lists(patterns(), unique=True), st.lists(st.one_of(patterns(), st.text("ab/*?w1", max_size=6)), unique=True))
def test_many_patterns_match_many_paths_as_each_does_each(tried, paths):
    assert match_patterns(tried, paths) == {path: [pattern for pattern in tried if matches(pattern, path)] for path in paths}


@given(patterns().filter(lambda path: "*" not in path and "?" not in path))
def test_a_path_matches_itself_and_within_a_longer_one(path):
    assert matches(path, path)
    assert matches(path, f"model/{path}")
    assert not matches(path, f"{path}/more")


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("params/layers/12/mlp/w1", "params/layers/*/mlp/w1"),
        ("params/blocks_3/attn", "params/blocks_*/attn"),
        ("params/block.3/attn", "params/block.*/attn"),
        ("params/w1", "params/w1"),
        ("params/0", "params/*"),
        ("params/conv2d/w", "params/conv2d/w"),
    ],
)
def test_a_template_blots_out_layer_numbers(path, expected):
    assert template(path) == expected


@given(patterns())
def test_a_template_is_its_own_template(path):
    assert template(template(path)) == template(path)


@pytest.mark.parametrize(
    "pattern", ["dot_general", "*/add", "d*t_general", "mlp/**", "**/mul", "/{path}", "?dd", "{source}", "{source}/mul", "*"]
)
def test_operations_are_those_whose_path_or_line_the_pattern_selects(pattern):
    program = build("decoder")
    some = next(each for each in program.operations if each.path.endswith("/mul") and each.source and not each.path.startswith("grad/"))
    pattern = pattern.format(path=some.path, source=some.source)
    has_value = [each.dtype and each.kind not in ("constant", "data_flow_edge", "return") for each in program.operations]
    chosen = {i for i, each in enumerate(program.operations) if has_value[i] and selects(pattern, each.path, each.source)}
    last = {i for i in chosen if i + 1 not in chosen or program.operations[i + 1].path != program.operations[i].path}
    assert {*operations_at(program, pattern)} == last
