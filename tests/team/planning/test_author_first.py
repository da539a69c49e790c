"""Who edits is answered first: the others' boards follow once the event loop comes to it, and once for several edits."""

import pytest

from tests.support.room_sessions import ADA, BOB, CAROL, KeptLog, first_plan
from workbench.plan.edits import ShardDim
from workbench.team.planning.room_edit_log import RoomHistory
from workbench.team.planning.room_session import RoomSession


class Loop:
    """What was deferred, and which person's board was shown which plan, in order."""

    def __init__(self):
        self.waiting, self.shown = [], []
        self.session = RoomSession.begin(RoomHistory.of(first_plan()), KeptLog().keep, self.waiting.append)

    def listen(self, person):
        """A board of theirs; what ends it."""
        with self.session.acting(person):
            return self.session.listen(lambda plan, _report: self.shown.append((self.session.acting_person, str(plan.layout))))

    def shard(self, person, dim, *axes):
        with self.session.acting(person):
            self.session.apply(ShardDim(dim, axes))

    def run(self):
        while self.waiting:
            self.waiting.pop(0)()


@pytest.fixture
def loop():
    return Loop()


FIRST, SECOND = "batch:data; hidden:model", "batch:data"


def test_the_author_hears_at_once_and_the_others_later_each_as_themselves(loop):
    for person in (BOB, ADA, CAROL):
        loop.listen(person)
    loop.shard(ADA, "hidden", "model")
    assert loop.shown == [(ADA, FIRST)]
    loop.run()
    assert loop.shown == [(ADA, FIRST), (BOB, FIRST), (CAROL, FIRST)]


def test_several_edits_are_shown_to_the_others_once(loop):
    loop.listen(ADA)
    loop.listen(BOB)
    loop.shard(ADA, "hidden", "model")
    loop.shard(ADA, "hidden")
    loop.run()
    assert loop.shown == [(ADA, FIRST), (ADA, SECOND), (BOB, SECOND)]


def test_nobody_acts_before_they_were_shown_what_the_others_did(loop):
    loop.listen(ADA)
    loop.listen(BOB)
    loop.shard(ADA, "hidden", "model")
    with loop.session.acting(BOB):
        assert loop.shown == [(ADA, FIRST), (BOB, FIRST)]
    loop.run()
    assert len(loop.shown) == 2


def test_a_board_that_was_closed_meanwhile_hears_nothing(loop):
    loop.listen(ADA)
    stop = loop.listen(BOB)
    loop.shard(ADA, "hidden", "model")
    stop()
    loop.run()
    assert loop.shown == [(ADA, FIRST)]


def test_what_nobody_did_is_heard_by_all_at_once(loop):
    loop.listen(ADA)
    loop.listen(BOB)
    loop.session.use_hardware(None)
    assert loop.shown == [(ADA, SECOND), (BOB, SECOND)]
