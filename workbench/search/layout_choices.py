"""Layouts of the mesh axes other than data and stage: recipes, and the program's own named dimensions.

Nothing here is specific to Transformers: a recipe reports whether it applies to a program, and every dimension of a
parameter may be sharded.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from workbench.core.tensor import Role
from workbench.errors import WorkbenchError
from workbench.plan.edits import ShardDim, apply_layout_edits
from workbench.plan.plan import Plan
from workbench.recipes import find_recipe
from workbench.recipes.choose_dims import batch_dim, stacked_dims
from workbench.search.per_operation.choose_layout import choose_layout
from workbench.search.per_operation.program_problem import splits_by_hand
from workbench.search.per_stage.choose_stages import is_written_out

REPLICATED = "replicated"
PER_OPERATION = "per operation"
"""The best layout for each operation (`per_operation`)."""
PER_STAGE = "per stage"
"""The best layout for each stage of a pipeline (`per_stage`)."""
MOST_DIMS = 5
"""Up to this many dimensions all sets are choices (31); beyond, only single dimensions and pairs."""
FEW = 8
"""Up to this many choices are all default choices."""
_MOST_OF_STAGES = 12
"""Up to this many layouts are all choices of a stage; beyond, only recipes and single dimensions."""
_PAIR = 2
_PROBED = 2  # devices of each axis when a choice is tried


@dataclass(frozen=True, slots=True)
class RecipeMove:
    """Apply a recipe over these mesh axes."""

    recipe: str
    axes: tuple[str, ...]

    def apply(self, plan: Plan) -> Plan:
        """Raises `WorkbenchError` if the recipe does not apply; keeps a plan that is already sharded this way."""
        return apply_layout_edits(plan, find_recipe(self.recipe, self.axes).draft_within_axes(plan).edits)


@dataclass(frozen=True, slots=True)
class DimsMove:
    """Shard these dimensions over a mesh axis, after their present axes."""

    dims: tuple[str, ...]
    axis: str

    def apply(self, plan: Plan) -> Plan:
        """Raises `LayoutError` if that is illegal."""
        return apply_layout_edits(plan, [ShardDim(dim, (*plan.layout.rule(dim), self.axis)) for dim in self.dims])


@dataclass(frozen=True, slots=True)
class ChosenMove:
    """Shard each operation over a mesh axis in the best way; the search runs in `apply` and takes seconds."""

    axis: str

    def apply(self, plan: Plan) -> Plan:
        """Raises `SearchError` if the plan has no hardware."""
        return plan.updated(layout=choose_layout(plan, self.axis))


@dataclass(frozen=True, slots=True)
class LayoutChoice:
    """A named use of mesh axes: besides data and stage, exactly `axes` have more than one device.

    `of_stages`: choices of each stage of a pipeline for a per-stage layout, which has no moves.
    """

    name: str
    axes: tuple[str, ...] = ()
    moves: tuple[RecipeMove | DimsMove | ChosenMove, ...] = ()
    of_stages: "tuple[LayoutChoice, ...]" = ()

    @property
    def is_recipe(self) -> bool:
        """Whether it consists of recipes only; also true for the replicated layout."""
        return not self.of_stages and all(isinstance(move, RecipeMove) for move in self.moves)

    @property
    def is_chosen(self) -> bool:
        """Whether it is searched for each plan, over the operations of a step without a pipeline."""
        return any(isinstance(move, ChosenMove) for move in self.moves)

    @property
    def is_per_stage(self) -> bool:
        """Whether it is searched for each pipeline, stage by stage, by `candidate_plan`."""
        return bool(self.of_stages)

    @property
    def takes_search(self) -> bool:
        return self.is_chosen or self.is_per_stage

    def apply(self, plan: Plan) -> Plan:
        """Return the plan with this layout. Raises `WorkbenchError` if that is illegal."""
        for move in self.moves:
            plan = move.apply(plan)
        return plan


def usual_choices(choices: Sequence[LayoutChoice]) -> tuple[LayoutChoice, ...]:
    """Default choices: recipes if there are many choices and one shards over `model`, else all but the per-stage
    choice, which takes as long as all others together.
    """
    choices = [choice for choice in choices if not choice.is_per_stage]
    recipes = tuple(choice for choice in choices if choice.is_recipe)
    return (
        recipes
        if len(choices) > FEW and any(choice.axes[:1] == ("model",) and choice.name != "spatial" for choice in recipes)
        else tuple(choices)
    )


def list_layout_choices(plan: Plan, axes: Sequence[str], *, with_costs: bool = True) -> tuple[LayoutChoice, ...]:
    """The choices that apply to the program, recipes first; `with_costs` adds the per-operation choice (unless split by
    hand) and the per-stage choice (if layers are written out).
    """
    probe = _probe(plan, axes)
    applicable: dict[str, LayoutChoice] = {}
    layouts: set[str] = set()
    for choice in _list_choices(plan, axes):
        try:
            layout = str(choice.apply(probe).layout)
        except WorkbenchError:
            continue
        if choice.name == REPLICATED or (layout and layout not in layouts):
            layouts.add(layout)
            applicable[choice.name] = choice
    if with_costs and "model" in axes and not splits_by_hand(plan.program):
        of_stages = tuple(_list_of_stages(tuple(applicable.values())))
        applicable[PER_OPERATION] = LayoutChoice(PER_OPERATION, ("model",), (ChosenMove("model"),))
        if "stage" in axes and len(of_stages) > 1 and is_written_out(plan.program):
            applicable[PER_STAGE] = LayoutChoice(PER_STAGE, ("model",), of_stages=of_stages)
    return tuple(applicable.values())


def layout_error(plan: Plan, axes: Sequence[str], name: str) -> str:
    """Return why an existing layout does not apply to the plan's program; empty if it applies or does not exist."""
    for choice in _list_choices(plan, axes):
        if choice.name == name:
            try:
                choice.apply(_probe(plan, axes))
            except WorkbenchError as error:
                return f"The layout `{name}` does not apply: {error.message}"
    return ""


def _probe(plan: Plan, axes: Sequence[str]) -> Plan:
    mesh = " ".join(f"{axis}:{_PROBED}" for axis in axes)
    return plan.updated(mesh=mesh, layout="", hardware=None, axis_assignment=None, pipeline=None)


def _list_of_stages(choices: Sequence[LayoutChoice]) -> Iterator[LayoutChoice]:
    """Choices of a stage; sharding parameters along `data` would decide for all stages how gradients are summed."""
    fitting = [
        choice for choice in choices if {axis for move in choice.moves if isinstance(move, RecipeMove) for axis in move.axes} <= {"model"}
    ]
    fitting = [choice for choice in fitting if choice.axes in ((), ("model",))]
    for choice in fitting:
        is_single = all(isinstance(move, DimsMove) and len(move.dims) == 1 for move in choice.moves)
        if len(fitting) <= _MOST_OF_STAGES or choice.is_recipe or is_single:
            yield choice


def _list_choices(plan: Plan, axes: Sequence[str]) -> Iterator[LayoutChoice]:
    yield LayoutChoice(REPLICATED)
    if "model" in axes:
        megatron = RecipeMove("megatron", ("model",))
        yield LayoutChoice("megatron", ("model",), (megatron,))
        yield LayoutChoice("megatron + sequence", ("model",), (megatron, RecipeMove("sequence_parallel", ("model",))))
        if "data" in axes:
            yield LayoutChoice("two-dimensional", ("model",), (RecipeMove("two_dimensional", ("data", "model")),))
        yield LayoutChoice("spatial", ("model",), (RecipeMove("spatial", ("model",)),))
        for dims in _list_dim_sets(plan):
            yield LayoutChoice(" + ".join(dims), ("model",), (DimsMove(dims, "model"),))
    for axis, recipe in (("context", "context_parallel"), ("expert", "expert_parallel")):
        if axis in axes:
            alone = RecipeMove(recipe, (axis,))
            yield LayoutChoice(recipe.replace("_", " "), (axis,), (alone,))
            if "model" in axes:
                yield LayoutChoice(f"megatron, {recipe.replace('_', ' ')}", ("model", axis), (RecipeMove("megatron", ("model",)), alone))


def _list_dim_sets(plan: Plan) -> Iterator[tuple[str, ...]]:
    """Sets of parameter dimensions (or of all arguments): all sets if few, else single ones and pairs."""
    batch, stacked = batch_dim(plan.program), stacked_dims(plan.program)
    parameters = [argument for argument in plan.program.arguments if argument.role is Role.PARAMETER]
    dims = dict.fromkeys(
        dim
        for tensor in parameters or plan.program.arguments
        for dim, size in zip(tensor.dims, tensor.shape, strict=True)
        if size > 1 and dim != batch and dim not in stacked
    )
    names = list(dims)
    for count in range(1, (len(names) if len(names) <= MOST_DIMS else _PAIR) + 1):
        yield from combinations(names, count)
