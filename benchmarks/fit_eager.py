"""Fits what an H100 reaches, and what EFA reaches, on the playbook's rows for fitting; tests on the others.

Fitted (`START`), by least squares of the logarithm of predicted over measured step time, outliers damped (`scipy`, Cauchy's loss): shares
of the peak of products and of the memory's bandwidth; the least time of a step of a ring over EFA; and the share of a link's bandwidth that
gathers reach, over NVLink and over EFA. Only steady rows count (`Run.is_steady`). The halves are those of `published_ultrascale.FITTED`.
The result belongs in `workbench/hardware/hardware.toml`.

What the host needs for a call is not fitted: these rows tell calls of kernels and of collectives badly apart (71 and 218 us, or 101 and
113, are as good). Both follow from a layer of a GPT on A100, which others measured to take 3.2 ms at least on one device, for 44 calls, and
3.9 ms with tensor parallelism, for 4 sums more (`runtimes.toml`).

    python benchmarks/fit_eager.py [--quick] [--json]
"""

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from scipy.optimize import least_squares

from benchmarks.published_ultrascale import Run, predict, runs, scores
from workbench.hardware.hardware import Hardware, Link

SHARES = ("matmul", "memory")
START = {
    "matmul": 0.7,
    "memory": 0.9,
    "overhead": 50e-6,
    "nvlink_8": 0.6,
    "efa_32": 0.22,
    "efa_512": 0.07,
}
PARAMETERS = tuple(START)


def changed(values: Mapping[str, float]) -> Callable[[Hardware], Hardware]:
    """A change of hardware: these values in place of the catalogue's."""

    def change(hardware: Hardware) -> Hardware:
        chip = replace(hardware.chip, efficiency={**hardware.chip.efficiency, **{name: values[name] for name in SHARES}})
        axes = tuple(replace(axis, link=_changed_link(axis.link, values)) for axis in hardware.axes)
        return replace(hardware, chip=chip, axes=axes)

    return change


def _changed_link(link: Link, values: Mapping[str, float]) -> Link:
    """`NAME_DEVICES` is the share of link `NAME` that gathers over so many devices reach."""
    mine = {int(name.rpartition("_")[2]): value for name, value in values.items() if name.startswith(f"{link.name}_")}
    overhead = values["overhead"] if link.name == "efa" else link.overhead
    return replace(link, overhead=overhead, gathers=tuple(sorted({**dict(link.gathers), **mine}.items())))


def residuals(logs: np.ndarray, rows: Sequence[Run]) -> np.ndarray:
    """log(predicted / measured) of each row; the parameters are given by their logarithms."""
    change = changed(dict(zip(PARAMETERS, np.exp(logs).tolist(), strict=True)))
    return np.array([np.log(predict(row, change).seconds / row.seconds) for row in rows])


def fit(rows: Sequence[Run], start: Mapping[str, float]) -> dict[str, float]:
    """The parameters; shares are at most 1."""
    first = np.log([start[name] for name in PARAMETERS])
    upper = [np.inf if name == "overhead" else 0.0 for name in PARAMETERS]
    found = least_squares(residuals, first, args=(rows,), bounds=(-np.inf, upper), loss="cauchy", f_scale=0.05, diff_step=0.03, max_nfev=12)
    return dict(zip(PARAMETERS, np.exp(found.x).tolist(), strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="every sixth row")
    parser.add_argument("--json", action="store_true", help="end with one line of JSON")
    options = parser.parse_args()
    steady = [row for row in runs() if row.is_steady][:: 6 if options.quick else 1]
    fitted, tested = ([row for row in steady if row.is_fitted == side] for side in (True, False))
    values = fit(fitted, START)
    found = {"values": {name: float(f"{value:.3g}") for name, value in values.items()}}
    change = changed(values)
    for title, rows in (("fitted", fitted), ("tested", tested)):
        found[title] = scores([predict(row, change) for row in rows])
    for title, figures in found.items():
        print(title, figures)
    if options.json:
        print(json.dumps(found))


if __name__ == "__main__":
    main()
