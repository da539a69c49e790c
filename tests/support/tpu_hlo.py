"""Pieces of HLO as XLA:TPU wrote them (libtpu 0.0.42), shortened: the forms that no other compiler here makes."""

WINDOWED = """HloModule jit_step, is_scheduled=true, entry_computation_layout={(f32[48,64]{1,0:T(8,128)})->f32[48,64]{1,0:T(8,128)}}

%wide.windowed_dot_general_cond_ag.clone (wide.param.97: (f32[48,64], u32[])) -> pred[] {
  %constant.1761 = u32[]{:T(128)} constant(8)
  %wide.param.97 = (f32[48,64]{1,0:T(8,128)}, u32[]{:T(128)}) parameter(0)
  %get-tuple-element.2026 = u32[]{:T(128)} get-tuple-element(%wide.param.97), index=1
  ROOT %compare.40 = pred[]{:T(512)} compare(%get-tuple-element.2026, %constant.1761), direction=LT
}

%wide.windowed_dot_general_body_ag.clone.sunk (wide.param.13: (f32[48,64], u32[])) -> (f32[48,64], u32[]) {
  %constant.1896..sunk2 = u32[]{:T(128)} constant(2)
  %wide.param.13 = (f32[48,64]{1,0:T(8,128)}, u32[]{:T(128)}) parameter(0)
  %get-tuple-element.3048 = u32[]{:T(128)} get-tuple-element(%wide.param.13), index=1
  %get-tuple-element.3044 = f32[48,64]{1,0:T(8,128)} get-tuple-element(%wide.param.13), index=0
  %collective-permute-start.33 = (f32[48,64]{1,0:T(8,128)}, f32[48,64]{1,0:T(8,128)}, u32[]{:S(2)}, u32[]{:S(2)}) \
collective-permute-start(%get-tuple-element.3044), channel_id=5, source_target_pairs={{0,3},{1,0},{2,1},{3,2}}, \
metadata={op_name="jit(step)/jvp(layers)/while/body/closed_call/mlp/up/bsd,df->bsf/dot_general"}
  %collective-permute-done.33 = f32[48,64]{1,0:T(8,128)} collective-permute-done(%collective-permute-start.33)
  %add.1661 = u32[]{:T(128)} add(%get-tuple-element.3048, %constant.1896..sunk2)
  ROOT %tuple.434 = (f32[48,64]{1,0:T(8,128)}, u32[]{:T(128)}) tuple(%collective-permute-done.33, %add.1661)
}

ENTRY %main.1 (param.0: f32[48,64]) -> f32[48,64] {
  %param.0 = f32[48,64]{1,0:T(8,128)} parameter(0)
  %copy.1 = f32[48,64]{1,0:T(8,128)} copy(%param.0), backend_config={"aliasing_operands":{"lists":[]}}
  %constant.0 = u32[]{:T(128)} constant(0)
  %tuple.1 = (f32[48,64]{1,0:T(8,128)}, u32[]{:T(128)}) tuple(%copy.1, %constant.0)
  %while.110 = (f32[48,64]{1,0:T(8,128)}, u32[]{:T(128)}) while(%tuple.1), condition=%wide.windowed_dot_general_cond_ag.clone, \
body=%wide.windowed_dot_general_body_ag.clone.sunk
  ROOT %get-tuple-element.9 = f32[48,64]{1,0:T(8,128)} get-tuple-element(%while.110), index=0
}
"""
"""A windowed einsum's loop: its counter runs to 8 in steps of 2, for the compiler unrolled the body and kept the bound."""

UNROLLED = """HloModule jit_step, is_scheduled=true

ENTRY %main.1 (param.0: bf16[192,768], param.1: f32[64,192]) -> (f32[64,192], f32[64,192]) {
  %param.0 = bf16[192,768]{1,0:T(8,128)(2,1)} parameter(0)
  %param.1 = f32[64,192]{1,0:T(8,128)} parameter(1)
  %collective-permute-start.29 = (bf16[192,768]{1,0}, bf16[192,768]{1,0}, u32[]{:S(2)}) collective-permute-start(%param.0), \
source_target_pairs={{0,1},{1,2},{2,3},{3,0}}, metadata={op_name="jit(step)/mlp/up/dot_general"}
  %collective-permute-done.29 = bf16[192,768]{1,0} collective-permute-done(%collective-permute-start.29)
  %collective-permute-start.30 = (bf16[192,768]{1,0}, bf16[192,768]{1,0}, u32[]{:S(2)}) \
collective-permute-start(%collective-permute-done.29), source_target_pairs={{0,1},{1,2},{2,3},{3,0}}, \
metadata={op_name="jit(step)/mlp/up/dot_general"}
  %collective-permute-done.30 = bf16[192,768]{1,0} collective-permute-done(%collective-permute-start.30)
  %broadcast.476 = f32[64,192]{1,0:T(8,128)} broadcast(%param.1), dimensions={0,1}
  %collective-permute-start.11 = (f32[64,192]{1,0}, f32[64,192]{1,0}, u32[]{:S(2)}) collective-permute-start(%broadcast.476), \
source_target_pairs={{0,3},{1,0},{2,1},{3,2}}, metadata={op_name="jit(step)/transpose(jvp(mlp))/down/dot_general"}
  %collective-permute-done.11 = f32[64,192]{1,0} collective-permute-done(%collective-permute-start.11)
  %collective-permute-start.1 = (f32[64,192]{1,0}, f32[64,192]{1,0}, u32[]{:S(2)}) collective-permute-start(%param.1), \
source_target_pairs={{0,0},{1,2},{2,1},{3,3}}, metadata={op_name="jit(step)/head/dot_general"}
  %collective-permute-done.1 = f32[64,192]{1,0} collective-permute-done(%collective-permute-start.1)
  %collective-permute-start.2 = (f32[64,192]{1,0}, f32[64,192]{1,0}, u32[]{:S(2)}) collective-permute-start(%param.1), \
source_target_pairs={{0,1},{1,2},{2,3},{3,0}}, metadata={op_name="jit(step)/ring/ppermute"}
  %collective-permute-done.2 = f32[64,192]{1,0} collective-permute-done(%collective-permute-start.2)
  ROOT %tuple.1 = (f32[64,192]{1,0}, f32[64,192]{1,0}) tuple(%collective-permute-done.11, %collective-permute-done.1)
}
"""
"""Windowed einsums unrolled into the program: an all-gather passes on what it was given, a reduce-scatter starts from zeros; a
transposition of device numbers and the program's own ring are neither."""

ASYNCHRONOUS = """HloModule jit_step, is_scheduled=true

%fused_computation.348 (param_0.1042: bf16[2,128]) -> (bf16[2,128], bf16[8,128], u32[]) {
  %param_0.1042 = bf16[2,128]{1,0:T(8,128)(2,1)} parameter(0)
  %all-gather.11 = bf16[8,128]{1,0:T(8,128)(2,1)} all-gather(%param_0.1042), channel_id=24, replica_groups={{0,1,2,3}}, \
dimensions={0}, frontend_attributes={chain_id="0"}, metadata={op_name="jit(step)/transpose(jvp(head))/bsd,vd->bsv/dot_general"}
  ROOT %custom-call.30 = (bf16[2,128]{1,0}, bf16[8,128]{1,0}, u32[]{:S(2)}) custom-call(%all-gather.11), \
custom_call_target="AsyncCollectiveStart"
}

%async_collective_fusion.343 (param_0.1046: bf16[2,128], param_1.1254: bf16[8,128], param_2.1: f32[128,16]) -> (f32[2,16], bf16[8,128]) {
  %param_0.1046 = bf16[2,128]{1,0:T(8,128)(2,1)} parameter(0)
  %param_1.1254 = bf16[8,128]{1,0:T(8,128)(2,1)} parameter(1)
  %param_2.1 = f32[128,16]{1,0:T(8,128)} parameter(2)
  %all-gather.13 = bf16[8,128]{1,0:T(8,128)(2,1)} all-gather(%param_0.1046), channel_id=24, replica_groups={{0,1,2,3}}, \
dimensions={0}, frontend_attributes={chain_id="0"}, metadata={op_name="jit(step)/transpose(jvp(head))/bsd,vd->bsv/dot_general"}
  %convolution.84 = f32[2,16]{1,0:T(8,128)} convolution(%param_0.1046, %param_2.1), dim_labels=bf_io->bf
  ROOT %tuple.189 = (f32[2,16]{1,0:T(8,128)}, bf16[8,128]{1,0}) tuple(%convolution.84, %all-gather.13)
}

%fused_computation.350 (param_0.1048: bf16[2,128], param_1.1256: bf16[8,128]) -> bf16[8,128] {
  %param_0.1048 = bf16[2,128]{1,0:T(8,128)(2,1)} parameter(0)
  %param_1.1256 = bf16[8,128]{1,0:T(8,128)(2,1)} parameter(1)
  %all-gather.15 = bf16[8,128]{1,0:T(8,128)(2,1)} all-gather(%param_0.1048), channel_id=24, replica_groups={{0,1,2,3}}, \
dimensions={0}, frontend_attributes={chain_id="0"}, metadata={op_name="jit(step)/transpose(jvp(head))/bsd,vd->bsv/dot_general"}
  ROOT %custom-call.32 = bf16[8,128]{1,0} custom-call(%param_1.1256, %all-gather.15), custom_call_target="AsyncCollectiveDone"
}

%all-reduce-scatter (input: f32[16,1024]) -> f32[4,1024] {
  %input = f32[16,1024]{1,0:T(8,128)S(1)} parameter(0)
  %all-reduce.78 = f32[16,1024]{1,0:T(8,128)} all-reduce(%input), channel_id=5, replica_groups={{0,1,2,3}}, to_apply=%add, \
frontend_attributes={from-cross-replica-sharding="true"}
  %constant.987 = u32[] constant(0)
  ROOT %dynamic-slice.296 = f32[4,1024]{1,0:T(8,128)S(1)} dynamic-slice(%all-reduce.78, %constant.987, %constant.987), \
dynamic_slice_sizes={4,1024}
}

ENTRY %main.1 (param.0: bf16[2,128], param.1: f32[128,16], param.2: f32[16,1024]) -> f32[4,1024] {
  %param.0 = bf16[2,128]{1,0:T(8,128)(2,1)} parameter(0)
  %param.1 = f32[128,16]{1,0:T(8,128)} parameter(1)
  %param.2 = f32[16,1024]{1,0:T(8,128)} parameter(2)
  %async-collective-start = (bf16[2,128]{1,0}, bf16[8,128]{1,0}, u32[]{:S(2)}) fusion(%param.0), kind=kCustom, \
output_to_operand_aliasing={{0}: (0, {})}, calls=%fused_computation.348
  %get-tuple-element.2926 = bf16[8,128]{1,0} get-tuple-element(%async-collective-start), index=1
  %fusion.343 = (f32[2,16]{1,0:T(8,128)}, bf16[8,128]{1,0}) fusion(%param.0, %get-tuple-element.2926, %param.1), kind=kOutput, \
output_to_operand_aliasing={{1}: (1, {})}, calls=%async_collective_fusion.343, metadata={op_name="jit(step)/head/dot_general"}, \
backend_config={"window_config":{"estimated_cycles":"1500"},"aliasing_operands":{"lists":[]}}
  %get-tuple-element.2936 = bf16[8,128]{1,0} get-tuple-element(%fusion.343), index=1
  %async-collective-done = bf16[8,128]{1,0} fusion(%param.0, %get-tuple-element.2936), kind=kCustom, \
output_to_operand_aliasing={{}: (1, {})}, calls=%fused_computation.350
  ROOT %fusion = f32[4,1024]{1,0:T(8,128)} fusion(%param.2), kind=kCustom, calls=%all-reduce-scatter, \
metadata={op_name="jit(step)/jvp(layers)/0/attention/output/bshk,hkd->bsd/dot_general"}
}
"""
"""A collective that runs inside a fusion beside a product: started, run and awaited in three fusions on one channel. And the fusion of an
all-reduce with the slice that a device keeps."""

COMBINED = """HloModule jit_step, is_scheduled=true

FileNames
1 "/home/me/gpt.py"
2 "<frozen runpy>"

FunctionNames
1 "mlp"

FileLocations
1 {file_name_id=2 function_name_id=1 line=88 end_line=88 column=2 end_column=3}
2 {file_name_id=1 function_name_id=1 line=42 end_line=42 column=2 end_column=3}

StackFrames
1 {file_location_id=2 parent_frame_id=1}
2 {file_location_id=1 parent_frame_id=2}

ENTRY %main.1 (param.0: f32[3,6], param.1: f32[768]) -> (f32[3,6], f32[768]) {
  %param.0 = f32[3,6]{1,0:T(4,128)} parameter(0)
  %param.1 = f32[768]{0:T(1024)} parameter(1)
  %all-reduce.34 = (f32[3,6]{1,0:T(4,128)}, f32[768]{0:T(1024)}) all-reduce(%param.0, %param.1), channel_id=5, \
replica_groups=mesh['axis_0'=1,'axis_1'=4,'axis_2'=1] {'axis_1','axis_2'}, to_apply=%add, \
metadata={op_name="jit(step)/transpose(jvp(mlp))/up/dot_general" stack_frame_id=2}
  %get-tuple-element.2408 = f32[3,6]{1,0:T(4,128)} get-tuple-element(%all-reduce.34), index=0, \
metadata={op_name="jit(step)/transpose(jvp(mlp))/up/dot_general" stack_frame_id=2}
  %get-tuple-element.2409 = f32[768]{0:T(1024)} get-tuple-element(%all-reduce.34), index=1, \
metadata={op_name="jit(step)/transpose(jvp(norm))/reduce_sum" stack_frame_id=2}
  ROOT %tuple.1 = (f32[3,6]{1,0:T(4,128)}, f32[768]{0:T(1024)}) tuple(%get-tuple-element.2408, %get-tuple-element.2409)
}
"""
"""Gradients of two parameters reduced in one collective; a call stack whose innermost frame is a library's."""

IN_PLACE = """HloModule jit_step, is_scheduled=true, input_output_alias={ {}: (0, {}, may-alias) }

%cond (p: (s32[], f32[4,8,128])) -> pred[] {
  %p = (s32[]{:T(128)}, f32[4,8,128]{2,1,0:T(8,128)}) parameter(0)
  %i = s32[]{:T(128)} get-tuple-element(%p), index=0
  %n = s32[]{:T(128)} constant(4)
  ROOT %lt = pred[]{:T(512)} compare(%i, %n), direction=LT
}

%update (param_0: f32[4,8,128], param_1: s32[], param_2: f32[8,128]) -> f32[4,8,128] {
  %param_0 = f32[4,8,128]{2,1,0:T(8,128)} parameter(0)
  %param_2 = f32[8,128]{1,0:T(8,128)} parameter(2)
  %tanh.1 = f32[8,128]{1,0} tanh(%param_2), metadata={op_name="jit(step)/jvp(layers)/while/body/closed_call/mlp/tanh"}
  %bitcast.1 = f32[1,8,128]{2,1,0} bitcast(%tanh.1)
  %param_1 = s32[]{:T(128)} parameter(1)
  %zero = s32[]{:T(128)} constant(0)
  ROOT %dus = f32[4,8,128]{2,1,0:T(8,128)} dynamic-update-slice(%param_0, %bitcast.1, %param_1, %zero, %zero)
}

%reduced (param_0.1: f32[4,8,128], param_1.1: f32[64,128]) -> f32[4,128] {
  %param_0.1 = f32[4,8,128]{2,1,0:T(8,128)} parameter(0)
  %param_1.1 = f32[64,128]{1,0:T(8,128)S(1)} parameter(1)
  %zero.1 = f32[]{:T(128)} constant(0)
  ROOT %reduce.1 = f32[4,128]{1,0:T(8,128)} reduce(%param_0.1, %zero.1), dimensions={1}, to_apply=%add
}

%body (p.1: (s32[], f32[4,8,128])) -> (s32[], f32[4,8,128]) {
  %p.1 = (s32[]{:T(128)}, f32[4,8,128]{2,1,0:T(8,128)}) parameter(0)
  %i.1 = s32[]{:T(128)} get-tuple-element(%p.1), index=0
  %one = s32[]{:T(128)} constant(1)
  %next = s32[]{:T(128)} add(%i.1, %one)
  %stack = f32[4,8,128]{2,1,0:T(8,128)} get-tuple-element(%p.1), index=1
  %made = f32[8,128]{1,0:T(8,128)} iota(), iota_dimension=0, backend_config={"window_config":{"estimated_cycles":"500"}}
  %written = f32[4,8,128]{2,1,0:T(8,128)} fusion(%stack, %i.1, %made), kind=kLoop, calls=%update, \
metadata={op_name="jit(step)/jvp(layers)/while/body/jit(dynamic_update_index_in_dim)/dynamic_update_slice"}, \
backend_config={"window_config":{"estimated_cycles":"1000"},"aliasing_operands":{"lists":[{"indices":["0","3"]}]}}
  ROOT %out = (s32[]{:T(128)}, f32[4,8,128]{2,1,0:T(8,128)}) tuple(%next, %written)
}

ENTRY %main.1 (param.0: f32[4,128]) -> f32[4,128] {
  %param.0 = f32[4,128]{1,0:T(8,128)} parameter(0)
  %start = s32[]{:T(128)} constant(0)
  %buffer = f32[4,8,128]{2,1,0:T(8,128)} custom-call(), custom_call_target="AllocateBuffer", metadata={op_name="broadcast.87"}
  %on_chip = f32[64,128]{1,0:T(8,128)S(1)} custom-call(), custom_call_target="AllocateBuffer"
  %state = (s32[]{:T(128)}, f32[4,8,128]{2,1,0:T(8,128)}) tuple(%start, %buffer)
  %loop = (s32[]{:T(128)}, f32[4,8,128]{2,1,0:T(8,128)}) while(%state), condition=%cond, body=%body
  %kept = f32[4,8,128]{2,1,0:T(8,128)} get-tuple-element(%loop), index=1
  %sum = f32[4,128]{1,0:T(8,128)} fusion(%kept, %on_chip), kind=kLoop, calls=%reduced, backend_config={"aliasing_operands":{"lists":[]}}
  ROOT %result = f32[4,128]{1,0:T(8,128)} add(%param.0, %sum), backend_config={"aliasing_operands":{"lists":[{"indices":["0","2"]}]}}
}
"""
"""A loop that stacks what it makes: the stack is updated in place, one buffer all through; a donated argument; a buffer on the chip."""
