"""A compiled step's temporaries: where results will lie there is room for others, and libtpu's packing is counted once."""

from types import SimpleNamespace

import pytest

from tests.engine import tpu_hlo
from tests.hlo_text import module_from
from workbench.engine.hlo_memory import timeline_of
from workbench.engine.hlo_report import READER, read_again, read_compiled
from workbench.mesh import Mesh

ROOM = """HloModule jit_f, is_scheduled=true

ENTRY %main (x: f32[64,128]) -> f32[128,128] {
  %x = f32[64,128]{1,0:T(8,128)} parameter(0)
  %first = f32[128,128]{1,0:T(8,128)} custom-call(%x), custom_call_target="f", backend_config={"aliasing_operands":{"lists":[]}}
  %second = f32[64,128]{1,0:T(8,128)} custom-call(%first), custom_call_target="f", backend_config={"aliasing_operands":{"lists":[]}}
  ROOT %out = f32[128,128]{1,0:T(8,128)} custom-call(%second), custom_call_target="f", backend_config={"aliasing_operands":{"lists":[]}}
}
"""
SIZES = ("argument", "output", "alias", "generated_code", "host_argument", "host_output", "host_alias", "host_temp")
SECOND = 64 * 128 * 4


def memory(temporary):
    return SimpleNamespace(**{f"{name}_size_in_bytes": 0 for name in SIZES}, temp_size_in_bytes=temporary)


def read(temporary, compiler="libtpu 0"):
    return read_compiled(module_from(ROOM), Mesh("x:1"), memory(temporary), compiler=compiler)


def test_a_value_that_dies_before_the_result_is_made_lies_in_its_place():
    assert timeline_of(module_from(ROOM)).peak == SECOND


@pytest.mark.parametrize(
    ("compiler", "stated", "peak"),
    [
        ("XLA:CPU", 5 * SECOND, 5 * SECOND),
        ("libtpu 0", SECOND + SECOND // 2, SECOND),  # a heap of one and a quarter, a quarter of it waste, is stated with half a waste
        ("libtpu 0", 4 * SECOND, 2 * SECOND),  # most of it waste: the heap is half of it at least
        ("libtpu 0", 0, 0),
    ],
)
def test_what_libtpu_states_has_its_waste_twice(compiler, stated, peak):
    found = read(stated, compiler).memory
    assert (found.peak, found.stated) == (peak, stated)


def test_what_was_read_before_is_read_again_as_it_is_read_today():
    today = read(4 * SECOND)
    assert today.reader == READER
    assert read_again(today, module_from(ROOM), Mesh("x:1"), None) == today
    assert read_again(today, module_from(tpu_hlo.IN_PLACE), Mesh("x:1"), None).memory.live != today.memory.live
