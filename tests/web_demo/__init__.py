import pytest

pytest.register_assert_rewrite("tests.web_demo.browsing")
