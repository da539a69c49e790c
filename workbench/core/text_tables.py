"""Format deterministic text tables of at most 120 columns without color, and short texts for their cells.

`html_text(lambda: str(report))` formats the same text for notebooks, with HTML tables between two marks.
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
    """Format a table with a line under its header; columns named `...>` are right-aligned, `...~` may wrap.

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
    """Format key figures as rows of name, figure and details.

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
    """Return the result of `write` with its tables as HTML, for notebooks.

    >>> html_text(lambda: f"a < b{table_text(['axis'], [['data']])}").count("<table")
    1
    """
    token = _as_html.set(True)
    try:
        parts = write().split(_MARK)
    finally:
        _as_html.reset(token)
    paragraph = '<p style="white-space:pre-line;margin:8px 0 4px">'
    blocks = [part if index % 2 else part.strip() and f"{paragraph}{escape(part.strip())}</p>" for index, part in enumerate(parts)]
    return f'<div style="font:13px/1.5 system-ui,sans-serif;max-width:1100px;overflow-x:auto">{"".join(blocks)}</div>'


class Printed:
    """A record that notebooks show as text with HTML tables."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return html_text(lambda: str(self))


def _html_table(heads: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[bool]) -> str:
    sides = ["right" if is_right else "left" for is_right in right]

    def line(tag: str, cells: Sequence[str]) -> str:
        inner = (f'<{tag} style="text-align:{side}">{escape(cell)}</{tag}>' for cell, side in zip(cells, sides, strict=True))
        return f"<tr>{''.join(inner)}</tr>"

    head = f"<thead>{line('th', heads)}</thead>" if heads else ""
    body = "".join(line("td", row) for row in rows)
    return f'{_MARK}<table cellpadding=3 style="font-variant-numeric:tabular-nums">{head}<tbody>{body}</tbody></table>{_MARK}'


def dims_text(dims: Sequence[str], shape: Sequence[int]) -> str:
    """Format as `d_model=768 d_ff=3072`, or `scalar`."""
    return " ".join(f"{dim}={size}" for dim, size in zip(dims, shape, strict=True)) or "scalar"


def shape_text(shape: Sequence[int]) -> str:
    """Format as `768×1536`; a scalar is `1`."""
    return "×".join(map(str, shape)) or "1"


def axes_text(axes: Sequence[str]) -> str:
    return "+".join(axes) or "-"


def sizes_text(sizes: tuple[int, ...]) -> str:
    return str(sizes[0]) if len(sizes) == 1 else f"{min(sizes)}…{max(sizes)}"


def tail_text(path: str, length: int = 48) -> str:
    """Truncate a long path at the front, since its end is distinctive."""
    return path if len(path) <= length else "…" + path[1 - length :]


def group_items(items: Iterable[T], key: Callable[[T], Hashable]) -> list[list[T]]:
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
    """Format an important paragraph, red in a notebook; empty for an empty text."""
    if not text or not _as_html.get():
        return wrap_text(text)
    return f'{_MARK}<p role="alert" style="color:#c1121f;font-weight:600;margin:8px 0 4px">{escape(text)}</p>{_MARK}'


def _literal_text(cell: str) -> "Text":
    from rich.text import Text

    return Text(cell)


def _render_text(renderable: object) -> str:
    from rich.console import Console

    console = Console(
        file=StringIO(),
        width=WIDTH,
        color_system=None,
        force_terminal=False,
        force_jupyter=False,  # would show an empty output in a notebook
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
    return ", ".join(f"`{path}`" for path in paths[:most]) + (" and more" if len(paths) > most else "")
