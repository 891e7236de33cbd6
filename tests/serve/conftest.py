"""Policies in files, served."""

import pytest
from policies import make_policy
from served import Served


@pytest.fixture(scope="session")
def policy():
    """Return a policy with a memory."""
    return make_policy("do_iqs_lb", lags=1)


@pytest.fixture(scope="session")
def file(policy, tmp_path_factory):
    """Return its checkpoint."""
    place = tmp_path_factory.mktemp("served") / "policy.ckpt"
    policy.save(place)
    return place


@pytest.fixture
def served(file, tmp_path):
    """Return a server of it."""
    with Served(file, tmp_path / "live.db", remember=4, paths=20, rows=50) as running:
        yield running
