"""The team server: accounts, a plan gallery, rooms for shared editing, and jobs on the team's devices."""
