"""Machine: the description of a processor or device as data. Strategies read it; nothing else knows the hardware.

- quantities.py: numbers with a unit and an origin
- costs.py, device_costs.py: what things take, as such numbers
- records.py: Machine and Cache
- estimates.py: seconds on a Machine, by named parts
- record_files.py: machines as files
- described.py: machines that are described, detection.py: the processor that we run on
"""

from polytc.machine.costs import Costs
from polytc.machine.described import AVX2, AVX512, DEVICES, GENERIC_CPU, GENERIC_GPU, NEON, SVE
from polytc.machine.detection import DOUBLE_PUMPED, detect, detect_caches
from polytc.machine.estimates import Estimate
from polytc.machine.records import ALIGNMENT, Cache, Machine

__all__ = ["ALIGNMENT", "AVX2", "AVX512", "DEVICES", "DOUBLE_PUMPED", "GENERIC_CPU", "GENERIC_GPU", "NEON", "SVE", "Cache",
           "Costs", "Estimate", "Machine", "detect", "detect_caches"]
