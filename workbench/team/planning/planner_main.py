"""The process of a room about a registered program: `python -m workbench.team.planning.planner_main DESCRIPTOR MODULE`, in a sandbox.

It plans with the module that its command line names, whatever it is sent, and asks a partitioner of its own.
"""

import sys

from workbench.team.planning.room_process import serve_room


def main(arguments: list[str]) -> None:
    """Serve a room over a connection, until that ends."""
    descriptor, module = arguments
    serve_room(int(descriptor), allow=(module,))


if __name__ == "__main__":
    main(sys.argv[1:])
