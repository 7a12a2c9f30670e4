"""The loudspeaker's side: what the device is given, and what that says of the listener."""

import asyncio

import pytest

from protocol.messages import Format, Started
from saystream.player import Fill, Player
from saystream.utterance import Frame

RATE_HZ = 1000
CUSHION_BYTES = 400
"""200 ms of two-byte samples."""


class FakeDevice:
    """Takes what it is told to; PortAudio's thread in the real one."""

    latency = 0.0

    def __init__(self, fill: Fill) -> None:
        self._fill = fill
        self.started = False
        self.closed = False

    def start(self) -> None:
        self.started = True

    def close(self) -> None:
        self.closed = True

    def take(self, size_bytes: int) -> bytes:
        out = bytearray(b"?" * size_bytes)
        self._fill(memoryview(out))
        return bytes(out)


class Rig:
    def __init__(self) -> None:
        self.devices: list[FakeDevice] = []
        self.dtypes: list[str] = []
        self.player = Player(self._open)

    def _open(self, sample_rate_hz: int, dtype: str, fill: Fill) -> FakeDevice:
        assert sample_rate_hz == RATE_HZ
        self.dtypes.append(dtype)
        self.devices.append(FakeDevice(fill))
        return self.devices[-1]

    async def start(self, audio_format: Format = "s16le") -> FakeDevice:
        await self.player.start(
            Started(
                id="a",
                engine="e",
                checkpoint="c",
                voice="v",
                language="en",
                format=audio_format,
                sample_rate_hz=RATE_HZ,
                words="none",
            )
        )
        return self.devices[-1]

    async def write(self, pcm: bytes) -> None:
        await self.player.write(Frame(pcm, 0, "s16le", RATE_HZ))


async def test_it_waits_for_the_cushion_and_then_plays_in_order() -> None:
    rig = Rig()
    device = await rig.start()
    await rig.write(b"a" * (CUSHION_BYTES - 2))
    assert device.take(4) == bytes(4)
    await rig.write(b"bb")
    assert device.take(CUSHION_BYTES - 4) == b"a" * (CUSHION_BYTES - 4)
    assert device.take(8) == b"aabb" + bytes(4)
    assert rig.player.played_ms() == 200


async def test_after_running_dry_it_waits_for_the_cushion_again() -> None:
    rig = Rig()
    device = await rig.start()
    await rig.write(b"a" * CUSHION_BYTES)
    device.take(CUSHION_BYTES + 2)
    await rig.write(b"b" * 100)
    assert device.take(100) == bytes(100)
    await rig.write(b"b" * 300)
    assert device.take(400) == b"b" * 400


async def test_a_short_end_is_played_without_a_cushion() -> None:
    rig = Rig()
    device = await rig.start("f32le")
    await rig.write(b"abcd")
    assert rig.dtypes == ["float32"]
    async with asyncio.TaskGroup() as tasks:
        finishing = tasks.create_task(rig.player.finish())
        await asyncio.sleep(0)
        assert device.take(4) == b"abcd"
    assert finishing.done()
    assert device.closed


async def test_companded_audio_is_refused_with_what_would_do() -> None:
    with pytest.raises(ValueError, match="choose s16le or f32le"):
        await Rig().start("mulaw")


async def test_closing_twice_is_fine() -> None:
    rig = Rig()
    device = await rig.start()
    rig.player.close()
    rig.player.close()
    assert device.closed
