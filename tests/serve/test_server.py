"""Processes that are killed, told to end, or met by hostile and slow clients."""

import contextlib
import http.client
import json
import os
import signal
import socket
import stat
import threading
import time

import pytest
from service import ROW, SERVE, Service, rows_of, wait_until

from atlas_splines import load
from atlas_splines.serve.guard import Access
from atlas_splines.serve.server import bound, token_in

TOKEN = "0123456789abcdef0123456789abcdef"
HURRIED = """
from functools import partial
from atlas_splines.serve import requests
requests.Limits = partial(
    requests.Limits, body=20_000, bodies=60_000, seconds=1.0, head_seconds=0.5, writes=2, requests=6
)
"""


@pytest.fixture
def token_file(tmp_path):
    path = tmp_path / "token"
    path.write_text(TOKEN + "\n")
    path.chmod(0o600)
    return path


@pytest.mark.slow
@pytest.mark.parametrize("delay", [0.0, 0.05, 0.15])
def test_what_was_acknowledged_survives_a_kill(model, delay):
    acknowledged = []
    with Service(model) as service:

        def teach():
            for seed in range(100):
                try:
                    reply = service.post("/learn", {"rows": rows_of(5, seed)}, Idempotency_Key=f"k{seed}")
                except (OSError, AssertionError, ValueError, EOFError):
                    return
                acknowledged.append((reply["update"], reply["version"]))

        thread = threading.Thread(target=teach)
        thread.start()
        wait_until(lambda: len(acknowledged) > 2, "the first updates")
        time.sleep(delay)
        service.end(signal.SIGKILL)
        thread.join()
    log = [record.id for record in load(model).estimator.update_log_]
    assert [number for number, _ in acknowledged] == log[: len(acknowledged)]
    assert len(log) <= len(acknowledged) + 1
    with Service(model) as service:
        assert service.get("/model")["updates"] == len(log)
        for seed in range(len(log)):  # sent again: whatever is in the file is not learned twice
            service.post("/learn", {"rows": rows_of(5, seed)}, Idempotency_Key=f"k{seed}")
        assert service.get("/model")["updates"] == len(log)


@pytest.mark.slow
def test_what_was_accepted_is_finished_before_the_end(model):
    replies = []
    with Service(model) as service:
        teachers = [
            threading.Thread(
                target=lambda k=k: replies.append(service.post("/learn", {"rows": rows_of(25, k)}))
            )
            for k in range(3)
        ]
        for teacher in teachers:
            teacher.start()
        wait_until(lambda: b"atlas_request" in service.ask("GET", "/metrics")[2], "the service")
        time.sleep(0.2)
        service.end()
        for teacher in teachers:
            teacher.join()
    assert sorted(reply["update"] for reply in replies) == [1, 2, 3]
    assert len(load(model).estimator.update_log_) == 3


@pytest.mark.slow
def test_a_disk_without_room_is_told_before_acknowledgement(model):
    before = model.read_bytes()
    most = len(before) // 2
    code = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({most}, {most}))\n" + SERVE
    with Service(model, code=code) as service:
        status, sentence = service.refused("/learn", {"rows": rows_of(25)})
        assert status == 507
        assert sentence.endswith("could not be written: File too large; make room or choose another folder")
        assert service.get("/model")["updates"] == 0
        assert len(service.predict()) == 1
    assert model.read_bytes() == before


@pytest.mark.slow
def test_the_token_is_asked_for(model, token_file):
    with Service(model, "--token-file", str(token_file)) as service:
        assert len(service.predict()) == 1  # on the loopback predictions need none
        status, sentence = service.refused("/learn", {"rows": rows_of(25)})
        assert (status, sentence) == (401, "the token is missing or wrong; send Authorization: Bearer TOKEN")
        assert service.refused("/revert/1", Authorization="Bearer wrong")[0] == 401
        assert service.post("/learn", {"rows": rows_of(25)}, Authorization=f"Bearer {TOKEN}")["update"] == 1
        assert service.refused("/predict", {"rows": [ROW]}, Host="evil.example")[0] == 403
        assert service.refused("/predict", {"rows": [ROW]}, Origin="http://evil.example")[0] == 403


@pytest.mark.slow
def test_followers_take_over_what_another_has_learned(model):
    with Service(model) as writer, Service(model, "--read-only") as reader:
        assert reader.refused("/learn", {"rows": rows_of(25)}) == (
            403,
            "this service only follows the file; ask the one that learns",
        )
        done = writer.post("/learn", {"rows": rows_of(25)})
        wait_until(lambda: reader.get("/ready")["version"] == done["version"], "the follower")
        assert reader.predict() == writer.predict()
        rubbish = model.with_suffix(".new")
        rubbish.write_bytes(b"rubbish")
        os.replace(rubbish, model)
        wait_until(lambda: reader.ask("GET", "/ready")[0] == 503, "the follower")
        assert reader.predict() == writer.predict()  # the version before goes on to answer


@pytest.fixture(scope="module")
def small(fitted, tmp_path_factory):
    """A service with small limits."""
    path = tmp_path_factory.mktemp("small") / "homes.atlas"
    path.write_bytes(fitted.read_bytes())
    with Service(path, code=HURRIED + SERVE) as found:
        yield found


def connected(service):
    return socket.create_connection(("127.0.0.1", service.port), timeout=30)


def predicted(connection):
    """All that comes until the connection is closed."""
    found = b""
    try:
        while part := connection.recv(65536):
            found += part
    except ConnectionError:
        pass
    return found


def head(service, length, kind="application/json"):
    return (
        f"POST /predict HTTP/1.1\r\nHost: 127.0.0.1:{service.port}\r\nContent-Type: {kind}\r\n"
        f"Content-Length: {length}\r\nConnection: close\r\n\r\n"
    ).encode()


def test_bodies_that_are_too_large_are_refused_with_413(small):
    what = (413, "the body has more than 20,000 bytes; send fewer rows at a time")
    assert small.refused("/predict", b"x" * 20_001) == what
    with connected(small) as connection:  # a length that is not said in advance
        chunks = b"".join(b"1000\r\n" + b"x" * 4096 + b"\r\n" for _ in range(6)) + b"0\r\n\r\n"
        connection.sendall(
            head(small, 0).replace(b"Content-Length: 0", b"Transfer-Encoding: chunked") + chunks
        )
        assert predicted(connection).startswith(b"HTTP/1.1 413")
    with connected(small) as connection:
        connection.sendall(head(small, 10**18))
        assert predicted(connection).startswith(b"HTTP/1.1 413")
    assert len(small.predict()) == 1


def test_slow_bodies_are_refused_with_408(small):
    with connected(small) as connection:
        connection.sendall(head(small, 100) + b"{")
        assert b"the body took longer than 1 seconds" in predicted(connection)


def test_slow_heads_are_cut_off(small):
    with connected(small) as silent, connected(small) as slow:
        slow.sendall(b"POST /predict HTTP/1.1\r\nHost")
        assert predicted(slow) == predicted(silent) == b""


def test_a_connection_may_rest_between_requests_and_go_on(small):
    connection = http.client.HTTPConnection("127.0.0.1", small.port, timeout=30)
    body = json.dumps({"rows": [ROW]}).encode()
    with contextlib.closing(connection):
        used = set()
        for _ in range(2):
            connection.request("POST", "/predict", body, {"Content-Type": "application/json"})
            assert connection.getresponse().read().startswith(b'{"predictions"')
            used.add(connection.sock)
            time.sleep(0.7)  # longer than a head may take
        assert len(used) == 1


@pytest.mark.parametrize("content", [b"\x00" * 100, b"GET\r\n\r\n", b"GET / HTTP/1.1\r\nA" + b"b" * 40_000])
def test_what_is_no_http_is_refused(small, content):
    with connected(small) as connection:
        connection.sendall(content)
        assert predicted(connection)[:12] in (b"", b"HTTP/1.1 400")
    assert len(small.predict()) == 1


def test_many_requests_at_a_time_are_refused_with_503(small):
    waiting = [connected(small) for _ in range(6)]
    try:
        for connection in waiting:
            connection.sendall(head(small, 100))
        wait_until(lambda: small.ask("GET", "/health")[0] == 503, "the limit")
        status, sentence = small.refused("/predict", {"rows": [ROW]})
        assert (status, sentence) == (503, "too many requests at a time")
    finally:
        for connection in waiting:
            connection.close()
    wait_until(lambda: small.ask("GET", "/health")[0] == 200, "the end of the others")


def test_many_changes_at_a_time_are_refused_with_429(small):
    found = []
    teachers = [
        threading.Thread(
            target=lambda k=k: found.append(small.ask("POST", "/learn", {"rows": rows_of(20, k)}))
        )
        for k in range(6)
    ]
    for teacher in teachers:
        teacher.start()
    for teacher in teachers:
        teacher.join()
    statuses = {status for status, _, _ in found}
    assert 429 in statuses
    assert statuses <= {200, 429, 503}
    assert all(headers["retry-after"] for status, headers, _ in found if status != 200)


# --- before it starts ---------------------------------------------------------------------------------


def test_tokens_are_words_that_only_their_owner_reads(tmp_path, token_file):
    assert token_in(token_file) == TOKEN
    token_file.chmod(0o644)
    assert stat.S_IMODE(token_file.stat().st_mode) == 0o644
    with pytest.raises(ValueError, match="can be read by everybody; run: chmod 600"):
        token_in(token_file)
    token_file.chmod(0o600)
    for text in ("", "short", "two words of enough length"):
        token_file.write_text(text)
        with pytest.raises(
            ValueError, match="must hold one word of 16 characters or more; make one with: openssl"
        ):
            token_in(token_file)
    token_file.write_text("é" * 20)
    with pytest.raises(ValueError, match="holds more than ASCII"):
        token_in(token_file)
    with pytest.raises(ValueError, match="cannot be read: No such file or directory"):
        token_in(tmp_path / "nothing")


def test_other_addresses_need_a_token():
    with pytest.raises(
        ValueError, match=r"0\.0\.0\.0 can be reached from elsewhere, which needs --token-file"
    ):
        bound("0.0.0.0", 0, Access())
    with bound("0.0.0.0", 0, Access(TOKEN)) as listening:
        port = listening.getsockname()[1]
        with pytest.raises(OSError, match=f"127.0.0.1:{port} cannot be used: .*; choose another --port"):
            bound("127.0.0.1", port, Access())
