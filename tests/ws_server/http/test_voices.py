"""V1-V11 over the wire: a recording becomes a voice, or a reason that a person can act on and nothing on disk."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import httpx
import numpy as np
import pytest
import soundfile
from anyio import to_thread

from protocol.messages import Audio, Done, End, Error, Open, Started, Text
from tests.voices.recordings import RATE_HZ, encoded, recording, silence, tone
from tests.ws_server.http.test_endpoints import ADMIN, SPEAK, check
from tests.ws_server.running import KEYS, Running, running
from voices.clip import Clip
from voices.library import Library
from voices.objects import Objects
from voices.prompts import StoredPrompts
from voices.reference import Clone

FIELDS: dict[str, Any] = {
    "name": "Ann",
    "ref_text": "one two three four five six seven eight",
    "language": "English",
}


async def upload(
    server: Running, audio: bytes | None = None, *, headers: Mapping[str, str] | None = None, **fields: Any
) -> httpx.Response:
    files = {"audio": ("clip.wav", recording() if audio is None else audio)}
    return await server.http.post("/v1/voices", files=files, data=fields, headers=headers)


async def speak(server: Running, voice: str, **more: Any) -> tuple[float, list[Any]]:
    """The frequency that is heard, and the messages."""
    async with server.speak() as client:
        await client.send(Open(id="a", voice=voice, **more), Text(id="a", text="One two three."), End(id="a"))
        messages: list[Any] = await client.receive_until(Done)
    samples = np.frombuffer(b"".join(one.pcm for one in messages if isinstance(one, Audio)), "<i2")
    if not samples.size:
        return 0.0, messages
    return float(np.abs(np.fft.rfft(samples)).argmax() * RATE_HZ / samples.size), messages


def on_disk(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


async def test_a_recording_becomes_a_voice_with_a_report(tmp_path: Path) -> None:
    async with running(voices_dir=tmp_path) as server:
        audio = encoded(np.concatenate([silence(1), tone(level=0.01), silence(1)]))
        answer = await upload(server, audio, **FIELDS)
        assert answer.status_code == 201
        check("/v1/voices", "post", answer)
        body = answer.json()
        assert body["name"] == "Ann"
        assert body["engines"] == ["tone"]
        assert answer.headers["location"] == f"/v1/voices/{body['voice_id']}"
        report = body["report"]
        assert report["sample_rate_hz"] == RATE_HZ
        # On paper: 20 log10(0.01), a sine 3 dB below its peak, a tenth of a second at the end not sound.
        assert report["peak_dbfs"] == pytest.approx(-40, abs=0.1)
        assert report["loudness_dbfs"] == pytest.approx(-43, abs=0.2)
        assert "trimmed silence before and after" in report["repaired"]
        assert "changed the level by +23.0 dB" in report["repaired"]


async def test_v2_a_voice_speaks_at_once_also_elsewhere_and_after_a_restart(tmp_path: Path) -> None:
    async with running(voices_dir=tmp_path) as server, server.speak() as earlier:
        await earlier.receive()
        voice_id = (await upload(server, recording(frequency_hz=700))).json()["voice_id"]
        await earlier.send(Open(id="a", voice=voice_id), Text(id="a", text="One two three."), End(id="a"))
        messages = await earlier.receive_until(Done)
        assert any(isinstance(one, Started) and one.voice == voice_id for one in messages)
        assert (await speak(server, voice_id))[0] == pytest.approx(700, abs=5)
    async with running(voices_dir=tmp_path) as server:
        assert (await speak(server, voice_id))[0] == pytest.approx(700, abs=5)


async def test_a_prompt_is_not_computed_again_after_a_restart(tmp_path: Path) -> None:
    """One is put in the place of what was kept that no recording of the voice could give."""
    async with running(voices_dir=tmp_path) as server:
        voice_id = (await upload(server, recording(frequency_hz=700))).json()["voice_id"]
        await speak(server, voice_id)
        (path,) = [path for path in on_disk(tmp_path) if path.startswith("prompts/")]
    entry = next(entry for entry in server.services.catalogue.entries() if entry.name == "tone")
    assert entry.facts is not None
    made_by = {"engine": "tone", "version": entry.info.version, "checkpoint": entry.facts.checkpoint}

    def exchange() -> bytes | None:
        kept, clone = StoredPrompts(Library(Objects(tmp_path)), **made_by), Clone(voice_id, "audio")
        before = kept.stored(clone)
        kept.keep(clone, b'{"frequency_hz": 900.0}')
        return before

    assert await to_thread.run_sync(exchange) == b'{"frequency_hz": 700.0}'
    assert path in on_disk(tmp_path)
    async with running(voices_dir=tmp_path) as server:
        assert (await speak(server, voice_id))[0] == pytest.approx(900, abs=5)


async def test_a_voice_that_another_process_added_can_be_asked_for_without_a_list(tmp_path: Path) -> None:
    async with running(voices_dir=tmp_path) as one, running(voices_dir=tmp_path) as other:
        voice_id = (await upload(one, recording(frequency_hz=700))).json()["voice_id"]
        assert (await speak(other, voice_id))[0] == pytest.approx(700, abs=5)
        assert (await other.http.get(f"/v1/voices/{voice_id}")).status_code == 200
        assert (await one.http.delete(f"/v1/voices/{voice_id}")).status_code == 204
        listed = (await other.http.get("/v1/voices?engine=tone")).json()["voices"]
        assert voice_id not in [row["voice_id"] for row in listed]


async def test_v3_the_same_again_is_the_same_voice(tmp_path: Path) -> None:
    async with running(voices_dir=tmp_path) as server:
        first = await upload(server, **FIELDS)
        again = await upload(server, **{**FIELDS, "name": "Bob"})
        assert (first.status_code, again.status_code) == (201, 200)
        check("/v1/voices", "post", again)
        assert (again.json()["voice_id"], again.json()["name"]) == (first.json()["voice_id"], "Ann")
        other = await upload(server, **{**FIELDS, "ref_text": "one two three four five six seven nine"})
        assert other.status_code == 201
        assert other.json()["voice_id"] != first.json()["voice_id"]


async def test_a_voice_is_listed_shown_played_and_removed(tmp_path: Path) -> None:
    async with running(voices_dir=tmp_path) as server:
        same = Clip.of(tone(level=0.1 * 2**0.5), RATE_HZ)
        voice_id = (await upload(server, same.encode("WAV"), **FIELDS)).json()["voice_id"]
        listed = await server.http.get("/v1/voices")
        check("/v1/voices", "get", listed)
        row = next(row for row in listed.json()["voices"] if row["voice_id"] == voice_id)
        assert (row["name"], row["kind"], row["engines"]) == ("Ann", "uploaded", ["tone"])
        assert (row["language"], row["duration_s"]) == ("en", 4.0)
        path = f"/v1/voices/{voice_id}"
        shown = await server.http.get(path)
        check("/v1/voices/{voice_id}", "get", shown)
        assert (shown.json()["ref_text"], shown.json()["report"]["duration_s"]) == (FIELDS["ref_text"], 4.0)
        played = await server.http.get(f"{path}/audio")
        check("/v1/voices/{voice_id}/audio", "get", played)
        (tmp_path / "played.wav").write_bytes(played.content)
        samples, rate_hz = soundfile.read(tmp_path / "played.wav", dtype="int16")
        assert rate_hz == RATE_HZ
        np.testing.assert_allclose(samples, same.pcm, atol=2)
        assert (await server.http.delete(path)).status_code == 204
        for method in ("GET", "DELETE"):
            gone = await server.http.request(method, path)
            assert (gone.status_code, gone.json()["error"]["code"]) == (404, "unknown_voice")
            check("/v1/voices/{voice_id}", method.lower(), gone)
        assert (await speak(server, voice_id))[1][-2].code == "unknown_voice"
        assert on_disk(tmp_path) == ["played.wav"]


async def test_a_built_in_voice_is_shown_and_can_be_neither_played_nor_removed() -> None:
    async with running() as server:
        assert (await server.http.get("/v1/voices/a4")).json()["kind"] == "builtin"
        kept = await server.http.delete("/v1/voices/a4")
        assert (kept.status_code, kept.json()["error"]["code"]) == (409, "conflict")
        check("/v1/voices/{voice_id}", "delete", kept)
        assert (await server.http.get("/v1/voices/a4/audio")).status_code == 404


M4A = b"\0\0\0\x20ftypM4A \0\0\0\0M4A mp42isom" + bytes(2000)
BAD: dict[str, tuple[bytes, dict[str, Any], int, str]] = {
    "m4a": (M4A, {}, 415, "M4A.*wav, flac, ogg.*mp3"),
    "text": (b"hello" * 100, {}, 415, "wav, flac, ogg"),
    "empty": (b"", {}, 422, "empty"),
    "silent": (encoded(silence(4)), {}, 422, "silent"),
    "a tenth of a second": (recording(length_s=0.1), {}, 422, "1 s is the least"),
    "a minute and a second": (recording(length_s=61), {}, 422, "60 s is the most"),
    "cut off": (recording()[:5000], {}, 422, "cut short"),
    "not numbers": (encoded(np.full(48000, np.nan), subtype="FLOAT"), {}, 422, "aren't numbers"),
    "long transcript": (recording(), {"ref_text": "word " * 100}, 422, "too long for the recording"),
    "very long transcript": (recording(), {"ref_text": "a" * 2001}, 422, "more than 2000 characters"),
    "control characters": (recording(), {"ref_text": "a\x07b"}, 422, "control characters"),
    "long name": (recording(), {"name": "n" * 129}, 422, "128 characters"),
    "unknown field": (recording(), {"speaker": "x"}, 422, "no field 'speaker'; there are audio"),
    "unknown mode": (recording(), {"mode": "video"}, 422, "audio or audio\\+text"),
    "mode without text": (recording(), {"mode": "audio+text"}, 422, "needs ref_text"),
    "unknown language": (recording(), {"language": "xx-nothing"}, 422, "no language"),
    "unknown engine": (recording(), {"engine": "siri"}, 404, "there are hibari"),
    "an engine that clones nothing": (recording(), {"engine": "hibari"}, 422, "clones no voices"),
    "seed text alone": (recording(), {"seed_text": "so"}, 422, "together"),
    "seed by address": (recording(), {"seed_audio": "http://x.example/a.wav"}, 422, "has to be a file"),
}


@pytest.mark.parametrize("name", BAD)
async def test_fault_15_bad_input_gets_its_reason_and_nothing_is_left(tmp_path: Path, name: str) -> None:
    audio, fields, status, reason = BAD[name]
    async with running(voices_dir=tmp_path / "voices") as server:
        answer = await upload(server, audio, **fields)
        assert answer.status_code == status
        with pytest.raises(AssertionError, match=reason):
            raise AssertionError(answer.json()["error"]["message"])
        check("/v1/voices", "post", answer)
        assert not (tmp_path / "voices").exists()


@pytest.mark.parametrize("value", ["https://example.com/a.wav", "/etc/passwd", "file:///etc/passwd"])
async def test_v10_nothing_is_fetched_and_nothing_opened_by_path(tmp_path: Path, value: str) -> None:
    async with running(voices_dir=tmp_path / "voices") as server:
        body = f'--b\r\nContent-Disposition: form-data; name="audio"\r\n\r\n{value}\r\n--b--\r\n'
        headers = {"content-type": "multipart/form-data; boundary=b"}
        answer = await server.http.post("/v1/voices", content=body, headers=headers)
        assert (answer.status_code, answer.json()["error"]["param"]) == (422, "audio")
        assert "nothing is fetched" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    "path", ["..%2f..%2fetc%2fpasswd", "%2e%2e", "v-..", "..%5c..", "%00", "v-" + "0" * 32]
)
async def test_v1_a_path_as_an_id_is_unknown(tmp_path: Path, path: str) -> None:
    (tmp_path / "secret").write_text("secret")
    async with running(voices_dir=tmp_path / "voices") as server:
        for method, suffix in (("GET", ""), ("GET", "/audio"), ("DELETE", "")):
            answer = await server.http.request(method, f"/v1/voices/{path}{suffix}")
            assert answer.status_code == 404
    assert on_disk(tmp_path) == ["secret"]


async def test_v1_a_file_name_is_ignored(tmp_path: Path) -> None:
    async with running(voices_dir=tmp_path / "voices") as server:
        files = {"audio": ("../../../evil.wav", recording())}
        assert (await server.http.post("/v1/voices", files=files)).status_code == 201
        assert not any("evil" in path for path in on_disk(tmp_path))


@pytest.mark.parametrize(
    ("kind", "body", "status"),
    [
        ("application/json", b'{"audio": "https://example.com/a.wav"}', 415),
        ("application/x-www-form-urlencoded", b"audio=a", 415),
        ("text/plain", b"a", 415),
        ("multipart/form-data", b"a", 400),
        ("multipart/form-data; boundary=b", b"a", 400),
        ("multipart/form-data; boundary=b", b"", 422),
        (
            "multipart/form-data; boundary=b",
            b"--b\r\nContent-Disposition: form-data\r\n\r\nx\r\n--b--\r\n",
            400,
        ),
        ("multipart/form-data; boundary=b", b"--b\r\n" + b"X-A: b\r\n" * 100 + b"\r\nx\r\n--b--\r\n", 400),
        ("multipart/form-data; boundary=b", b"--b\r\nX: " + b"y" * 10_000 + b"\r\n\r\nx\r\n--b--\r\n", 400),
    ],
)
async def test_a_body_that_is_no_form_is_refused(tmp_path: Path, kind: str, body: bytes, status: int) -> None:
    async with running(voices_dir=tmp_path / "voices") as server:
        answer = await server.http.post("/v1/voices", content=body, headers={"content-type": kind})
        assert answer.status_code == status
        check("/v1/voices", "post", answer)


async def test_a_field_that_comes_twice_is_refused(tmp_path: Path) -> None:
    async with running(voices_dir=tmp_path / "voices") as server:
        files = [("audio", ("a.wav", recording())), ("audio", ("b.wav", recording()))]
        answer = await server.http.post("/v1/voices", files=files)
        assert (answer.status_code, answer.json()["error"]["param"]) == (422, "audio")
        many = [(f"audio{number}", ("a.wav", b"x")) for number in range(3)]
        assert (await server.http.post("/v1/voices", files=many)).status_code == 400


async def test_too_many_bytes_are_refused_whether_announced_or_not(tmp_path: Path) -> None:
    async with running(voices_dir=tmp_path / "voices", voice_bytes=100_000) as server:
        announced = await upload(server, bytes(1_000_000))
        assert (announced.status_code, announced.json()["error"]["code"]) == (413, "message_too_long")
        check("/v1/voices", "post", announced)

        async def body() -> Any:
            yield b'--b\r\nContent-Disposition: form-data; name="audio"; filename="a"\r\n\r\n'
            for _ in range(6):
                yield bytes(50_000)

        headers = {"content-type": "multipart/form-data; boundary=b"}
        chunked = await server.http.post("/v1/voices", content=body(), headers=headers)
        assert chunked.status_code == 413
        # Within what a form may have, and over what one recording may.
        assert (await upload(server, recording())).status_code == 413
        assert not (tmp_path / "voices").exists()


@pytest.mark.parametrize("sent", [50, 50_000, 190_000])
async def test_a_client_that_hangs_up_in_its_upload_leaves_nothing(tmp_path: Path, sent: int) -> None:
    async with running(voices_dir=tmp_path / "voices") as server:
        head = b'--b\r\nContent-Disposition: form-data; name="audio"; filename="a"\r\n\r\n'
        body = head + recording() + b"\r\n--b--\r\n"
        request = (
            b"POST /v1/voices HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: multipart/form-data; boundary=b\r\n"
            b"Content-Length: %d\r\n\r\n" % len(body)
        )
        async with await anyio.connect_tcp("127.0.0.1", server.port) as stream:
            await stream.send(request + body[:sent])
        assert (await upload(server)).status_code == 201
        assert len(on_disk(tmp_path)) == 2


async def test_a_store_that_cannot_be_written_is_told_and_speech_goes_on(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    async with running(voices_dir=tmp_path / "file" / "below") as server:
        answer = await upload(server)
        assert (answer.status_code, answer.json()["error"]["code"]) == (507, "internal")
        assert str(tmp_path) not in answer.text
        check("/v1/voices", "post", answer)
        assert (await speak(server, "a4"))[0] == pytest.approx(440, abs=5)


async def test_a_damaged_recording_is_told_and_never_spoken_with(tmp_path: Path) -> None:
    async with running(voices_dir=tmp_path) as server:
        voice_id = (await upload(server)).json()["voice_id"]
        path = tmp_path / "voices" / voice_id / "audio.flac"
        data = bytearray(path.read_bytes())
        data[-50] ^= 1
        path.write_bytes(data)
        answer = await server.http.get(f"/v1/voices/{voice_id}/audio")
        assert answer.status_code == 410
        check("/v1/voices/{voice_id}/audio", "get", answer)
        _, messages = await speak(server, voice_id)
        error = next(one for one in messages if isinstance(one, Error))
        assert (error.code, "upload it again" in error.message) == ("unknown_voice", True)
        assert not any(isinstance(one, Audio) for one in messages)


async def test_a_voice_that_its_engine_cannot_use_is_unknown_with_those_that_can(tmp_path: Path) -> None:
    async with running(voices_dir=tmp_path) as server:
        voice_id = (await upload(server)).json()["voice_id"]
        _, messages = await speak(server, voice_id, engine="hibari")
        error = next(one for one in messages if isinstance(one, Error))
        assert (error.code, error.param, error.value) == ("unknown_voice", "voice", ["tone"])


async def test_the_synthetic_engine_takes_an_uploaded_voice_only_when_it_is_named(tmp_path: Path) -> None:
    async with running(voices_dir=tmp_path, engine="hibari") as server:
        voice_id = (await upload(server)).json()["voice_id"]
        _, messages = await speak(server, voice_id)
        assert next(one for one in messages if isinstance(one, Error)).code == "unknown_voice"
        assert (await speak(server, voice_id, engine="tone"))[0] == pytest.approx(440, abs=5)


async def test_an_uploaded_voice_can_be_the_default(tmp_path: Path) -> None:
    async with running(voices_dir=tmp_path) as server:
        voice_id = (await upload(server, recording(frequency_hz=700))).json()["voice_id"]
    async with running(voices_dir=tmp_path, voice=voice_id) as server, server.speak() as client:
        await client.send(Open(id="a"), Text(id="a", text="One."), End(id="a"))
        messages = await client.receive_until(Done)
        assert next(one for one in messages if isinstance(one, Started)).voice == voice_id


async def test_fault_16_who_may_add_and_remove(tmp_path: Path) -> None:
    async with running(voices_dir=tmp_path, keys=KEYS) as server:
        assert (await upload(server)).status_code == 401
        assert (await upload(server, headers=SPEAK)).status_code == 403
        evil = {**ADMIN, "origin": "https://evil.example"}
        assert (await upload(server, headers=evil)).status_code == 403
        added = await upload(server, headers=ADMIN)
        path = f"/v1/voices/{added.json()['voice_id']}"
        for known in (path, f"{path}/audio"):
            assert (await server.http.get(known)).status_code == 401
            assert (await server.http.get(known, headers=SPEAK)).status_code == 200
        assert (await server.http.delete(path)).status_code == 401
        assert (await server.http.delete(path, headers=SPEAK)).status_code == 403
        assert (await server.http.delete(path, headers=evil)).status_code == 403
        assert (await server.http.delete(path, headers=ADMIN)).status_code == 204


async def test_ten_uploads_at_once_are_ten_voices_and_others_speak_meanwhile(tmp_path: Path) -> None:
    statuses: list[int] = []
    async with running(voices_dir=tmp_path) as server:

        async def one(number: int) -> None:
            statuses.append((await upload(server, recording(frequency_hz=200 + 50 * number))).status_code)

        async with anyio.create_task_group() as tasks:
            for number in range(10):
                tasks.start_soon(one, number)
            assert (await speak(server, "a4"))[0] == pytest.approx(440, abs=5)
        voices = (await server.http.get("/v1/voices?engine=tone")).json()["voices"]
        assert len([row for row in voices if row["kind"] == "uploaded"]) == 10
    assert statuses == [201] * 10


async def test_the_same_clip_from_ten_at_once_is_one_voice(tmp_path: Path) -> None:
    statuses: list[int] = []
    async with running(voices_dir=tmp_path) as server:

        async def one() -> None:
            statuses.append((await upload(server)).status_code)

        async with anyio.create_task_group() as tasks:
            for _ in range(10):
                tasks.start_soon(one)
        assert sorted(statuses) == [200] * 9 + [201]
        assert len(on_disk(tmp_path)) == 2
