"""An engine on MLX behind the server's own endpoints, inline and in a process of its own."""

import os
from pathlib import Path
from typing import Any, Literal

import pytest

WHY = "the extra mlx isn't installed here; make test-engines has it"
pytest.importorskip("mlx.core", reason=WHY, exc_type=ImportError)
pytest.importorskip("mlx_audio", reason=WHY)
os.environ.setdefault("MLX_DISABLE_COMPILE", "1")  # a compiler would be run for each kernel

from tests.engines.mlx_suite import SHORT  # noqa: E402 - after what it may be skipped for
from tests.engines.tiny_mlx_pocket import make_checkpoint  # noqa: E402
from tests.ws_server.running import ADMIN_KEY, Running, running  # noqa: E402

ADMIN = {"authorization": f"Bearer {ADMIN_KEY}"}


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder: Path = make_checkpoint(tmp_path_factory.mktemp("pocket") / "tiny")
    return {"path": str(folder), "device": "cpu", "policy": "UNPINNED", **SHORT}


async def row(server: Running) -> dict[str, Any]:
    rows = (await server.http.get("/health", headers=ADMIN)).json()["engines"]
    return next(dict(one) for one in rows if one["name"] == "mlx-pocket")


@pytest.mark.parametrize("process", ["inline", "hosted"])
async def test_its_memory_is_told_while_it_is_loaded(
    table: dict[str, Any], process: Literal["inline", "hosted"]
) -> None:
    async with running(engines={"mlx-pocket": {**table, "process": process}}) as server:
        assert "memory" not in await row(server)
        spoken = await server.http.post(
            "/v1/tts", json={"text": "Good morning.", "engine": "mlx-pocket"}, headers=ADMIN, timeout=60
        )
        assert spoken.status_code == 200
        assert spoken.content[:4] == b"RIFF"
        memory = (await row(server))["memory"]
        assert memory["peak_bytes"] >= memory["active_bytes"] > 500_000
        assert memory["cache_bytes"] >= 0
        unloaded = await server.http.post("/v1/engines/mlx-pocket/unload", headers=ADMIN, timeout=60)
        assert unloaded.status_code == 200
        assert (unloaded.json()["state"], "memory" in unloaded.json()) == ("unloaded", False)


async def test_without_a_device_table_it_is_not_put_on_a_processor(table: dict[str, Any]) -> None:
    """S1"""
    anywhere = {name: value for name, value in table.items() if name != "device"}
    with pytest.raises(Exception, match=r"mlx-pocket needs mps, and there is none here"):
        async with running(engines={"mlx-pocket": anywhere}):
            pass
