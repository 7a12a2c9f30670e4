"""Cuts a Piper voice's network in two: what reads the whole segment, and what can make its sound window by window.

The first half ends before the vocoder, so its normalising flow, which looks far around, runs once for the whole
segment; the vocoder alone sees few frames to each side and its windows join exactly. All that is random is in the
first half: the nodes that draw it get a bank of noise instead, so that a request's seed decides.
"""

import hashlib
import json
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engines.contract import EngineUnavailable

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto

_VERSION = 1
"""Goes up when another cut is made."""
NOISE = "noise"
_VOCODER_WEIGHT = "dec.conv_pre.weight"
_SPEAKER_WEIGHT = "dec.cond.weight"


@dataclass(frozen=True, slots=True)
class Halves:
    reader: Path
    vocoder: Path
    inputs: tuple[str, ...]
    """Of the reader, in no order that matters."""
    frames: str
    """The vocoder's input: float32 [1, channels, frames]."""
    speaker: str | None
    """The vocoder's other input, where the voice has several speakers."""
    hop_samples: int


def cut(network: Path, cache: Path) -> Halves:
    """Cuts it once and keeps the halves under `cache`. Raises EngineUnavailable."""
    with network.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    folder = cache / f"{digest[:32]}-{_VERSION}"
    if not (folder / "halves.json").exists():
        try:
            _cut_into(network, folder)
        except Exception as error:
            raise EngineUnavailable(f"{network} can't be prepared: {error}") from error
    return _read(folder)


def _read(folder: Path) -> Halves:
    known = json.loads((folder / "halves.json").read_text("utf-8"))
    return Halves(
        reader=folder / "reader.onnx",
        vocoder=folder / "vocoder.onnx",
        inputs=tuple(known["inputs"]),
        frames=known["frames"],
        speaker=known["speaker"],
        hop_samples=known["hop_samples"],
    )


def _cut_into(network: Path, folder: Path) -> None:
    """Another process may do the same at the same moment: the first one's folder stays."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix=".", dir=folder.parent))
    try:
        known = _halve(network, made)
        (made / "halves.json").write_text(json.dumps(known), "utf-8")
        try:
            made.rename(folder)
        except OSError:
            if not folder.exists():
                raise
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _halve(network: Path, made: Path) -> dict[str, Any]:
    import onnx
    from streaming_vits.graph import describe_decoder

    model = onnx.load(str(network))
    hop_samples = describe_decoder(model)["hop"]
    frames, speaker = _seam(model.graph)
    _feed_noise(model)
    del model.metadata_props[:]  # Piper writes some twice, which the checker refuses
    boundary = [frames] + ([speaker] if speaker else [])
    inputs = [value.name for value in model.graph.input]
    outputs = [value.name for value in model.graph.output]
    whole = made / "whole.onnx"
    onnx.save(onnx.shape_inference.infer_shapes(model, data_prop=True), str(whole))
    onnx.utils.extract_model(str(whole), str(made / "reader.onnx"), inputs, boundary)
    onnx.utils.extract_model(str(whole), str(made / "vocoder.onnx"), boundary, outputs)
    whole.unlink()
    return {"inputs": inputs, "frames": frames, "speaker": speaker, "hop_samples": hop_samples}


def _seam(graph: "GraphProto") -> tuple[str, str | None]:
    frames = _input_of_weight(graph, _VOCODER_WEIGHT)
    if frames is None:
        raise ValueError("it is no Piper voice: nothing has the weight " + _VOCODER_WEIGHT)
    return frames, _input_of_weight(graph, _SPEAKER_WEIGHT)


def _input_of_weight(graph: "GraphProto", weight: str) -> str | None:
    return next((node.input[0] for node in graph.node if weight in node.input[1:]), None)


def _feed_noise(model: "ModelProto") -> None:
    """Each RandomNormalLike becomes a look into the bank, at a place of its own, going round if need be."""
    from onnx import TensorProto, helper

    graph = model.graph
    nodes: list[NodeProto] = []
    drawn = 0
    for node in graph.node:
        if node.op_type != "RandomNormalLike":
            nodes.append(node)
            continue
        if any(attribute.name in {"mean", "scale"} for attribute in node.attribute):
            raise ValueError(f"{node.name} draws from another distribution than the normal one")
        nodes += _look_up(node.input[0], node.output[0], f"noise{drawn}", drawn)
        drawn += 1
    del graph.node[:]
    graph.node.extend(nodes)
    for name, value in (("noise/zero", 0), ("noise/one", 1), ("noise/all", -1), ("noise/stride", STRIDE)):
        shape = [1] if name == "noise/all" else []
        graph.initializer.append(helper.make_tensor(name, TensorProto.INT64, shape, [value]))
    graph.input.append(helper.make_tensor_value_info(NOISE, TensorProto.FLOAT, [NOISE]))


STRIDE = 1 << 13
"""From where one node begins in the bank to where the next does: durations need two values for each id."""


def _look_up(like: str, output: str, name: str, index: int) -> "list[NodeProto]":
    from onnx import TensorProto, helper

    def node(op: str, inputs: list[str], suffix: str, **attributes: Any) -> "NodeProto":
        return helper.make_node(op, inputs, [f"{name}/{suffix}"], name=f"{name}/{suffix}", **attributes)

    start = helper.make_tensor(f"{name}/start", TensorProto.INT64, [], [index * STRIDE])
    return [
        helper.make_node("Constant", [], [f"{name}/start"], name=f"{name}/start", value=start),
        node("Shape", [like], "shape"),
        node("ReduceProd", [f"{name}/shape"], "size", keepdims=0),
        node("Add", [f"{name}/start", f"{name}/size"], "end"),
        node("Range", [f"{name}/start", f"{name}/end", "noise/one"], "places"),
        node("Size", [NOISE], "bank"),
        node("Mod", [f"{name}/places", f"{name}/bank"], "indices"),
        node("Gather", [NOISE, f"{name}/indices"], "flat"),
        helper.make_node("Reshape", [f"{name}/flat", f"{name}/shape"], [output], name=f"{name}/values"),
    ]


def default_cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "saystream" / "vits"
