import pytest
from hypothesis import given

from tests.support.strategies import meshes
from workbench.core.mesh import MAX_DEVICES, Mesh
from workbench.errors import MeshError


@given(meshes())
def test_a_mesh_prints_as_it_is_written(mesh):
    assert Mesh(str(mesh)) == mesh
    assert eval(repr(mesh)) == mesh


@pytest.mark.parametrize("text", ["data:4 model:2", "data:4;model:2", "data:4, model:2", "  data:4\nmodel:2;"])
def test_spaces_commas_and_semicolons_separate_axes(text):
    assert Mesh(text).axes == (("data", 4), ("model", 2))


def test_a_mesh_is_made_of_text_a_mapping_or_pairs():
    assert Mesh("data:4 model:2") == Mesh({"data": 4, "model": 2}) == Mesh([("data", 4), ("model", 2)])


def test_the_order_of_axes_matters():
    assert Mesh("data:4 model:2") != Mesh("model:2 data:4")


def test_a_mesh_without_axes_is_one_device():
    assert Mesh("").size == 1


@given(meshes(max_axes=3, max_size=4))
def test_devices_are_numbered_row_major(mesh):
    numbered = []
    for device in range(mesh.size):
        place = mesh.coordinates(device)
        assert tuple(place) == mesh.names
        number = 0
        for name, size in mesh.axes:
            number = number * size + place[name]
        numbered.append(number)
    assert numbered == list(range(mesh.size))


@pytest.mark.parametrize(
    "axes", ["data", "data:", "data:x", ":4", "data:4:2", "data:0", "data:-1", "a:2 a:2", "2d:2", f"a:{MAX_DEVICES} b:2"]
)
def test_what_is_no_mesh_is_refused(axes):
    with pytest.raises(MeshError):
        Mesh(axes)


def test_the_largest_mesh_is_a_million_devices():
    assert Mesh(f"a:{MAX_DEVICES}").size == MAX_DEVICES == 2**20


@pytest.mark.parametrize("size", [2.0, True, "2", None])
def test_a_size_is_a_whole_number(size):
    with pytest.raises(MeshError):
        Mesh([("data", size)])
