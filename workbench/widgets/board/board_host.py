"""What a board cannot do by itself, because a notebook, a served page and a document of JupyterLab do it differently."""

import itertools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from workbench.documents import save_plan
from workbench.exercises import Exercise
from workbench.plan.plan import Plan
from workbench.widgets.exercise.exercise_progress import ExerciseProgress, HandingIn
from workbench.widgets.run.run_progress import RunProgress

ENDING = ".plan.json"
MOST_NAME = 120  # characters of a file's name, without its suffix


class _Folder:
    """Saves in the kernel's working folder, and never over a file that it did not write itself."""

    def __init__(self) -> None:
        self._written: set[Path] = set()

    def save(self, plan: Plan) -> str:
        """Write `name.plan.json`, with a number if there is one already; the result says where."""
        names = itertools.chain([ENDING], (f"-{number}{ENDING}" for number in itertools.count(2)))
        paths = (Path.cwd() / file_name(plan.name, ending) for ending in names)
        path = next(path for path in paths if path in self._written or not path.exists())
        save_plan(plan, path)
        self._written.add(path)
        return path.name


def notebook_host(exercise: Exercise | None = None, question: str = "") -> "Host":
    """The host of a notebook: there is no URL to send, and files are saved beside it."""
    return Host(save=_Folder().save, exercise=exercise, question=question)


def file_name(name: str, ending: str) -> str:
    """The name of a plan as a file name.

    >>> file_name("gpt tiny / 8 devices", ".plan.json")
    'gpt-tiny-8-devices.plan.json'
    """
    return (re.sub(r"[^\w.]+", "-", name).strip("-.") or "plan")[:MOST_NAME] + ending


def _nobody(_kept: object) -> None:
    """No copy of it is kept."""


@dataclass(frozen=True, slots=True)
class Host:
    """The host of a board. The default is a page without a file: what is saved, the browser downloads.

    - `save`: writes the plan and returns where, for people (`"gpt.plan.json"`); it may raise a `WorkbenchError` (the file was changed by
      somebody else), which is shown and changes nothing. `None`: the browser downloads the document;
    - `saves`, `runs`, `searches`, `exchanges`: whether the board offers to save, to run, to search for plans, and to take plans in and
      out, as files, links and former plans;
    - `starts`: whether the board offers the start panel and the strip of the model's sizes, and `start_open` whether it begins with that
      panel; `folder` is where the panel looks for functions to begin with (`widgets.start.folder_functions`), `None` for nowhere;
    - `path`: the file the board was opened with, for people; `None` without one;
    - `link`: the text of `documents.link_text` to a URL; one that begins with `?` is completed by the browser. `None`: there is no URL to
      send, and the text itself is copied;
    - `sharing`: how else a plan is shown to others, where `link` is `None`;
    - `changed`: called with the plan after every change, for a host that keeps a copy (the document of JupyterLab). It may be called from
      whichever thread changed the session, and should be quick;
    - `allow`: modules whose programs a file that is opened may name (`documents.read_allowed`).
    - `downloaded`: called with the plan that the browser downloads;
    - `ran`: called with each run that this board has finished;
    - `exercise`: what is to be answered on the board, and the `question` that is looked at first;
    - `progress`: what was answered to it, where several boards share that, and `handing_in`: who keeps the answers.
    """

    save: Callable[[Plan], str] | None = None
    saves: bool = True
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


# The parts that a board shows. What changes while a gesture is answered is published after the answer.

Part = Literal["board", "table", "live"]
Publish = Callable[[Part, dict[str, Any]], None]


class Publisher:
    """Makes parts and publishes them; the answer to a gesture publishes the board once, at its end, and the tables after it."""

    def __init__(self, publish: Publish, makers: Mapping[Part, Callable[[], dict[str, Any]]]) -> None:
        self._publish, self._makers = publish, makers
        self._owed: set[Part] = set()
        self.answering = False

    def owes(self, part: Part) -> bool:
        """Whether a part has changed, and is not published yet."""
        return part in self._owed

    def owe(self, *parts: Part) -> None:
        """Publish these later."""
        self._owed |= set(parts)

    def show(self, *parts: Part) -> None:
        """Publish these now, or after the answer."""
        for part in parts:
            if self.answering:
                self._owed |= {part} - {"board"}
            else:
                self._publish(part, self._makers[part]())

    def show_owed(self) -> None:
        """Publish what the last answers left for later: the user waits for the board, and for the tables after it."""
        owed, self._owed = self._owed, set()
        self.show(*sorted(owed, reverse=True))  # the tables first
