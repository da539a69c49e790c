"""The command line: `workbench serve`, `report`, `run`, `compile`, `compare`, `export`, `models`, `hardware`, `calibrate`.

Exit codes: 0 done, 1 something a person can mend (said on stderr, with the ways out), 2 wrong usage, 130 stopped with Ctrl-C.
"""

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from workbench.errors import DocumentError, WorkbenchError
from workbench.measurement import Measurement
from workbench.plan import Plan
from workbench.program import Reference
from workbench.units import format_seconds

DEFAULT_MODEL, DEFAULT_MESH = "gpt", "data:4 model:2"
LAUNCHERS = ("SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE")  # more than one process, under launchers that `jax.distributed` recognises

_TERMS = """\
words used here:
  mesh     the devices as a grid with named axes: "data:4 model:2" is 4 x 2 = 8 devices
  layout   which tensor dimension is split over which mesh axis: "batch:data; d_ff:model";
           "params/head=[-, model]" places one argument in its own way ("-" keeps a dimension whole),
           "@mlp/dot_general=[data, ?, model]" constrains an intermediate value ("?" leaves it to the partitioner)
  plan     a program, a mesh and a layout; PLAN.json is one that was saved
"""

_EPILOG = f"""\
{_TERMS}
examples:
  workbench serve                                           open the workbench on a small GPT
  workbench report --model gpt --mesh "data:4 model:2" --layout "batch:data; d_ff:model; heads:model"
                                                            what every device would hold, send and compute
  workbench run my.plan.json --steps 20 --check             run it here, and check the result against the unsharded step
  workbench compare my.plan.json --hardware "TPU v5e 4x4"   what its compiler makes of it, beside the prediction; no TPU is needed
  workbench export my.plan.json -o my_plan.py               the same plan as a JAX script
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code. Never a traceback for what a person can mend."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal that cannot show `·` shows `?`
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)  # plans name functions of the folder they are used in
    options = _parser().parse_args(arguments)
    try:
        options.command(options)
        sys.stdout.flush()
    except WorkbenchError as error:
        print(f"workbench: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("workbench: stopped.", file=sys.stderr)
        return 130
    except BrokenPipeError:  # `workbench report ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _parser() -> argparse.ArgumentParser:
    from workbench import __version__

    parser = argparse.ArgumentParser(
        prog="workbench",
        description="Decide how to lay a JAX program out over devices: see what each would hold, send and compute, then run it.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"workbench {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    serve = _command(commands, "serve", _serve, "open the workbench in the browser", 'workbench serve --model mnist --mesh "data:8"')
    serve.add_argument("--port", type=int, default=5006, help="port to listen on (default: %(default)s; 0 takes a free one)")
    serve.add_argument("--no-open", action="store_true", help="do not open the browser")

    report = _command(
        commands, "report", _report, "print what every device would hold, send and compute", "workbench report my.plan.json --json"
    )
    report.add_argument("--json", action="store_true", help="print one JSON object instead of tables")

    run = _command(commands, "run", _run, "run a plan on the attached devices and measure it", "srun -n 2 workbench run my.plan.json")
    run.add_argument("--steps", type=_positive, default=20, help="steps to measure, after warm-up (default: %(default)s)")
    run.add_argument("--check", action="store_true", help="also check the result against the unsharded step")
    run.add_argument(
        "--profile",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="watch one more step, and tell what the devices did in it (default: yes; it takes about half a second)",
    )
    run.add_argument(
        "--distributed", action="store_true", help="this is one of several processes (known by itself under Slurm and Open MPI)"
    )
    run.add_argument("--json", action="store_true", help="print one JSON object instead of tables; progress goes to stderr")

    compile_ = _command(
        commands,
        "compile",
        _compile,
        "compile a plan for hardware that may be absent, and print what its compiler makes of it",
        'workbench compile my.plan.json --hardware "TPU v5e 4x4"',
    )
    compile_.add_argument("--time-limit", type=_seconds, metavar="SECONDS", help="give up after so many seconds (default: never)")
    compile_.add_argument("--hlo", metavar="FILE", help="also write the scheduled HLO text there")
    compile_.add_argument("--no-cache", action="store_true", help="compile anew, and keep nothing on disk")
    compile_.add_argument("--json", action="store_true", help="print one JSON object instead of tables; progress goes to stderr")

    compare = _command(
        commands,
        "compare",
        _compare,
        "compile a plan and set every prediction beside the compiler's figure, with the cause of each difference",
        'workbench compare my.plan.json --hardware "TPU v5e 4x4"',
    )
    compare.add_argument("--run", action="store_true", help="also run the plan on the attached devices")
    compare.add_argument("--steps", type=_positive, default=20, help="steps to measure with --run (default: %(default)s)")
    compare.add_argument("--time-limit", type=_seconds, metavar="SECONDS", help="give up after so many seconds (default: never)")
    compare.add_argument("--json", action="store_true", help="print one JSON object instead of tables; progress goes to stderr")

    export = _command(commands, "export", _export, "write a plan as a JAX script", "workbench export my.plan.json -o my_plan.py")
    export.add_argument("-o", "--output", metavar="FILE", help="file to write (default: standard output)")

    calibrate = commands.add_parser(
        "calibrate",
        help="measure the attached devices, for a hardware file",
        description="Measure how fast the attached devices are, all busy at once, and print an entry for a hardware file "
        "(WORKBENCH_HARDWARE names it). It takes a few seconds.",
    )
    calibrate.add_argument("--name", default="This machine", help='what to call it, for --hardware "8 NAME" (default: %(default)s)')
    calibrate.add_argument(
        "--devices", type=_positive, default=8, help="virtual devices to share a machine without accelerators (default: %(default)s)"
    )
    calibrate.set_defaults(command=_calibrate)

    models = commands.add_parser("models", help="list the models of the zoo", description="List the models of the zoo, for --model.")
    models.set_defaults(command=_models)

    hardware = commands.add_parser(
        "hardware",
        help="list the hardware catalogue, for --hardware",
        description="List the hardware catalogue, or tell all of one kind: its rates and links, and where each number is from.",
        epilog='example:\n  workbench hardware "TPU v5p"\n',
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    hardware.add_argument("name", nargs="?", metavar="NAME", help='a kind of device, "TPU v5p", or so many of it, "TPU v5p 8x8x16"')
    hardware.add_argument("--hardware-file", metavar="FILE", help="a file of your own hardware, in the form of workbench/hardware.toml")
    hardware.set_defaults(command=_hardware)
    return parser


def _command(commands: Any, name: str, function: Callable[[argparse.Namespace], None], text: str, example: str) -> argparse.ArgumentParser:
    """A command about one plan: a document, or a model with a mesh and a layout."""
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=text,
        description=f"{text[0].upper()}{text[1:]}.",
        epilog=f"{_TERMS}\nexample:\n  {example}\n",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("plan", nargs="?", metavar="PLAN.json", help="a saved plan")
    parser.add_argument("--model", metavar="NAME", help="a model of the zoo (`workbench models` lists them), or package.module:function")
    parser.add_argument(
        "-a",
        "--argument",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="an argument of the model, such as layers=2; may be repeated",
    )
    parser.add_argument("--mesh", metavar="AXES", help=f'mesh axes and sizes (default for a model: "{DEFAULT_MESH}")')
    parser.add_argument("--layout", metavar="RULES", help="what is split over which axis (default for a model: everything replicated)")
    parser.add_argument("--remat", metavar="POLICY", help="what a layer keeps for its backward pass: none, full, dots, save:NAME+NAME, ...")
    parser.add_argument("--precision", metavar="TYPE", help="what the step is computed in: bfloat16, params=bfloat16,moments=float32, ...")
    parser.add_argument("--hardware", metavar="NAME", help='what it is planned for: "TPU v5p 8x8x16", "32 nodes of 8 H100"')
    parser.add_argument(
        "--wiring", metavar="ROUTES", help='which mesh axis runs over which links: "data:x+y; model:z" (default: by itself)'
    )
    parser.add_argument("--hardware-file", metavar="FILE", help="a file of your own hardware, in the form of workbench/hardware.toml")
    parser.set_defaults(command=function, parser=parser, serves=name == "serve")
    return parser


def _plan(options: argparse.Namespace) -> Plan:
    """The plan of a document, with another mesh or layout if one is given; or a new plan of a model."""
    from workbench.catalogue import parse_hardware
    from workbench.documents import load_plan, program_from_reference
    from workbench.edits import SetHardware, SetLayout, SetMesh, SetPrecision, SetRemat, SetWiring
    from workbench.layout import Layout
    from workbench.mesh import Mesh
    from workbench.precision import Precision
    from workbench.remat import Remat
    from workbench.topology import parse_wiring

    _use_hardware_file(options)
    if options.plan and (options.model or options.argument):
        options.parser.error("give a PLAN.json or a --model with its arguments, not both")
    if not options.plan and not options.model and not options.serves:
        options.parser.error("give a PLAN.json, or a model with --model NAME")
    if options.plan:
        plan = load_plan(options.plan)
        mesh, layout = options.mesh, options.layout
    else:
        reference = Reference(options.model or DEFAULT_MODEL, dict(_argument(text, options.parser) for text in options.argument))
        plan = Plan(program_from_reference(reference), "")
        mesh, layout = options.mesh or DEFAULT_MESH, options.layout
    plan = plan if options.remat is None else plan.apply(SetRemat(Remat.parse(options.remat)))
    plan = plan if options.precision is None else plan.apply(SetPrecision(Precision.parse(options.precision)))
    plan = plan if mesh is None else plan.apply(SetMesh(Mesh(mesh)))
    plan = plan if layout is None else plan.apply(SetLayout(Layout(layout)))
    plan = plan if options.hardware is None else plan.apply(SetHardware(parse_hardware(options.hardware)))
    return plan if options.wiring is None else plan.apply(SetWiring(parse_wiring(options.wiring)))


def _use_hardware_file(options: argparse.Namespace) -> None:
    """In this process and in its workers, as if the environment named it."""
    from workbench.catalogue import OWN_FILE, load_catalogue

    if options.hardware_file:
        load_catalogue(options.hardware_file)  # says what is wrong with it
        os.environ[OWN_FILE] = options.hardware_file


def _argument(text: str, parser: argparse.ArgumentParser) -> tuple[str, Any]:
    """`layers=2`: the value is JSON if it reads as JSON, else a text."""
    name, equals, value = text.partition("=")
    if not equals:
        parser.error(f"--argument {text}: write NAME=VALUE")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a whole number from 1")
    return int(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not a number of seconds above 0")
    return seconds


def _plan_on_the_cpu(options: argparse.Namespace) -> Plan:
    """The plan, with this process kept off the accelerators: a worker process runs it and needs their memory."""
    from workbench.tracing.platform import leave_accelerators_alone

    leave_accelerators_alone()
    return _plan(options)


def _serve(options: argparse.Namespace) -> None:
    plan = _plan_on_the_cpu(options)
    try:
        from workbench.app import serve
    except ModuleNotFoundError as error:
        raise WorkbenchError(f"The page needs `{error.name}`, which is not installed.", ['pip install "sharding-workbench[app]"']) from None
    try:
        serve(plan, port=options.port, open_browser=not options.no_open)
    except OSError as error:
        ways_out = [f"give another one, --port {options.port + 1}", "open the page that is already served there"]
        raise WorkbenchError(f"Port {options.port} cannot be used: {error.strerror or error}.", ways_out) from None


def _report(options: argparse.Namespace) -> None:
    from workbench.documents import report_record

    report = _plan_on_the_cpu(options).report()
    print(json.dumps(report_record(report), indent=1) if options.json else report)


def _run(options: argparse.Namespace) -> None:
    from workbench.documents import measurement_record
    from workbench.text import measurement_text

    # A launcher's other processes must be joined before the plan is built: building it may touch JAX.
    distributed = options.distributed or any(int(os.environ.get(name) or 1) > 1 for name in LAUNCHERS)
    measurement, plan = _run_distributed(options) if distributed else _run_here(options)
    if measurement is None:
        return  # process 0 speaks for all
    here = plan.updated(hardware=measurement.hardware, wiring=None)  # what was measured stands beside what this machine should do
    print(json.dumps(measurement_record(measurement), indent=1) if options.json else measurement_text(measurement, here.report()))


def _run_here(options: argparse.Namespace) -> tuple[Measurement, Plan]:
    """In a worker process, so that running out of memory there is a message here."""
    from workbench.engine import run_plan

    plan = _plan_on_the_cpu(options)
    measurement = run_plan(plan, steps=options.steps, on_progress=_print_progress, check=options.check, profile=options.profile)
    return measurement, plan


def _run_distributed(options: argparse.Namespace) -> tuple[Measurement | None, Plan]:
    """In this process, which is one of several that a launcher started; only process 0 prints."""
    from workbench.engine import execute, start_distributed

    with _libraries_off_stdout():
        speaks = start_distributed() == 0
        plan = _plan(options)
        tell = _print_progress if speaks else _say_nothing
        measurement = execute(plan, steps=options.steps, on_event=tell, check=options.check, profile=options.profile)
    return (measurement if speaks else None), plan


@contextmanager
def _libraries_off_stdout() -> Iterator[None]:
    """Send what libraries print (gloo tells of its peers on stdout) to stderr, so that `--json` stays JSON."""
    sys.stdout.flush()
    stdout = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        os.dup2(stdout, 1)
        os.close(stdout)


def _print_progress(event: Mapping[str, Any]) -> None:
    """A line a stage, and about ten lines over the steps."""
    if event["event"] == "progress":
        print(f"{event['stage']} ...", file=sys.stderr, flush=True)
    elif event["event"] == "step":
        step, of = event["step"], event["of"]
        if step in (1, of) or step % max(1, of // 10) == 0:
            loss = "" if event.get("loss") is None else f", loss {event['loss']:.4f}"
            print(f"step {step} of {of}: {format_seconds(event['seconds'])}{loss}", file=sys.stderr, flush=True)


def _say_nothing(event: Mapping[str, Any]) -> None:
    """Progress of a process that does not speak."""


def _compile(options: argparse.Namespace) -> None:
    from workbench.documents import compiled_record

    plan = _plan_on_the_cpu(options)
    hlo_file = None if options.hlo is None else str(Path(options.hlo).absolute())
    compiled = plan.compile(on_progress=_stage_printer(), time_limit=options.time_limit, keep=not options.no_cache, hlo_file=hlo_file)
    print(json.dumps(compiled_record(compiled), indent=1) if options.json else compiled)


def _compare(options: argparse.Namespace) -> None:
    from workbench.documents import comparison_record
    from workbench.engine import run_plan

    plan = _plan_on_the_cpu(options)
    measured = run_plan(plan, steps=options.steps, on_progress=_print_progress) if options.run else None
    comparison = plan.compare(measurement=measured, on_progress=_stage_printer(), time_limit=options.time_limit)
    print(json.dumps(comparison_record(comparison), indent=1) if options.json else comparison)


def _stage_printer() -> Callable[[Mapping[str, Any]], None]:
    """A line a stage; the terminal needs no heartbeat."""
    stages: set[str] = set()

    def tell(event: Mapping[str, Any]) -> None:
        if event["event"] == "progress" and event["stage"] not in stages:
            stages.add(event["stage"])
            _print_progress(event)

    return tell


def _export(options: argparse.Namespace) -> None:
    script = _plan_on_the_cpu(options).export()
    if options.output is None:
        print(script, end="")
        return
    try:
        Path(options.output).write_text(script, encoding="utf-8")
    except OSError as error:
        raise DocumentError(f"`{options.output}` cannot be written: {error.strerror or error}.", ["choose another folder"]) from None


def _calibrate(options: argparse.Namespace) -> None:
    from workbench.documents import hardware_entry
    from workbench.engine import calibrate_here

    print(hardware_entry(calibrate_here(options.devices), options.name), end="")


def _models(_options: argparse.Namespace) -> None:
    from workbench.models import ALL_MODELS
    from workbench.text import table_text

    rows = [(model.name, model.about, " ".join(_shown(*each) for each in model.arguments.items())) for model in ALL_MODELS]
    print(table_text(["model", "what it is~", "arguments (--argument NAME=VALUE)~"], rows))


def _hardware(options: argparse.Namespace) -> None:
    from workbench.catalogue import default_catalogue
    from workbench.hardware_text import catalogue_text, hardware_text

    _use_hardware_file(options)
    catalogue = default_catalogue()
    print(catalogue_text(catalogue) if options.name is None else hardware_text(options.name, catalogue))


def _shown(name: str, default: object) -> str:
    """`layers=2`; without a value where the model decides by itself."""
    return name if default is None else f"{name}={json.dumps(default)}"


if __name__ == "__main__":
    sys.exit(main())
