"""Laws of the front: it is what no item beats, in whatever order items came; its area is counted cell by cell."""

from hypothesis import given
from hypothesis import strategies as st

from workbench.search.search_figures import Figures, ParetoFront, hypervolume

figures = st.builds(Figures, seconds=st.integers(1, 9).map(float), memory=st.integers(1, 9), devices=st.sampled_from((4, 8)))
many = st.lists(figures, max_size=12)


def front_of(items: list[Figures]) -> ParetoFront[int]:
    front: ParetoFront[int] = ParetoFront()
    for number, each in enumerate(items):
        front = front.with_item(number, each)
    return front


@given(items=many)
def test_a_front_is_what_no_item_beats(items):
    on_front = {each for _, each in front_of(items)}
    assert on_front == {each for each in items if not any(other != each and other.dominates(each) for other in items)}


@given(items=many, data=st.data())
def test_the_order_of_items_does_not_matter(items, data):
    other = data.draw(st.permutations(items))
    assert [each for _, each in front_of(items)] == [each for _, each in front_of(list(other))] or {e for _, e in front_of(items)} == {
        e for _, e in front_of(list(other))
    }


@given(items=many)
def test_a_front_is_sorted_and_has_nobody_twice(items):
    entries = list(front_of(items))
    assert [(each.seconds, each.memory) for _, each in entries] == sorted((each.seconds, each.memory) for _, each in entries)
    assert not any(a is not b and a[1].dominates(b[1]) for a in entries for b in entries)


@given(items=many, other=figures)
def test_what_a_front_beats_does_not_change_it(items, other):
    front = front_of(items)
    assert (front.with_item(99, other) == front) == front.beats(other)
    assert not front.beats(other) or front.beats(other, slack=0.1)


@given(one=figures, other=figures, third=figures)
def test_to_dominate_is_an_order(one, other, third):
    assert one.dominates(one)
    assert not (one.dominates(other) and other.dominates(one)) or one == other
    assert not (one.dominates(other) and other.dominates(third)) or one.dominates(third)


@given(items=many)
def test_the_area_of_a_front_is_that_of_its_cells(items):
    cells = sum(any(each.seconds <= s and each.memory <= m for each in items) for s in range(1, 10) for m in range(1, 10))
    assert hypervolume(items, (10.0, 10.0)) == cells
    assert hypervolume([each for _, each in front_of(items)], (10.0, 10.0)) <= cells
