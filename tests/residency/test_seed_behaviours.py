"""What an earlier generation of servers did or got wrong around loading and memory, row by row.

Those with tests elsewhere are listed with them; the others are here.
"""

import ast
import asyncio
import re
import threading
from pathlib import Path

import pytest

from engines import registry
from protocol.messages import Audio, End, Open, Queued, Started, Text
from residency.dispatcher import Dispatcher
from residency.listener import ListenerSpec
from tests.fakes.models import FakeEngine, FakeStream, facts, request, unit
from tests.residency.handlers import Notes
from tests.ws_server.running import running
from ws_server.catalogue import Catalogue
from ws_server.plan import Refusal
from ws_server.settings import Settings

ROOT = Path(__file__).parents[2]

ELSEWHERE = {
    "S1 an accelerator's engine isn't put on a CPU": (
        "engines/test_accelerator.py::test_s1_without_a_gpu_the_message_names_what_decides"
    ),
    "S2 a taken port": (
        "ws_server/test_serve.py::test_s2_a_taken_port_ends_the_process_with_a_code_and_the_way_to_find_out_who"
    ),
    "S4 a corrupt voice folder": (
        "voices/test_library.py::"
        "test_s4_a_broken_folder_is_skipped_with_one_warning_and_mended_by_another_upload"
    ),
    "S5 versions are checked": (
        "engines/test_hosted.py::test_s5_a_child_of_another_version_is_refused_with_both_versions"
    ),
    "S6 bounded restarts": (
        "project/test_deploy.py::test_s6_the_systemd_unit_restarts_with_a_bound_and_waits_for_the_drain"
    ),
    "S9 the inventory is that of the moment": (
        "ws_server/http/test_engines.py::test_s9_an_engine_is_loaded_and_unloaded_when_told_to_and_the_list_shows_it"
    ),
    "S24 prompts in memory are bounded": (
        "residency/test_prompts.py::test_s24_the_number_in_memory_is_bounded_and_the_least_used_goes"
    ),
    "S25 footprints": (
        "residency/test_footprints.py::test_s25_footprints_are_for_the_mode_that_takes_most_and_rounded_up"
    ),
    "S26 policies": (
        "residency/test_memory.py::test_s26_a_soft_pin_makes_room_and_comes_back_when_all_is_quiet"
    ),
    "S27 one at a time": (
        "residency/test_memory.py::test_s27_one_engine_at_a_time_the_first_is_gone_before_the_next_is_loaded"
    ),
    "S28 S29 memory comes back": (
        "residency/test_cycles.py::"
        "test_s28_s29_unloading_hibari_gives_back_what_its_load_took_and_memory_stays_flat"
    ),
    "S30 prompts go with their model": (
        "residency/test_prompts.py::test_s30_prompts_leave_memory_before_their_model_and_stay_in_the_store"
    ),
    "S31 measured peaks": (
        "residency/test_footprints.py::test_s31_the_measured_peak_is_remembered_by_signature_over_restarts"
    ),
    "S32 the same id everywhere": (
        "voices/test_voice.py::test_s32_the_same_content_has_the_same_id_on_every_machine"
    ),
    "S33 the checkpoint that is really loaded": (
        "ws_server/http/test_engines.py::test_s33_a_row_tells_what_is_really_loaded"
    ),
    "V3 serial": ("residency/test_memory.py::test_v3_s28_loads_steps_and_unloads_are_all_on_the_one_thread"),
    "V4 states": "residency/test_memory.py::test_v4_who_waits_for_a_load_is_told_so",
    "fault 11 collapsed clips": "ws_server/test_script.py::test_what_has_failed_is_not_kept",
    "fault 12 the cache's files": "pcm_cache/test_cache.py::test_fault_12_a_harmed_file_is_a_miss_never_a_wrong_clip",
    "fault 13 an evicted voice": (
        "residency/test_prompts.py::test_fault_13_one_that_was_let_go_comes_back_from_the_store"
    ),
    "fault 17 a bad engine": (
        "hardening/test_seed_faults.py::"
        "test_fault_17_an_engine_that_isnt_there_is_named_and_no_fault_of_the_server"
    ),
    "fault 21 idleness": "residency/test_memory.py::test_fault_21_idling_is_counted_from_the_end_of_work",
    "fault 22 the idle sweep": "residency/test_memory.py::test_s26_fault_22_the_idle_sweep_keeps_what_is_pinned",
    "fault 22 a failed load": (
        "residency/test_memory.py::test_fault_22_when_a_load_fails_the_former_engine_is_there_again"
    ),
    "fault 23 a constant Retry-After": (
        "hardening/test_seed_faults.py::test_fault_23_when_to_come_back_follows_from_the_work_ahead"
    ),
    "fault 24 a failure in mid-stream": (
        "hardening/test_seed_faults.py::test_fault_24_a_failure_in_the_middle_never_looks_like_success"
    ),
    "fault 25 green while wedged": (
        "hardening/test_seed_faults.py::test_fault_25_health_isnt_green_while_the_device_hangs"
    ),
    "fault 27 no silent fallback": (
        "residency/test_prompts.py::test_fault_27_a_clone_that_fails_fails_and_the_others_go_on"
    ),
}


@pytest.mark.parametrize("row", ELSEWHERE)
def test_every_row_has_its_test(row: str) -> None:
    """Its name or its docstring carries the row's number."""
    file, name = ELSEWHERE[row].split("::")
    tree = ast.parse((ROOT / "tests" / file).read_text(encoding="utf-8"))
    defined = {
        node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    said = f"{name} {ast.get_docstring(defined[name])}".lower().replace("_", " ")
    for number in re.findall(r"fault \d+|[SV]\d+", row):
        assert re.search(rf"\b{number.lower()}\b", said)


async def test_s3_the_port_answers_while_the_engine_loads_and_new_work_waits_for_it() -> None:
    async with running(engines={"tone": {"load_s": 1.0}}, ready=False) as server:
        not_yet = await server.http.get("/readyz")
        assert (not_yet.status_code, not_yet.json()) == (503, {"reason": "loading"})
        assert (await server.http.get("/livez")).status_code == 200
        async with asyncio.timeout(20):
            while (await server.http.get("/readyz")).status_code != 200:  # noqa: ASYNC110 - as a balancer does
                await asyncio.sleep(0.05)


async def test_s8_the_number_in_flight_is_that_of_those_who_hold_a_slot() -> None:
    gate = threading.Event()

    def step(_: list[FakeStream]) -> None:
        assert gate.wait(20)

    async with Dispatcher([unit(FakeEngine(facts(), on_step=step))]) as dispatcher:
        several = [Notes() for _ in range(5)]
        listeners = [dispatcher.open(ListenerSpec(unit="fake"), notes) for notes in several]
        assert dispatcher.in_flight == 0
        for listener in listeners:
            dispatcher.submit(listener, request("a"), 0.0)
            listener.finish_text()
        assert dispatcher.in_flight + dispatcher.queued == 5
        gate.set()
        for notes in several:
            await notes.until_done(1)
        assert dispatcher.in_flight == 0


def test_s10_what_can_be_asked_for_is_what_the_registry_has() -> None:
    catalogue = Catalogue.read(Settings(engine="tone"))
    assert [entry.name for entry in catalogue.entries()] == registry.names()
    with pytest.raises(Refusal) as refused:
        catalogue.entry("flute")
    assert refused.value.value == registry.names()


async def test_s14_the_engine_is_loaded_before_a_rate_is_announced_and_the_rate_is_true() -> None:
    async with running(engines={"tone": {"sample_rate_hz": 16000}}) as server, server.speak() as speaker:
        await speaker.send(Open(id="a", engine="hibari"), Text(id="a", text="Hello there."), End(id="a"))
        told = await speaker.receive_until(Started)
        started = told[-1]
        assert isinstance(started, Started)
        assert started.sample_rate_hz == 24000
        assert server.services.dispatcher.status("hibari").state == "ready"
        assert any(isinstance(one, Queued) and one.reason == "loading" for one in told)


async def test_s34_placement_by_others_needs_no_more_than_engines_and_metrics_tell() -> None:
    async with running() as server:
        (row,) = [
            row for row in (await server.http.get("/v1/engines")).json()["engines"] if row["name"] == "tone"
        ]
        assert {"state", "resident", "policy", "checkpoint", "device", "in_flight", "voices"} <= set(row)
        told = (await server.http.get("/metrics")).text
        for name in ("in_flight", "queued", "max_streams", "load_ratio", "ready", "draining"):
            assert f"saystream_{name} " in told


async def test_fault_26_what_was_cancelled_still_has_the_device_until_its_step_ends() -> None:
    gate, reached, at_once = threading.Event(), threading.Event(), []
    inside = threading.Semaphore(1)

    def step(_: list[FakeStream]) -> None:
        at_once.append(inside.acquire(blocking=False))
        reached.set()
        assert gate.wait(20)
        inside.release()

    async with Dispatcher([unit(FakeEngine(facts(), on_step=step))]) as dispatcher:
        first, second = Notes(), Notes()
        cancelled = dispatcher.open(ListenerSpec(unit="fake"), first)
        dispatcher.submit(cancelled, request("a"), 0.0)
        async with asyncio.timeout(20):
            while not reached.is_set():  # noqa: ASYNC110 - a lane sets it
                await asyncio.sleep(0.001)
        dispatcher.close(cancelled)
        dispatcher.submit(dispatcher.open(ListenerSpec(unit="fake"), second), request("b"), 0.0)
        gate.set()
        await second.until_done(1)
    assert at_once == [True, True]
    assert first.chunks == []


async def test_s7_over_the_limit_http_is_refused_with_a_time_the_socket_waits_and_a_hit_needs_no_slot(
    tmp_path: Path,
) -> None:
    kept = {"text": "Hello there."}
    async with running(max_streams=1, queue=1, cache=True, cache_dir=tmp_path) as server:
        made = await server.http.post("/v1/tts", json=kept)
        async with server.speak() as speaking, server.speak() as waiting:
            await speaking.send(Open(id="a", cache=False), Text(id="a", text="It holds the only slot. " * 20))
            await speaking.receive_until(Audio)
            await waiting.send(
                Open(id="b", cache=False), Text(id="b", text="It waits its turn."), End(id="b")
            )
            told = (await waiting.receive_until(Queued))[-1]
            assert isinstance(told, Queued)
            assert (told.reason, told.position) == ("busy", 1)
            refused = await server.http.post("/v1/tts", json={"text": "It is one too many."})
            assert (refused.status_code, refused.json()["error"]["code"]) == (429, "busy")
            assert int(refused.headers["retry-after"]) >= 1
            hit = await server.http.post("/v1/tts", json=kept)
            assert (hit.status_code, hit.headers["x-cache"]) == (200, "hit")
            assert hit.content == made.content
            assert (server.services.dispatcher.in_flight, server.services.dispatcher.queued) == (1, 1)


async def test_s33_health_tells_what_is_loaded_and_how_full_all_is() -> None:
    async with running(engines={"tone": {"sample_rate_hz": 16000}}, max_streams=7) as server:
        told = (await server.http.get("/health")).json()
        (tone,) = [row for row in told["engines"] if row["name"] == "tone"]
        assert (tone["checkpoint"], tone["device"], tone["resident"]) == ("tone-1-16000", "cpu", True)
        assert (told["in_flight"], told["max_streams"], told["device"]) == (0, 7, "cpu")
        assert told["memory"]["resident_bytes"] > 1e6
        assert told["cache"] == {"entries": 0, "bytes": 0, "hits": 0, "misses": told["cache"]["misses"]}
        assert told["voices"] >= len(tone["voices"])
