"""All gestures: the tests run over these tuples, so that a new one is tested like the others."""

from workbench.widgets.gestures import (
    annotation,
    dimensions,
    fleet_controls,
    mesh_axes,
    one_tensor,
    plan_files,
    plan_tree,
    repairs,
    running,
    stage_changes,
    target_hardware,
    view_changes,
)
from workbench.widgets.gestures.gesture import Gesture

EDIT_GESTURES: tuple[type[Gesture], ...] = (
    *(dimensions.DropGesture, dimensions.MajorGesture),
    *(one_tensor.OwnGesture, one_tensor.OwnWholeGesture, one_tensor.OpenDimGesture, one_tensor.ByRulesGesture),
    *(annotation.OpenGesture, annotation.RoundGesture, annotation.KeepOutGesture, annotation.UnreducedGesture),
    *(annotation.GroupGesture, annotation.BarrierGesture),
    *(dimensions.PrioritizeGesture, annotation.UngroupGesture, annotation.UnbarGesture),
    *(dimensions.WholeGesture, dimensions.RenameDimGesture),
    *(
        mesh_axes.ResizeGesture,
        mesh_axes.AddAxisGesture,
        mesh_axes.RemoveAxisGesture,
        mesh_axes.RenameAxisGesture,
        mesh_axes.ShiftAxisGesture,
    ),
    *(mesh_axes.OrderAxesGesture, target_hardware.HardwareGesture, target_hardware.AxisAssignmentGesture, repairs.MendGesture),
    *(stage_changes.MakePipelineGesture, stage_changes.RemovePipelineGesture, stage_changes.StagesGesture),
    *(stage_changes.MicroBatchesGesture, stage_changes.ChunksGesture, stage_changes.ScheduleGesture),
    *(stage_changes.StageRematGesture, stage_changes.EngineGesture, stage_changes.StageAxisGesture, stage_changes.BoundaryGesture),
    *(stage_changes.BalanceTimeGesture, stage_changes.BalanceMemoryGesture, stage_changes.BucketsGesture),
    repairs.RecipeGesture,
)
"""Gestures that ask for another plan."""
BOARD_GESTURES: tuple[type[Gesture], ...] = (
    *EDIT_GESTURES,
    *(plan_tree.UndoGesture, plan_tree.RedoGesture, plan_tree.HistoryGesture, plan_tree.GoGesture, plan_tree.NamePlanGesture),
    *(plan_tree.PinGesture, plan_tree.ComparePlansGesture, plan_tree.SwapPlansGesture, plan_tree.StopComparingGesture),
    *(plan_files.SaveGesture, plan_files.OpenFileGesture, plan_files.ExportGesture, plan_files.LinkGesture, plan_files.CloseSheetGesture),
    *(repairs.RecipesGesture, repairs.RecipeAxisGesture, repairs.TryEditsGesture, repairs.DecideGesture, one_tensor.TakeGesture),
    *(
        view_changes.TabGesture,
        view_changes.SelectGesture,
        view_changes.FoldGesture,
        view_changes.WhyGesture,
        view_changes.TryBoundaryGesture,
    ),
    *(
        view_changes.StepGesture,
        view_changes.WeighGesture,
        view_changes.FewestGesture,
        view_changes.ExpandGesture,
        view_changes.MomentGesture,
    ),
    *(running.RunGesture, running.CancelGesture, running.CompileGesture, running.CancelCompilationGesture, running.CompileAtRestGesture),
    *(running.DismissGesture, running.RefreshGesture),
)
"""Gestures of the board over one plan."""
FLEET_GESTURES: tuple[type[Gesture], ...] = (
    *(fleet_controls.PolicyGesture, fleet_controls.MemoryGesture, fleet_controls.BudgetGesture, fleet_controls.DevicesGesture),
    *(fleet_controls.TimeUnitsGesture, fleet_controls.CancelTimingGesture, fleet_controls.StopModelGesture),
    *(fleet_controls.RereadGesture, fleet_controls.LeaveGesture, fleet_controls.ReturnGesture),
    *(running.RunGesture, running.CancelGesture, running.RefreshGesture),
)
"""Gestures of the board over a fleet."""
ALL_GESTURES = tuple(dict.fromkeys((*BOARD_GESTURES, *FLEET_GESTURES)))
