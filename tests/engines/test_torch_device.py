"""What every engine on PyTorch shares, on a processor; CUDA and MPS are on machines that have them."""

import re

import pytest

torch = pytest.importorskip("torch", reason="PyTorch isn't installed here; make test-engines has it")

from engines.contract import EngineUnavailable, OptionError  # noqa: E402 - after what it may be skipped for
from engines.torch_device import TorchDevice, check_precision, check_threads  # noqa: E402
from engines.torch_random import RandomState  # noqa: E402


def test_auto_is_whole_precision_on_a_processor_and_the_rest_is_as_asked() -> None:
    device = TorchDevice("cpu")
    assert device.dtype("auto") == torch.float32
    assert device.dtype("bfloat16") == torch.bfloat16
    assert device.dtype("float16") == torch.float16


@pytest.mark.parametrize("value", ["int8", "", None, 32])
def test_another_precision_is_refused_by_its_name(value: object) -> None:
    with pytest.raises(OptionError) as refused:
        check_precision(value)
    assert refused.value.param == "dtype"


@pytest.mark.parametrize("value", [0, 65, True, 1.5, "2"])
def test_another_number_of_threads_is_refused_by_its_name(value: object) -> None:
    with pytest.raises(OptionError) as refused:
        check_threads(value)
    assert refused.value.param == "threads"


def test_the_threads_of_the_process_are_given_back_once() -> None:
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        device = TorchDevice("cpu", threads=1)
        assert torch.get_num_threads() == 1
        device.give_back()
        assert torch.get_num_threads() == 2
        torch.set_num_threads(1)
        device.give_back()
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has CUDA")
def test_s1_without_a_gpu_it_refuses() -> None:
    with pytest.raises(EngineUnavailable, match=rf"PyTorch {re.escape(torch.__version__)} .*sees no GPU"):
        TorchDevice("cuda")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="this machine has no CUDA")
def test_on_a_gpu_memory_is_counted_and_given_back() -> None:
    device = TorchDevice("cuda")
    block = torch.zeros(64 << 20, dtype=torch.uint8, device=device.device)
    peak_bytes = device.peak_bytes()
    assert peak_bytes is not None
    assert peak_bytes >= 64 << 20
    del block
    device.give_back()
    assert torch.cuda.memory_reserved() < 64 << 20


@pytest.mark.skipif(not torch.cuda.is_available(), reason="this machine has no CUDA")
def test_on_a_gpu_a_random_state_is_private_too() -> None:
    one, other = RandomState(5, "cuda"), RandomState(5, "cuda")
    with one:
        first = torch.rand(3, device="cuda")
    torch.rand(3, device="cuda")
    with other:
        assert torch.equal(torch.rand(3, device="cuda"), first)
