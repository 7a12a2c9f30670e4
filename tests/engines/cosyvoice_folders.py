"""What lies where of CosyVoice: a checkpoint and a checkout, both hollow."""

from pathlib import Path

from engines.contract import Source

_YAML = {1: "cosyvoice.yaml", 2: "cosyvoice2.yaml", 3: "cosyvoice3.yaml"}


def make_folders(folder: Path, generation: int, rate_hz: int = 24000) -> Source:
    checkpoint, checkout = folder / "checkpoint", folder / "checkout"
    for each in (
        checkpoint,
        checkout / "cosyvoice" / "cli",
        checkout / "third_party" / "Matcha-TTS" / "matcha",
    ):
        each.mkdir(parents=True)
    text = f"# fixed\n__set_seed: 1\n\nsample_rate: {rate_hz}\nllm_input_size: 896\n"
    (checkpoint / _YAML[generation]).write_text(text, "utf-8")
    (checkpoint / "llm.pt").write_bytes(b"weights")
    (checkout / "cosyvoice" / "cli" / "cosyvoice.py").write_text(
        "import cosyvoice_has_no_such_package\n", "utf-8"
    )
    return Source(path=str(checkpoint), settings={"checkout": str(checkout), "speakers": ["anna"]})
