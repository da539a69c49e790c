"""The value types that make up a plan: mesh, sharding, tensor, program, layout and others. Depends on numpy at most."""
