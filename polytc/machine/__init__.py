"""Machine: the description of a processor or device as data. Strategies read it; nothing else knows the hardware.

- quantities.py: numbers with a unit and an origin
- costs.py, device_costs.py: what things take, as such numbers
- records.py: Machine, its Cache and MatrixUnit
- estimates.py: seconds on a Machine, by named parts
- record_files.py: machines as files
- described.py: machines that are described, detection.py: the processor that we run on
- alignment.py: where arrays begin in memory

Every name below is imported when it is first used: what runs compiled code needs no more than the alignment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from polytc.lazy_names import lazily

if TYPE_CHECKING:
    from polytc.machine.alignment import ALIGNMENT
    from polytc.machine.costs import Costs
    from polytc.machine.described import AVX2, AVX512, DEVICES, GENERIC_CPU, GENERIC_GPU, NEON, SVE
    from polytc.machine.detection import DOUBLE_PUMPED, detect, detect_caches
    from polytc.machine.estimates import Estimate
    from polytc.machine.records import Cache, Machine, MatrixUnit

_HOME = {
    "ALIGNMENT": "polytc.machine.alignment",
    "Costs": "polytc.machine.costs",
    **dict.fromkeys(("AVX2", "AVX512", "DEVICES", "GENERIC_CPU", "GENERIC_GPU", "NEON", "SVE"), "polytc.machine.described"),
    **dict.fromkeys(("DOUBLE_PUMPED", "detect", "detect_caches"), "polytc.machine.detection"),
    "Estimate": "polytc.machine.estimates",
    **dict.fromkeys(("Cache", "Machine", "MatrixUnit"), "polytc.machine.records"),
}
"""Public name -> the module that defines it."""

__all__ = ["ALIGNMENT", "AVX2", "AVX512", "DEVICES", "DOUBLE_PUMPED", "GENERIC_CPU", "GENERIC_GPU", "NEON", "SVE", "Cache",
           "Costs", "Estimate", "Machine", "MatrixUnit", "detect", "detect_caches"]

__getattr__ = lazily(__name__, _HOME)
