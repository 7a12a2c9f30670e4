from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from hibari import Hibari, voices

from engines.onnx_outputs import input_of, with_int64_output


@pytest.fixture(scope="module")
def network() -> bytes:
    return Path(voices.voice_path("heart")).read_bytes()


def test_an_inner_tensor_becomes_an_output_and_the_others_stay_as_they_were(network: bytes) -> None:
    library = Hibari(threads=1)
    ids = np.asarray([library.ids("həlˈO ðˈɛɹ.")], np.int64)
    feed = {"ids": ids, "speed": np.ones(1, np.float32)}
    name = input_of(network, "CumSum")
    session = onnxruntime.InferenceSession(
        with_int64_output(network, name), providers=["CPUExecutionProvider"]
    )
    *same, durations = session.run(None, feed)
    assert session.get_outputs()[-1].name == name
    for ours, theirs in zip(same, library.sess.run(None, feed), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert durations.shape == (ids.size,)
    assert 2 * durations.sum() == same[0].shape[2]


def test_a_kind_of_node_that_is_not_there_just_once_is_an_error(network: bytes) -> None:
    with pytest.raises(ValueError, match="0 Nonsense"):
        input_of(network, "Nonsense")
    with pytest.raises(ValueError, match="not one"):
        input_of(network, "Add")


def test_what_is_not_a_network_is_an_error() -> None:
    with pytest.raises(ValueError, match="not a serialised ONNX model"):
        input_of(b"\x3f" * 10, "CumSum")
