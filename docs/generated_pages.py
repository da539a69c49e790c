"""Pages of the site that are written from the package itself: lessons and notebooks, a page for each word of the glossary, the commands."""

import argparse
from collections.abc import Iterator, Mapping
from pathlib import Path

from workbench.cli.parser import make_parser
from workbench.widgets.glossary.glossary import GROUPS, Term
from workbench.widgets.glossary.lessons import COURSES, LESSON_OF, page_name

NOTEBOOKS = {"01": "01_layouts", "02": "02_pipeline", "03": "03_gspmd", "04": "04_many_models", "05": "05_search"}


def write_pages(root: Path) -> None:
    """Write all of them below `docs/`, where git ignores them."""
    docs = root / "docs"
    _fill(docs / "lessons", {**_copies(root / "lessons", "*/lesson.md", "*/exercise.json", "*/*.csv"), "index.md": _courses_page(root)})
    _fill(docs / "notebooks", _copies(root / "notebooks", "*.ipynb"))
    terms = {f"{page_name(term.name)}.md": _term_page(term, group) for group, terms in GROUPS for term in terms}
    _fill(docs / "glossary", {**terms, "index.md": _glossary_page()})
    _write(docs / "reference" / "command_line.md", _commands_page())
    _fill(docs / "extra" / "schemas", _copies(root / "workbench" / "documents", "*.schema.json"))


def _copies(source: Path, *patterns: str) -> dict[str, str]:
    """The texts of files, by their paths within a folder. On the site, lessons are below the folder of the pages that they link to."""
    found = (file for pattern in patterns for file in source.glob(pattern))
    return {str(file.relative_to(source)): file.read_text(encoding="utf-8").replace("](../../docs/", "](../../") for file in found}


def _fill(folder: Path, texts: Mapping[str, str]) -> None:
    """Make a folder hold these files and no others."""
    for old in [each for each in folder.rglob("*") if each.is_file() and str(each.relative_to(folder)) not in texts]:
        old.unlink()
    for name, text in texts.items():
        _write(folder / name, text)


def _write(file: Path, text: str) -> None:
    """Write a file that changed: an unchanged one keeps its time, and is not built again."""
    if not file.exists() or file.read_text(encoding="utf-8") != text:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


def _courses_page(root: Path) -> str:
    known = {name for names in COURSES.values() for name in names}
    found = {each.parent.name for each in (root / "lessons").glob("*/lesson.md")}
    if known != found:
        raise ValueError(f"These lessons are in no course, or are not there: {sorted(known ^ found)}.")
    parts = [
        "# Lessons",
        "",
        "Each lesson takes about a quarter of an hour: predict, change, see. They build on each other; begin with the first. Here you can",
        "read them, with recordings of their boards. To answer the questions of one, copy it, open it as a notebook, and run its cells:",
        "every question checks itself.",
        "",
        "```sh",
        "workbench learn one_product",
        "jupyter lab one_product/lesson.ipynb",
        "```",
    ]
    for course, names in COURSES.items():
        parts += ["", f"## {course}", "", "```{toctree}", ":maxdepth: 1", "", *(f"{name}/lesson" for name in names), "```"]
    return "\n".join(parts) + "\n"


def _term_page(term: Term, group: str) -> str:
    lines = [f"# {term.name}", "", term.says, "", f"*{group}.*"]
    if term.notebook:
        lines += [
            "",
            f"See it at work in the notebook [{NOTEBOOKS[term.number]}](../notebooks/{NOTEBOOKS[term.number]}.ipynb), “{term.notebook}”.",
        ]
    if lesson := LESSON_OF.get(term.name):
        lines += ["", f"A lesson begins with it: [](../lessons/{lesson}/lesson.md)."]
    if term.link:
        lines += ["", f"Read on: <{term.link}>"]
    return "\n".join(lines) + "\n"


def _glossary_page() -> str:
    lines = ["# Glossary", "", "The words on the board, one sentence each; each is a page that can be linked to."]
    for group, terms in GROUPS:
        lines += ["", f"## {group}", ""]
        lines += [f"[{each.name}]({page_name(each.name)}.md)\n: {each.says}\n" for each in terms]
    pages = [page_name(each.name) for _, terms in GROUPS for each in terms]
    return "\n".join([*lines, "", "```{toctree}", ":hidden:", "", *pages, "```", ""])


def _commands_page() -> str:
    parser = make_parser()
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    lines = ["# Command line", "", "```text", parser.format_help().rstrip(), "```"]
    for name, command in _commands(parser):
        lines += ["", f"## `workbench {name}`", "", "```text", command.format_help().rstrip(), "```"]
    return "\n".join(lines) + "\n"


def _commands(parser: argparse.ArgumentParser, prefix: str = "") -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Each command and each verb of one, once."""
    for action in parser._actions:  # noqa: SLF001 - argparse has no other way to them
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            for name, command in action.choices.items():
                yield f"{prefix}{name}", command
                yield from _commands(command, f"{prefix}{name} ")
