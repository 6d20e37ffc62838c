"""The host in Python: one text for every folder, which reads the .json beside it."""

TEXT = '''\
"""Runs the kernels of this folder with pyopencl. Everything it knows is in the .json beside it.

    import pyopencl as cl
    context = cl.create_some_context()
    program = Program(context)
    event = program.enqueue(cl.CommandQueue(context), *buffers)     # cl.Buffer or pyopencl.array.Array, as the .json lists them
    other = program.clone()                                         # for runs on another queue, or by another thread
    outputs = program(*inputs)                                      # numpy arrays
    program.variant(M=64, N=64)                                     # which variant runs at sizes, where there are several
    program.force(1)                                                # from now on this one; None: the fastest by the model

As a script: python NAME.py [INPUT.npy ...] prints the first elements of each output; inputs without a file are zeros where
their shapes are fixed.
"""

import copy
import json
import math
import re
import sys
from pathlib import Path

import numpy as np
import pyopencl as cl
import pyopencl.array

SCHEMA = 2
CHOSEN = 4096  # sizes of which it is remembered which variant runs


class Program:
    """Built kernels, the weights and the memory between them. One run at a time: what is enqueued later must wait for what was
    enqueued before, as it does in one in-order queue; a clone has memory of its own."""

    def __init__(self, context, path=Path(__file__).with_suffix(".json")):
        """Build for the first device of a context. Raises RuntimeError where the device cannot run it."""
        path = Path(path)
        self.about = json.loads(path.read_text())
        if self.about["schema"] != SCHEMA:
            raise RuntimeError(f"{path.name} has the schema {self.about['schema']}, not {SCHEMA}: it is of another export")
        self.context, self.device = context, context.devices[0]
        self._check()
        text = path.with_name(self.about["source"]).read_text()
        options = self.about["build_options"].split()
        if self.device.single_fp_config & cl.device_fp_config.CORRECTLY_ROUNDED_DIVIDE_SQRT and "-cl-mad-enable" not in options:
            options.append("-cl-fp32-correctly-rounded-divide-sqrt")
        program = cl.Program(context, text).build(options, devices=[self.device])
        flags = cl.mem_flags
        parts = _weights(path, self.about["weights"]) if self.about["weights"] else []
        self._weights = [cl.Buffer(context, flags.READ_ONLY | flags.COPY_HOST_PTR, hostbuf=p) if p else
                         cl.Buffer(context, flags.READ_ONLY, 1) for p in parts]
        self._program = program
        self._variants, self._forced, self._chosen = self.about.get("variants", [self.about]), None, {}
        self._start()

    def _start(self):
        self._ready, self._buffers, self._sizes, self._kernels, self._plan = False, [], {}, {}, self._variants[0]

    def clone(self):
        """Another one of the same code and weights, with kernels and memory of its own."""
        made = copy.copy(self)
        made._chosen = {}
        made._start()
        return made

    def variant(self, /, **sizes):
        """The number of the variant that runs at these sizes: of the one that was forced, else of the fastest by the model.
        Raises ValueError where there is none."""
        self._check_sizes(sizes)
        key = tuple(sizes[n] for n in self.about["sizes"])
        if key not in self._chosen:
            allowed = range(len(self._variants)) if self._forced is None else [self._forced]
            times = {k: self._seconds(self._variants[k], sizes) for k in allowed} if "model" in self.about else {0: 0.0}
            best = min(times, key=times.__getitem__)
            if times[best] == math.inf:
                raise ValueError(f"variant {best}, which has to run, does not at these sizes" if self._forced is not None else
                                 "at these sizes an array between the kernels has more elements than they count")
            if len(self._chosen) == CHOSEN:
                self._chosen.clear()
            self._chosen[key] = best
        return self._chosen[key]

    def estimate(self, variant, /, **sizes):
        """Seconds that a variant takes at these sizes by the model; infinite where it does not run."""
        self._check_sizes(sizes)
        if "model" not in self.about:
            raise ValueError("there is one variant, of which nothing is estimated")
        return self._seconds(self._variants[variant], sizes) if variant in range(len(self._variants)) else math.inf

    def force(self, variant):
        """From the next `resize`, or run with sizes, on this variant runs and no other one; None: the fastest by the model. For
        tuning, and for tests."""
        if variant is not None and variant not in range(len(self._variants)):
            raise ValueError(f"the variants are 0 to {len(self._variants) - 1}")
        self._forced, self._chosen, self._ready = variant, {}, False

    def _known(self, plan, sizes):
        """The sizes with the parts and the products that a variant has names for."""
        known = dict(sizes)
        for name, size, divisor in plan.get("parts", ()):
            known[name] = known[size] // divisor
        for name, a, b in plan.get("products", ()):
            known[name] = _number(a, known) * _number(b, known)
        return known

    def _seconds(self, plan, sizes):
        """The estimate of a variant."""
        if any(sizes[size] % divisor for _, size, divisor in plan.get("parts", ())):
            return math.inf
        model, known, total = self.about["model"], self._known(plan, sizes), 0.0
        if max((_number(n, known) for n in plan["buffer_elements"]), default=0) > self.about["requires"]["elements"]:
            return math.inf
        for row in plan["estimate"]:
            groups = math.prod(_number(n, known) for n in row["work_items"]) // row["items"]
            if groups > model["groups"]:
                return math.inf
            near = "near" in row and all(known[n] <= most for n, most in row["small"].items())
            work = {n: _counted((row["near"] if near else row)[n], known) for n in ("operations", "passes", "moved", "waits")}
            busiest, rounds = -(-groups // model["units"]), -(-groups // (model["units"] * row["resident"]))
            arrays = sum(float(_number(n, known)) for n in row["arrays"])
            times = (arrays / model["memory"], work["moved"] * groups / model["cache"],
                     work["operations"] * busiest / model["operations"], work["passes"] * busiest / model["passes"],
                     work["waits"] * model["wait"] * rounds)
            if groups:
                total += _counted(row["repeats"], known) * (model["launch"] + max(times))
        return total

    def _check(self):
        needs, device = self.about["requires"], self.device
        if needs["fp64"] and "cl_khr_fp64" not in device.extensions.split():
            raise RuntimeError(f"{device.name} has no f64")
        if needs["local_bytes"] > device.local_mem_size:
            raise RuntimeError(f"{device.name} has {device.local_mem_size} bytes of local memory, not {needs['local_bytes']}")
        if needs["work_group"] > device.max_work_group_size:
            raise RuntimeError(f"{device.name} has work-groups of {device.max_work_group_size}, not {needs['work_group']}")

    def _check_sizes(self, sizes):
        """Raises ValueError for what are no sizes, or such at which the kernels are not right."""
        if set(sizes) != set(self.about["sizes"]) or min(sizes.values(), default=1) < 1:
            raise ValueError("the sizes, each at least 1, are " + ", ".join(self.about["sizes"]))
        below = [f for f in self.about.get("limits", ()) if _number(f, sizes) < 0]
        if below:
            raise ValueError("at these sizes something lies beyond the end of an array, or the program is another one: at "
                             "least 0 are to be " + ", ".join(below))
        self._check_elements([math.prod(_number(n, sizes) for n in a["shape"]) << a["dtype"].startswith("c")
                              for a in self.about["arguments"]])

    def resize(self, /, **sizes):
        """Set the sizes that are not fixed, by name, and make memory for them. Not while a run is under way."""
        if self._ready and sizes.items() <= self._sizes.items():
            return
        self._ready, self._sizes, self._buffers = False, {}, []
        self._check_sizes(sizes)
        self._plan = self._variants[self.variant(**sizes)]
        known = self._known(self._plan, sizes)
        self._check_elements([_number(n, known) // size
                              for n, size in zip(self._plan["buffers"], self._plan.get("buffer_element_bytes", ()))])
        self._sizes = known
        self._buffers = [cl.Buffer(self.context, cl.mem_flags.READ_WRITE, max(1, self._number(n)))
                         for n in self._plan["buffers"]]
        self._ready = True

    def _check_elements(self, elements):
        if max(elements, default=0) > (most := self.about["requires"].get("elements", math.inf)):
            raise ValueError(f"an array has more than the {most} elements that the kernels count")

    def _number(self, formula, around=()):
        """A number of the description, see below, where the loops around are at these places."""
        return _number(formula, {**self._sizes, **dict(around)})

    def _launches(self, rows, around=()):
        """All launches in order, with where the loops around are: (name, number) of each."""
        for row in rows:
            if "for" in row:
                for at in range(self._number(row["lower"], around), self._number(row["upper"], around), row["step"]):
                    yield from self._launches(row["launches"], (*around, (row["for"], at)))
            else:
                yield row, around

    def _kernel(self, name):
        if name not in self._kernels:
            self._kernels[name] = cl.Kernel(self._program, name)
        return self._kernels[name]

    def _place(self, place, arguments, around=()):
        (area, number), = place.items()
        if area == "counter":
            return np.int32(around[number][1])
        if area == "size":
            named = [*self.about["sizes"], *(row[0] for key in ("parts", "products") for row in self._plan.get(key, ()))]
            return np.int32(self._sizes[named[number]])
        return {"argument": arguments, "weight": self._weights, "buffer": self._buffers}[area][number]

    def enqueue(self, queue, /, *arguments, wait_for=None, events=None, **sizes):
        """One run on buffers for all arguments, in order; an event that is complete when it is. sizes: that are not fixed.
        events: a list that gets (kernel, event) of each launch; of a queue with profiling they say when it ran."""
        self.resize(**sizes)
        if len(arguments) != len(self.about["arguments"]):
            raise TypeError("the arguments are " + ", ".join(a["name"] for a in self.about["arguments"]))
        if queue.properties & cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE:
            raise ValueError("the queue must be in order")
        if queue.context != self.context:
            raise ValueError("the queue is of another context")
        memory = [self._checked(about, a) for about, a in zip(self.about["arguments"], arguments)]
        self._check_apart(memory)
        if wait_for:
            cl.enqueue_barrier(queue, wait_for=wait_for)
        for launch, around in self._launches(self._plan["launches"]):
            grid = [self._number(n, around) for n in launch["global"]]
            if 0 in grid:
                continue
            event = self._kernel(launch["kernel"])(queue, grid, launch["local"],
                                                   *(self._place(p, memory, around) for p in launch["arguments"]))
            if events is not None:
                events.append((launch["kernel"], event))
        for row in self.about["copies"]:
            cl.enqueue_copy(queue, self._place(row["to"], memory), self._place(row["from"], memory), byte_count=row["bytes"])
        return cl.enqueue_marker(queue)

    def _checked(self, about, given):
        """The buffer of an argument, which is what the kernels take it for."""
        name, shape = about["name"], tuple(self._number(n) for n in about["shape"])
        if isinstance(given, cl.array.Array):
            if not _same_type(given.dtype, about["dtype"]):
                raise TypeError(f"{name} is {given.dtype}, not {about['dtype']}")
            if given.shape != shape:
                raise ValueError(f"{name} has the shape {given.shape}, not {shape}")
            if not given.flags.c_contiguous:
                raise ValueError(f"{name} is a view with strides: copy it")
            given = self._part(name, given) if given.offset else given.base_data
        if not isinstance(given, cl.MemoryObject):
            raise TypeError(f"{name} is a {type(given).__name__}, not a cl.Buffer or a pyopencl.array.Array")
        if given.context != self.context:
            raise ValueError(f"{name} is a buffer of another context")
        flags = given.flags | (whole.flags if (whole := given.get_info(cl.mem_info.ASSOCIATED_MEMOBJECT)) else 0)
        if about["role"] != "input" and flags & cl.mem_flags.READ_ONLY:
            raise ValueError(f"{name} is written, and its buffer is READ_ONLY")
        if about["role"] != "output" and flags & cl.mem_flags.WRITE_ONLY:
            raise ValueError(f"{name} is read, and its buffer is WRITE_ONLY")
        if given.size < (needed := math.prod(shape) * _numpy(about["dtype"]).itemsize):
            raise ValueError(f"{name} has {given.size} bytes, not {needed}")
        return given

    def _part(self, name, given):
        """The part of a buffer that a view is, where the device lets buffers begin there."""
        step = self.device.mem_base_addr_align // 8
        if given.offset % step or given.base_data.get_info(cl.mem_info.ASSOCIATED_MEMOBJECT):
            raise ValueError(f"{name} is a view that begins {given.offset} bytes into its buffer, which is no multiple of "
                             f"{step}: copy it")
        return given.base_data.get_sub_region(given.offset, max(1, given.nbytes))

    def _check_apart(self, memory):
        """The kernels take what they write to lie apart from all else."""
        known = []
        for about, given in zip(self.about["arguments"], memory):
            whole, first = given.get_info(cl.mem_info.ASSOCIATED_MEMOBJECT) or given, given.get_info(cl.mem_info.OFFSET)
            last = first + math.prod(map(self._number, about["shape"])) * _numpy(about["dtype"]).itemsize
            for other, its_whole, its_first, its_last in known:
                written = about["role"] != "input" or other["role"] != "input"
                if written and whole.int_ptr == its_whole.int_ptr and first < its_last and its_first < last:
                    raise ValueError(f"{other['name']} and {about['name']}, of which one is written, share memory")
            known.append((about, whole, first, last))

    def __call__(self, *inputs, queue=None, **sizes):
        """The outputs as numpy arrays: the only one, or a tuple. Arguments that are read and written are not changed: their new
        values are among the outputs. Arrays must have the types of the arguments; lists and numbers are converted. sizes: those
        that are no extents of the inputs."""
        queue = queue or cl.CommandQueue(self.context, self.device)
        read = [a for a in self.about["arguments"] if a["role"] != "output"]
        if len(inputs) != len(read):
            raise TypeError("the inputs are " + ", ".join(a["name"] for a in read))
        given = {a["name"]: _array(a, x) for a, x in zip(read, inputs)}
        known = self.about["sizes"]
        sizes |= {n: extent for a in read for n, extent in zip(a["shape"], given[a["name"]].shape) if n in known}
        self.resize(**sizes)
        arrays = []
        for a in self.about["arguments"]:
            shape = tuple(self._number(n) for n in a["shape"])
            arrays.append(given[a["name"]] if a["name"] in given else np.zeros(shape, _numpy(a["dtype"])))
            if arrays[-1].shape != shape:
                raise ValueError(f"{a['name']} has the shape {arrays[-1].shape}, not {shape}")
        flags = cl.mem_flags
        buffers = [cl.Buffer(self.context, flags.READ_WRITE | flags.COPY_HOST_PTR, hostbuf=a) if a.size else
                   cl.Buffer(self.context, flags.READ_WRITE, 1) for a in arrays]
        self.enqueue(queue, *buffers, **sizes)
        outputs = []
        for a, array, buffer in zip(self.about["arguments"], arrays, buffers):
            if a["role"] != "input":
                if array.size:
                    cl.enqueue_copy(queue, array, buffer)
                outputs.append(array)
        queue.finish()
        return outputs[0] if len(outputs) == 1 else tuple(outputs)


def _number(formula, known):
    """A number of the description: itself, or a formula of what is known, whose names may be words of Python."""
    if isinstance(formula, int):
        return formula
    return int(eval(re.sub("[A-Za-z_][A-Za-z_0-9]*", lambda name: f"({known[name[0]]})", formula), {"__builtins__": {}}))


def _counted(terms, known):
    """The sum of products of a number and of formulas, which count as 0 where they are negative."""
    total = 0.0
    for number, *factors in terms:
        for f in factors:
            number *= float(max(0, _number(f, known)))
        total += number
    return total


def _numpy(name):
    """numpy's type: float32 of f32; the bits of bf16."""
    kinds = {"f": "float", "c": "complex", "i": "int", "u": "uint"}
    return np.dtype({"bool": "bool", "bf16": "uint16"}.get(name) or kinds[name[0]] + name[1:])


def _same_type(dtype, name):
    return dtype == _numpy(name) or name == "bf16" and dtype.name == "bfloat16"


def _array(about, given):
    """A contiguous copy of an input."""
    if isinstance(given, (np.ndarray, np.generic)) and not _same_type(given.dtype, about["dtype"]):
        raise TypeError(f"{about['name']} is {given.dtype}, not {about['dtype']}")
    if getattr(given, "dtype", None) is not None and given.dtype.name == "bfloat16":
        given = np.ascontiguousarray(given).view(np.uint16)
    return np.array(given, _numpy(about["dtype"]), order="C")


def _weights(path, about):
    """The arrays in the file of the weights, as bytes. Raises RuntimeError if it is not the file of these kernels."""
    data = path.with_name(about["file"]).read_bytes()
    head = np.array(about["header"], np.uint64)
    words = np.frombuffer(data[:len(data) // 8 * 8], np.uint64)
    total, sums = (np.add.reduce(x, dtype=np.uint64) for x in (words[8:], np.cumsum(words[8:], dtype=np.uint64)))
    if len(data) != head.nbytes + head[2] or (words[:8] != head).any() or (total, sums) != (head[3], head[4]):
        raise RuntimeError(f"{about['file']} is damaged, or of another export")
    return [data[w["offset"]:w["offset"] + w["bytes"]] for w in about["parts"]]


def _context():
    try:
        return cl.create_some_context(interactive=False)
    except cl.Error as e:
        sys.exit(f"there is no OpenCL device: install its driver, or a runtime for CPUs; `clinfo -l` lists what is there ({e})")


def main(files):
    program = Program(_context())
    inputs = [a for a in program.about["arguments"] if a["role"] != "output"]
    if len(files) > len(inputs) or program.about["sizes"] and len(files) < len(inputs):
        raise ValueError("the files of the inputs are " + ", ".join(f"{a['name']}.npy" for a in inputs))
    arrays = [np.load(files[k]) if k < len(files) else np.zeros(a["shape"], _numpy(a["dtype"])) for k, a in enumerate(inputs)]
    found = program(*arrays)
    outputs = [a for a in program.about["arguments"] if a["role"] != "input"]
    for a, array in zip(outputs, found if isinstance(found, tuple) else (found,)):
        print(a["name"], *array.reshape(-1)[:8])


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except (OSError, ValueError, TypeError, RuntimeError, cl.Error) as e:
        sys.exit(str(e))
'''
