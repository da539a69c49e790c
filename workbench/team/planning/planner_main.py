"""The process of a room that is no fork: `python -m workbench.team.planning.planner_main DESCRIPTOR [MODULE]`.

Of a registered program, in a sandbox, it plans with the module that its command line names, whatever it is sent; without one, on a cluster,
with the zoo. It asks a partitioner of its own.
"""

import sys

from workbench.team.planning.room_process import serve_room


def main(arguments: list[str]) -> None:
    """Serve a room over a connection, until that ends."""
    descriptor, *modules = arguments
    serve_room(int(descriptor), allow=tuple(modules))


if __name__ == "__main__":
    main(sys.argv[1:])
