"""Routes of the pages, their forms and static files."""

from pathlib import Path
from typing import Any

from tornado.web import StaticFileHandler

from workbench.team.pages import account_pages, class_pages
from workbench.team.pages.form_handler import GRADES_FORM, WHEEL_FORM, FormHandler, GradesFormHandler, WheelFormHandler
from workbench.team.pages.gallery_pages import ComparePage, DocumentPage, GalleryPage, PlanPage, SharePage, ThumbnailPage
from workbench.team.pages.jobs_pages import JobPage, JobsPage, LiveJob, LiveJobs
from workbench.team.pages.page_forms import ALL_FORMS
from workbench.team.pages.project_pages import HardwarePage, HomePage, PeoplePage, ProgramsPage
from workbench.team.web.security import page_headers

STATIC = Path(__file__).parent / "static"
_P = r"/p/(?P<project>[a-z0-9-]{1,40})"
_PLAN = rf"{_P}/plans/(?P<entry>[a-z0-9]{{4,64}})"
_ASSIGNMENT = rf"{_P}/assignments/(?P<assignment>[a-z0-9]{{4,64}})"
_JOB = rf"{_P}/jobs/(?P<job>[a-z0-9]{{4,40}})"


class PageFiles(StaticFileHandler):
    """Style sheet, scripts and pictures of the pages; browsers revalidate them."""

    def set_default_headers(self) -> None:
        self.clear_header("Server")
        for name, value in page_headers().items():
            self.set_header(name, value)

    def set_extra_headers(self, path: str) -> None:  # noqa: ARG002 - Tornado's
        self.set_header("Cache-Control", "no-cache")


def page_routes() -> list[tuple[Any, ...]]:
    forms = [(form.pattern, FormHandler, {"form": form}) for form in ALL_FORMS]
    return [
        (r"/", HomePage),
        (rf"{_P}/", GalleryPage),
        (rf"{_P}/compare", ComparePage),
        (_PLAN, PlanPage),
        (rf"{_PLAN}/thumbnail\.svg", ThumbnailPage),
        (rf"{_PLAN}/document", DocumentPage),
        (rf"{_P}/rooms", account_pages.RoomsPage),
        (rf"{_P}/assignments", class_pages.ClassPage),
        (_ASSIGNMENT, class_pages.AssignmentPage),
        (rf"{_ASSIGNMENT}/ranking/live", class_pages.LiveRanking),
        (rf"{_ASSIGNMENT}/ranking/(?P<place>[0-9]{{1,4}})", class_pages.ReplayPage),
        (rf"{_ASSIGNMENT}/scores\.(?P<form>csv|json)", class_pages.ScoresTable),
        (rf"{_ASSIGNMENT}/wall", class_pages.WallPage),
        (rf"{_ASSIGNMENT}/wall/live", class_pages.LiveWall),
        (rf"{_ASSIGNMENT}/submissions/(?P<work>[a-z0-9]{{4,64}})/thumbnail\.svg", class_pages.WorkThumbnail),
        (rf"{_P}/jobs", JobsPage),
        (rf"{_P}/jobs/live", LiveJobs),
        (_JOB, JobPage),
        (rf"{_JOB}/live", LiveJob),
        (rf"{_P}/programs", ProgramsPage),
        (rf"{_P}/people", PeoplePage),
        (rf"{_P}/hardware", HardwarePage),
        (r"/admin", account_pages.AdminPeoplePage),
        (r"/admin/limits", account_pages.AdminLimitsPage),
        (r"/admin/audit", account_pages.AuditPage),
        (r"/admin/status", account_pages.StatusPage),
        (r"/account", account_pages.AccountPage),
        (r"/account/password", account_pages.PasswordForm),
        (r"/account/quota", account_pages.QuotaPage),
        (r"/share/(?P<secret>[A-Za-z0-9_-]{8,100})", SharePage),
        (r"/team-static/(.*)", PageFiles, {"path": str(STATIC)}),
        (GRADES_FORM.pattern, GradesFormHandler, {"form": GRADES_FORM}),
        (WHEEL_FORM.pattern, WheelFormHandler, {"form": WHEEL_FORM}),
        *forms,
    ]
