"""A Sphinx extension: docstrings of this package are plain English with a little Markdown, and become reStructuredText here.

A code span in single backticks is one in double backticks there; an indented block after a paragraph is a literal block.
"""

import re
from typing import Any

_SPAN = re.compile(r"(?<!`)`([^`\n]+)`(?!`)(?=(\w)?)")


def convert(lines: list[str]) -> list[str]:
    """The lines of a docstring as reStructuredText.

    >>> convert(["Call `f`:", "", "    f(1)", "", "and so on."])
    ['Call ``f``:', '', '::', '', '    f(1)', '', 'and so on.']
    """
    made: list[str] = []
    in_block = in_list = False
    for line in lines:
        is_indented = line.startswith("    ")
        if line.strip() and not is_indented:
            in_block, in_list = False, line.lstrip().startswith("- ") or (in_list and line.startswith("  "))
        if is_indented and not in_block and not in_list and (not made or not made[-1].strip()):
            made += ["::", ""]
            in_block = True
        starts_list = line.startswith("- ") and made and made[-1].strip() and not made[-1].startswith(("- ", "  "))
        made += [""] if starts_list else []
        made.append(line if in_block or line.lstrip().startswith(">>>") else _SPAN.sub(_literal, line))
    return made


def _literal(found: re.Match[str]) -> str:
    """A code span, apart from letters that follow it: an `s` of the plural."""
    return f"``{found[1]}``" + ("\\ " if found[2] else "")


def _process(_app: Any, _what: str, _name: str, _object: Any, _options: Any, lines: list[str]) -> None:
    lines[:] = convert(lines)


def setup(app: Any) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("autodoc-process-docstring", _process)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
