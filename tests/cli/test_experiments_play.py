import os
import re
import signal
import socket
import subprocess
import sys
import threading
from http.client import HTTPConnection

import pytest
from command import app, run

from atlas_splines.cli.experiments import PlayServer
from atlas_splines.play.bundle import assembled_page

COMMAND = ["-c", "from atlas_splines.cli.entry import main; main()", "play", "--no-browser"]


@pytest.fixture
def server():
    with PlayServer() as serving:
        thread = threading.Thread(target=serving.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield serving
        serving.shutdown()
        thread.join()


def get(server, path, method="GET", **headers):
    connection = HTTPConnection("127.0.0.1", server.server_port)
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer.status, content


def test_it_serves_the_page_and_nothing_else(server):
    assert server.server_address[0] == "127.0.0.1"
    assert server.address == f"http://127.0.0.1:{server.server_port}/"
    assert get(server, "/") == (200, assembled_page().encode())
    for path in ("/page.css", "/../pyproject.toml", "/model"):
        assert get(server, path)[0] == 404


def test_pages_of_other_names_are_refused(server):
    assert get(server, "/", Host="elsewhere.example")[0] == 403
    assert get(server, "/", Host=f"localhost:{server.server_port}")[0] == 200


def test_heads_are_those_of_what_would_be_sent(server):
    assert get(server, "/", "HEAD") == (200, b"")
    assert get(server, "/nothing", "HEAD") == (404, b"")
    assert get(server, "/", "HEAD", Host="elsewhere.example") == (403, b"")
    with socket.create_connection(server.server_address) as raw:
        raw.sendall(f"HEAD / HTTP/1.0\r\nHost: localhost:{server.server_port}\r\n\r\n".encode())
        answer = b"".join(iter(lambda: raw.recv(4096), b""))
    assert answer.endswith(
        f"Content-Length: {len(assembled_page().encode())}\r\nCache-Control: no-store\r\n\r\n".encode()
    )


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_the_command_says_where_it_is_and_ends_with_ctrl_c():
    with subprocess.Popen(
        [sys.executable, *COMMAND], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, bufsize=1
    ) as process:
        first, second = process.stdout.readline(), process.stdout.readline()
        assert re.fullmatch(r"The playground is at http://127\.0\.0\.1:\d+/\n", first)
        assert second == "As a file: python -m atlas_splines.play.bundle playground.html. Ctrl-C ends.\n"
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate()
    assert process.returncode == 0
    assert errors == ""


def test_what_cannot_be_served_is_told_in_a_sentence(tmp_path):
    result = run(app, ["play", "--no-browser", str(tmp_path / "none.atlas")])
    assert result.exit_code == 2
    assert re.search(r"none\.atlas does not exist or is not a file; check the name", result.stderr)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        result = run(app, ["play", "--no-browser", "--port", str(port)])
    assert result.exit_code == 2
    assert re.search(rf"port {port} cannot be used: .*; choose another with --port", result.stderr)
