"""Step time to first order: arithmetic, memory traffic, communication and starting kernels, nothing overlapped."""

from workbench.hardware import Hardware
from workbench.report import Report, StepTime


def step_time(report: Report, hardware: Hardware) -> StepTime:
    """Seconds of one step of the plan on devices like `hardware`.

    Communication is alpha-beta: each execution of a collective waits `latency` once and sends its ring volume at `link_bandwidth`.
    """
    chip, link = hardware.chip, hardware.axes[-1].link
    return StepTime(
        hardware=str(hardware),
        arithmetic=report.flops.per_device / chip.peak("float32"),
        memory=report.traffic / chip.memory_bandwidth,
        launch=report.kernels * chip.launch,
        exposed=sum(each.count * (link.latency + each.sent / (2 * link.bandwidth)) for each in report.collectives),
        hidden=0.0,
    )
