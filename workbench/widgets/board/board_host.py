"""Host services of a board that differ between a notebook, a served page and a JupyterLab document."""

import itertools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from workbench.documents import save_plan
from workbench.exercises import Exercise
from workbench.plan.plan import Plan
from workbench.widgets.exercise.exercise_progress import ExerciseProgress, HandingIn, LessonShown
from workbench.widgets.run.job_progress import RunProgress

ENDING = ".plan.json"
MOST_NAME = 120  # characters of a file's name, without its suffix


class _Folder:
    """Saves to the kernel's working folder, and never overwrites a file that it did not write itself."""

    def __init__(self) -> None:
        self._written: set[Path] = set()

    def save(self, plan: Plan) -> str:
        """Write `name.plan.json`, numbered if that file exists, and return the file name."""
        names = itertools.chain([ENDING], (f"-{number}{ENDING}" for number in itertools.count(2)))
        paths = (Path.cwd() / file_name(plan.name, ending) for ending in names)
        path = next(path for path in paths if path in self._written or not path.exists())
        save_plan(plan, path)
        self._written.add(path)
        return path.name


def notebook_host(exercise: Exercise | None = None, question: str = "") -> "Host":
    """Return the host of a notebook, which has no URL to share and saves files beside it."""
    return Host(save=_Folder().save, exercise=exercise, question=question)


def file_name(name: str, ending: str) -> str:
    """Turn the name of a plan into a file name.

    >>> file_name("gpt tiny / 8 devices", ".plan.json")
    'gpt-tiny-8-devices.plan.json'
    """
    return (re.sub(r"[^\w.]+", "-", name).strip("-.") or "plan")[:MOST_NAME] + ending


def _nobody(_kept: object) -> None:
    """Ignore the plan."""


@dataclass(frozen=True, slots=True)
class Host:
    """Services of a board's host. The default is a page without a file, where saving downloads the plan in the browser.

    - `save`: writes the plan and returns a path to display (`"gpt.plan.json"`); may raise a `WorkbenchError` (the file
      was changed by somebody else), which is shown and changes nothing. `None`: the browser downloads the document;
    - `saves`, `runs`, `searches`, `exchanges`: whether the board offers to save, to run, to search for plans, and to
      import and export plans as files, links and former plans;
    - `names_saved`: whether a plan is named when it is saved, as in a gallery;
    - `starts`: whether the board offers the start panel and the model size strip; `start_open`: whether that panel is
      open at first; `folder`: where it looks for functions (`widgets.start.model_choices`), `None` for nowhere;
    - `path`: the file the board was opened with, for display; `None` without one;
    - `link`: turns the text of `documents.link_text` into a URL; the browser completes one that begins with `?`.
      `None`: there is no URL to share, and the text itself is copied;
    - `sharing`: another way to share a plan, shown where `link` is `None`;
    - `changed`: called with the plan after every change, for a host that keeps a copy (the JupyterLab document). It may
      be called from any thread that changes the session, and should be quick;
    - `allow`: modules whose programs an opened file may name (`read_allowed`);
    - `downloaded`: called with the plan that the browser downloads;
    - `ran`: called with each run that this board has finished;
    - `exercise`: the exercise to answer on the board, and the `question` shown first;
    - `progress`: the answers so far, where several boards share them; `handing_in`: the service that records answers.
    """

    save: Callable[[Plan], str] | None = None
    saves: bool = True
    names_saved: bool = False
    runs: bool = True
    searches: bool = True
    exchanges: bool = True
    starts: bool = False
    start_open: bool = False
    folder: Path | None = None
    path: str | None = None
    link: Callable[[str], str] | None = None
    sharing: str = ""
    changed: Callable[[Plan], None] = _nobody
    allow: tuple[str, ...] = ()
    downloaded: Callable[[Plan], None] = _nobody
    ran: Callable[[RunProgress], None] = _nobody
    exercise: Exercise | None = None
    question: str = ""
    progress: ExerciseProgress | None = None
    handing_in: HandingIn | None = None
    lesson: LessonShown | None = None
    opens_lessons: bool = False
    only_lessons: bool = False


# Parts of a board's state. Changes made while a gesture is handled are published after its answer.

Part = Literal["board", "table", "live"]
Publish = Callable[[Part, dict[str, Any]], None]


class Publisher:
    """Builds and publishes parts; an answer to a gesture publishes the board once, at its end, and the tables after it."""

    def __init__(self, publish: Publish, makers: Mapping[Part, Callable[[], dict[str, Any]]]) -> None:
        self._publish, self._makers = publish, makers
        self._owed: set[Part] = set()
        self._shown: dict[Part, dict[str, Any]] = {}
        self.answering = False

    def owes(self, part: Part) -> bool:
        return part in self._owed

    def owe(self, *parts: Part) -> None:
        self._owed |= set(parts)

    def show(self, *parts: Part) -> None:
        """Publish parts now, or after the answer in progress."""
        for part in parts:
            if self.answering:
                self._owed |= {part} - {"board"}
            else:
                self._shown[part] = self._makers[part]()
                self._publish(part, self._shown[part])

    def amend(self, part: Part, **changes: Any) -> None:
        """Publish a part again with some fields changed; the others are not computed anew."""
        self._shown[part] = {**self._shown[part], **changes}
        self._publish(part, self._shown[part])

    def show_owed(self) -> None:
        """Publish the parts that the last answers postponed, so that the board appears before the tables."""
        owed, self._owed = self._owed, set()
        self.show(*sorted(owed, reverse=True))  # the tables first
