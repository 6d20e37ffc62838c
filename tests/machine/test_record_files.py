"""Machines as files: what is written is read again, and what no machine can have is refused with its place."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polytc.errors import CompileError
from polytc.machine import AVX2, AVX512, DEVICES, GENERIC_CPU, NEON, SVE, Machine, record_files
from polytc.machine.costs import COSTS
from polytc.machine.quantities import quantities

MACHINES = [GENERIC_CPU, AVX2, AVX512, NEON, SVE, *DEVICES.values(),
            replace(AVX2, faults=frozenset({"b", 'a "quoted" \\ one'}))]
TEXT = record_files.write(AVX512)


@pytest.mark.parametrize("machine", MACHINES)
def test_a_machine_is_the_same_after_writing_and_reading(machine: Machine) -> None:
    again = record_files.read(record_files.write(machine))
    assert again == machine
    assert repr(replace(again, faults=frozenset())) == repr(replace(machine, faults=frozenset()))
    assert record_files.write(again) == record_files.write(machine)


@given(st.dictionaries(st.sampled_from([q.name for q in quantities(COSTS)]), st.integers(1, 10**6)))
def test_other_costs_are_kept(values: dict[str, int]) -> None:
    kinds = {q.name: type(q.value) for q in quantities(COSTS)}
    machine = AVX2.costing({n: kinds[n](v) for n, v in values.items()})
    assert record_files.read(record_files.write(machine)) == machine


def test_origins_say_where_numbers_come_from() -> None:
    machine = replace(AVX2.costing({"threads.region": 5.0, "copies.pack": 3.0}),
                      origins=(("costs.threads.region", "measured: here"), ("clock", "measured: by additions")))
    again = record_files.read(record_files.write(machine))
    assert record_files.origin(again, "threads.region") == "measured: here"
    assert record_files.origin(again, "copies.pack") == "guess: given by hand"
    assert record_files.origin(again, "traffic.page").startswith("documented: Intel")
    assert dict(again.origins)["clock"] == "measured: by additions"


def test_what_a_file_is_silent_about_is_as_described() -> None:
    short = record_files.read("""polytc_machine = 1
[machine]
kind = "cpu"
vector_bytes = 32
vector_registers = 16
fma_latency = 4
fma_ports = 2
caches = [{bytes = 32768, ways = 8, line = 64}]
cores = 1
[costs.threads]
region = 7
""")
    assert short.costs == AVX2.costing({"threads.region": 7.0}).costs
    assert (short.load_ports, short.masked, short.cpu) == (2, False, "")


@pytest.mark.parametrize(("before", "behind", "message", "line"), [
    ("polytc_machine = 1", "polytc_machine = 2", "reads version 1 of the record, not 2", 1),
    ("polytc_machine = 1", "polytc_machine = true", "reads version 1 of the record, not True", 1),
    ("polytc_machine = 1", "", "not None", None),
    ("region = 9000.0", "regoin = 9000.0", "there is no field costs.threads.regoin", "regoin"),
    ("[costs.threads]", "[costs.thread]", "there is no field costs.thread", "[costs.thread]"),
    ("region = 9000.0", 'region = "many"', "region is 'many', and must be a number from 0", "region"),
    ("region = 9000.0", "region = -1.0", "region is -1.0, and must be a number from 0", "region"),
    ("region = 9000.0", "region = nan", "region is nan", "region"),
    ("region = 9000.0", "region = inf", "region is inf", "region"),
    ("region = 9000.0", "region = true", "region is True", "region"),
    ("region = 9000.0", f"region = {10**30}", "region is a number of many digits", "region"),
    ("banks = 32", "banks = 0", "banks is 0, and must be a whole number above 0", "banks"),
    ("banks = 32", "banks = 1.5", "banks is 1.5, and must be a whole number", "banks"),
    ("stream_memory = 8.0", "stream_memory = 0.0", "stream_memory is 0.0, and must be a number above 0", "stream_memory"),
    ("vector_bytes = 64", "vector_bytes = 48", "vector_bytes is 48, and must be a power of two", "vector_bytes"),
    ("vector_bytes = 64", "vector_bytes = 65536", "must be a whole number above 0 to 256", "vector_bytes"),
    ("vector_bytes = 64", "", "[machine] lacks vector_bytes", "[machine]"),
    ('kind = "cpu"', 'kind = "tpu"', "kind is 'tpu', and must be 'cpu' or 'gpu'", "kind"),
    ('cpu = ""', r'cpu = "a\" } !"', "must be LLVM's names", "cpu"),
    ("masked = true", "masked = 1", "masked is 1, and must be true or false", "masked"),
    ("caches = [", "caches = [{bytes = 1}, ", "must be a list of {bytes = N, ways = N, line = N}", "caches"),
    ("caches = [", "caches = [{bytes = 0, ways = 1, line = 1}, ", "caches is 0", "caches"),
    ("faults = []", "faults = [1]", "faults is [1], and must be a list of texts", "faults"),
    ("[costs.threads]", "[costs.threads", "at line", "[costs.threads"),
    ("[origins]", '[origins]\n"x" = "told"', "must be 'measured: ...', 'documented: ...' or 'guess: ...'", '"x"'),
])
def test_refusals_name_field_and_place(before: str, behind: str, message: str, line: object) -> None:
    assert before in TEXT
    text = TEXT.replace(before, behind, 1)
    with pytest.raises(CompileError) as refusal:
        record_files.read(text)
    assert refusal.value.code == "E540"
    assert message in str(refusal.value)
    span = refusal.value.span
    if line is not None:
        assert span is not None
        at = text.splitlines()[span.line - 1]
        assert span.line == line or str(line) in at or "at line" in message


@pytest.mark.parametrize("unit", [
    "1", "{}", '{rows = 16, columns = 8, steps = 16, types = "f16", faster = 9.6}',
    '{rows = 16, columns = 8, steps = 16, types = ["f32"], faster = 9.6}',
    '{rows = 16, columns = 8, steps = 16, types = [1], faster = 9.6}',
    '{rows = 0, columns = 8, steps = 16, types = ["f16"], faster = 9.6}',
    '{rows = 16, columns = 8, steps = 16, types = ["f16"], faster = -1}'])
def test_a_matrix_unit_has_all_of_its_fields(unit: str) -> None:
    text = TEXT.replace("masked = true", f"masked = true\nmatrix_unit = {unit}", 1)
    with pytest.raises(CompileError, match="matrix_unit is") as refusal:
        record_files.read(text)
    assert refusal.value.code == "E540"


def test_tables_are_tables() -> None:
    for text in ("machine = 1", "[machine]\ncosts = 1", "[[costs]]"):
        with pytest.raises(CompileError, match=r"must be a table|no field machine.costs|lacks kind"):
            record_files.read(f"polytc_machine = 1\n{text}")


def test_the_nearest_name_is_told() -> None:
    with pytest.raises(CompileError, match="did you mean 'region'"):
        record_files.read(TEXT.replace("region = 9000.0", "regions = 9000.0"))


@pytest.mark.parametrize("data", [b"\xff\xfe\x00", b"", b"not a record", b"a = " + b"[" * 5000, b"a = " + b"1" * 5000,
                                  b"#" * ((1 << 20) + 1)], ids=["binary", "empty", "prose", "deep", "digits", "long"])
def test_files_that_are_no_records(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "machine.toml"
    path.write_bytes(data)
    with pytest.raises(CompileError) as refusal:
        record_files.load(path)
    assert refusal.value.code == "E540"
    assert "polytc devices --measure" in str(refusal.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    for path in (tmp_path / "none.toml", tmp_path):
        with pytest.raises(CompileError, match="E540"):
            record_files.load(path)


@settings(max_examples=40)
@given(st.text(max_size=200))
def test_no_text_makes_another_error(text: str) -> None:
    for candidate in (text, f"polytc_machine = 1\n{text}", TEXT.replace("region", text, 1)):
        with suppress(CompileError):
            assert record_files.read(candidate).kind == "cpu"
