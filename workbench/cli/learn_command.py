"""`workbench learn`: list the lessons and notebooks of the package, open a lesson next to a board, or copy one."""

import argparse
import json
import shlex
import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from workbench.core.installation import install_command, shipped_folder
from workbench.errors import DocumentError, explain_os_errors, unknown_name
from workbench.widgets.glossary.lessons import COURSES, NOTEBOOKS, docs_address, replace_links

_ANSWERS = "answers.json"  # not copied: the copy is for students


class CourseItem(NamedTuple):
    """A lesson or notebook, with its course."""

    name: str
    title: str
    course: str


def course_items() -> list[CourseItem]:
    """The lessons in the order of their courses, then the notebooks."""
    lessons = [CourseItem(name, title, course) for course, titles in COURSES.items() for name, title in titles.items()]
    return [*lessons, *(CourseItem(name, title, "Notebooks") for name, title in NOTEBOOKS.items())]


def learn(options: argparse.Namespace) -> None:
    """List everything, open the lessons page or one lesson, or copy one and print how to open it."""
    items = course_items()
    item = next((each for each in items if each.name == options.name), None)
    if options.name is not None and item is None:
        raise DocumentError(*unknown_name("lesson", options.name, [each.name for each in items]))
    if options.open:
        _open(options)
        return
    if item is None:
        print(json.dumps([each._asdict() for each in items], indent=1) if options.json else _list_text(items))
        return
    target = Path(options.to or item.name)
    with explain_os_errors(f"`{target}` cannot be written", DocumentError, "choose another folder with --to"):
        notebook = _copy(item, target)
    lines = _next_steps(item, target, notebook)
    print(json.dumps({**item._asdict(), "folder": str(target), "commands": lines}, indent=1) if options.json else "\n  ".join(lines))


def _list_text(items: list[CourseItem]) -> str:
    width = max(len(each.name) for each in items)
    lines, course = list[str](), ""
    for item in items:
        lines += ["", item.course] * (item.course != course)
        lines.append(f"  {item.name:<{width}}  {item.title}")
        course = item.course
    return "\n".join([*lines[1:], "", "`workbench learn NAME --open` opens a lesson; `workbench learn NAME` copies it as a notebook."])


def _open(options: argparse.Namespace) -> None:
    """Serve the lessons page or one lesson. Raises `DocumentError` for a notebook, which opens in JupyterLab."""
    if options.name in NOTEBOOKS:
        raise DocumentError(f"`{options.name}` is a notebook.", [f"copy it: workbench learn {options.name}"])
    served = options.serve.parse_args(["--lesson", *([options.name] if options.name else [])])
    served.command(served)


def _copy(item: CourseItem, target: Path) -> Path | None:
    """Copy the files. Returns the notebook to open, `None` if the lesson stays Markdown because jupytext is not
    installed.
    """
    if target.exists():
        raise DocumentError(f"`{target}` exists already.", ["choose another folder with --to"])
    if item.name in NOTEBOOKS:
        target.mkdir(parents=True)
        return Path(shutil.copy(shipped_folder("notebooks") / f"{item.name}.ipynb", target))
    shutil.copytree(shipped_folder("lessons") / item.name, target, ignore=shutil.ignore_patterns(_ANSWERS))
    lesson = target / "lesson.md"
    lesson.write_text(_stand_alone(lesson.read_text(encoding="utf-8")), encoding="utf-8")
    try:
        import jupytext
    except ModuleNotFoundError:
        return None
    jupytext.write(jupytext.read(lesson), target / "lesson.ipynb")
    return target / "lesson.ipynb"


def _stand_alone(text: str) -> str:
    """Replace the links to other lessons, which are not beside the copy: by the documentation site, or by the command that copies them."""
    site = docs_address()
    return replace_links(text, rf"[\1]({site}/lessons/\2/lesson.html)" if site else r"\1 (`workbench learn \2`)")


def _next_steps(item: CourseItem, target: Path, notebook: Path | None) -> list[str]:
    """The commands that open the copy."""
    exercise = target / "exercise.json"
    steps = [f"{item.title} is in {target}. To open it:"]
    steps += [f"jupyter lab {shlex.quote(str(notebook))}"] if notebook else []
    if exercise.exists():
        steps += [] if find_spec("panel") else [f"{install_command('app')}, and then"]
        steps += [f"workbench serve --exercise {shlex.quote(str(exercise))}"]
    return steps if notebook else [*steps, f"as a notebook: {install_command('lab')}, then copy it again"]
