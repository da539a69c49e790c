"""What is kept with programs: never more bytes than allowed, the least recently used dropped first, and gone with its program."""

import gc
import pickle
import threading
import weakref
from dataclasses import replace
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.pipelines import chain
from workbench.core import derived_value_cache
from workbench.core.derived_value_cache import ProgramCache
from workbench.core.program import CACHE_ATTRIBUTE, Program
from workbench.core.remat import Remat
from workbench.models import build, gpt
from workbench.pipeline.estimate_stage_costs import stage_costs
from workbench.pipeline.staged_program import staged_program
from workbench.propagation import structure_of
from workbench.public_plan import Plan
from workbench.tracing.retraced_variants import _gc_paused

pytestmark = pytest.mark.compile

SPARE = derived_value_cache._OVERHEAD


@pytest.fixture(scope="module")
def programs() -> tuple[Program, ...]:
    whole = build("two_layer", batch=8, io=8, hidden=8)
    return whole, whole.rename({"io": "width"}), whole.rename({"hidden": "units"})


def alone(program: Program) -> Program:
    """Without what is kept with the original."""
    return replace(program)


class Counted:
    """Makes values, and counts how often."""

    def __init__(self, cache: ProgramCache) -> None:
        self.cache, self.made = cache, []

    def get(self, program, key, size=0):
        return self.cache.get(program, (key,), lambda: self.made.append(key) or f"value of {key}", size)


def test_the_least_recently_used_goes_first(programs):
    program = alone(programs[0])
    counted = Counted(ProgramCache(limit=3 * (1000 + SPARE)))
    for key in "abc":
        counted.get(program, key, 1000)
    counted.get(program, "a", 1000)  # now b is the oldest
    counted.get(program, "d", 1000)
    assert counted.made == [*"abcd"]
    for key in "acd":
        counted.get(program, key, 1000)
    assert counted.made == [*"abcd"]
    counted.get(program, "b", 1000)
    assert counted.made == [*"abcdb"]


def test_what_was_asked_for_last_is_kept_though_it_is_larger_than_all_that_is_allowed(programs):
    program = alone(programs[0])
    counted = Counted(ProgramCache(limit=10_000))
    counted.get(program, "small", 100)
    counted.get(program, "huge", 50_000)
    counted.get(program, "huge", 50_000)
    assert counted.made == ["small", "huge"]
    assert counted.cache.bytes == 50_000 + SPARE
    counted.get(program, "small", 100)
    assert counted.cache.bytes == 100 + SPARE


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 5), st.integers(0, 4000)), max_size=60))
def test_never_more_than_the_limit_but_for_one_value(programs, asked):
    cache, owners, sizes = ProgramCache(limit=10_000), [alone(each) for each in programs], {}
    for owner, key, size in asked:
        cache.get(owners[owner], (key,), object, sizes.setdefault((owner, key), size))
        kept = {
            (owner, key[0])
            for owner, each in enumerate(owners)
            if CACHE_ATTRIBUTE in each.__dict__
            for key in each.__dict__[CACHE_ATTRIBUTE].values
        }
        assert (owner, key) in kept
        assert cache.bytes == sum(sizes[each] + SPARE for each in kept)
        assert cache.bytes <= 10_000


def test_equal_programs_share_and_others_do_not(programs):
    counted = Counted(ProgramCache())
    first, again = alone(programs[0]), alone(programs[0])
    assert counted.get(first, "a") == counted.get(again, "a")
    counted.get(programs[1], "a")
    assert counted.made == ["a", "a"]
    del first
    gc.collect()
    counted.get(again, "a")
    counted.get(alone(programs[0]), "a")
    assert counted.made == ["a", "a"]


def test_what_refers_to_its_program_goes_with_it(programs):
    cache, program = ProgramCache(), alone(programs[0])
    cache.get(program, ("self",), partial(list, [program]), 1000)
    gone = weakref.ref(program)
    del program
    gc.collect()
    assert gone() is None
    last = alone(programs[1])
    cache.limit = 1000
    cache.get(last, ("a",), object, 400)
    assert cache.bytes == 400 + SPARE


def test_a_program_is_sent_without_what_is_kept_with_it(programs):
    program = alone(programs[0])
    structure_of(program)  # with a module of MLIR, which cannot be sent
    assert CACHE_ATTRIBUTE in program.__dict__
    sent = replace(program, step=None)
    structure_of(sent)
    assert CACHE_ATTRIBUTE not in pickle.loads(pickle.dumps(sent)).__dict__


def test_from_many_threads(programs):
    cache, owners, wrong = ProgramCache(limit=20_000), [alone(each) for each in programs], []

    def work(seed):
        for step in range(300):
            key = (seed * 7 + step * step) % 23
            if cache.get(owners[step % 3], (key,), lambda key=key: key, 100 * key) != key:
                wrong.append(key)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert wrong == []
    assert cache.bytes <= 20_000


@pytest.mark.parametrize("pipeline", [None, "stages:2 micro_batches:2", "stages:2 micro_batches:2 engine:spmd schedule:gpipe"])
def test_nothing_holds_a_program_that_nobody_has_any_more(pipeline):
    """Not its jaxpr, not JAX, not what was worked out of it for a report."""
    program = chain()
    mesh = "stage:2 data:2" if pipeline else "data:4"
    report = Plan(program, mesh, "batch:data", pipeline=pipeline).report()
    assert report.memory.peak
    for asked in (
        str(report),
        report.pipeline,
        report.graph,
        program.removed,
        stage_costs(staged_program(report.plan), exact_memory=True) if pipeline else (),
    ):
        assert asked is not None or not pipeline
    gone = weakref.ref(program), weakref.ref(program.__dict__[CACHE_ATTRIBUTE])
    del program, report, asked
    gc.collect()
    assert [each() for each in gone] == [None, None]


def unrolled(batch):
    """A tiny GPT of another batch size, so another program each time; `models.build` would keep it for other tests."""
    return gpt.build(scan=False, layers=2, batch=batch)


def test_a_program_goes_with_its_last_reference_and_waits_for_no_collection():
    """With all that is kept with it, and all it was traced as: Python puts a full collection off as long as most objects are in use, and a
    hundred plans would pile up until then."""
    plan_of(unrolled(8))  # what JAX keeps of its functions
    gc.collect()
    before = programs_alive()
    with _gc_paused():
        for batch in (8, 16):
            program = unrolled(batch)
            report = plan_of(program)
            plan_of(program.variant(remat=Remat("full")))
            gone = weakref.ref(program.__dict__[CACHE_ATTRIBUTE])
            del program, report
            assert gone() is None
            assert programs_alive() == before


def plan_of(program):
    report = Plan(program, "data:4 model:2", "batch:data; d_ff:model", hardware="TPU v5e 2x4").report()
    assert str(report)
    return report


def programs_alive() -> int:
    return sum(type(each) is Program for each in gc.get_objects())


def test_variants_are_traced_once_and_their_programs_share_what_is_kept():
    program = unrolled(8)
    full = program.variant(remat=Remat("full"))
    assert full.variant(remat=program.remat) == program
    assert full.retrace is program.retrace
    again = program.variant(remat=Remat("full"))
    assert (again.module, again.operations) == (full.module, full.operations)
    assert again.module is full.module
    assert structure_of(again) is structure_of(full)


def test_a_program_holds_no_jaxpr_of_its_step():
    """Of an unrolled network that is more than all else: 36,000 equations of the largest GPT, with variables, lists and source lines."""
    chain()  # JAX keeps some of functions that all programs have
    gc.collect()
    before = equations()
    program = chain()
    gc.collect()
    assert equations() - before < len(program.operations) / 20


def equations() -> int:
    return sum(type(each).__name__ == "JaxprEqn" for each in gc.get_objects())
