"""A plan as a short JAX script: the mesh, a `PartitionSpec` per argument, `jit`, and a few steps.

Layers with equal shardings share a line, with `*` for the layer number (`path_patterns.template`); unlisted tensors are
replicated.
"""

import json
import textwrap
from collections.abc import Mapping
from typing import Any

from workbench.core.layout import Layout
from workbench.core.layout_text import axes_text
from workbench.core.offload import ALL_ON_DEVICE, Offload
from workbench.core.path_patterns import template
from workbench.core.precision import AS_WRITTEN, Precision
from workbench.core.program import Reference
from workbench.core.remat import AS_TRACED, Remat
from workbench.core.sharding import Sharding
from workbench.errors import DocumentError
from workbench.plan.plan import Plan
from workbench.propagation import argument_placements, result_placements

_HOST_MEMORY = (
    "# The optimizer's state is in the host's memory.",
    'hosted = [each.with_memory_kind("pinned_host") for each in arguments]',
    "arguments = tuple(hosted[i] if i in program.on_host else each for i, each in enumerate(arguments))",
)
MAX_VIRTUAL_DEVICES = 64  # a script with more virtual CPU devices is too slow


def export_script(plan: Plan, steps: int = 5) -> str:
    """A runnable script of the plan. Raises `DocumentError` if the program has no reference."""
    reference = plan.program.reference
    if reference is None:
        raise DocumentError(
            f"`{plan.name}` cannot be exported: its program has no reference, so a script could not build it.",
            ['put the code that builds it into an importable function and trace with `reference=wb.Reference("my_module:build")`'],
        )
    sections = (_head(plan), _imports(plan, reference), _setup(plan, reference), _shardings(plan), _state(plan), _loop(plan, steps))
    return "\n".join(section.rstrip() + "\n" for section in sections if section)


def _head(plan: Plan) -> str:
    devices = f"{plan.mesh.size} devices" if plan.mesh.size > 1 else "1 device"
    layout = textwrap.indent("\n".join(str(plan.layout).split("; ")) or "everything replicated", "    ")
    title = f"{plain_text(plan.name)} on {devices}, mesh {plan.mesh}, laid out as"
    return f'"""{title}\n\n{plain_text(layout)}\n{_pipeline_note(plan)}\nWritten by the sharding workbench.\n"""\n'


def _pipeline_note(plan: Plan) -> str:
    if plan.pipeline is None:
        return ""
    spec = plan.pipeline
    return f"""
It runs WITHOUT the plan's pipeline, {spec}:
the whole step, on every place of mesh axis `{spec.axis}` the same. With it, the workbench itself runs the plan (`workbench run`).
"""


def _imports(plan: Plan, reference: Reference) -> str:
    module, colon, function = reference.target.partition(":")
    constrained = bool(plan.layout.constraints)
    needs_plan = not plan.layout.is_plain
    class_names = [type(setting).__name__ for setting in _variant_settings(plan).values()] + (
        ["Plan"] if needs_plan else ["Sharding"] * constrained
    )
    workbench_imports = [
        *([f"from workbench import {', '.join(sorted(class_names))}"] if class_names else []),
        *([] if colon else ["from workbench.models import build"]),
        *(["from workbench.engine import argument_specs", "from workbench.propagation import write_layout"] if needs_plan else []),
        f"from workbench.tracing import {'constrain, ' if constrained and not needs_plan else ''}template",
    ]
    lines = ["import jax", "from jax.sharding import AxisType, NamedSharding, PartitionSpec as P", "", *workbench_imports]
    return "\n".join(lines + (["", f"from {module} import {function}"] if colon else [])) + "\n"


def _setup(plan: Plan, reference: Reference) -> str:
    mesh, (_, colon, function) = plan.mesh, reference.target.partition(":")
    positional = [] if colon else [literal(reference.target)]
    arguments = ", ".join([*positional, *_keyword_arguments(reference.arguments)])
    virtual = 1 < plan.mesh.size <= MAX_VIRTUAL_DEVICES
    lines = [
        *(
            [f'jax.config.update("jax_num_cpu_devices", {plan.mesh.size})  # virtual devices, where there is no accelerator']
            if virtual
            else []
        ),
        f"program = {function if colon else 'build'}({arguments})",
        *([f"program = program.variant({_variant_arguments(_variant_settings(plan))})"] if _variant_settings(plan) else []),
        f"mesh = jax.make_mesh({literal(mesh.sizes)}, {literal(mesh.names)}, axis_types=(AxisType.Auto,) * {len(mesh.axes)})",
    ]
    return "\n".join(lines) + "\n"


def _variant_settings(plan: Plan) -> dict[str, Remat | Precision | Offload]:
    """The program's remat, precision and offload where they differ from the defaults."""
    program = plan.program
    traced: dict[str, Remat | Precision | Offload] = {"remat": program.remat, "precision": program.precision, "offload": program.offload}
    return {name: setting for name, setting in traced.items() if setting not in (AS_TRACED, AS_WRITTEN, ALL_ON_DEVICE)}


def _variant_arguments(settings: Mapping[str, Remat | Precision | Offload]) -> str:
    return ", ".join(f"{name}={type(setting).__name__}.parse({literal(str(setting))})" for name, setting in settings.items())


def _keyword_arguments(arguments: Mapping[str, Any]) -> list[str]:
    if all(key.isidentifier() for key in arguments):
        return [f"{key}={literal(value)}" for key, value in arguments.items()]
    return [f"**{dict(arguments)!r}"]


def _shardings(plan: Plan) -> str:
    lines = [f"    {literal(path)}: {spec_text(sharding)}," for path, sharding in folded_shardings(plan).items()]
    table = ["SPECS = {", *lines, "}"] if lines else ["SPECS = {}"]
    return "\n".join(
        [
            "# The sharding of each argument; `*` stands for the layer number; unlisted arguments are replicated.",
            *table,
            "specs = [SPECS.get(tensor.path, SPECS.get(template(tensor.path), P())) for tensor in program.arguments]",
            "arguments = tuple(NamedSharding(mesh, spec) for spec in specs)",
            *(_HOST_MEMORY if plan.program.on_host else []),
            "carried = dict(program.carried)  # result -> the argument it becomes in the next step",
            *_results(plan),
        ]
    )


def _results(plan: Plan) -> list[str]:
    carried = dict(plan.program.carried)
    placements = {i: sharding for i, sharding in result_placements(plan).items() if i not in carried}
    if not placements:
        return ["results = tuple(arguments[carried[i]] if i in carried else None for i in range(len(program.results)))"]
    entries = ", ".join(f"{i}: NamedSharding(mesh, {spec_text(sharding)})" for i, sharding in placements.items())
    return [
        f"placed = {{{entries}}}  # results that are no arguments of the next step, sharded as the plan says",
        "results = tuple(arguments[carried[i]] if i in carried else placed.get(i) for i in range(len(program.results)))",
    ]


def _state(plan: Plan) -> str:
    step = plan.program.step
    call = "program.step.call"
    lines = []
    needs_plan = not plan.layout.is_plain
    if needs_plan:
        call = "lambda *values: program.step.call(*values)"
    elif plan.layout.constraints:
        entries = [f"    ({literal(pattern)}, Sharding.parse({literal(str(sharding))}))," for pattern, sharding in plan.layout.constraints]
        lines += ["CONSTRAINTS = (", *entries, ")"]
        call = "constrain(program.step.call, CONSTRAINTS, mesh)"
    lines += [
        "step = jax.jit(",
        f"    {call}, in_shardings=arguments, out_shardings=results, donate_argnums=tuple(carried.values())",
        ")",
        *(_write_layout_lines(plan) if needs_plan else []),
        "",
        "values = [None] * len(program.arguments)",
    ]
    if plan.program.state:
        given = "()"
        if step.given_indices:
            given = "given"
            places = "zip(program.step.given_indices, program.step.given, strict=True)"
            lines += [f"given = tuple(jax.device_put(array, arguments[i]) for i, array in {places})"]
        lines += [
            "born = jax.jit(program.step.initialize, out_shardings=tuple(arguments[i] for i in program.state))  # sharded from the start",
            f"for i, array in zip(program.state, born(jax.random.key(0), {given}), strict=True):",
            "    values[i] = array",
        ]
    return "\n".join(lines) + "\n"


def _write_layout_lines(plan: Plan) -> list[str]:
    """Lines that add priorities, groups, barriers etc., which JAX cannot express, to the lowered module."""
    return [
        "# What JAX cannot express is written into the lowered module, where the compiler's partitioner reads it.",
        f"plan = Plan(program, {literal(str(plan.mesh))}, {literal(str(plan.layout))})",
        "lowered = step.lower(*argument_specs(program))",
        'write_layout(lowered.compiler_ir("stablehlo"), plan)',
        "step = lowered.compile()",
    ]


def _loop(plan: Plan, steps: int) -> str:
    loss = plan.program.step.loss
    lines = [f"for number in range({steps}):"]
    if plan.program.inputs:
        lines += [
            "    for i, array in zip(program.inputs, program.step.feed(number), strict=True):",
            "        values[i] = jax.device_put(array, arguments[i])",
        ]
    lines += ["    outputs = step(*values)"]
    if plan.program.carried:
        lines += ["    for result, argument in program.carried:", "        values[argument] = outputs[result]"]
    shown = f"loss {{outputs[{loss}]:.6f}}" if loss is not None else "{jax.block_until_ready(outputs)}"
    return "\n".join([*lines, f'    print(f"step {{number}}: {shown}")']) + "\n"


# Shardings and other values as source text.


def folded_shardings(plan: Plan) -> dict[str, Sharding]:
    """Shardings by path template if equal for all its paths, else by path; replicated tensors are omitted."""
    groups: dict[str, dict[str, Sharding]] = {}
    for tensor, sharding in zip(plan.program.arguments, argument_placements(plan), strict=True):
        groups.setdefault(template(tensor.path), {})[tensor.path] = sharding
    folded: dict[str, Sharding] = {}
    for pattern, members in groups.items():
        alike = len(set(members.values())) == 1
        entries = {pattern: next(iter(members.values()))} if alike else members
        folded |= {path: sharding for path, sharding in entries.items() if sharding.axes}
    return folded


def spec_text(sharding: Sharding) -> str:
    """A `PartitionSpec` as source, such as `P('data', None, ('model', 'pipe'))`, without trailing `None`s."""
    entries = [literal(dim[0] if dim and len(dim) == 1 else dim or None) for dim in sharding.dims]
    while entries and entries[-1] == "None":
        entries.pop()
    return f"P({', '.join(entries)})"


def other_statements(layout: Layout) -> list[str]:
    """The layout statements that argument shardings do not cover: constraints, priorities, groups and barriers."""
    priorities = [f"{dim}:{axes_text(axes, layout.priority(dim))}" for dim, axes in layout.rules if layout.priority(dim)]
    others = layout.updated(rules=(), overrides=(), priorities=())
    return [*others.statements, *priorities]


def literal(value: object) -> str:
    """The `repr` of a value with double quotes, as a formatter writes it."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, tuple):
        return f"({', '.join(map(literal, value))}{',' * (len(value) == 1)})"
    return repr(value)


def comment_text(text: str, indent: int = 3) -> str:
    """The text as a single comment line."""
    return f"#{' ' * indent}{' '.join(text.split())}"


def plain_text(text: str) -> str:
    """Escape a text for use within a docstring."""
    return text.replace("\\", "\\\\").replace('"""', "'''")
