"""All gestures: the tests run over these tuples, so that a new one is tested like the others."""

from workbench.widgets.gestures import (
    annotation,
    dimensions,
    exercise_answers,
    finding,
    fleet_controls,
    hardware_choice,
    history_gestures,
    mesh_axes,
    one_tensor,
    plan_files,
    running,
    stage_changes,
    suggestions,
    traced_as,
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
    *(mesh_axes.OrderAxesGesture, hardware_choice.HardwareGesture, hardware_choice.AxisAssignmentGesture, suggestions.MendGesture),
    *(stage_changes.MakePipelineGesture, stage_changes.RemovePipelineGesture, stage_changes.StagesGesture),
    *(stage_changes.MicroBatchesGesture, stage_changes.ChunksGesture, stage_changes.ScheduleGesture),
    *(stage_changes.StageRematGesture, stage_changes.EngineGesture, stage_changes.StageAxisGesture, stage_changes.BoundaryGesture),
    *(stage_changes.BalanceTimeGesture, stage_changes.BalanceMemoryGesture, stage_changes.BucketsGesture),
    *(suggestions.RecipeGesture, traced_as.TracedAsGesture),
)
"""Gestures that ask for another plan."""
BOARD_GESTURES: tuple[type[Gesture], ...] = (
    *EDIT_GESTURES,
    *(
        history_gestures.UndoGesture,
        history_gestures.RedoGesture,
        history_gestures.HistoryGesture,
        history_gestures.GoGesture,
        history_gestures.NamePlanGesture,
    ),
    *(
        history_gestures.PinGesture,
        history_gestures.ComparePlansGesture,
        history_gestures.SwapPlansGesture,
        history_gestures.StopComparingGesture,
    ),
    *(plan_files.SaveGesture, plan_files.OpenFileGesture, plan_files.ExportGesture, plan_files.LinkGesture, plan_files.CloseSheetGesture),
    *(
        suggestions.RecipesGesture,
        suggestions.RecipeAxisGesture,
        suggestions.TryEditsGesture,
        suggestions.DecideGesture,
        one_tensor.TakeGesture,
    ),
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
        view_changes.PictureGesture,
        view_changes.ShowStageGesture,
    ),
    *(
        running.RunGesture,
        running.CancelGesture,
        running.CompileGesture,
        running.CancelCompilationGesture,
        running.CalibrateGesture,
        running.CancelCalibrationGesture,
        running.CompileAtRestGesture,
    ),
    *(finding.FindGesture, finding.StopFindingGesture, finding.ChooseFoundGesture, finding.TakeFoundGesture),
    *(finding.ExplainFoundGesture, finding.VerifyFoundGesture, finding.StopVerifyingGesture, finding.RelaxGesture),
    *(exercise_answers.QuestionGesture, exercise_answers.StartQuestionGesture, exercise_answers.AnswerGesture),
    *(running.DismissGesture, running.RefreshGesture),
)
"""Gestures of the board over one plan."""
FLEET_GESTURES: tuple[type[Gesture], ...] = (
    *(fleet_controls.PolicyGesture, fleet_controls.MemoryGesture, fleet_controls.BudgetGesture, fleet_controls.DevicesGesture),
    fleet_controls.FleetHardwareGesture,
    *(fleet_controls.TimeUnitsGesture, fleet_controls.CancelTimingGesture, fleet_controls.StopModelGesture),
    *(fleet_controls.RereadGesture, fleet_controls.LeaveGesture, fleet_controls.ReturnGesture),
    *(running.RunGesture, running.CancelGesture, running.RefreshGesture),
    view_changes.PictureGesture,
)
"""Gestures of the board over a fleet."""
ALL_GESTURES = tuple(dict.fromkeys((*BOARD_GESTURES, *FLEET_GESTURES)))
