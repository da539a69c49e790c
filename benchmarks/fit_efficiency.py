"""Fits what a kind of device reaches of its peaks, on half of the published rows, and tests it on the other half.

What is fitted: for each kind of device one share of the peak for each class of work in `CLASSES`, by least squares of the logarithm of
predicted over measured time (Gauss-Newton), none above `MOST`. Every second row of a table is fitted on and the others tested, first the
even ones, from the fifth on the odd ones, and so on in fours: so every kind of recomputation and every size is on both sides. Runs on A100
are priced as what they are, eager PyTorch. Those on more than `LARGEST` devices are tested on alone: they are all of SC'21, and up to 10 %
slower than later runs of the same work on fewer (530B). So are the mixtures of experts on B200, which count for no half: what was fitted
on dense models holds for them or does not. Of a TPU, where the other shares are fitted to the compiler's estimates (`fit_estimates.py`),
it is what a run reaches of such an estimate. The result belongs in `workbench/hardware/hardware.toml`.

    python benchmarks/fit_efficiency.py [A100 | B200 | v5e ...] [--quick] [--json]
"""

import argparse
import json
import math
from collections.abc import Sequence

import numpy as np
from scipy.optimize import lsq_linear

from benchmarks.published import predict
from benchmarks.published_rows import TABLES, Row
from workbench.models.decoder.decoder_config import DecoderConfig

CLASSES = {"A100": ("matmul", "memory", "transfer"), "B200": ("matmul", "memory"), "v5e": ("sustained",)}
ROUNDS = 3
LEAST, MOST = 0.2, 0.95  # products in whole tiles on all units are no faster; beyond, products and memory traffic cannot be told apart
LARGEST = 512


def halves(hardware: str) -> tuple[list[Row], list[Row]]:
    """(fitted on, tested on)."""
    rows = [[row for row in make() if row.hardware == hardware] for make in TABLES.values()]
    dense = [[row for row in table if isinstance(row.config, DecoderConfig)] for table in rows]
    fitted = [row for table in dense for i, row in enumerate(table) if (i + i // 4) % 2 == 0 and row.devices <= LARGEST]
    return fitted, [row for table in rows for row in table if row not in fitted]


def residuals(row: Row, classes: Sequence[str], points: Sequence[np.ndarray]) -> list[float]:
    """log(predicted / measured) of a row for each of several points, a share for each class."""
    seconds = [predict(row, dict(zip(classes, shares.tolist(), strict=True))).seconds for shares in points]
    return [math.log(each / row.seconds) for each in seconds] if row.seconds else []


def fit(rows: Sequence[Row], classes: Sequence[str], start: float = 0.7, step: float = 0.03) -> np.ndarray:
    """The shares, each from `LEAST` to `MOST`."""
    shares = np.full(len(classes), start)
    for _ in range(ROUNDS):
        points = [shares, *(shares * np.where(np.arange(len(classes)) == i, 1 + step, 1) for i in range(len(classes)))]
        table = np.array([residuals(row, classes, points) for row in rows])  # a row's programs are traced once
        slopes = (table[:, 1:] - table[:, :1]) / step
        bounds = np.log(LEAST / shares), np.log(MOST / shares)
        shares = shares * np.exp(lsq_linear(slopes, -table[:, 0], bounds).x)
    return shares


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("hardware", nargs="*", default=[])
    parser.add_argument("--quick", action="store_true", help="B200 alone")
    parser.add_argument("--json", action="store_true", help="end with one line of JSON")
    options = parser.parse_args()
    found = {hardware: _tried(hardware) for hardware in options.hardware or (["B200"] if options.quick else CLASSES)}
    if options.json:
        print(json.dumps(found))


def _tried(hardware: str) -> dict[str, float]:
    """The fitted shares and both errors, printed."""
    fitted, tested = halves(hardware)
    classes = CLASSES[hardware]
    shares = fit(fitted, classes)
    found = dict(zip(classes, shares.round(3).tolist(), strict=True))
    print(hardware, found)
    for title, rows in (("fitted", fitted), ("tested", tested)):
        errors = np.expm1([residuals(row, classes, [shares])[0] for row in rows])
        found[f"{title}_error"] = round(float(np.abs(errors).mean()), 4)
        print(f"  {title} on {len(rows)} rows: {found[f'{title}_error']:.2%} mean, {np.abs(errors).max():.2%} max")
        for row, error in zip(rows, errors, strict=True):
            print(f"    {row.table:9} {row.name:50} {error:+.1%}")
    return found


if __name__ == "__main__":
    main()
