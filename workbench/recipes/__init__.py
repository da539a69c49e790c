"""Known ways to shard a program, each a list of ordinary edits: `Megatron().edits(plan)`, `plan.recipe("megatron")`."""

from workbench.recipes.menu import ALL_RECIPES as ALL_RECIPES
from workbench.recipes.menu import RecipeRow as RecipeRow
from workbench.recipes.menu import find_recipe as find_recipe
from workbench.recipes.menu import list_recipes as list_recipes
from workbench.recipes.recipe import Recipe as Recipe
from workbench.recipes.recipe import RecipeDraft as RecipeDraft
