import pytest

from pcm_cache.faults import Faults


def test_faults_are_all_counted_and_said_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    faults = Faults()
    for second in range(121):
        faults.note("can't write: the disk is full", float(second))
    assert faults.count == 121
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 3
    assert all("the disk is full" in line for line in said)
    assert "60 faults" in said[1]
