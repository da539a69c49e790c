"""Remat policies and precisions as text: what is written is what is read, and what cannot be meant is refused."""

import pytest

from workbench.core.precision import Precision
from workbench.core.remat import PLAIN, Remat
from workbench.errors import PrecisionError, RematError

POLICIES = (
    *(Remat(policy) for policy in PLAIN),
    Remat("save", ("mixed",)),
    Remat("save", ("mixed", "hidden")),
    Remat("offload", (), ("hidden",)),
    Remat("offload_dots_no_batch"),
    Remat("save", ("mixed",), ("hidden", "scores")),
    Remat("recompute", ("attention/scores", "attention/mix")),
    Remat("dots_every", every=2),
    Remat("dots_every", ("mixed",), ("hidden",), every=3),
    Remat("full", layers=(1, 2)),
    Remat("dots_every", ("mixed",), ("hidden",), every=3, layers=(2, 4)),
)
PRECISIONS = (
    Precision(),
    Precision("bfloat16"),
    Precision("float16", "float32"),
    Precision(params="bfloat16"),
    Precision(params="bfloat16", moments="float32"),
    Precision("bfloat16", "bfloat16", "float32"),
)


@pytest.mark.parametrize("remat", POLICIES, ids=str)
def test_a_remat_policy_reads_as_it_is_written(remat):
    assert Remat.parse(str(remat)) == remat


@pytest.mark.parametrize("precision", PRECISIONS, ids=str)
def test_a_precision_reads_as_it_is_written(precision):
    assert Precision.parse(str(precision)) == precision


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("", Remat()),
        (" save: mixed + hidden ", Remat("save", ("mixed", "hidden"))),
        ("offload:hidden, save:mixed", Remat("save", ("mixed",), ("hidden",))),
        ("save:mixed, dots_every: 2", Remat("dots_every", ("mixed",), every=2)),
        ("layers: 3/4, full", Remat("full", layers=(3, 4))),
        ("save: mixed layers:1/2 offload:hidden", Remat("save", ("mixed",), ("hidden",), layers=(1, 2))),
    ],
)
def test_a_remat_policy_may_be_written_loosely(text, meant):
    assert Remat.parse(text) == meant


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("ful", "Did you mean `full`?"),
        ("full:mixed", "no remat policy"),
        ("save", "needs a name"),
        ("save:", "needs a name"),
        ("save:mixed save:hidden", "no remat policy"),
        ("save:mixed recompute:scores", "saves and recomputes"),
        ("recompute:scores offload:hidden", "cannot be combined"),
        ("save:mixed offload:mixed", "on the device and offloaded"),
        ("save:mixed++hidden", "cannot be a name"),
        ("dots_every", "requires a whole number from 1"),
        ("dots_every:0", "requires a whole number from 1"),
        ("dots_every:two", "requires a whole number from 1"),
        ("dots_every:2 recompute:scores", "saves and recomputes"),
        ("full layers", "does not select layers"),
        ("full layers:0/2", "does not select layers"),
        ("full layers:2/2", "does not select layers"),
        ("full layers:1/129", "does not select layers"),
        ("full layers:1/2 layers:1/2", "`layers:1/2 layers:1/2` does not select layers"),
        ("none layers:1/2", "`none` applies to all layers"),
        ("layers:1/2", "`as traced` applies to all layers"),
        ("recompute:scores layers:1/2", "write `full layers:1/2`"),
    ],
)
def test_a_remat_policy_that_cannot_be_meant_is_refused(text, says):
    with pytest.raises(RematError, match=says):
        Remat.parse(text)


def test_a_plain_policy_takes_no_names():
    with pytest.raises(RematError, match="takes no names"):
        Remat("full", ("mixed",))
    with pytest.raises(RematError, match="no other policy accepts one"):
        Remat("full", every=2)


@pytest.mark.parametrize("layers", [(2, 2), (1,), "1/2", (1.0, 2), (True, 2)])
def test_a_part_of_the_layers_is_two_numbers(layers):
    with pytest.raises(RematError, match="does not select layers") as caught:
        Remat("full", layers=layers)
    assert "0 < M < B <= 128" in str(caught.value)


@pytest.mark.parametrize("text", ["int8", "bfloat17", "weights=bfloat16", "bfloat16,float16", "params=float32,params=bfloat16", "params="])
def test_a_precision_that_cannot_be_meant_is_refused(text):
    with pytest.raises(PrecisionError):
        Precision.parse(text)
