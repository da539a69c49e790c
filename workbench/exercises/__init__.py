"""Exercises that check their own answers. An answer is a plan without code, and is graded by planning it.

one = Exercise.load("lessons/one_product/exercise.json")
one.check(plan)  # Right.
"""

from workbench.exercises.choice_question import Choice as Choice
from workbench.exercises.choice_question import ChoiceQuestion as ChoiceQuestion
from workbench.exercises.exercise import Exercise as Exercise
from workbench.exercises.goals import ALL_GOALS as ALL_GOALS
from workbench.exercises.goals.figure_goals import BoundBy as BoundBy
from workbench.exercises.goals.figure_goals import Bubble as Bubble
from workbench.exercises.goals.figure_goals import Devices as Devices
from workbench.exercises.goals.figure_goals import FigureAtLeast as FigureAtLeast
from workbench.exercises.goals.figure_goals import FigureAtMost as FigureAtMost
from workbench.exercises.goals.figure_goals import Fits as Fits
from workbench.exercises.goals.figure_goals import Holds as Holds
from workbench.exercises.goals.figure_goals import Mfu as Mfu
from workbench.exercises.goals.figure_goals import Peak as Peak
from workbench.exercises.goals.figure_goals import Sends as Sends
from workbench.exercises.goals.figure_goals import StepWithin as StepWithin
from workbench.exercises.goals.goal import Goal as Goal
from workbench.exercises.goals.layout_goals import ComputesOnce as ComputesOnce
from workbench.exercises.goals.layout_goals import FewStatements as FewStatements
from workbench.exercises.goals.layout_goals import GathersNothingWhole as GathersNothingWhole
from workbench.exercises.goals.layout_goals import Lies as Lies
from workbench.exercises.goals.layout_goals import PadsNothing as PadsNothing
from workbench.exercises.goals.layout_goals import SameResult as SameResult
from workbench.exercises.goals.layout_goals import UsesCollective as UsesCollective
from workbench.exercises.number_question import FigureOf as FigureOf
from workbench.exercises.number_question import NumberQuestion as NumberQuestion
from workbench.exercises.plan_question import PlanQuestion as PlanQuestion
from workbench.exercises.plan_question import ScoredGoal as ScoredGoal
from workbench.exercises.search_questions import LedgerQuestion as LedgerQuestion
from workbench.exercises.search_questions import WinnerQuestion as WinnerQuestion
from workbench.exercises.variants import Variant as Variant
from workbench.exercises.verdict import Check as Check
from workbench.exercises.verdict import Verdict as Verdict
from workbench.exercises.verify_exercise import verify_exercise as verify_exercise
