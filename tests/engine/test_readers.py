"""Who reads what a collective brings, where XLA names the collective after what made the value (JAX 0.11.1, XLA:CPU)."""

import pytest

from tests.support.hlo_text import module_from
from workbench.core.mesh import Mesh
from workbench.engine.hlo.compiled_collectives import Readers, collectives_of

MADE, MARK = 'metadata={op_name="jit(f)/normal/mul"}', 'frontend_attributes={is_spmd_generated="true"}'
LOOKED_UP = 'metadata={op_name="jit(f)/experts/gather"}'
TEXT = f"""HloModule jit_f, num_partitions=4

%handed (p.0: f32[8,4]) -> f32[4,8] {{
  %p.0 = f32[8,4] parameter(0)
  ROOT %turned.1 = f32[4,8] transpose(%p.0), dimensions={{1,0}}, {MARK}, {MADE}
}}

%looked (p.1: s32[2], p.2: f32[4,8]) -> f32[2,8] {{
  %p.1 = s32[2] parameter(0)
  %p.2 = f32[4,8] parameter(1)
  %found = f32[2,8] gather(%p.2, %p.1), offset_dims={{1}}, collapsed_slice_dims={{0}}, start_index_map={{0}}, index_vector_dim=1, \
slice_sizes={{1,8}}, {LOOKED_UP}
  ROOT %twice = f32[2,8] add(%found, %found), metadata={{op_name="jit(f)/experts/add"}}
}}

ENTRY %main (given: f32[2,4], rows: s32[2]) -> (f32[2,8], f32[2,4]) {{
  %given = f32[2,4] parameter(0)
  %rows = s32[2] parameter(1)
  %product = f32[2,4] multiply(%given, %given), {MADE}
  %moved = f32[2,4] collective-permute(%product), source_target_pairs={{{{0,1}},{{1,2}},{{2,3}},{{3,0}}}}, {MARK}, {MADE}
  %whole = f32[8,4] all-gather(%moved), replica_groups={{{{0,1,2,3}}}}, dimensions={{0}}, {MARK}, {MADE}
  %turned = f32[4,8] fusion(%whole), kind=kLoop, calls=%handed, {MARK}, {MADE}
  %read = f32[2,8] fusion(%rows, %turned), kind=kLoop, calls=%looked, metadata={{op_name="jit(f)/experts/add"}}
  %named = f32[8,4] all-gather(%product), replica_groups={{{{0,1,2,3}}}}, dimensions={{0}}, metadata={{op_name="jit(f)/head/dot_general"}}
  %last = f32[2,4] collective-permute(%product), source_target_pairs={{{{0,3}},{{1,2}},{{2,1}},{{3,0}}}}, {MARK}, {MADE}
  %sum = f32[2,4] all-reduce(%product), replica_groups={{{{0,1,2,3}}}}, to_apply=%add, {MARK}, {MADE}
  %half = f32[1,4] slice(%sum), slice={{[0:1], [0:4]}}, metadata={{op_name="jit(f)/head/slice"}}
  ROOT %results = (f32[2,8], f32[2,4]) tuple(%read, %last)
}}
"""


@pytest.mark.parametrize(
    ("collective", "path"),
    [
        ("moved", "jit(f)/experts/gather"),  # through the gather, a fusion that only turns it, and into the one that looks up
        ("whole", "jit(f)/experts/gather"),
        ("named", ""),  # after its reader already
        ("last", ""),  # a result
        ("sum", ""),  # its maker sends it, whoever reads it
    ],
)
def test_the_reader_does_more_than_hand_the_value_on(collective, path):
    module = module_from(TEXT)
    entry = module.computations[module.entry]
    assert Readers(module).path_of(entry, entry[collective]) == path


def test_a_collective_tells_its_maker_and_its_reader():
    found = {each.name: (each.path, each.reader) for each in collectives_of(module_from(TEXT), Mesh("a:4"))}
    assert found["moved"] == ("normal/mul", "experts/gather")
    assert found["named"] == ("head/dot_general", "")
