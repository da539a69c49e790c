"""All forms: address, action, target page and message."""

from workbench.team.pages.form_handler import PageForm
from workbench.team.pages.gallery_pages import zoo_document

_P = "/p/{project}"
_PLAN = f"{_P}/plans/{{entry}}"
_ASSIGNMENT = f"{_P}/assignments/{{assignment}}"
_ONCE = "once.html"

ALL_FORMS: tuple[PageForm, ...] = (
    PageForm("/projects/new", "projects.create", "/p/{slug}/", "Project {name} created."),
    PageForm(f"{_P}/change", "projects.update", f"{_P}/people", "Saved."),
    PageForm(f"{_P}/archive", "projects.update", f"{_P}/people", "Saved."),
    PageForm(f"{_P}/leave", "me.leave", "/", "You left the project."),
    PageForm(f"{_P}/plans/new", "plans.push", f"{_P}/plans/{{id}}", "{name} is in the gallery."),
    PageForm(
        f"{_P}/begin",
        "plans.push",
        f"{_P}/plans/{{id}}",
        "{name} is in the gallery: open it in a room.",
        given={"document": zoo_document},
    ),
    PageForm(f"{_PLAN}/change", "plans.update", _PLAN, "Saved."),
    PageForm(f"{_PLAN}/withdraw", "plans.withdraw", f"{_P}/", "{name} was removed from the gallery."),
    PageForm(
        f"{_PLAN}/fork", "plans.fork", f"{_P}/plans/{{id}}", "This is your fork of {name}: name it, and open it in a room to change it."
    ),
    PageForm(f"{_PLAN}/open", "rooms.open", "/room/{id}", "", given={"plan": "{entry}"}),
    PageForm(f"{_P}/rooms/new", "rooms.open", "/room/{id}", ""),
    PageForm(f"{_P}/rooms/{{room}}/close", "rooms.update", f"{_P}/rooms", "{name} is closed."),
    PageForm(f"{_P}/rooms/{{room}}/open", "rooms.update", f"{_P}/rooms", "{name} is open again."),
    PageForm(f"{_P}/assignments/new", "assignments.create", f"{_P}/assignments/{{id}}", "{name} is handed out."),
    PageForm(f"{_ASSIGNMENT}/change", "assignments.update", _ASSIGNMENT, "Saved."),
    PageForm(f"{_ASSIGNMENT}/release", "assignments.update", _ASSIGNMENT, "Students see their points and remarks."),
    PageForm(f"{_ASSIGNMENT}/hide", "assignments.update", _ASSIGNMENT, "Students no longer see points and remarks."),
    PageForm(f"{_ASSIGNMENT}/withdraw", "assignments.withdraw", f"{_P}/assignments", "Withdrawn."),
    PageForm(f"{_ASSIGNMENT}/start", "work.start", "/room/{room}", ""),
    PageForm(f"{_ASSIGNMENT}/search", "assignments.search", _ASSIGNMENT, "The search is in the queue."),
    PageForm(f"{_ASSIGNMENT}/push", "work.push", f"{_ASSIGNMENT}/wall", "Sent, {plan}; boards that have it now: {sent}."),
    PageForm(f"{_ASSIGNMENT}/compile", "assignments.compile", _ASSIGNMENT, "In the queue to be compiled: {submitted}."),
    PageForm(f"{_P}/jobs/new", "jobs.submit", f"{_P}/jobs/{{id}}", "The job is in the queue."),
    PageForm(f"{_P}/jobs/{{job}}/cancel", "jobs.cancel", f"{_P}/jobs/{{job}}", "Cancelling."),
    PageForm(f"{_P}/programs/git", "programs.add", f"{_P}/programs", "{name} is registered and waits for approval.", given={"kind": "git"}),
    PageForm(f"{_P}/programs/{{program}}/approve", "programs.approve", f"{_P}/programs", "{name} may run."),
    PageForm(f"{_P}/programs/{{program}}/withdraw", "programs.withdraw", f"{_P}/programs", "{name} can no longer run."),
    PageForm(
        f"{_P}/people/add", "members.set", f"{_P}/people", "Added as {role}: {display}.", parts={"person": "{person}"}, several="person"
    ),
    PageForm(f"{_P}/people/invite", "members.invite", f"{_P}/people", "Send this link to the invited person", once=_ONCE),
    PageForm(f"{_P}/people/{{person}}/role", "members.set", f"{_P}/people", "{display} is {role} now."),
    PageForm(f"{_P}/people/{{person}}/remove", "members.remove", f"{_P}/people", "{person} is out."),
    PageForm(f"{_P}/links/room", "shares.of_room", f"{_P}/people", "A link to the room", once=_ONCE),
    PageForm(f"{_P}/links/plan", "shares.of_entry", f"{_P}/people", "A link to the plan", once=_ONCE),
    PageForm(f"{_P}/links/{{share}}/end", "shares.revoke", f"{_P}/people", "The link is ended."),
    PageForm(f"{_P}/hardware/set", "hardware.set", f"{_P}/hardware", "{name} is saved.", parts={"hardware": "{name}"}),
    PageForm(f"{_P}/hardware/{{hardware}}/remove", "hardware.remove", f"{_P}/hardware", "{hardware} is removed."),
    PageForm("/account/name", "me.update", "/account", "Your display name is now {display}."),
    PageForm("/account/logins/{login}/end", "me.sign_out", "/account", "That browser is signed out."),
    PageForm("/account/tokens/new", "tokens.create", "/account", "Your new token", once=_ONCE),
    PageForm("/account/tokens/{token}/end", "tokens.revoke", "/account", "The token is ended."),
    PageForm("/admin/invite", "people.invite", "/admin", "Send this link to the invited person", once=_ONCE),
    PageForm("/admin/people/{person}/change", "people.update", "/admin", "Saved: {display}."),
    PageForm("/admin/limits/{setting}", "settings.set", "/admin/limits", "The limit is set."),
)
