"""The traced function's own sharding annotations as text: a section of the report."""

from collections.abc import Iterator

from workbench.core.source_annotations import SourceAnnotations
from workbench.core.text_tables import axes_text, shape_text, table_text, tail_text

MOST_ROWS = 24  # rows


def source_annotations_text(annotations: SourceAnnotations) -> str:
    """One row per annotation, by place and line; empty if there is none."""
    if not annotations:
        return ""
    rows = list(_annotation_rows(annotations))
    over = " ".join(f"{name}:{size}" for name, size in annotations.mesh)
    more = f"\n  and {len(rows) - MOST_ROWS} more" if len(rows) > MOST_ROWS else ""
    head = f"What the function itself lays out, over {over}"
    return f"{head}\n\n{table_text(['what', 'value', 'lies', 'source'], rows[:MOST_ROWS])}{more}"


def _annotation_rows(annotations: SourceAnnotations) -> Iterator[tuple[str, str, str, str]]:
    for argument in annotations.types:
        yield "type", argument.path, str(argument.sharding), ""
    for each in annotations.constraints:
        times = f" ×{each.times}" if each.times > 1 else ""
        inside = f", in a shard_map over {axes_text(each.manual)}" if each.manual else ""
        yield "constraint", f"{tail_text(each.path)}{times} {shape_text(each.shape)}", f"{each.sharding}{inside}", each.source
    for region in annotations.regions:
        ways = f"{', '.join(map(str, region.incoming)) or 'nothing'} → {', '.join(map(str, region.outgoing)) or 'nothing'}"
        yield f"manual {axes_text(region.axes)}", tail_text(region.path), ways, region.source
