"""`workbench models` and `workbench hardware`: list what plans can name, as text or JSON."""

import argparse
import json
import os
from dataclasses import asdict
from typing import Any


def models(options: argparse.Namespace) -> None:
    """Print the model zoo, or the arguments of one model."""
    from workbench.models import ALL_MODELS
    from workbench.models.registry import model_record, model_text, models_text, verify_model

    if options.name is None:
        records = [model_record(model) for model in ALL_MODELS]
        print(json.dumps(records, indent=1) if options.json else models_text(ALL_MODELS))
        return
    model = verify_model(options.name, {})
    print(json.dumps(model_record(model, options.preset), indent=1) if options.json else model_text(model, options.preset))


def use_hardware_file(options: argparse.Namespace) -> None:
    """Use a hardware file in this process and its workers, as if the environment named it."""
    from workbench.hardware.catalogue import HARDWARE_FILE_VARIABLE, load_catalogue

    if options.hardware_file:
        load_catalogue(options.hardware_file)  # raises for an invalid file
        os.environ[HARDWARE_FILE_VARIABLE] = options.hardware_file


def hardware(options: argparse.Namespace) -> None:
    """Print the catalogue, or one kind or size of hardware."""
    from workbench.hardware.catalogue import default_catalogue, parse_hardware
    from workbench.hardware.hardware_text import catalogue_text, hardware_text
    from workbench.reports.run_events import finite

    use_hardware_file(options)
    catalogue = default_catalogue()
    if not options.json:
        print(catalogue_text(catalogue) if options.name is None else hardware_text(options.name, catalogue))
        return
    entries = catalogue.entries.values()
    records = [each.record for each in entries] if options.name is None else _sized_record(parse_hardware, options.name, catalogue)
    print(json.dumps(finite(records), indent=1))


def _sized_record(parse: Any, name: str, catalogue: Any) -> dict[str, Any]:
    """The record of a kind of device; of hardware with a size, including its physical axes."""
    if name in catalogue:
        return dict(catalogue[name].record)
    sized = parse(name, catalogue)
    return {**catalogue[sized.chip.name].record, "hardware": sized.name, "size": sized.size, "axes": [asdict(axis) for axis in sized.axes]}
