"""Graphs collapsed by named scope: the visible boxes for a set of open scopes, and the arrows between them.

A closed scope is one box. An open scope shows its kernels and inner scopes; kernels with the same scope and name share
a box. Repeated layers are one scope (`layers/*`).
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from workbench.core.path_patterns import template
from workbench.reports.kernel import Graph, GraphNode, GraphSend

MOST_BOXES = 60
_MOST_OPEN_AT_FIRST = 24


@dataclass(frozen=True, slots=True)
class DrawnNode:
    """A box: a closed scope, equal kernels, or the remainder of a scope. `members` are node numbers."""

    key: str
    label: str
    scope: str  # the innermost open scope around it, else empty
    members: tuple[int, ...]
    can_open: bool = False
    rest: int = 0  # number of boxes merged into it, if it is the remainder of a scope


@dataclass(frozen=True)
class Collapsed:
    """A collapsed graph; arrows, between box numbers, map to the node that produces the largest value."""

    graph: Graph
    boxes: tuple[DrawnNode, ...]
    opened: tuple[str, ...]
    arrows: dict[tuple[int, int], int] = field(default_factory=dict)
    sends: dict[tuple[int, int], tuple[GraphSend, ...]] = field(default_factory=dict)

    @cached_property
    def by_time(self) -> bool:
        """Whether costs are seconds; without hardware they are FLOP."""
        return any(node.seconds for node in self.graph.nodes)

    @cached_property
    def costs(self) -> tuple[float, ...]:
        """The cost of each box."""
        return tuple(self.cost(box) for box in self.boxes)

    @cached_property
    def total_cost(self) -> float:
        return sum(map(self._cost, self.graph.nodes)) or 1.0

    @cached_property
    def essential_arrows(self) -> tuple[tuple[int, int], ...]:
        """The transitive reduction of the arrows, in program order; arrows with collectives and backward arrows stay."""
        ahead: dict[int, set[int]] = {}
        for maker, reader in self.arrows:
            if maker < reader:
                ahead.setdefault(maker, set()).add(reader)
        return tuple(ends for ends in self.arrows if ends[0] > ends[1] or ends in self.sends or not _is_implied(*ends, ahead))

    def cost(self, box: DrawnNode) -> float:
        return sum(self._cost(self.graph.nodes[member]) for member in box.members)

    def costliest(self, box: DrawnNode) -> GraphNode:
        return max((self.graph.nodes[member] for member in box.members), key=self._cost)

    def count_instances(self, scope: str) -> int:
        """The number of scopes of the program that match this template, such as the layers of `layers/*`."""
        depth = scope.count("/") + 1
        paths = (node.path.split("/")[:depth] for node in self.graph.nodes if not node.is_input)
        return len({"/".join(words) for words in paths if template("/".join(words)) == scope})

    def sends_within(self, number: int) -> tuple[GraphSend, ...]:
        return self.sends.get((number, number), ())

    def find_value(self, path: str) -> int | str | None:
        """The number of the box that contains a value, else the innermost open scope around it, else `None`."""
        words = template(path).split("/")
        if (number := self._numbers.get(_find_box_key(words, self.opened))) is not None:
            return number
        scopes = ("/".join(words[:depth]) for depth in range(len(words), 0, -1))
        return next((scope for scope in scopes if scope in self.opened), None)

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {box.key: number for number, box in enumerate(self.boxes)}

    def _cost(self, node: GraphNode) -> float:
        return node.seconds if self.by_time else float(node.flops)


def collapse(graph: Graph, opened: Collection[str] | None = None, most: int = MOST_BOXES) -> Collapsed:
    """Collapse a graph to at most `most` boxes; `opened` are the open scopes, by default `choose_open_scopes`."""
    open_scopes = frozenset(choose_open_scopes(graph) if opened is None else opened)
    paths = [_split_path(node) for node in graph.nodes]
    keys = [_find_box_key(words, open_scopes) for words in paths]
    members: dict[str, list[int]] = {}
    for number, key in enumerate(keys):
        if not _is_counter(graph.nodes[number]):
            members.setdefault(key, []).append(number)
    shown = [_make_box(key, graph, paths, numbers, open_scopes) for key, numbers in members.items()]
    shown.sort(key=lambda box: not graph.nodes[box.members[0]].is_input)  # inputs come first
    collapsed = Collapsed(graph, tuple(shown), _list_open_scopes(box.scope for box in shown))
    if len(shown) > most:
        collapsed = Collapsed(graph, _merge_cheapest(collapsed, most), collapsed.opened)
    box_of = {member: place for place, box in enumerate(collapsed.boxes) for member in box.members}
    return Collapsed(graph, collapsed.boxes, collapsed.opened, _arrows(graph, box_of), _sends(graph, box_of))


def choose_open_scopes(graph: Graph, most: int = _MOST_OPEN_AT_FIRST) -> frozenset[str]:
    """The scopes to open initially: those with at least two inner scopes, outer ones first, up to `most` boxes."""
    paths = dict.fromkeys(_split_path(node) for node in graph.nodes if not _is_counter(node))
    inner: dict[str, set[str]] = {}
    for words in paths:
        for depth in range(1, len(words) - 1):
            inner.setdefault("/".join(words[:depth]), set()).update(["/".join(words[: depth + 1])] if depth + 1 < len(words) else [])
    opened: frozenset[str] = frozenset()
    for scope in sorted(inner, key=lambda each: each.count("/")):
        outer = scope.rpartition("/")[0]
        if len(inner[scope]) < 2 or (outer and outer not in opened):
            continue
        if len({_find_box_key(words, opened | {scope}) for words in paths}) <= most:
            opened |= {scope}
    return opened


def scopes_of(graph: Graph) -> frozenset[str]:
    """Every scope that can be opened."""
    return frozenset("/".join(words[:depth]) for words in {_split_path(node) for node in graph.nodes} for depth in range(1, len(words)))


def _is_counter(node: GraphNode) -> bool:
    return not node.shape and not node.is_input and not node.dtype.startswith(("float", "bfloat", "complex"))


def _split_path(node: GraphNode) -> tuple[str, ...]:
    return (node.path,) if node.is_input else tuple(template(node.path).split("/"))


def _find_box_key(words: Sequence[str], opened: Collection[str]) -> str:
    """The outermost closed scope of a path, else the path itself."""
    for depth in range(1, len(words)):
        if (scope := "/".join(words[:depth])) not in opened:
            return scope
    return "/".join(words)


def _make_box(key: str, graph: Graph, paths: Sequence[tuple[str, ...]], members: list[int], opened: Collection[str]) -> DrawnNode:
    scope = key.rpartition("/")[0] if not graph.nodes[members[0]].is_input else ""
    inside = {paths[member] for member in members}
    is_leaf = all("/".join(words) == key for words in inside)
    label = key.rpartition("/")[2] if scope in opened else key
    if not is_leaf and len(inside) == 1:
        label = "/".join([label, *next(iter(inside))[key.count("/") + 1 :]])
    return DrawnNode(key, label, scope, tuple(members), can_open=not is_leaf and len(inside) > 1)


def _list_open_scopes(scopes: Iterable[str]) -> tuple[str, ...]:
    opened: dict[str, None] = {}
    for scope in scopes:
        words = scope.split("/") if scope else []
        opened.update(dict.fromkeys("/".join(words[:depth]) for depth in range(1, len(words) + 1)))
    return tuple(sorted(opened, key=lambda scope: scope.count("/")))


def _merge_cheapest(shown: Collapsed, most: int) -> tuple[DrawnNode, ...]:
    ranked = sorted(range(len(shown.boxes)), key=lambda place: -shown.costs[place])
    separate = set(ranked[: max(most - len({box.scope for box in shown.boxes}), 1)])
    rest: dict[str, list[DrawnNode]] = {}
    for place, box in enumerate(shown.boxes):
        if place not in separate:
            rest.setdefault(box.scope, []).append(box)
    merged = []
    for place, box in enumerate(shown.boxes):
        if place in separate:
            merged.append(box)
        elif boxes := rest.pop(box.scope, None):
            members = tuple(member for merged_box in boxes for member in merged_box.members)
            key = f"{box.scope}/…" if box.scope else "…"
            merged.append(DrawnNode(key, f"{len(boxes)} smaller", box.scope, members, rest=len(boxes)))
    return tuple(merged)


def _arrows(graph: Graph, box_of: dict[int, int]) -> dict[tuple[int, int], int]:
    """The arrows between boxes, each with the node that produces its largest value."""
    arrows: dict[tuple[int, int], int] = {}
    for maker, reader in graph.edges:
        if maker not in box_of or reader not in box_of:
            continue
        ends = box_of[maker], box_of[reader]
        if ends[0] != ends[1] and (ends not in arrows or _size(graph.nodes[arrows[ends]]) < _size(graph.nodes[maker])):
            arrows[ends] = maker
    return arrows


def _is_implied(maker: int, reader: int, ahead: dict[int, set[int]]) -> bool:
    """Whether a path of at least two forward arrows connects the boxes."""
    pending = [successor for successor in ahead.get(maker, ()) if successor < reader]
    seen = set(pending)
    while pending:
        for successor in ahead.get(pending.pop(), ()):
            if successor == reader:
                return True
            if successor < reader and successor not in seen:
                seen.add(successor)
                pending.append(successor)
    return False


def _size(node: GraphNode) -> int:
    size = 1
    for length in node.shape:
        size *= length
    return size


def _sends(graph: Graph, box_of: dict[int, int]) -> dict[tuple[int, int], tuple[GraphSend, ...]]:
    """Collectives by the boxes of producer and consumer; with only one end in a box, they count as within it."""
    sends_by_ends: dict[tuple[int, int], list[GraphSend]] = {}
    for send in graph.sends:
        ends = [box_of[node] for node in (send.maker, send.reader) if node in box_of]
        if ends:
            sends_by_ends.setdefault((ends[0], ends[-1]), []).append(send)
    return {ends: tuple(sends) for ends, sends in sends_by_ends.items()}
