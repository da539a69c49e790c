"""The page's connection to the browser window around the board: keys, notices, and the JupyterLab document it may be in."""

from pathlib import Path

import param

from workbench.app.page.module_component import ModuleComponent


class Bridge(ModuleComponent):
    """Parameters that Python sends to the window, and messages that it receives from there.

    - `text`, `saves`: of a document of JupyterLab: its present text, and how often it was asked to save; `created` with the text of a new
      one;
    - `answers`: of such a document beside an exercise: the last answer, to be kept beside both;
    - `shown`: how often a board or a failure was put on the page;
    - `notice`: `{"title", "text", "choices": [[kind, label], ...]}` above the board, and `"good"` if it is no warning; a choice is received
      as its kind, or leads to the URL that is its third entry;
    - `unsaved`: leaving the page asks first;
    - `busy`: for how many seconds the board has been busy, once that is long; else empty. It can be stopped;
    - `title`: what the browser's tab says first;
    - `failure`: `{"text", "by_link"}` in the board's place: what could not be opened, `by_link` if a link led there;
    - `board`, `board_name`: the id by which the page finds its board again, put into the address as `board=`, and what the browser
      remembers it as; without an id, a board does not outlive its connection;
    - `heard`: `{"kind", "seq", ...}`: `open` (`text`, `name`, `theme`, and the texts `exercise` and `answers` of files beside a document),
      `theme`, `save`, `boards` (`ids`, the last ones of this browser, on a page that asks for none), or the kind of a choice.
    """

    _esm = (Path(__file__).parent / "bridge.js").read_text(encoding="utf-8")

    answers = param.String(default="")
    text = param.String(default="")
    created = param.Boolean(default=False)
    shown = param.Integer(default=0)
    saves = param.Integer(default=0)
    notice = param.Dict(default={})
    unsaved = param.Boolean(default=False)
    board = param.String(default="")
    busy = param.String(default="")
    title = param.String(default="")
    failure = param.Dict(default={})
    board_name = param.String(default="")
    heard = param.Dict(default={})
