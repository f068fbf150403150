"""What all tests share: the option that renews golden files."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--renew", action="store_true", help="write tests/golden anew; review the difference"
    )
