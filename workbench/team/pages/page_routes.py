"""Routes of the pages, their forms and static files."""

import json
from pathlib import Path
from types import ModuleType
from typing import Any

from tornado.web import StaticFileHandler

from workbench.team.pages import account_pages, class_pages, gallery_pages, jobs_pages, project_pages
from workbench.team.pages.form_handler import GRADES_FORM, WHEEL_FORM, FormHandler, GradesFormHandler, WheelFormHandler
from workbench.team.pages.page_forms import ALL_FORMS
from workbench.team.pages.page_handler import PAGES, PageHandler, RegisteredPage, Values
from workbench.team.web.base_handler import page_environment
from workbench.team.web.security import page_headers

STATIC = Path(__file__).parent / "static"


class PageFiles(StaticFileHandler):
    """Style sheet, scripts and pictures of the pages; browsers revalidate them."""

    def set_default_headers(self) -> None:
        self.clear_header("Server")
        for name, value in page_headers().items():
            self.set_header(name, value)

    def set_extra_headers(self, path: str) -> None:  # noqa: ARG002 - Tornado's
        self.set_header("Cache-Control", "no-cache")


def pages_of(*modules: ModuleType) -> list[RegisteredPage]:
    """Return the pages of modules, with fixed addresses first: `jobs/live` is not the page of a job."""
    functions = (value for module in modules for value in vars(module).values() if getattr(value, "__module__", "") == module.__name__)
    pages = (registered for function in functions for registered in getattr(function, PAGES, ()))
    return sorted(pages, key=lambda page: page.path.count("{"))


class ShowPage(PageHandler):
    def initialize(self, page: RegisteredPage) -> None:  # type: ignore[override]
        super().initialize()
        self.page = page

    async def prepare(self) -> None:
        await super().prepare()
        if self.page.is_of_admin and not self._finished:
            self.require_admin()  # the actions check it too

    async def get(self, **path: str) -> None:
        values = await self.page.values(self, **path)
        if values is None:
            return
        of_project = await self.project_values(path["project"]) if "project" in path else {}
        warning = {"sandbox_warning": self.sandbox_warning} if self.page.is_of_admin else {}
        shown = {**self.page.fixed, **of_project, **warning, **values}
        if self.page.is_live:
            self._write_part(shown)
        else:
            self.show(self.page.template, **shown)

    def _write_part(self, shown: Values) -> None:
        shared = {"path": self.path_to, "principal": self.principal}
        html = page_environment().get_template(self.page.template).render({**shared, **shown})
        self.set_header("Content-Type", "application/json; charset=utf-8")
        self.finish(json.dumps({"html": html, "over": shown["over"]}))


def page_routes() -> list[tuple[Any, ...]]:
    pages = pages_of(project_pages, gallery_pages, account_pages, class_pages, jobs_pages)
    return [
        *((page.pattern, ShowPage, {"page": page}) for page in pages),
        (r"/account/password", account_pages.PasswordForm),
        (r"/share/(?P<secret>[A-Za-z0-9_-]{8,100})", gallery_pages.SharePage),
        (r"/team-static/(.*)", PageFiles, {"path": str(STATIC)}),
        (GRADES_FORM.pattern, GradesFormHandler, {"form": GRADES_FORM}),
        (WHEEL_FORM.pattern, WheelFormHandler, {"form": WHEEL_FORM}),
        *((form.pattern, FormHandler, {"form": form}) for form in ALL_FORMS),
    ]
