"""Boards of a server that live in its own process, with a runner that is an object of this process."""

from collections.abc import Callable, Mapping

import panel as pn

from workbench.app.page.part_changes import VisitorWindow
from workbench.app.page.requested_visit import open_visit
from workbench.app.page.serve_options import ServeOptions
from workbench.app.page.visit import WATCHED, Settling, VisitContext
from workbench.app.page.visitor_screen import Opening, Screen, on_document
from workbench.app.runners.worker_runner import EnginePartitioner
from workbench.widgets.run.runner_protocol import Runner
from workbench.widgets.shared_states import at_once


def open_in_process(served: ServeOptions, runner: Runner) -> Opening:
    def open_board(query: Mapping[str, str], screen: Screen) -> Callable[[], None]:
        document = pn.state.curdoc
        defer = on_document(document) if document else at_once
        settling = Settling(EnginePartitioner(), defer) if document else None
        visit = open_visit(served, query, VisitContext(VisitorWindow(screen.show), runner, defer, settling=settling))
        screen.hear = visit.hear
        if document:
            pn.state.add_periodic_callback(visit.look, period=WATCHED)
        return visit.close

    return open_board
