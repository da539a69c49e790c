import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.strategies import meshes, shardings
from workbench.core.mesh import Mesh
from workbench.core.sharding import Sharding, axis_size, base_axis
from workbench.errors import LayoutError


@given(shardings(is_plain=False))
def test_a_sharding_prints_as_it_is_written(sharding):
    assert Sharding.parse(str(sharding)) == sharding


def test_the_four_kinds_of_entries():
    sharding = Sharding.parse("[data, -, model+pipe, ?]")
    assert sharding.dims == (("data",), (), ("model", "pipe"), None)
    assert sharding.axes == ("data", "model", "pipe")


def test_a_scalar_has_no_entries():
    assert Sharding.parse("[]") == Sharding(()) == Sharding.whole(0)


@given(st.data(), meshes(max_axes=3), st.lists(st.integers(1, 6), max_size=3))
def test_shards_multiply_back_to_the_whole(data, mesh, multiples):
    sharding = data.draw(shardings(len(multiples), names=mesh.names, can_be_open=False))
    parts = sharding.parts(mesh)
    shape = tuple(multiple * part for multiple, part in zip(multiples, parts, strict=True))
    local = sharding.local_shape(shape, mesh)
    assert local == tuple(multiples)
    assert math.prod(local) * mesh.size == math.prod(shape) * sharding.replicas(mesh)


@given(st.data(), meshes(max_axes=3), st.lists(st.integers(1, 50), max_size=3).map(tuple))
def test_an_uneven_shard_is_padded_by_less_than_a_row(data, mesh, shape):
    sharding = data.draw(shardings(len(shape), names=mesh.names))
    for size, part, local in zip(shape, sharding.parts(mesh), sharding.local_shape(shape, mesh), strict=True):
        assert size <= local * part < size + part


def test_the_sub_axis_of_shardy_has_its_own_size_and_its_mesh_axis():
    assert base_axis("x:(2)4") == "x"
    assert base_axis("x") == "x"
    assert axis_size("x:(2)4", Mesh("x:16")) == 4
    assert Sharding.parse("[x:(1)2, x:(2)4]").local_shape((8, 8), Mesh("x:8")) == (4, 2)


@pytest.mark.parametrize("text", ["data", "[data", "data]", "", "[,]", "[data,]", "[data, data]", "[a+a]", "[a+]", "[+]"])
def test_what_is_no_sharding_is_refused(text):
    with pytest.raises(LayoutError):
        Sharding.parse(text)
