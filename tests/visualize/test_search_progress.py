"""The picture of a proof: the best falls, the bound rises, and they meet where it is proved."""

from dataclasses import replace

import pytest

from tests.support.searches import FOUND, GIB, make_result, proof_states
from workbench.search.search_figures import ParetoFront
from workbench.visualize import search_progress
from workbench.visualize.draw.palette import AXES
from workbench.visualize.search_progress import MOST_ROWS


def test_the_best_falls_the_bound_rises_and_they_meet_at_the_proof():
    made = search_progress(proof_states()).drawing
    best, least = (next(each for each in made.lines if each.colour == colour) for colour in AXES[:2])
    assert [y for _, y in best.points] == sorted(y for _, y in best.points)  # pixels grow downwards
    assert [y for _, y in least.points] == sorted((y for _, y in least.points), reverse=True)
    assert best.points[-1] == least.points[-1]
    assert all(above[1] <= below[1] for above, below in zip(best.points[-2:], least.points[-2:], strict=True))


def test_a_dot_marks_each_answer_that_found_a_better_plan():
    made = search_progress(proof_states()).drawing
    assert [each.title for each in made.dots] == [
        f"answer 1, 1 planned, 5.00 s: {FOUND[3][0]}",
        f"answer 3, 5 planned, 1.50 s: {FOUND[0][0]}",
    ]
    assert any(each.text == "proved with answer 5" for each in made.labels)


def test_the_text_has_the_answers_by_which_something_changed():
    rows = [line.split() for line in search_progress(proof_states()).text.splitlines()[4:]]
    assert [row[0] for row in rows] == ["0", "1", "2", "3", "5"]
    assert rows[0][-1] == "none"


def test_nothing_found_and_nothing_begun_are_said_in_one_line():
    assert search_progress(()).about == "No search has begun."
    nothing = search_progress(proof_states()[:1])
    assert nothing.about == "least seconds after 0 answers: no plan yet"
    assert nothing.drawing.lines == ()


def test_a_long_search_is_cut_in_the_middle():
    states = [replace(proof_states()[1], least=1.0 + 0.01 * number) for number in range(100)]
    rows = search_progress(states).text.splitlines()[4:]
    assert len(rows) == MOST_ROWS
    assert rows[0].split()[0] == "0"
    assert rows[-1].split()[0] == "99"
    assert sum("…" in row for row in rows) == 1


@pytest.mark.parametrize(
    ("objective", "least", "best"), [("memory", 2.0 * GIB, "6.00 GiB"), ("devices", 4.0, "8 devices"), ("dollars", 6.5, "$13.30")]
)
def test_every_objective_is_written_in_its_unit(objective, least, best):
    front = ParetoFront().with_item(*FOUND[3])
    states = [replace(proof_states()[1], objective=objective, front=front, least=least)] * 2
    made = search_progress(states)
    assert best in made.text
    assert len(made.drawing.dots) == 1


def test_the_states_of_one_answer_can_be_drawn():
    assert len(search_progress([make_result(FOUND).state]).drawing.dots) == 1
