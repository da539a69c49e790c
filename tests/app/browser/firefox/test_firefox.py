"""What a person does most with the page, in Firefox.

Left out are tests that its driver cannot make yet: what is filled into a field without being typed, downloads, the clipboard, touch, and a
colour scheme that changes. Every run has a sixth of them.
"""

# ruff: noqa: F401  pytest finds tests and fixtures here by their names
import pytest

from tests.app.browser.test_charts import (
    explored,
    planned,
    test_a_kernel_clicked_in_the_timeline_is_marked_in_every_view_with_its_source_line,
    test_a_timeline_is_zoomed_by_wheel_keys_and_box_and_stays_there_after_an_edit,
    test_marks_are_walked_and_chosen_by_keyboard,
)
from tests.app.browser.test_notebook import cell, test_a_drop_in_the_cell_moves_the_plan_in_the_kernel_which_the_sidebar_lists_once
from tests.app.browser.test_page import (
    test_a_dimension_dragged_onto_an_axis_splits_it_there,
    test_a_run_shows_progress_and_then_the_result,
    test_a_server_that_goes_away_is_told,
    test_an_illegal_target_says_why_under_the_hand_and_the_drop_changes_nothing,
    test_fast_drags_all_land,
    test_shift_adds_an_axis_and_the_menu_turns_the_order_around,
    test_tabs_show_communication_values_and_notes,
    test_the_keyboard_alone_places_a_dimension,
    test_undo_and_redo_by_button_and_by_key,
)
from tests.app.browser.test_pipeline import (
    network,
    pipeline,
    test_a_boundary_is_dragged_and_everything_moves_with_it_before_it_is_let_go,
    test_a_pipeline_runs_live_and_its_tasks_are_measured,
    test_the_timeline_tells_of_a_task_dims_other_micro_batches_zooms_and_is_walked_by_key,
)
from tests.app.browser.test_tensors import (
    tensors,
    test_a_chip_of_a_tensor_dropped_on_an_axis_moves_every_tensor_by_the_rule,
    test_a_row_is_selected_by_click_and_by_key_and_marked_in_every_tab,
)

pytestmark = pytest.mark.share(6, of="file")
