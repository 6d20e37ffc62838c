"""What may be said of sessions and of runs. Names and defaults are ONNX Runtime's; what chooses among its own parts is kept and
has no effect."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field


class GraphOptimizationLevel(enum.IntEnum):
    """polytc's passes always run: what they may do to digits is in docs/accuracy.md."""

    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_LAYOUT = 3
    ORT_ENABLE_ALL = 99


class ExecutionMode(enum.IntEnum):
    """Kernels run one after another, each on all threads."""

    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


class ExecutionOrder(enum.IntEnum):
    """Kernels run in the order of the model."""

    DEFAULT = 0
    PRIORITY_BASED = 1


@dataclass
class SessionOptions:
    """intra_op_num_threads: that work on a run, 0 for all of the machine's. enable_profiling, profile_file_prefix: see
    `InferenceSession.end_profiling`."""

    intra_op_num_threads: int = 0
    inter_op_num_threads: int = 0
    enable_profiling: bool = False
    profile_file_prefix: str = "onnxruntime_profile_"
    graph_optimization_level: GraphOptimizationLevel = GraphOptimizationLevel.ORT_ENABLE_ALL
    execution_mode: ExecutionMode = ExecutionMode.ORT_SEQUENTIAL
    execution_order: ExecutionOrder = ExecutionOrder.DEFAULT
    enable_cpu_mem_arena: bool = True
    enable_mem_pattern: bool = True
    enable_mem_reuse: bool = True
    log_severity_level: int = -1
    log_verbosity_level: int = 0
    logid: str = ""
    optimized_model_filepath: str = ""
    use_deterministic_compute: bool = False
    entries: dict[str, str] = field(default_factory=dict, repr=False)
    free_dimensions: dict[str, int] = field(default_factory=dict, repr=False)

    def add_session_config_entry(self, key: str, value: str) -> None:
        """Keep a setting of ONNX Runtime's."""
        self.entries[str(key)] = str(value)

    def get_session_config_entry(self, key: str) -> str:
        """The setting, as it was kept. Raises KeyError."""
        return self.entries[key]

    def add_free_dimension_override_by_name(self, name: str, value: int) -> None:
        """The size of a name in the shapes of inputs: what has no other open size is compiled when the session is made."""
        self.free_dimensions[name] = int(value)


@dataclass
class RunOptions:
    """Of one run."""

    log_severity_level: int = -1
    log_verbosity_level: int = 0
    logid: str = ""
    terminate: bool = False
    only_execute_path_to_fetches: bool = False
    entries: dict[str, str] = field(default_factory=dict, repr=False)

    def add_run_config_entry(self, key: str, value: str) -> None:
        """Keep a setting of ONNX Runtime's."""
        self.entries[str(key)] = str(value)
