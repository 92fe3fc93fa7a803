"""A served model as tests meet it: a real process on the loopback, and a client of the standard library."""

import contextlib
import http.client
import json
import os
import signal
import subprocess
import sys
import time

from command import HEADER, homes, ok, write_csv

PATIENCE = 120  # seconds
SERVE = "import sys; from atlas_splines.cli.entry import main; sys.argv[0] = 'atlas'; main()"
JSON, CSV, ARROW = "application/json", "text/csv", "application/vnd.apache.arrow.stream"
ROW = {"size": 50.0, "age": 3, "city": "Cadiz", "garden": "no"}


def fitted_homes(folder, rows=150):
    """A file of a small model of homes, which the command has fitted."""
    write_csv(folder / "homes.csv", HEADER, homes(rows))
    ok("fit", folder / "homes.csv", "-t", "price", "-o", folder / "homes.atlas", "--force")
    return folder / "homes.atlas"


def rows_of(count, seed=1, **changes):
    """Rows of JSON with a price."""
    found = [dict(zip(HEADER, row, strict=True)) for row in homes(count, seed=seed)]
    return [
        {
            "size": float(row["size"]),
            "age": None if row["age"] == "" else int(row["age"]),
            "city": str(row["city"]),
            "garden": str(row["garden"]),
            "price": float(row["price"]),
            **changes,
        }
        for row in found
    ]


def csv_of(count, seed=1):
    """The same as a CSV file."""
    lines = [",".join(HEADER), *(",".join(map(str, row)) for row in homes(count, seed=seed))]
    return ("\n".join(lines) + "\n").encode()


class Service:
    """A process that serves a model."""

    def __init__(self, model, *options, code=SERVE, **environment):
        self.errors = model.with_suffix(".err")
        with open(self.errors, "ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-c", code, "serve", str(model), "--port", "0", "--json", *options],
                stdout=subprocess.PIPE,
                stderr=log,
                env=os.environ | environment,
            )
        line = self.process.stdout.readline()
        assert line, self.errors.read_text()
        self.facts = json.loads(line)
        self.port = int(self.facts["address"].rstrip("/").rpartition(":")[2])

    def ask(self, method, path, content=None, kind=JSON, **headers):
        """Status, headers and body of an answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        with contextlib.closing(connection):
            body = json.dumps(content).encode() if isinstance(content, dict) else content
            head = {} if body is None else {"Content-Type": kind}
            head |= {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, body, head)
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()

    def get(self, path, **headers):
        """The JSON of an answer that is fine."""
        status, _, body = self.ask("GET", path, **headers)
        assert status == 200, body
        return json.loads(body)

    def post(self, path, content=None, kind=JSON, **headers):
        """The same of a post."""
        status, _, body = self.ask("POST", path, content, kind, **headers)
        assert status == 200, body
        return json.loads(body)

    def refused(self, path, content=None, kind=JSON, method="POST", **headers):
        """Status and sentence of a refusal."""
        status, _, body = self.ask(method, path, content, kind, **headers)
        assert status >= 400, body
        found = json.loads(body)
        assert list(found) == ["error"]
        assert "Traceback" not in found["error"]
        return status, found["error"]

    def predict(self, *rows):
        return self.post("/predict", {"rows": list(rows) or [ROW]})["predictions"]

    def end(self, how=signal.SIGTERM):
        """Tell it to end; its exit code."""
        self.process.send_signal(how)
        code = self.process.wait(PATIENCE)
        self.process.stdout.close()
        return code

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdout.close()


def wait_until(condition, what):
    """Wait until something is true."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"{what} took too long"
        time.sleep(0.02)
