"""The arguments of `workbench fleet`."""

from typing import Any

from workbench.cli import fleet_command
from workbench.cli.shared_arguments import add_allow, add_hardware_file, add_json, add_link, add_parser, positive


def add_fleet(added: Any) -> None:
    """The command `fleet` and its verbs."""
    command = add_parser(
        added,
        "fleet",
        "train many models at once on the attached devices, or see beforehand what that would take",
        description="Train many models at once, each cut into shards that fit a device, or simulate that from units timed here.",
        epilog="examples:\n  workbench fleet run grid.toml --devices 2\n  workbench fleet simulate grid.toml --devices 8 --policy all\n"
        '  workbench fleet simulate grid.toml --hardware "8 H100"\n',
    )
    verbs = command.add_subparsers(required=True, metavar="VERB")
    for name, function, text in (
        ("run", fleet_command.run, "train the models, and print the measured schedule beside the predicted one"),
        (
            "simulate",
            fleet_command.simulate,
            "time each unit on one device here, or plan it for hardware that is named, and print the schedule",
        ),
    ):
        verb = add_parser(verbs, name, text)
        verb.add_argument("file", metavar="FILE", help="which models to train, in TOML or JSON")
        verb.add_argument("--devices", type=positive, metavar="N", help="number of devices (default: the file's, else all there are)")
        verb.add_argument(
            "--hardware",
            metavar="NAME",
            help='what it is planned for, attached or not: "8 H100" (default: the file\'s, else what is attached)',
        )
        add_link(verb)
        add_hardware_file(verb)
        verb.add_argument("--memory", metavar="TEXT", help='what may be used of each device: "2 GiB"')
        several = ", `all`, or `exact` for the optimum of a small case" if name == "simulate" else ""
        verb.add_argument("--policy", metavar="NAME", help=f"which model runs next: sharded-lrtf, round-robin, ...{several}")
        if name == "run":
            verb.add_argument("--folder", metavar="DIR", help="keep checkpoints there, and go on from the one that is there")
            verb.add_argument("--follow", action="store_true", help="models added to FILE meanwhile join, those taken out of it stop")
        add_allow(verb)
        add_json(verb, "; progress goes to stderr")
        verb.set_defaults(command=function, parser=verb)
