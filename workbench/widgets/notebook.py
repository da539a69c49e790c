"""The board in a notebook cell."""

from typing import Any

import anywidget
import traitlets

from workbench import live_plans
from workbench.compiled import Compiled
from workbench.measurement import Measurement
from workbench.plan import Plan
from workbench.report import Report
from workbench.session import Session
from workbench.widgets.board import Board, Part
from workbench.widgets.host import notebook_host
from workbench.widgets.module import PARTS, cell_module_text, module_text
from workbench.widgets.runner import Runner, WorkerRunner
from workbench.widgets.snapshot import snapshot_html


class Workbench(anywidget.AnyWidget):  # type: ignore[misc]
    """The board over a plan, or over a session that other code edits as well.

        bench = wb.Workbench(plan)
        bench                # drag dimensions onto mesh axes
        bench.plan           # the plan as it is now
        bench.measurement    # of the last run
        bench.compiled       # of the last compilation

    `runner` runs and compiles plans; by default the engine does, in a worker process. Where no kernel is, a static picture stays.
    `theme` is `auto`, `light` or `dark`; `tour` shows a first visitor around.
    """

    _esm = cell_module_text()
    board = traitlets.Dict()
    table = traitlets.Dict()
    live = traitlets.Dict()
    picture = traitlets.Unicode().tag(sync=True)
    gesture = traitlets.Dict().tag(sync=True)
    theme = traitlets.Unicode("auto").tag(sync=True)
    tour = traitlets.Bool(default_value=False).tag(sync=True)

    def __init__(self, plan: Plan | Session, runner: Runner | None = None, theme: str = "auto", tour: bool = False) -> None:
        super().__init__(theme=theme, tour=tour)
        self._watched = False
        self.session = plan if isinstance(plan, Session) else Session(plan)
        self._board = Board(self.session, self._show, runner=runner or WorkerRunner(), host=notebook_host())
        live_plans.boards.add(self)
        self.on_msg(self._asked)
        self.observe(lambda change: self._board.answer(change["new"]), "gesture")

    @property
    def plan(self) -> Plan:
        return self.session.plan

    @property
    def report(self) -> Report:
        return self.session.report

    @property
    def measurement(self) -> Measurement | None:
        """What the last finished run measured."""
        return self._board.measurement

    @property
    def compiled(self) -> Compiled | None:
        """What the last finished compilation found."""
        return self._board.compiled

    def close(self) -> None:
        """Also stops the run, if there is one."""
        if hasattr(self, "_board"):
            self._board.close()
            live_plans.boards.discard(self)
        super().close()

    def _show(self, part: Part, state: dict[str, Any]) -> None:
        setattr(self, part, state)
        if self._watched:
            self.send({"parts": {part: state}})

    def _asked(self, _widget: Any, content: dict[str, Any], _buffers: Any) -> None:
        """A cell that shows the board asks for its parts, and the first on a page for the module, which notebooks do not save."""
        if (want := content.get("want")) in ("module", "parts"):
            self._watched = True
            module = {"module": module_text()} if want == "module" else {}
            self.send({**module, "parts": {part: getattr(self, part) for part in PARTS}})

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]] | None:
        self.picture = snapshot_html(self.board, self.table)
        bundle = super()._repr_mimebundle_(**kwargs)
        if bundle is None:
            return None
        data, metadata = bundle
        return {**data, "text/plain": repr(self), "text/html": self.picture}, metadata

    def __repr__(self) -> str:
        return f"Workbench({self.session.plan})"
