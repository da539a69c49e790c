"""The journal of a board: whatever was done, and wherever its file ends, what it restores is a state there was."""

import os
import time
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.machines import flat
from workbench.core.remat import Remat
from workbench.documents import dump_plan, parse_plan
from workbench.errors import DocumentError, WorkbenchError
from workbench.models import build
from workbench.plan.edits import EditGroup, OpenPlan, RenameDim, SetRemat, ShardDim
from workbench.plan.mesh_edits import ResizeAxis
from workbench.public_plan import Plan
from workbench.session.journal import Journal, restore_session
from workbench.session.journal_folder import ENDING, JournalEntry, find_journal, journal_path, new_board_id, prune_journals
from workbench.session.journal_lines import line_bytes, parse_lines
from workbench.session.plan_history import Session

BOARD = "a-board-of-tests"
EDITS = (
    ShardDim("hidden", ("cols",)),
    ShardDim("hidden"),
    ShardDim("io", ("cols",)),
    ResizeAxis("cols", 2),
    ResizeAxis("cols", 4),
    EditGroup("both", (ShardDim("batch"), ShardDim("hidden", ("rows",)))),
)


@pytest.fixture(scope="module")
def plan():
    return Plan(build("two_layer", batch=16, io=64, hidden=64), "rows:2 cols:4", "batch:rows")


@pytest.fixture
def begun(tmp_path, plan):
    """A session and its journal."""
    session = Session(plan)
    journal = Journal.begin(tmp_path, BOARD, session)
    yield session, journal
    journal.close()


def told(session):
    """All that is to outlive a session."""
    rows = [(each.number, dump_plan(each.plan), each.parent, str(each.edit), each.name, each.pinned) for each in session.nodes]
    return rows, session.node.number, dict(session.redo_children), dict(session.summaries)


STEPS = st.one_of(
    st.sampled_from(EDITS),
    st.sampled_from(("undo", "redo")),
    st.tuples(st.sampled_from(("go", "pin", "unpin")), st.integers(0, 7)),
    st.tuples(st.just("name"), st.integers(0, 7), st.sampled_from(("", "mine", 'ümlaut "line\u2028"'))),
)


def take(session, step):
    """One step; whatever is refused changes nothing."""
    try:
        if isinstance(step, str):
            getattr(session, step)()
        elif isinstance(step, tuple):
            verb, *rest = step
            session.pin(*rest, verb == "pin") if verb.endswith("pin") else getattr(session, verb)(*rest)
        else:
            session.apply(step)
    except WorkbenchError:
        pass


@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(STEPS, max_size=8), more=st.lists(STEPS, max_size=3), data=st.data())
def test_what_is_restored_is_a_state_there_was_wherever_the_file_ends(tmp_path, plan, steps, more, data):
    folder = tmp_path / new_board_id()
    session = Session(plan)
    journal = Journal.begin(folder, BOARD, session)
    states = [told(session)]
    for step in steps:
        take(session, step)
        states.append(told(session))
    journal.close()
    path = journal_path(folder, BOARD)
    if not path.exists():
        assert len(session.nodes) == 1
        assert (session.node.name, session.node.pinned) == ("", False)
        return
    assert told(restore_session(path).session) == states[-1]

    whole = path.read_bytes()
    first = parse_lines(whole)[1].end
    cut = data.draw(st.integers(first, len(whole)))
    path.write_bytes(whole[:cut])
    resumed = Journal.resume(folder, BOARD)
    assert resumed.problem == ""
    assert told(resumed.session) in states
    for step in more:  # it goes on where the torn file ended
        take(resumed.session, step)
    resumed.journal.close()
    assert told(restore_session(path).session) == told(resumed.session)


@pytest.fixture(scope="module")
def written(tmp_path_factory, plan):
    """The journal of five plans."""
    folder = tmp_path_factory.mktemp("written")
    session = Session(plan)
    journal = Journal.begin(folder, BOARD, session)
    for edit in EDITS[:4]:
        session.apply(edit)
    journal.close()
    return journal_path(folder, BOARD).read_bytes()


@settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_damaged_byte_ends_what_is_restored_and_is_said(tmp_path, written, data):
    lines = parse_lines(written)
    place = data.draw(st.integers(lines[1].end, lines[-2].end - 1))
    path = journal_path(tmp_path, BOARD)
    path.write_bytes(written[:place] + bytes([written[place] ^ data.draw(st.integers(1, 255))]) + written[place + 1 :])
    restored = restore_session(path)
    held = sum(line.end <= place for line in lines) - 1
    assert (len(restored.session.nodes), restored.session.node.number, restored.is_whole) == (1 + held, held, False)
    said = f"Restored the first {held + 1} plans of the history of this board. The rest of its file is damaged."
    assert restored.problem == said


def test_a_plan_that_nobody_changed_leaves_no_file(begun, tmp_path):
    session, _ = begun
    session.undo()
    session.report_of(0)
    assert list(tmp_path.iterdir()) == []
    session.pin(0)
    assert [path.name for path in tmp_path.iterdir()] == [f"{BOARD}{ENDING}"]


def test_the_history_is_this_users_alone(tmp_path, plan):
    session = Session(plan)
    journal = Journal.begin(tmp_path / "boards", BOARD, session)
    session.apply(EDITS[0])
    journal.close()
    path = journal_path(tmp_path / "boards", BOARD)
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)


def test_what_is_answered_is_in_the_file_already(begun, tmp_path):
    session, _ = begun
    found = []
    session.listen(lambda *_: found.append(told(restore_session(journal_path(tmp_path, BOARD)).session) == told(session)))
    for edit in EDITS[:3]:
        session.apply(edit)
    session.undo()
    session.name(2, "mine")
    assert found == [True] * 5


def test_a_process_that_is_not_the_first_gets_a_journal_of_its_own(begun, tmp_path):
    session, _ = begun
    session.apply(EDITS[0])
    resumed = Journal.resume(tmp_path, BOARD)  # a lock is of the open file: one process counts as two
    assert resumed.journal.board_id != BOARD
    assert told(resumed.session) == told(session)
    resumed.session.apply(EDITS[3])
    session.apply(EDITS[4])
    resumed.journal.close()
    assert told(restore_session(journal_path(tmp_path, resumed.journal.board_id)).session) == told(resumed.session)
    assert told(restore_session(journal_path(tmp_path, BOARD)).session) == told(session)


def test_after_closing_another_may_have_it(begun, tmp_path):
    session, journal = begun
    session.apply(EDITS[0])
    journal.close()
    session.apply(EDITS[3])
    resumed = Journal.resume(tmp_path, BOARD)
    assert (resumed.journal.board_id, len(resumed.session.nodes)) == (BOARD, 2)
    resumed.journal.close()


def test_only_the_present_plan_is_analysed_and_the_history_keeps_its_figures(begun, tmp_path, monkeypatch):
    session, journal = begun
    for edit in EDITS[:4]:
        session.apply(edit)
    session.undo()
    journal.close()
    analysed = []
    real = Session._analyze
    monkeypatch.setattr(Session, "_analyze", lambda self, plan, *answer: (analysed.append(plan), real(self, plan, *answer))[1])
    again = restore_session(journal_path(tmp_path, BOARD)).session
    assert analysed == [session.plan]
    assert again.summaries == session.summaries
    assert (str(again.undone), again.can_undo) == (str(session.undone), True)
    assert again.redo().memory == session.redo().memory


def test_programs_are_traced_once_each(begun, tmp_path):
    session, journal = begun
    for edit in EDITS[:5]:
        session.apply(edit)
    journal.close()
    parsed = []
    again = restore_session(journal_path(tmp_path, BOARD), lambda text: (parsed.append(text), parse_plan(text))[1]).session
    assert len(parsed) == 1
    assert len({id(node.plan.program) for node in again.nodes}) == 1


@pytest.mark.compile
def test_other_programs_hardware_and_pipelines_come_back(tmp_path):
    plan = Plan(build("gpt", layers=2, batch=8), "stage:2 data:2", "batch:data")
    session = Session(plan)
    journal = Journal.begin(tmp_path, BOARD, session)
    piped = plan.updated(pipeline="stages:2 micro_batches:2", hardware="TPU v5e 2x2")
    for edit in (OpenPlan(piped, "a file"), SetRemat(Remat.parse("full")), ShardDim("d_ff", ())):
        session.apply(edit)
    journal.close()
    again = restore_session(journal_path(tmp_path, BOARD)).session
    assert told(again) == told(session)
    assert [node.plan for node in again.nodes] == [node.plan for node in session.nodes]


def test_times_on_measured_hardware_are_not_told_without_it(begun, tmp_path):
    session, journal = begun
    session.use_hardware(flat("test", flops=1e12, memory_bandwidth=1e11, sent_bandwidth=1e10, latency=1e-6, memory=1 << 34))
    session.apply(EDITS[0])
    session.apply(EDITS[3])
    journal.close()
    again = restore_session(journal_path(tmp_path, BOARD)).session
    assert {each.seconds for each in again.summaries.values()} == {None}
    assert {number: each.peak for number, each in again.summaries.items()} == {n: each.peak for n, each in session.summaries.items()}


def test_a_program_that_no_document_names_is_said_and_stops_nothing(tmp_path, plan):
    session = Session(plan)
    journal = Journal.begin(tmp_path, BOARD, session)
    other = build("two_layer", batch=32, io=64, hidden=64)
    session.apply(OpenPlan(plan.updated(program=replace(other, reference=None)), "another"))
    assert len(session.nodes) == 2
    assert journal.problem.startswith(
        "The history of this board is not kept. `two-layer` cannot be saved: a plan document contains no code"
    )
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_said_and_what_was_missed_is_kept_later(tmp_path, plan):
    (tmp_path / "boards").write_text("no folder")
    session = Session(plan)
    journal = Journal.begin(tmp_path / "boards", BOARD, session)
    session.apply(EDITS[0])
    said = f"The history of this board is not kept: `{tmp_path / 'boards'}` cannot be written: "
    assert journal.problem.startswith(said)
    (tmp_path / "boards").unlink()
    session.apply(EDITS[3])
    assert journal.problem == ""
    journal.close()
    assert told(restore_session(journal_path(tmp_path / "boards", BOARD)).session) == told(session)


@pytest.mark.parametrize("asked", ["", "nobody-knows-it", "../../../etc/passwd", "a" * 1000, "x\0yzabcdef"])
def test_a_board_that_is_not_there_is_said(tmp_path, asked):
    with pytest.raises(DocumentError) as caught:
        Journal.resume(tmp_path, asked)
    assert str(caught.value) == (
        f"There is no board `{asked[:64]}` to restore: it was never changed, or it has expired.\n"
        "  Try: start a new board: open the page without `board=` in the address."
    )
    assert find_journal(tmp_path, asked) is None


def test_a_document_that_is_refused_on_the_way_ends_what_is_restored(begun, tmp_path):
    session, journal = begun
    session.apply(EDITS[0])
    session.apply(OpenPlan(Plan(build("mnist"), "rows:2"), "a file"))
    journal.close()

    def parse(text: str) -> Plan:
        if "mnist" in text:
            raise DocumentError("It is not allowed here.")
        return parse_plan(text)

    resumed = Journal.resume(tmp_path, BOARD, parse)
    assert resumed.problem == (
        "Restored the first 2 plans of the history of this board. A later plan is not readable: It is not allowed here."
    )
    assert len(resumed.session.nodes) == 2
    resumed.journal.close()
    assert len(list(tmp_path.glob("*.damaged"))) == 1, "what could not be read is kept aside"
    with pytest.raises(DocumentError, match="Not at all"):
        Journal.resume(tmp_path, BOARD, _refuse)
    assert restore_session(journal_path(tmp_path, BOARD)).is_whole, "the refusal changed nothing"


def _refuse(_: str) -> Plan:
    raise DocumentError("Not at all.")


@pytest.mark.parametrize(("record", "said"), [({"format": "another"}, "another version"), (None, "damaged from the start")])
def test_what_is_no_journal_is_said(tmp_path, record, said):
    path = journal_path(tmp_path, BOARD)
    first, chain = line_bytes(record or {}, 0)
    path.write_bytes(first + line_bytes({}, chain)[0] if record else b"\0" * 100)
    with pytest.raises(DocumentError, match=said):
        restore_session(path)


def test_a_board_is_found_with_its_plan_and_last_edit(tmp_path, plan):
    for age, board_id in enumerate(("board-new", "board-old")):
        session = Session(plan.updated(name=board_id))
        journal = Journal.begin(tmp_path, board_id, session)
        session.apply(EDITS[0])
        journal.close()
        os.utime(journal_path(tmp_path, board_id), (1e9 - age, 1e9 - age))
    (tmp_path / f"is-not-one{ENDING}").write_bytes(b"\xff\n")
    assert find_journal(tmp_path, "board-new") == JournalEntry("board-new", "board-new", 2, "hidden → cols", 1e9)
    assert find_journal(tmp_path, "board-old") == JournalEntry("board-old", "board-old", 2, "hidden → cols", 1e9 - 1)
    assert find_journal(tmp_path, "is-not-one") is None
    assert find_journal(tmp_path / "nowhere", "board-old") is None


def test_old_boards_and_too_many_are_removed_but_never_one_in_use(tmp_path, plan):
    now, paths = time.time(), {}
    for days, board_id in enumerate(("a-board-a", "a-board-b", "a-board-c", "a-board-d")):
        session = Session(plan)
        journal = Journal.begin(tmp_path, board_id, session)
        session.apply(EDITS[0])
        if board_id != "a-board-d":
            journal.close()
        paths[board_id] = journal_path(tmp_path, board_id)
        os.utime(paths[board_id], (now - days * 86400, now - days * 86400))
    size = paths["a-board-a"].stat().st_size
    assert prune_journals(tmp_path, keep_bytes=10 * size, keep_days=1.5) == ["a-board-c"]
    assert prune_journals(tmp_path, keep_bytes=size, keep_days=30) == ["a-board-b"]
    assert [board_id for board_id, path in paths.items() if path.exists()] == ["a-board-a", "a-board-d"]
    journal.close()


def test_a_long_plan_is_compressed(tmp_path, plan, monkeypatch):
    monkeypatch.setattr("workbench.session.journal_lines.COMPRESSED_FROM", 100)
    session = Session(plan.updated(name="n" * 150))
    journal = Journal.begin(tmp_path, BOARD, session)
    session.apply(EDITS[0])
    journal.close()
    path = journal_path(tmp_path, BOARD)
    assert b"nnn" not in path.read_bytes()
    assert told(restore_session(path).session) == told(session)
    assert find_journal(tmp_path, BOARD).name == "n" * 150


def test_a_board_of_a_program_without_a_name_is_read_against_that_program(tmp_path, plan):
    nameless = Plan(build("gpt", layers=2, batch=8).rename({"d_ff": "wide"}), "rows:2 cols:4", "batch:rows")
    nameless = nameless.updated(program=replace(nameless.program, reference=None))
    session = Session(nameless)
    journal = Journal.begin(tmp_path, BOARD, session)
    for edit in (ShardDim("wide", ("cols",)), SetRemat(Remat.parse("full")), RenameDim("wide", "broad")):
        session.apply(edit)
    journal.close()
    assert not journal.problem
    restored = restore_session(journal_path(tmp_path, BOARD), lambda text: parse_plan(text, known=nameless.program)).session
    assert [node.plan for node in restored.nodes] == [node.plan for node in session.nodes]
    assert restored.plan.program.dims["broad"]
    for other in (None, plan.program):
        with pytest.raises(DocumentError, match="traced in another process"):
            restore_session(journal_path(tmp_path, BOARD), lambda text, other=other: parse_plan(text, known=other))
