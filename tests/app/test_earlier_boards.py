"""What is offered of boards of before, and when leaving would leave work that no file has."""

import pytest

from workbench.app.page.visit import MOST_REMEMBERED, Unsaved, offer_boards, parse_board_ids, recent_boards
from workbench.models import build
from workbench.plan.edits import ShardDim
from workbench.public_plan import Plan
from workbench.session.journal_folder import JournalEntry


def entry(board_id="board-of-a-test", name="gpt", plans=3, edit="d_ff → model", last_changed=1000.0):
    return JournalEntry(board_id, name, plans, edit, last_changed)


def test_a_board_is_offered_by_its_name_and_last_edit():
    assert offer_boards(recent_boards([entry()], now=1000.0 + 2 * 3600)) == {
        "title": "Resume a board?",
        "text": "Its plans and undo history are kept.",
        "choices": [
            ["board-0", "gpt · 3 plans · last d_ff → model · 2 hours ago", "?board=board-of-a-test"],
            ["later", "Not now"],
        ],
    }


def test_of_many_the_last_changed_are_offered():
    entries = [entry(f"board-of-age-{age}", plans=1, edit="", name="n" * 100, last_changed=-age) for age in range(5)]
    notice = offer_boards(recent_boards(entries, now=0.0))
    assert [choice[2] for choice in notice["choices"][:-1]] == [f"?board=board-of-age-{age}" for age in range(3)]
    assert notice["choices"][0][1] == f"{'n' * 59}… · 1 plan · just now"
    assert offer_boards([]) == {}


@pytest.mark.parametrize("ids", [None, "text", 3, [1, None, "../../etc", "a b c d e f", ""]])
def test_what_is_no_id_is_not_looked_for(ids):
    assert parse_board_ids({"kind": "boards", "ids": ids}) == []


def test_a_few_ids_are_heard():
    ids = [f"board-of-a-test-{number}" for number in range(100)]
    assert parse_board_ids({"ids": ids}) == ids[:MOST_REMEMBERED]


def test_a_board_is_unsaved_while_it_shows_another_plan_than_was_kept():
    plan, told = Plan(build("two_layer"), "data:4"), []
    edited = plan.apply(ShardDim("batch", ("data",)))
    unsaved = Unsaved(plan, told.append)
    unsaved.note_change(edited)
    unsaved.note_change(plan)
    unsaved.note_change(edited)
    unsaved.note_kept(edited)
    unsaved.note_change(edited)
    unsaved.note_change(plan)
    assert told == [True, False, True, False, False, True]
