"""A room that is slow to answer lets the other rooms go first."""

from multiprocessing import Pipe

import pytest

from workbench.team.planning import room_process
from workbench.team.planning.room_process import OFTEN, SLOW, RoomProcess


@pytest.mark.parametrize(
    ("seconds", "gives_way"),
    [
        ([2 * SLOW] * OFTEN, True),
        ([2 * SLOW] * (OFTEN - 1) + [SLOW / 2] + [2 * SLOW] * (OFTEN - 1), False),
        ([SLOW / 2] * 10 * OFTEN, False),
    ],
    ids=["slow gestures in a row", "a quick one between them", "quick ones"],
)
def test_a_room_gives_way_after_slow_gestures_in_a_row(monkeypatch, seconds, gives_way):
    calls = []
    monkeypatch.setattr(room_process, "run_when_idle", lambda: calls.append(True))
    ours, theirs = Pipe()
    with ours, theirs:
        room = RoomProcess(theirs, None, ())
        for each in seconds:
            room._note_seconds(each)
    assert bool(calls) == gives_way
