"""What a watched step comes to."""

import pytest

from tests.support.traces import MS, event, measured_step, measured_trace
from workbench.reports.device_trace import summarize_trace, union_length


def test_waiting_is_told_from_what_the_collective_takes():
    (reduce,) = measured_trace().collectives
    assert (reduce.name, reduce.stream, reduce.count) == ("all-reduce.2", "model", 2)
    assert reduce.unwaited == pytest.approx(1 * MS)
    assert reduce.seconds == pytest.approx(2 * MS)  # the median of 3, 1, 3, 1
    assert reduce.total == pytest.approx(4 * MS)  # (6 + 2) / 2 devices


def test_each_device_has_its_own_sums():
    first, second = measured_trace().devices
    assert (first.compute, first.communication, first.exposed) == pytest.approx((6 * MS, 6 * MS, 6 * MS))
    assert (second.compute, second.communication, second.exposed) == pytest.approx((10 * MS, 2 * MS, 2 * MS))
    assert measured_trace().seconds == pytest.approx(12 * MS)


def test_communication_behind_a_kernel_is_not_exposed():
    trace = summarize_trace([event(0, 0, 10), event(0, 4, 8, "all-gather.1", "data", "all-gather")])
    assert trace.devices[0].exposed == pytest.approx(2 * MS)
    assert trace.devices[0].communication == pytest.approx(8 * MS)


def test_overlapping_kernels_count_once():
    assert union_length([(0, 4), (1, 2), (3, 6), (8, 9)]) == 7
    assert union_length([]) == 0


def test_the_heaviest_operation_comes_first_and_one_slow_execution_does_not_make_it_so():
    often = [event(0, start, 1, "copy.1", kind="copy") for start in range(20)]
    once_slow = [event(0, 20, 100, "add.1", kind="add"), *(event(0, 120 + start, 0.01, "add.1", kind="add") for start in range(8))]
    assert [each.name for each in summarize_trace(often + once_slow).kernels] == ["copy.1", "add.1"]


def test_whole_devices_are_kept_as_far_as_they_go_and_the_rest_is_counted():
    trace = summarize_trace(measured_step(), most=5)
    assert {each.device for each in trace.events} == {0}
    assert (len(trace.events), trace.events_left_out) == (4, 4)
    assert trace.operations == measured_trace().operations


def test_of_a_device_with_too_many_events_the_longest_are_kept():
    trace = summarize_trace([event(0, start, start + 1) for start in range(100)], most=10)
    assert [round(each.seconds / MS) for each in trace.of_device(0)] == list(range(91, 101))
    assert trace.events_left_out == 90


def test_a_step_without_events_is_an_empty_trace():
    trace = summarize_trace(())
    assert (trace.seconds, trace.operations, trace.devices, trace.events, trace.events_left_out) == (0, (), (), (), 0)
