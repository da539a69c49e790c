"""The graph that a view shows: of a plan with a pipeline the graphs of all stages, each in a frame of its own, and what they send each
other."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from workbench.reports.pipeline import PipelineReport
from workbench.reports.report import Report
from workbench.reports.step_graph import Graph, GraphNode, GraphSend

_GRAD = "grad/"


def shown_graph(report: Report) -> Graph:
    """The graph of a report; of a pipelined plan as a whole that of its stages, whose scopes are `stage0/...`."""
    if report.is_of_devices:
        return report.graph
    assert report.pipeline is not None, "a pipelined plan has one where its stages have reports"
    nodes: list[GraphNode] = []
    edges: list[tuple[int, int]] = []
    sends: list[GraphSend] = []
    for each in report.stages:
        first = len(nodes)
        nodes += [replace(node, path=_in_stage(node.path, each.stage), known_as=node.path) for node in each.graph.nodes]
        edges += [(a + first, b + first) for a, b in each.graph.edges]
        sends += [_moved(send, first, each.stage) for send in each.graph.sends]
    between = tuple(_between_stages(report.pipeline, _ends(nodes)))
    return Graph(tuple(nodes), (*edges, *((each.maker, each.reader) for each in between)), (*sends, *between))


def _in_stage(path: str, stage: int | None) -> str:
    return f"stage{stage}/{path}"  # no space: what ends in a number of its own is taken for one of many alike


def _moved(send: GraphSend, first: int, stage: int | None) -> GraphSend:
    maker, reader = (each + first if each >= 0 else -1 for each in (send.maker, send.reader))
    return replace(send, maker=maker, reader=reader, path=_in_stage(send.path, stage), known_as=send.path)


def _ends(nodes: list[GraphNode]) -> Mapping[tuple[str, bool], tuple[int, int]]:
    """The first and the last kernel of each block (`stage0/layers/3`), of its forward task and of its backward task."""
    found: dict[tuple[str, bool], tuple[int, int]] = {}
    for number, node in enumerate(nodes):
        stage, _, rest = node.path.partition("/")
        words = rest.removeprefix(_GRAD).split("/")
        for depth in range(1, len(words)):
            key = f"{stage}/{'/'.join(words[:depth])}", rest.startswith(_GRAD)
            found[key] = found.get(key, (number, number))[0], number
    return found


def _between_stages(planned: PipelineReport, ends: Mapping[tuple[str, bool], tuple[int, int]]) -> Iterator[GraphSend]:
    """Activations from the last block of one virtual stage to the first of another, and their gradients back."""
    spec = planned.spec
    for one in planned.virtual_stages:
        for later, count in one.cost.sends:
            other = planned.virtual_stages[later]
            if one.device == other.device:
                continue
            makers, readers = _in_stage(one.blocks[-1], one.device), _in_stage(other.blocks[0], other.device)
            for back in (False, True):
                a, b = ends.get((makers, back)), ends.get((readers, back))
                if a and b:
                    maker, reader = (b[1], a[0]) if back else (a[1], b[0])
                    path = f"{'gradients' if back else 'activations'} between stages"
                    yield GraphSend("send", (spec.axis,), maker, reader, path, "", spec.micro_batches, count * spec.micro_batches)
