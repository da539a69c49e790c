"""Spatial partitioning: a picture, a volume or a recording is cut into slabs, one a device.

    mesh spatial:n    image [batch, height/n, width, channels]     weights all, on every device
                      a convolution of k rows reads k-1 rows of its neighbours: halo exchange
                      a normalisation or a mean over the image: partial sums, all-reduced

GSPMD (Xu et al. 2021, arXiv:2105.04663), section 4.3; Mesh-TensorFlow's convolutions with halo exchange.

**Communication**, a step: each convolution of k along the cut sends (k-1) slices to its neighbours forward and as many backward, by
collective-permutes, whatever n is; the gradients of the weights are all-reduced as over the data axis, 2 V (n-1)/n bytes.
"""

from dataclasses import dataclass

from workbench.errors import RecipeError
from workbench.plan.plan import Plan
from workbench.recipes.choose_axis import choose_axis, find_remainder, verify_divides, verify_unused
from workbench.recipes.choose_dims import space_dims
from workbench.recipes.recipe import Recipe, RecipeDraft, drop_redundant_edits
from workbench.recipes.recipe_edits import place_dim


@dataclass(frozen=True, slots=True)
class Spatial(Recipe):
    """The largest spatial dimension that the axis divides, sharded over it."""

    name = "spatial"
    title = "Spatial"
    about = "images, volumes or recordings sharded into slabs; halo exchange between neighbours"
    source = "GSPMD (Xu et al. 2021), section 4.3"

    def draft(self, plan: Plan) -> RecipeDraft:
        space = space_dims(plan.program)
        if not space:
            raise RecipeError(
                f"{self.title} shards spatial dimensions, but no input of `{plan.program.name}` has one.",
                ["name one `height`", "choose another recipe"],
            )
        axis = choose_axis(plan, "space", self.title, self.given_axis(0))
        if any(axis in plan.layout.rule(dim) for dim in space):
            return RecipeDraft((), axes=(axis,))
        dim = next((item for item in space if not find_remainder(plan, item, (*plan.layout.rule(item), axis))), space[0])
        axes = (*plan.layout.rule(dim), axis)
        verify_unused(plan, axis, (dim,), self.title)
        verify_divides(plan, dim, axes, self.title)
        return RecipeDraft(drop_redundant_edits(plan, place_dim(plan, dim, axes)), axes=(axis,))
