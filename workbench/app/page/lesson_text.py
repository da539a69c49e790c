"""The text of a lesson next to its board: prose as HTML, links to the board's questions, and code cells with their outputs."""

import ast
import functools
import io
import re
import threading
from collections.abc import Callable, Iterator
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token

from workbench.core.installation import shipped_folder
from workbench.core.public_error_text import describe_error
from workbench.errors import DocumentError, unknown_name
from workbench.exercises import Verdict
from workbench.visualize.draw.picture import Picture
from workbench.widgets.glossary.lessons import COURSES, LESSONS, lesson_link, replace_links
from workbench.widgets.shared_states import SharedList

_MARKDOWN = MarkdownIt("commonmark", {"html": False}).enable("table")
_QUESTION = re.compile(r'exercise\["(\w+)"\]')
_BOARD = re.compile(r"wb\.Workbench\(.*\)")
_FORMULA = re.compile(r"\$\$?([^$`\n]+)\$\$?")

Block = dict[str, Any]


class LessonText:
    """The text of a lesson for one board. Its cells run in a thread of the board's process, which has JAX and no other user's data.

    The text of an assignment has code without outputs, since the cells of a lesson need up to half a minute of a processor, for each
    student; and no links to other lessons, which a team server does not open.

    Raises `DocumentError` for an unknown lesson.
    """

    def __init__(self, name: str, *, assigned: bool = False) -> None:
        if name not in LESSONS:
            raise DocumentError(*unknown_name("lesson", name, LESSONS))
        self.name, self._assigned = name, assigned
        self._folder = shipped_folder("lessons") / name
        text = (self._folder / "lesson.md").read_text(encoding="utf-8")
        blocks = parse_lesson(replace_links(text, r"\1") if assigned else text)
        self.blocks = SharedList([{**block, "outputs": []} if assigned and block["kind"] == "code" else block for block in blocks])

    def begin(self, show: Callable[[], None]) -> None:
        """Run the cells in a thread, and call `show` in this thread after each cell."""
        if not self._assigned:
            threading.Thread(target=self._run, args=(show,), name="lesson cells", daemon=True).start()

    def state(self) -> dict[str, Any]:
        """The lesson without its blocks as JSON."""
        names = list(LESSONS)
        place = names.index(self.name)
        return {
            "title": LESSONS[self.name],
            "course": next(course for course, titles in COURSES.items() if self.name in titles),
            "place": f"Lesson {place + 1} of {len(names)}",
            "all": None if self._assigned else "?lessons",
            "previous": lesson_link(names[place - 1]) if place and not self._assigned else None,
            "next": lesson_link(names[place + 1]) if place + 1 < len(names) and not self._assigned else None,
            "notebook": f"workbench learn {self.name}",
        }

    def _run(self, show: Callable[[], None]) -> None:
        space: dict[str, Any] = {}
        path = repr(str(self._folder / "exercise.json"))
        for place, block in enumerate(self.blocks):
            if block["kind"] == "code":
                outputs = list(run_cell(block["source"].replace('"exercise.json"', path), space))
                self.blocks = SharedList([*self.blocks[:place], {**block, "outputs": outputs}, *self.blocks[place + 1 :]])
                show()


def parse_lesson(text: str) -> Iterator[Block]:
    """The blocks of a lesson in MyST Markdown, without its title, which the page shows separately.

    >>> [each["kind"] for each in parse_lesson('---\\na: b\\n---\\n# T\\n\\nText.\\n\\n```{code-cell} ipython3\\nexercise["sent"]\\n```')]
    ['html', 'question']
    """
    prose: list[Token] = []
    for token in _MARKDOWN.parse(_linked(text.split("---\n", 2)[2].strip().partition("\n")[2])):
        if not token.info.startswith("{code-cell}"):
            prose.append(token)
            continue
        yield from _html(prose)
        prose = []
        yield from _cell(token.content.strip())
    yield from _html(prose)


def _linked(text: str) -> str:
    """Point links to this server or to the documentation site, and set formulas in italics."""
    return _FORMULA.sub(lambda found: f"*{found[1].replace(chr(92) + ',', ' ')}*", replace_links(text, r"[\1](?lesson=\2)"))


def _html(tokens: list[Token]) -> Iterator[Block]:
    if tokens:
        yield {"kind": "html", "html": _MARKDOWN.renderer.render(tokens, _MARKDOWN.options, {})}


def _cell(source: str) -> Iterator[Block]:
    """The block of a cell: a link for a question, none for a board, which is next to the text, and otherwise the code."""
    if found := _QUESTION.fullmatch(source):
        yield {"kind": "question", "name": found[1]}
    elif not _BOARD.fullmatch(source):
        yield {"kind": "code", "source": source, "outputs": None}


def run_cell(source: str, space: dict[str, Any]) -> Iterator[Block]:
    """Run a cell of a lesson of the package, and yield its printed text and the value of its last expression.

    >>> list(run_cell("print(1 + 1)\\n'a'", {}))
    [{'kind': 'text', 'text': "2\\n'a'"}]
    """
    printed, shown = io.StringIO(), None
    space["print"] = functools.partial(print, file=printed)  # the output of the process itself belongs to the server
    cell = ast.parse(source)
    last = cell.body.pop() if isinstance(cell.body[-1], ast.Expr) else None
    try:
        exec(compile(cell, "cell", "exec"), space)  # noqa: S102 - the lesson is part of this package
        shown = eval(compile(ast.Expression(last.value), "cell", "eval"), space) if isinstance(last, ast.Expr) else None  # noqa: S307
    except Exception as error:  # noqa: BLE001 - the page shows any error
        print(describe_error(error), file=printed)
    if isinstance(shown, Picture):
        yield {"kind": "svg", "svg": shown.svg, "about": shown.about}
    elif isinstance(shown, Verdict):
        yield {"kind": "html", "html": _MARKDOWN.render(shown._repr_markdown_())}
    elif shown is not None:
        print(shown if hasattr(shown, "_repr_html_") else repr(shown), file=printed)
    if text := printed.getvalue().strip("\n"):
        yield {"kind": "text", "text": text}
