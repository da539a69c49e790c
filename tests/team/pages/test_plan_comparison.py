"""Plans beside each other, from what the action answers."""

from workbench.team.pages.plan_cards import STEP_TIME, PlanCard
from workbench.team.pages.plan_comparison import read_comparison


def answer(**changes):
    own = {
        "plans": [{"digest": each * 64, "entry": each, "name": f"plan {each}", "author": None} for each in "ab"],
        "differences": [{"name": "mesh", "values": ["data:8", None]}],
        "alike": [{"name": "argument `batch`", "value": "64"}],
        "statements": [
            {"kind": "rules", "subject": "batch", "values": ["data", "data"], "differs": False},
            {"kind": "barriers", "subject": "w", "values": [None, "none"], "differs": True},
        ],
        "figures": [
            {"name": "step_seconds", "tier": "planned", "values": [2.0, 1.0]},
            {"name": "step_seconds", "tier": "measured", "values": [3.0, None]},
            {"name": "peak_bytes", "tier": "planned", "values": [1024.0, 1024.0]},
            {"name": "fits", "tier": "planned", "values": [True, True]},
            {"name": "fits", "tier": "compiled", "values": [None, False]},
        ],
        "front": [
            {"digest": "a" * 64, "peak_bytes": 1024.0, "step_seconds": 3.0, "tiers": [], "is_best": False},
            {"digest": "b" * 64, "peak_bytes": 1024.0, "step_seconds": 1.0, "tiers": [], "is_best": True},
        ],
        "measured": [{"digest": "a" * 64, "predicted_seconds": 2.0, "measured_seconds": 3.0}],
    }
    return {**own, **changes}


def rows(**changes):
    return {row.name: row for group in read_comparison(answer(**changes)).groups for row in group.rows}


def test_the_best_is_the_best_of_its_tier_and_only_where_another_is_worse():
    found = rows()
    assert [(each.text, each.beside, each.is_best) for each in found["Step time, predicted"].values] == [
        ("2.00 s", "2 ×", False),
        ("1.00 s", "", True),
    ]
    assert [(each.text, each.is_best) for each in found["Step time, measured"].values] == [("3.00 s", False), ("", False)]
    assert not any(each.is_best for each in found["Peak memory per device, predicted"].values)


def test_the_surest_tier_says_whether_a_plan_fits():
    assert [each.text for each in rows()["Fits its devices"].values] == ["yes", "no"]


def test_how_far_off_a_prediction_was_is_said():
    assert [each.text for each in rows()["Measured step"].values] == ["50 % slower than predicted", ""]


def test_what_is_alike_is_left_out_but_for_figures():
    compared = read_comparison(answer())
    kept = [row.name for group in compared.only_differences() for row in group.rows]
    assert kept == [
        "Step time, measured",
        "Step time, predicted",
        "Peak memory per device, predicted",
        "Fits its devices",
        "Measured step",
        "Mesh",
        "barrier w",
    ]
    assert compared.same_rows == 2  # the argument, and `batch`


def test_pictures_have_the_letters_of_the_columns():
    compared = read_comparison(answer())
    assert [(each.letter, each.up, each.fits) for each in compared.memory_by_time] == [("A", 1024.0, True), ("B", 1024.0, False)]
    assert [(each.letter, each.across, each.up) for each in compared.predicted_by_measured] == [("A", 2.0, 3.0)]


def test_the_tiers_of_the_front_are_named_as_in_the_rows():
    front = [{**point, "tiers": ["planned", "compiled"]} for point in answer()["front"]]
    assert read_comparison(answer(front=front)).front_tiers == ("predicted", "compiled")


def test_a_figure_of_nothing_has_no_place_on_a_scale():
    front = [{"digest": "a" * 64, "peak_bytes": 0.0, "step_seconds": 1.0, "tiers": [], "is_best": True}]
    assert read_comparison(answer(front=front)).memory_by_time == ()


def test_a_run_on_a_processor_says_nothing_of_the_devices_that_a_plan_is_for():
    own = dict.fromkeys(PlanCard.__struct_fields__)
    figures = {"planned": {"step_seconds": 1e-5}, "measured": {"step_seconds": 1e-2, "device_kind": "cpu"}}
    known = PlanCard(**{**own, "hardware": "TPU v5e 2x2", "figures": figures}).known(STEP_TIME)
    assert known is not None
    assert (known.value, known.tier) == (1e-5, "planned")
    on_processor = PlanCard(**{**own, "figures": figures}).known(STEP_TIME)
    assert on_processor is not None
    assert on_processor.tier == "measured"
