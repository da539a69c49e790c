"""Known ways to shard a program, each a list of ordinary edits: `Megatron().edits(plan)`, `plan.recipe("megatron")`."""

from workbench.recipes.recipe import Recipe as Recipe
from workbench.recipes.recipe import RecipeDraft as RecipeDraft
from workbench.recipes.recipe_list import ALL_RECIPES as ALL_RECIPES
from workbench.recipes.recipe_list import RecipeRow as RecipeRow
from workbench.recipes.recipe_list import find_recipe as find_recipe
from workbench.recipes.recipe_list import list_recipes as list_recipes
