"""The nouns: mesh, sharding, tensor, program, layout, and what else a plan is made of. Values alone; numpy at most."""
