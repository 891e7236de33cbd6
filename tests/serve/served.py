"""A server in a thread of this process, asked over a real connection."""

import http.client
import json
import threading
import time

import uvicorn

from lit_ios.serve.batch import Limits
from lit_ios.serve.server import application
from lit_ios.serve.store import Store


class Served:
    """A running server; `with` stops it.

    Args:
        policy: file.
        store: file or URL.
        key: that it wants.
        local: whether it answers to local names only.
        limits: as for Limits.
    """

    def __init__(self, policy, store, key=None, local=False, **limits):
        self.key, self.policy = key, policy
        app, self.state = application(
            lambda: self.policy, Store(str(store)), Limits(**limits), (), key, local
        )
        config = uvicorn.Config(
            app, port=0, ws="none", log_level="error", timeout_graceful_shutdown=2
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run)
        self._thread.start()
        while not self._server.started and self._thread.is_alive():
            time.sleep(0.005)
        self.port = self._server.servers[0].sockets[0].getsockname()[1]
        self._connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._connection.close()
        self._server.should_exit = True
        self._thread.join()

    def ask(self, method, place, body=None, **headers):
        """Return status and raw body of an answer."""
        sent = {"authorization": f"Bearer {self.key}"} if self.key else {}
        if isinstance(body, dict | list):
            body, sent["content-type"] = json.dumps(body), "application/json"
        self._connection.request(method, place, body, sent | headers)
        answer = self._connection.getresponse()
        return answer.status, answer.read()

    def beside(self):
        """Return another connection to it."""
        other = object.__new__(Served)
        other.__dict__ |= self.__dict__
        other._connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        return other

    def get(self, place):
        """Return what is answered with 200."""
        status, body = self.ask("GET", place)
        assert status == 200, body
        return json.loads(body)

    def post(self, place, body, expected=200):
        """Return what is answered with the expected status."""
        status, answer = self.ask("POST", place, body)
        assert status == expected, (status, answer)
        return json.loads(answer)

    def refused(self, place, body, status):
        """Return the sentence of a refusal."""
        return self.post(place, body, status)["error"]

    def row(self, name, values, **where):
        """Return the decision on a row."""
        return self.post(f"/paths/{name}/rows", {"values": values} | where)["decisions"][0]
