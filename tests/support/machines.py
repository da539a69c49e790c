"""Hardware made up for tests: round rates, one ring."""

from workbench.hardware.hardware import AxisTopology, Chip, Hardware, Link, PhysicalAxis


def flat(
    name: str,
    *,
    flops: float = 1e12,
    memory_bandwidth: float = 1e11,
    sent_bandwidth: float = 1e10,
    latency: float = 1e-6,
    memory: int = 1 << 34,
    launch: float = 0.0,
    devices: int = 8,
) -> Hardware:
    """A ring of equal devices; `sent_bandwidth` is what leaves a device in both directions."""
    chip = Chip(name, {"default": flops}, memory, memory_bandwidth, launch=launch)
    return Hardware(chip, (PhysicalAxis("device", devices, Link("ring", sent_bandwidth / 2, latency), AxisTopology.RING),), name)
