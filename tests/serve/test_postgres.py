"""PostgreSQL as a store: LIT_IOS_POSTGRES=postgresql://… names a database that tests may use."""

import os
from urllib.parse import quote

import pytest
from served import Served

from lit_ios.checks import UserError
from lit_ios.serve.store import Store

pytestmark = [
    pytest.mark.postgres,
    pytest.mark.skipif("LIT_IOS_POSTGRES" not in os.environ, reason="no PostgreSQL is named"),
]


@pytest.fixture
def url(tmp_path):
    """Return a store of its own in the database, which is removed afterwards."""
    psycopg = pytest.importorskip("psycopg", reason="the extra serve-postgres is not installed")
    place, name = os.environ["LIT_IOS_POSTGRES"], f"test_{tmp_path.name}"
    with psycopg.connect(place, autocommit=True) as connection:
        connection.execute(f'CREATE SCHEMA "{name}"')
        yield f"{place}?options={quote(f'-csearch_path={name}')}"
        connection.execute(f'DROP SCHEMA "{name}" CASCADE')


def test_paths_go_on_after_a_restart_and_repeats_are_answered_as_before(file, policy, url):
    stream = policy.stream()
    with Served(file, url, remember=3) as served:
        for t in range(5):
            stream.step([t, 1], t)
            row = {"time": t, "values": [t, 1]}
            last = served.ask("POST", "/paths/p/rows", row)
        served.row("q", [1, 2], t=0)
        served.row("r", [1, 2], t=0)
        ended = served.ask("POST", "/paths/q/end", {"stopped": True})
        assert served.ask("DELETE", "/paths/r")[0] == 204
        before = served.get("/paths")
    with Served(file, url, remember=3) as served:
        assert served.get("/paths") == before
        assert served.ask("POST", "/paths/p/rows", row) == last
        assert served.ask("POST", "/paths/q/end", {"stopped": True}) == ended
        assert "none of the last 3" in served.refused("/paths/p/rows", row | {"time": 1}, 409)
        found = served.row("p", [5, 1], time=5)
        assert found["margin"] == pytest.approx(stream.step([5, 1], 5).margin, abs=1e-12)


def test_two_servers_do_not_share_a_store(file, url):
    with Served(file, url), pytest.raises(UserError, match="in use by another server"):
        Store(url)


def test_after_a_lost_connection_the_server_goes_on_with_what_the_database_has(file, url):
    with Served(file, url) as served:
        first = served.row("p", [1, 2], time=0)
        served.state.store._connection.close()
        assert "cannot be" in served.refused("/paths/p/rows", {"time": 1, "values": [1, 2]}, 503)
        assert served.row("p", [1, 2], time=0) == first
        assert served.row("p", [1, 2], time=1)["t"] == 1


def test_errors_name_the_store_without_its_password():
    with pytest.raises(UserError, match=r"postgresql://127\.0\.0\.1:1/x cannot be opened") as error:
        Store("postgresql://me:secret@127.0.0.1:1/x")
    assert "secret" not in str(error.value)
