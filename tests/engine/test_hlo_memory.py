"""A compiled step's temporaries: where results will lie there is room for others, and libtpu's fragmentation is counted once."""

from types import SimpleNamespace

import pytest

from tests.support import tpu_hlo
from tests.support.hlo_text import module_from
from workbench.core.mesh import Mesh
from workbench.engine.hlo.read_compiled import READER_VERSION, read_compiled, refresh_record, timeline_of

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


def memory(temporary, peak):
    sizes = {f"{name}_size_in_bytes": 0 for name in SIZES}
    return SimpleNamespace(**sizes, temp_size_in_bytes=temporary, peak_memory_in_bytes=peak)


def read(temporary, compiler="libtpu 0", peak=0):
    return read_compiled(module_from(ROOM), Mesh("x:1"), memory(temporary, peak), compiler=compiler)


def test_a_value_that_dies_before_the_result_is_made_lies_in_its_place():
    assert timeline_of(module_from(ROOM)).peak == SECOND


ALIVE = 14_740_580_352  # in a heap that libtpu 0.0.42.1 logs as 13.73 GiB, 3.10 GiB of it fragmentation


@pytest.mark.parametrize(
    ("compiler", "stated", "peak", "temporary"),
    [
        ("libtpu 0", 18_070_651_392, ALIVE, ALIVE),  # the fragmentation is in what is stated once more
        ("libtpu 0", 4 * SECOND, SECOND, 2 * SECOND),  # most of it fragmentation: the heap is half of what is stated at least
        ("libtpu 0", 0, 17_825_792, 0),  # all on the chip, whose peak it is
        ("libtpu 0", 5 * SECOND, 0, 5 * SECOND),  # no peak is known
        ("XLA:CPU", 5 * SECOND, 68, 5 * SECOND),  # its peak is without temporaries
    ],
)
def test_libtpus_temporaries_count_fragmentation_once(compiler, stated, peak, temporary):
    found = read(stated, compiler, peak).memory
    assert (found.peak, found.arguments_and_outputs, found.temporary, found.stated, found.stated_peak) == (
        temporary,
        0,
        temporary,
        stated,
        peak,
    )


def test_what_was_read_before_is_read_again_as_it_is_read_today():
    today = read(4 * SECOND)
    assert today.reader == READER_VERSION
    assert refresh_record(today, module_from(ROOM), Mesh("x:1"), None) == today
    assert refresh_record(today, module_from(tpu_hlo.IN_PLACE), Mesh("x:1"), None).memory.live != today.memory.live
