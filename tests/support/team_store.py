"""A team that has worked for a while, as the pages show it: two projects, plans whose figures are of several tiers, rooms with a history,
jobs in every state, programs, hardware, links and comments."""

from collections.abc import Mapping
from functools import cache
from typing import Any

import workbench as wb
from tests.support.team_world import TeamWorld, document, exercise_document, job_row, program_row
from workbench.documents import dump_plan, program_from_reference
from workbench.team.rooms.room_records import keep_card
from workbench.team.store.store import now
from workbench.team.store.tables import GalleryEntry, LogEntry, Project, StoredFigures, StoredJob, StoredRoom, User

HOUR = 3600.0
PICTURE = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 10"><rect width="8" height="10" fill="#3b5ed1"/></svg>'
HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>"
"""In every text that somebody may write; within the length of a name."""
PLANS: tuple[tuple[str, str, str, str, str], ...] = (
    ("ada", "Data parallel", "data:8", "batch:data", "The baseline, as we ran it last month."),
    ("ed", "Tensor parallel", "model:8", "hidden:model", ""),
    ("rosa", "Two axes, 4 by 2", "data:4 model:2", "batch:data; hidden:model", "Best so far on our slice."),
    ("ada", "Two axes, 2 by 4", "data:2 model:4", "batch:data; hidden:model; w=[-, model]", ""),
    ("ed", "Whole everywhere", "data:8", "", "Only to compare with."),
)
"""Author, name, mesh, layout and note."""


@cache
def wide_document(mesh: str, layout: str) -> str:
    """A plan document of a wide two-layer model on a slice of TPU v5e."""
    program = program_from_reference(wb.Reference("two_layer", {"batch": 64, "io": 1024, "hidden": 4096}))
    return dump_plan(wb.Plan(program, mesh, layout, hardware="TPU v5e 4x2"))


def fill_team(world: TeamWorld, hostile: str = "") -> TeamWorld:
    """Fill both projects of `people_world`; with a `hostile` text every name, note and log has it."""
    named = f" {hostile}" if hostile else ""
    things = world.things["vision"]
    entries = [
        world.do(
            "plans.push",
            author,
            {"document": wide_document(mesh, layout), "name": (name + named)[:80], "note": note + named},
            project="vision",
        )
        for author, name, mesh, layout, note in PLANS
    ]
    fork = world.do("plans.fork", "rosa", {"project": "vision", "name": ("Two axes, again" + named)[:80]}, entry=entries[2]["id"])
    world.do("plans.push", "sam", {"document": wide_document("data:8", "batch:data"), "name": "Theirs"}, project="other")
    things["entries"] = [each["id"] for each in (*entries, fork)]
    things["digests"] = [each["digest"] for each in entries]
    _add_figures(world, things["digests"])
    _add_rooms(world, things, named)
    _add_jobs(world, things, hostile)
    _add_rest(world, things, hostile)
    _add_class(world, things, named)
    _spread_times(world)
    if hostile:
        _name_people(world, hostile)
    return world


def _add_figures(world: TeamWorld, digests: list[str]) -> None:
    """What compiling and running said; one of the plans does not fit, and one is of a planner alone."""
    compiled = {
        0: (88e6, 58.7e6, 9.1e-4, True),
        2: (41e6, 25.2e6, 7.2e-4, True),
        3: (30e6, 21.0e6, 8.0e-4, True),
        4: (17.9e9, 0.0, 3.1e-3, False),
    }
    measured = {0: (None, None, 1.02e-3, None), 2: (None, None, 7.6e-4, None), 3: (None, None, 7.9e-4, None)}
    with world.store.write() as session:
        for tier, rows in (("compiled", compiled), ("measured", measured)):
            for place, (peak, sent, step, fits) in rows.items():
                values = {"peak_bytes": peak, "sent_bytes": sent, "step_seconds": step, "fits": fits}
                own = {"digest": digests[place], "tier": tier, "version": "0.1.0", "job_id": None, "created": now()}
                session.add(StoredFigures(**own, values=values, thumbnail=""))


def _add_rooms(world: TeamWorld, things: dict[str, Any], named: str) -> None:
    rooms = [
        world.do("rooms.open", who, {"plan": things["entries"][place], "name": (name + named)[:80]}, project="vision")
        for who, name, place in (("ada", "Tuesday's review", 2), ("ed", "Less memory", 3), ("ed", "Long over", 0))
    ]
    things["rooms"] = [each["id"] for each in rooms]
    world.services.rooms.present += [world.people["ada"], world.people["rosa"]]
    world.do("rooms.update", "ed", {"closed": True}, room=rooms[2]["id"])
    world.do("comments.add", "ed", {"node": 0, "text": f"Why the model axis?{named}"}, room=rooms[0]["id"])
    bodies = (
        ("edit", {"head": 1, "added": [{"parent": 0, "edit": {"edit": "shard_dim", "dim": "hidden", "axes": ["model"]}}]}),
        ("undo", {"head": 0}),
    )
    with world.store.write() as session:
        for seq, (kind, body) in enumerate(bodies, 1):
            own = {"room_id": rooms[0]["id"], "seq": seq, "author_id": world.people["rosa"], "digest": things["digests"][2]}
            session.add(LogEntry(**own, kind=kind, body=body, created=now()))


def _add_jobs(world: TeamWorld, things: dict[str, Any], hostile: str) -> None:
    done = {
        "step": 20,
        "of": 20,
        "first_loss": 5.0,
        "loss": 1.2,
        "median_seconds": 7.6e-4,
        "compile_seconds": 2.5,
        "shards_agree": True,
        "is_wrong": bool(hostile),
        "wrong_text": f"WRONG RESULT{hostile}" if hostile else "",
    }
    asked = {"steps": 20, "devices": 8, "hosts": 1, "processes": 1, "minutes": 30.0, "options": {"partition": f"gpu{hostile}"}}
    states: tuple[tuple[str, str, dict[str, Any]], ...] = (
        ("rosa", "running", {"started": now() - 90}),
        ("rosa", "queued", {}),
        ("ada", "starting", {"engine": "slurm"}),
        ("rosa", "done", {"started": now() - 2 * HOUR, "ended": now() - 2 * HOUR + 200, "summary": done}),
        ("ada", "failed", {"started": now() - HOUR, "ended": now() - HOUR + 20, "problem": f"The device ran out of memory.{hostile}"}),
        ("ada", "cancelled", {"kind": "compile", "ended": now() - 3 * HOUR}),
    )
    project, digest = things["id"], things["digests"][2]
    rows = [
        job_row(project, world.people[who], digest, state=state, **{"spec": asked, "engine": "here", **more}) for who, state, more in states
    ]
    things["jobs"] = {row.state: row.id for row in rows}
    with world.store.write() as session:
        session.add_all(rows)
    world.services.jobs.reported |= {things["jobs"]["running"]: job_events(hostile), things["jobs"]["done"]: job_events(hostile, 20)}


def job_events(hostile: str = "", steps: int = 14) -> list[Mapping[str, Any]]:
    """Events of a run of 20 steps, of which so many are over."""
    begun: dict[str, Any] = {"process": 0, "processes": 1, "command": "run", "plan": f"two-layer{hostile}", "version": "0.1.0"}
    events: list[dict[str, Any]] = [{"kind": "started", **begun}]
    events += [
        {"kind": "progress", "stage": f"compiling{hostile}", "fraction": 0.1, "step": None, "of": None, "loss": None, "seconds": 2.5}
    ]
    events += [
        {
            "kind": "progress",
            "stage": None,
            "fraction": 0.2 + step * 0.04,
            "step": step,
            "of": 20,
            "loss": 4.0 / step + 1,
            "seconds": 7.6e-4,
        }
        for step in range(1, steps + 1)
    ]
    if steps == 20:
        events += [
            {"kind": "measured", "figures": {"median_seconds": 7.6e-4, "device_peak": 41e6, "losses": [5.0, 1.2]}},
            {"kind": "done", "seconds": 200.0},
        ]
    return [{"seq": place, "time": 1.7e9 + place, **each} for place, each in enumerate(events, 1)]


def _add_rest(world: TeamWorld, things: dict[str, Any], hostile: str) -> None:
    """Programs, hardware, links, and a token."""
    project, ada = things["id"], world.people["ada"]
    locator = f"https://git.example.org/team/models.git{hostile} 4f2a9c1e0b7d"
    rows = [program_row(project, ada, f"Our own{hostile}"[:80], "ours.model:build", locator=locator)]
    rows += [program_row(project, ada, "Last year's", "ours.old:build", "wheel", "ours-1.2-py3-none-any.whl")]
    rows[1].state, rows[1].approved_by, rows[1].approved = "approved", ada, now() - HOUR
    things["programs"] = [each.id for each in rows]
    with world.store.write() as session:
        session.add_all(rows)
        project_row = session.get_one(Project, project)
        project_row.description = f"Layouts of the vision models on the slice that we have from May on.{hostile}"
    hardware = {
        "hardware": "TPU v5e 4x2",
        "dollars_per_device_hour": 0.9,
        "engine": "slurm",
        "options": {"partition": "tpu"},
        "note": f"ours{hostile}",
    }
    world.do("hardware.set", "ada", hardware, project="vision", hardware="slice")
    world.do("hardware.set", "ada", {"hardware": "2 nodes of 8 H100"}, project="vision", hardware="big")
    things["links"] = [world.do("shares.of_room", "ada", {"role": "editor"}, room=things["rooms"][0])["id"]]
    made = world.do("shares.of_entry", "ada", {}, entry=things["entries"][0])
    things["plan_secret"] = made["address"].rpartition("/")[2]
    world.do("tokens.create", "rosa", {"name": f"nightly script{hostile}"[:80], "scopes": ["read", "run"], "days": 30})


def _add_class(world: TeamWorld, things: dict[str, Any], named: str) -> None:
    """An assignment that a student has begun, who has tried in vain, and that is graded."""
    chosen = {"name": f"Week 3{named}"[:80], "deadline": "2040-06-30T18:00", "zone": "Europe/Berlin", "size": 2, "ranked": "split"}
    assignment = world.do("assignments.create", "ada", {"exercise": exercise_document(), **chosen}, project="vision")["id"]
    room = world.do("work.start", "stu", {}, assignment=assignment)["room"]
    whole, split = document("", hardware="TPU v5e 2x2"), document("batch:data", hardware="TPU v5e 2x2")
    for question, given in (("split", whole), ("split", split), *[("devices", f"5{named}"[:80])] * 3):
        world.do("answers.hand_in", "stu", {"question": question, "answer": given}, assignment=assignment)
    world.do("work.grade", "ed", {"remark": f"Look at the links.{named}", "points": 1.5}, assignment=assignment, work=room)
    figures = {"step_seconds": 1e-3, "peak_bytes": 2e6, "sent_bytes": 0, "fits": True}
    ticks = {"split": [{"text": f"It computes once.{named}", "met": True}, {"text": "It fits.", "met": None}]}
    keep_card(world.store, room, {"layout": f"batch:data{named}", "mesh": "data:4", "figures": figures, "ticks": ticks}, PICTURE)
    world.do("work.start", "rosa", {}, assignment=assignment)
    world.do("assignments.update", "ed", {"released": True}, assignment=assignment)
    things |= {"assignment": assignment, "student_room": room}


def _spread_times(world: TeamWorld) -> None:
    """As if it had not been done within one second."""
    with world.store.write() as session:
        for place, entry in enumerate(session.query(GalleryEntry).order_by(GalleryEntry.created)):
            entry.created -= (9 - place) * 7 * HOUR
        for place, room in enumerate(session.query(StoredRoom)):
            room.touched, room.created = room.touched - place * HOUR, room.created - 30 * HOUR
        for place, job in enumerate(session.query(StoredJob).filter(StoredJob.state != "queued")):
            job.created -= (place + 1) * 600.0


def _name_people(world: TeamWorld, hostile: str) -> None:
    with world.store.write() as session:
        for each in session.query(User):
            each.display, each.email = f"{each.display} {hostile}"[:100], f"{hostile}@example.org"
        for project in session.query(Project):
            project.name = f"{project.name} {hostile}"
