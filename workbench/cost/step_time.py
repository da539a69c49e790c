"""Step time to first order: arithmetic, memory traffic, communication and starting kernels, nothing overlapped."""

from workbench.hardware import Hardware
from workbench.report import Report, StepTime


def step_time(report: Report, hardware: Hardware) -> StepTime:
    """Seconds of one step of the plan on devices like `hardware`.

    Communication is alpha-beta: each execution of a collective waits `latency` once and sends its ring volume at `link_bandwidth`.
    """
    return StepTime(
        compute=report.flops.per_device / hardware.flops_per_second,
        memory=report.traffic / hardware.memory_bandwidth,
        communication=sum(each.count * (hardware.latency + each.sent / hardware.link_bandwidth) for each in report.collectives),
        hardware=hardware.name,
        launch=report.kernels * hardware.launch,
    )
