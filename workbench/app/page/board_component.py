"""A board as a Panel component: the same module as in the notebook, in a served page. It only shows the state it is sent."""

import param

from workbench.app.page.module_component import ModuleComponent
from workbench.widgets.front_end import module_text


class BoardComponent(ModuleComponent):
    """One visitor's view of a board, in that visitor's document.

    Its parts are JSON texts (`window_channel.part_text`), which the module reads: Bokeh would visit each value of a dictionary, on the
    event loop that all visitors share, and that takes as long as many an edit.
    """

    _esm = module_text()

    board = param.String(default="{}")
    table = param.String(default="{}")
    live = param.String(default="{}")
    changes = param.String(default="")  # of a part since it was last sent (`part_changes`)
    gesture = param.Dict(default={})
    theme = param.String(default="auto")
    tour = param.Boolean(default=False)
    colleagues = param.String(default="[]")  # who else is in the room: name, colour, the path selected, the dimension held
