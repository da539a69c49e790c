"""Ways to use the mesh axes that do not carry examples or stages: known recipes, and the program's own named dimensions.

Nothing here knows Transformers: a recipe says itself whether it applies to a program, and every dimension of a parameter may be placed.
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
"""Every operation split as is best for it (`per_operation`)."""
PER_STAGE = "per stage"
"""Each stage of a pipeline laid out as is best for it (`per_stage`)."""
MOST_DIMS = 5
"""Of so many dimensions all sets are choices (31); of more those of one and of two."""
FEW = 8
"""So many choices are all usual."""
_MOST_OF_STAGES = 12
"""Of so many layouts a stage may have any; of more, recipes and single dimensions."""
_PAIR = 2
_PROBED = 2  # devices of each axis when a choice is tried


@dataclass(frozen=True, slots=True)
class RecipeMove:
    """Apply a recipe over these mesh axes."""

    recipe: str
    axes: tuple[str, ...]

    def apply(self, plan: Plan) -> Plan:
        """Raises `WorkbenchError` where it does not apply; a plan that is sharded so already stays."""
        return apply_layout_edits(plan, find_recipe(self.recipe, self.axes).draft_within_axes(plan).edits)


@dataclass(frozen=True, slots=True)
class DimsMove:
    """Shard these dimensions over a mesh axis, behind the axes that they are on."""

    dims: tuple[str, ...]
    axis: str

    def apply(self, plan: Plan) -> Plan:
        """Raises `LayoutError` where that is illegal."""
        return apply_layout_edits(plan, [ShardDim(dim, (*plan.layout.rule(dim), self.axis)) for dim in self.dims])


@dataclass(frozen=True, slots=True)
class ChosenMove:
    """Split each operation over a mesh axis as is best for it: found when it is applied, which takes seconds."""

    axis: str

    def apply(self, plan: Plan) -> Plan:
        """Raises `SearchError` without hardware."""
        return plan.updated(layout=choose_layout(plan, self.axis))


@dataclass(frozen=True, slots=True)
class LayoutChoice:
    """A named way to use some mesh axes: all of `axes`, and no other but those of examples and stages, have more than one device.

    `of_stages`: what each stage of a pipeline chooses from, where it has a layout of its own; there are no moves then.
    """

    name: str
    axes: tuple[str, ...] = ()
    moves: tuple[RecipeMove | DimsMove | ChosenMove, ...] = ()
    of_stages: "tuple[LayoutChoice, ...]" = ()

    @property
    def is_recipe(self) -> bool:
        """Whether it is known by a recipe, or leaves all as it is."""
        return not self.of_stages and all(isinstance(move, RecipeMove) for move in self.moves)

    @property
    def is_chosen(self) -> bool:
        """Whether it is found for each plan anew, and for the operations of one program: a step without a pipeline."""
        return any(isinstance(move, ChosenMove) for move in self.moves)

    @property
    def is_per_stage(self) -> bool:
        """Whether it is found for each pipeline anew, stage by stage: `candidate_plan` makes it."""
        return bool(self.of_stages)

    @property
    def takes_search(self) -> bool:
        """Whether it is itself the result of a search, which takes seconds."""
        return self.is_chosen or self.is_per_stage

    def apply(self, plan: Plan) -> Plan:
        """The plan laid out so. Raises `WorkbenchError` where that is illegal."""
        for move in self.moves:
            plan = move.apply(plan)
        return plan


def usual_choices(choices: Sequence[LayoutChoice]) -> tuple[LayoutChoice, ...]:
    """The recipes alone where one of them splits a program's own dimensions over `model` and there are many others; else all choices but
    that of each stage, which takes as long as all others together."""
    choices = [each for each in choices if not each.is_per_stage]
    recipes = tuple(each for each in choices if each.is_recipe)
    return (
        recipes
        if len(choices) > FEW and any(each.axes[:1] == ("model",) and each.name != "spatial" for each in recipes)
        else tuple(choices)
    )


def list_layout_choices(plan: Plan, axes: Sequence[str], *, with_costs: bool = True) -> tuple[LayoutChoice, ...]:
    """The choices that this plan's program allows over mesh axes of these names, the known recipes first; last, `with_costs` being known,
    that of each operation, unless the program splits some by hand, and that of each stage, where its layers are written out."""
    probe = _probe(plan, axes)
    found: dict[str, LayoutChoice] = {}
    kept: set[str] = set()
    for choice in _list_choices(plan, axes):
        try:
            layout = str(choice.apply(probe).layout)
        except WorkbenchError:
            continue
        if choice.name == REPLICATED or (layout and layout not in kept):
            kept.add(layout)
            found[choice.name] = choice
    if with_costs and "model" in axes and not splits_by_hand(plan.program):
        of_stages = tuple(_list_of_stages(tuple(found.values())))
        found[PER_OPERATION] = LayoutChoice(PER_OPERATION, ("model",), (ChosenMove("model"),))
        if "stage" in axes and len(of_stages) > 1 and is_written_out(plan.program):
            found[PER_STAGE] = LayoutChoice(PER_STAGE, ("model",), of_stages=of_stages)
    return tuple(found.values())


def why_no_layout(plan: Plan, axes: Sequence[str], name: str) -> str:
    """Why a layout that exists does not apply to the plan's program; empty where it does, or where there is none of this name."""
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
    """What a stage may choose from: layouts over `model` alone, and none. One that splits parameters along the axis of examples decides for
    all stages how gradients are summed."""
    fitting = [each for each in choices if {axis for move in each.moves if isinstance(move, RecipeMove) for axis in move.axes} <= {"model"}]
    fitting = [each for each in fitting if each.axes in ((), ("model",))]
    for each in fitting:
        is_single = all(isinstance(move, DimsMove) and len(move.dims) == 1 for move in each.moves)
        if len(fitting) <= _MOST_OF_STAGES or each.is_recipe or is_single:
            yield each


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
    """Sets of the parameters' dimensions (of all arguments', where there are no parameters): all sets of a few, those of one and two of
    many."""
    batch, stacked = batch_dim(plan.program), stacked_dims(plan.program)
    parameters = [each for each in plan.program.arguments if each.role is Role.PARAMETER]
    dims = dict.fromkeys(
        dim
        for tensor in parameters or plan.program.arguments
        for dim, size in zip(tensor.dims, tensor.shape, strict=True)
        if size > 1 and dim != batch and dim not in stacked
    )
    names = list(dims)
    for count in range(1, (len(names) if len(names) <= MOST_DIMS else _PAIR) + 1):
        yield from combinations(names, count)
