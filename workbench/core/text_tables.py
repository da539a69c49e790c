"""Text tables of at most 120 columns, without colour, deterministic; and the small texts in their cells.

The same texts as HTML for a notebook: `html_text(lambda: str(report))`. Then a table is written as HTML, between two marks.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from contextvars import ContextVar
from html import escape
from io import StringIO
from typing import TYPE_CHECKING, Literal, TypeVar

if TYPE_CHECKING:
    from rich.text import Text

WIDTH = 120

_as_html: ContextVar[bool] = ContextVar("as_html", default=False)
_MARK = "\0"

T = TypeVar("T")


def table_text(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table with one line under its head. A column whose name ends in `>` is set to the right; one in `~` may break its lines.

    >>> print(table_text(["axis", "bytes>"], [["data", "72.0 MiB"], ["model", "512 B"]]))
     axis       bytes
    ──────────────────
     data    72.0 MiB
     model      512 B
    """
    if _as_html.get():
        return _html_table([column.rstrip(">~") for column in columns], rows, [column.endswith(">") for column in columns])
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, header_style="")
    for column in columns:
        justify: Literal["left", "right"] = "right" if column.endswith(">") else "left"
        table.add_column(column.rstrip(">~"), justify=justify, no_wrap=not column.endswith("~"), overflow="fold")
    for row in rows:
        table.add_row(*(_literal_text(cell) for cell in row))
    return _render_text(table)


def pairs_text(pairs: Iterable[tuple[str, str, str]]) -> str:
    """Key figures: a name, a figure, and what it is made of.

    >>> print(pairs_text([("Memory", "3 MiB", "parameters 2 MiB"), ("Sent", "0 B", "")]))
      Memory   3 MiB   parameters 2 MiB
      Sent       0 B
    """
    if _as_html.get():
        return _html_table([], pairs, [False, True, False])
    from rich.table import Table

    table = Table(box=None, show_header=False, padding=(0, 1, 0, 2))
    table.add_column()
    table.add_column(justify="right", no_wrap=True)
    table.add_column(overflow="fold")
    for row in pairs:
        table.add_row(*(_literal_text(cell) for cell in row))
    return _render_text(table)


def html_text(write: Callable[[], str]) -> str:
    """What `write` returns, with its tables as HTML: what a notebook shows of a report.

    >>> html_text(lambda: f"a < b{table_text(['axis'], [['data']])}").count("<table")
    1
    """
    token = _as_html.set(True)
    try:
        parts = write().split(_MARK)
    finally:
        _as_html.reset(token)
    paragraph = '<p style="white-space:pre-line;margin:8px 0 4px">'
    shown = [part if index % 2 else part.strip() and f"{paragraph}{escape(part.strip())}</p>" for index, part in enumerate(parts)]
    return f'<div style="font:13px/1.5 system-ui,sans-serif;max-width:1100px;overflow-x:auto">{"".join(shown)}</div>'


class Printed:
    """A record whose text a notebook shows with its tables as HTML."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return html_text(lambda: str(self))


def _html_table(heads: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[bool]) -> str:
    """Plain tags, and numbers to the right: readable also where styles are stripped."""
    sides = ["right" if each else "left" for each in right]

    def line(tag: str, cells: Sequence[str]) -> str:
        inner = (f'<{tag} style="text-align:{side}">{escape(cell)}</{tag}>' for cell, side in zip(cells, sides, strict=True))
        return f"<tr>{''.join(inner)}</tr>"

    head = f"<thead>{line('th', heads)}</thead>" if heads else ""
    body = "".join(line("td", row) for row in rows)
    return f'{_MARK}<table cellpadding=3 style="font-variant-numeric:tabular-nums">{head}<tbody>{body}</tbody></table>{_MARK}'


def dims_text(dims: Sequence[str], shape: Sequence[int]) -> str:
    """`d_model=768 d_ff=3072`; a scalar is `scalar`."""
    return " ".join(f"{dim}={size}" for dim, size in zip(dims, shape, strict=True)) or "scalar"


def shape_text(shape: Sequence[int]) -> str:
    """`768×1536`; a scalar is `1`."""
    return "×".join(map(str, shape)) or "1"


def axes_text(axes: Sequence[str]) -> str:
    return "+".join(axes) or "-"


def sizes_text(sizes: tuple[int, ...]) -> str:
    """The sizes of a dimension: one, or the range of several."""
    return str(sizes[0]) if len(sizes) == 1 else f"{min(sizes)}…{max(sizes)}"


def tail_text(path: str, length: int = 48) -> str:
    """A path with its front cut off if it is long: its end distinguishes it from others."""
    return path if len(path) <= length else "…" + path[1 - length :]


def group_items(items: Iterable[T], key: Callable[[T], Hashable]) -> list[list[T]]:
    """Items with equal keys together, in order of first appearance."""
    groups: dict[Hashable, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return list(groups.values())


def wrap_text(text: str, indent: str = "  ", first: str = "") -> str:
    if _as_html.get():
        return f"{first.strip()} {text}".strip()
    import textwrap

    return textwrap.fill(text, WIDTH, initial_indent=first, subsequent_indent=indent, break_on_hyphens=False)


def alert_text(text: str) -> str:
    """A paragraph that must not be missed: red in a notebook. Empty for an empty text."""
    if not text or not _as_html.get():
        return wrap_text(text)
    return f'{_MARK}<p role="alert" style="color:#c1121f;font-weight:600;margin:8px 0 4px">{escape(text)}</p>{_MARK}'


def _literal_text(cell: str) -> "Text":
    """A cell as it stands: `[data, -]` is no markup."""
    from rich.text import Text

    return Text(cell)


def _render_text(renderable: object) -> str:
    from rich.console import Console

    console = Console(
        file=StringIO(),
        width=WIDTH,
        color_system=None,
        force_terminal=False,
        force_jupyter=False,  # in a notebook, it would show an empty output beside the text
        legacy_windows=False,
        _environ={},
    )
    with console.capture() as capture:
        console.print(renderable)
    return "\n".join(line.rstrip() for line in capture.get().splitlines())


def count_text(count: int, one: str, many: str = "") -> str:
    """
    >>> count_text(1, "place"), count_text(1200, "place"), count_text(2, "more wish", "more wishes")
    ('1 place', '1,200 places', '2 more wishes')
    """
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def paths_text(paths: Sequence[str], most: int = 8) -> str:
    """The first paths of a list in an error, and that there are more."""
    return ", ".join(f"`{path}`" for path in paths[:most]) + (" and more" if len(paths) > most else "")
