"""A model in production: predictions a second, answers while it learns, kills, hostile requests, and the start.

Every server is a process of its own on the loopback, and every figure that is compared comes from the same run:
rounds of both servers alternate, so that whatever else the machine does meets both.

    python benchmarks/serve.py [--quick] [part ...]

Parts are: row, start, throughput, learning, kills, memory, fuzz. Each prints its goal, and whether it was met.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

COMMAND = [sys.executable, "-c", "from atlas_splines.cli.entry import main; main()"]
CITIES = ("Aarhus", "Bergen", "Cadiz", "Dublin")
PATIENCE = 120
ROWS = 5000
OPPONENT = """
import sys
import numpy as np, pyarrow.parquet as parquet, uvicorn
from fastapi import FastAPI
from pydantic import BaseModel
from sklearn.ensemble import HistGradientBoostingRegressor

cities = {"Aarhus": 0.0, "Bergen": 1.0, "Cadiz": 2.0, "Dublin": 3.0}
names = ["size", "age", "city", "rooms", "x0", "x1", "x2", "x3"]
table = parquet.read_table(sys.argv[1])
columns = {name: table[name].to_pylist() for name in names}
columns["city"] = [cities[each] for each in columns["city"]]
X = np.column_stack([columns[name] for name in names]).astype(float)
model = HistGradientBoostingRegressor(categorical_features=[2], random_state=0).fit(X, table["price"].to_numpy())

class Row(BaseModel):
    size: float
    age: float
    city: str
    rooms: float
    x0: float
    x1: float
    x2: float
    x3: float

class Rows(BaseModel):
    rows: list[Row]

app = FastAPI()

@app.get("/health")
async def health():
    return {"status": "ok"}

@app.post("/predict")
async def predict(rows: Rows):
    X = np.array([[r.size, r.age, cities[r.city], r.rooms, r.x0, r.x1, r.x2, r.x3] for r in rows.rows])
    return {"predictions": model.predict(X).tolist()}

uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[2]), access_log=False, log_level="warning")
"""


# --- tables and servers -----------------------------------------------------------------------------------


def homes(rows: int, seed: int) -> list[dict[str, object]]:
    """Rows of eight columns and a price."""
    r = np.random.default_rng(seed)
    size, age, rooms = r.uniform(30, 200, rows), r.integers(0, 90, rows), r.integers(1, 8, rows)
    city, more = r.choice(CITIES, rows), r.random((rows, 4))
    price = (
        2 * size - 0.5 * age + 60 * (city == "Cadiz") + 10 * np.sin(6 * more[:, 0]) + 5 * r.normal(size=rows)
    )
    return [
        {
            "size": round(float(size[k]), 2),
            "age": float(age[k]),
            "city": str(city[k]),
            "rooms": float(rooms[k]),
            **{f"x{j}": round(float(more[k, j]), 4) for j in range(4)},
            "price": round(float(price[k]), 2),
        }
        for k in range(rows)
    ]


def without_target(row: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in row.items() if name != "price"}


def write_parquet(path: Path, rows: list[dict[str, object]]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as parquet

    parquet.write_table(pa.Table.from_pylist(rows), path)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return found.getsockname()[1]


@dataclass
class Server:
    """A process that answers."""

    process: subprocess.Popen[bytes]
    port: int
    errors: Path

    @classmethod
    def atlas(cls, model: Path, *options: str) -> Server:
        port = free_port()
        command = [*COMMAND, "serve", str(model), "--port", str(port), "--quiet", *options]
        return cls._start(command, port, model.with_suffix(".err"))

    @classmethod
    def opponent(cls, table: Path) -> Server:
        port = free_port()
        return cls._start(
            [sys.executable, "-c", OPPONENT, str(table), str(port)], port, table.with_suffix(".err")
        )

    @classmethod
    def _start(cls, command: list[str], port: int, errors: Path) -> Server:
        with open(errors, "ab") as log:
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=log)
        return cls(process, port, errors)

    def wait(self) -> None:
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            assert self.process.poll() is None, self.errors.read_text()[-2000:]
            try:
                with Connection(self.port) as connection:
                    if connection.get("/health")[0] == 200:
                        return
            except OSError:
                time.sleep(0.02)
        raise TimeoutError("the server did not start")

    def memory(self) -> float:
        """Resident megabytes."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS"):
                return int(line.split()[1]) / 1024
        return float("nan")

    def end(self, how: int = signal.SIGTERM) -> int:
        self.process.send_signal(how)
        return self.process.wait(PATIENCE)


class Connection:
    """A connection that is kept, as clients of a service keep theirs; it costs little beside the server."""

    def __init__(self, port: int, timeout: float = 60) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._host = f"127.0.0.1:{port}"
        self._buffer = b""

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def get(self, path: str) -> tuple[int, bytes]:
        return self._ask(f"GET {path} HTTP/1.1\r\nHost: {self._host}\r\n\r\n".encode())

    def post(
        self, path: str, body: bytes, kind: str = "application/json", more: str = ""
    ) -> tuple[int, bytes]:
        return self._ask(self.request(path, body, kind, more))

    def request(self, path: str, body: bytes, kind: str = "application/json", more: str = "") -> bytes:
        head = f"POST {path} HTTP/1.1\r\nHost: {self._host}\r\nContent-Type: {kind}\r\n{more}"
        return head.encode() + f"Content-Length: {len(body)}\r\n\r\n".encode() + body

    def _ask(self, request: bytes) -> tuple[int, bytes]:
        self._socket.sendall(request)
        return self.answer()

    def answer(self) -> tuple[int, bytes]:
        while b"\r\n\r\n" not in self._buffer:
            self._receive()
        head, _, self._buffer = self._buffer.partition(b"\r\n\r\n")
        status = int(head.split(None, 2)[1])
        lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
        length = int(lengths[0].split(b":")[1]) if lengths else 0
        while len(self._buffer) < length:
            self._receive()
        body, self._buffer = self._buffer[:length], self._buffer[length:]
        return status, body

    def _receive(self) -> None:
        part = self._socket.recv(65536)
        if not part:
            raise ConnectionError("the server closed the connection")
        self._buffer += part


def fitted(folder: Path, quick: bool) -> Path:
    """A model of the table of homes, fitted by the command."""
    rows = homes(1000 if quick else ROWS, 0)
    write_parquet(folder / "homes.parquet", rows)
    model = folder / "homes.atlas"
    subprocess.run(
        [*COMMAND, "fit", str(folder / "homes.parquet"), "-t", "price", "-o", str(model), "-q"], check=True
    )
    return model


# --- parts ------------------------------------------------------------------------------------------------


def verdict(name: str, value: float, goal: str, met: bool) -> bool:
    print(f"{'met   ' if met else 'MISSED'}  {name}: {value:.3g}  (goal {goal})", flush=True)
    return met


def bodies_of(count: int, seed: int = 1) -> list[bytes]:
    return [json.dumps({"rows": [without_target(row)]}).encode() for row in homes(count, seed)]


def rate(port: int, bodies: list[bytes], seconds: float) -> float:
    """Predictions of single rows a second, of one client that asks one after the other."""
    with Connection(port) as connection:
        requests = [connection.request("/predict", body) for body in bodies]
        for request in requests[:20]:
            connection._ask(request)
        count, start = 0, time.perf_counter()
        while time.perf_counter() - start < seconds:
            status, _ = connection._ask(requests[count % len(requests)])
            assert status == 200
            count += 1
        return count / (time.perf_counter() - start)


def row(folder: Path, quick: bool) -> bool:
    """Milliseconds of one row and of a hundred: as a data frame, and encoded cell by cell as the service does."""
    import pyarrow as pa

    from atlas_splines.serve.snapshot import Snapshot

    snapshot, found = Snapshot.load(fitted(folder, quick)), {}
    for count in (1, 100):
        rows = [without_target(each) for each in homes(count, 3)]
        table = pa.Table.from_pylist(rows)
        encoded, _ = snapshot.encode_rows(rows)
        for name, work in (
            ("data frame", lambda: snapshot.estimator.predict(table)),  # noqa: B023
            ("rows of JSON", lambda: snapshot.answer(snapshot.encode_rows(rows)[0])),  # noqa: B023
            ("encoded rows", lambda: snapshot.answer(encoded)),  # noqa: B023
        ):
            times = []
            for _ in range(20 if quick else 300):
                begin = time.perf_counter()
                work()
                times.append(time.perf_counter() - begin)
            found[name] = 1000 * statistics.median(times)
            print(f"{count} row(s), {name}: {found[name]:.2f} ms")
    return True


def start(folder: Path, quick: bool) -> bool:
    """Seconds from the command to its first prediction."""
    model, body = fitted(folder, quick), bodies_of(1)[0]
    found, busy = [], []
    for _ in range(2 if quick else 6):
        begin = time.perf_counter()
        server = Server.atlas(model)
        server.wait()
        with Connection(server.port) as connection:
            assert connection.post("/predict", body)[0] == 200
        found.append(time.perf_counter() - begin)
        parts = Path(f"/proc/{server.process.pid}/stat").read_text().rpartition(")")[2].split()
        busy.append((int(parts[11]) + int(parts[12])) / os.sysconf("SC_CLK_TCK"))
        server.end()
    print(f"of these the processor worked: {', '.join(f'{each:.2f}' for each in busy)} seconds")
    print(f"seconds: {', '.join(f'{each:.2f}' for each in found)} (the first may compile)")
    best = statistics.median(found[1:])
    return verdict("start to first prediction, seconds, median after the first", best, "≤ 2", best <= 2)


def throughput(folder: Path, quick: bool) -> bool:
    """Single rows a second next to FastAPI with boosting."""
    model, bodies = fitted(folder, quick), bodies_of(200)
    own, other = Server.atlas(model), Server.opponent(folder / "homes.parquet")
    own.wait()
    other.wait()
    ratios = []
    for _ in range(2 if quick else 8):
        rates = [rate(server.port, bodies, 1 if quick else 3) for server in (own, other)]
        ratios.append(rates[0] / rates[1])
        print(
            f"rows a second: atlas {rates[0]:.0f}, fastapi with boosting {rates[1]:.0f}, ratio {ratios[-1]:.2f}"
        )
    own.end()
    other.end()
    found = statistics.median(ratios)
    return verdict("single rows a second ÷ FastAPI + boosting", found, "≥ 1.5", found >= 1.5)


def percentiles(port: int, bodies: list[bytes], seconds: float, pause: float) -> np.ndarray:
    """Seconds that single rows take, asked at a steady pace."""
    found = []
    with Connection(port) as connection:
        requests = [connection.request("/predict", body) for body in bodies]
        for request in requests[:20]:
            connection._ask(request)
        end = time.perf_counter() + seconds
        k = 0
        while time.perf_counter() < end:
            begin = time.perf_counter()
            status, _ = connection._ask(requests[k % len(requests)])
            found.append(time.perf_counter() - begin)
            assert status == 200
            k += 1
            time.sleep(pause)
    return np.array(found)


def learning(folder: Path, quick: bool) -> bool:
    """The slowest hundredth of answers while 200 rows are learned twice a second, over that of an idle server."""
    model, bodies = fitted(folder, quick), bodies_of(200)
    server = Server.atlas(model)
    server.wait()
    ratios, learned = [], [0, 0]
    for turn in range(2 if quick else 5):
        idle = percentiles(server.port, bodies, 2 if quick else 10, 0.002)
        ended = threading.Event()

        def teach(turn: int = turn, ended: threading.Event = ended) -> None:
            with Connection(server.port) as connection:
                number = 0
                while not ended.is_set():
                    begin = time.perf_counter()
                    body = json.dumps({"rows": homes(200, 1000 * turn + number + 7)}).encode()
                    learned[connection.post("/learn", body)[0] != 200] += 1
                    number += 1
                    ended.wait(max(0.0, 0.5 - (time.perf_counter() - begin)))

        thread = threading.Thread(target=teach)
        thread.start()
        busy = percentiles(server.port, bodies, 2 if quick else 10, 0.002)
        ended.set()
        thread.join()
        quiet, loud = (float(np.quantile(each, 0.99)) * 1000 for each in (idle, busy))
        ratios.append(loud / quiet)
        middle = [float(np.median(each)) * 1000 for each in (idle, busy)]
        print(
            f"p99 idle {quiet:.2f} ms, learning {loud:.2f} ms, ratio {ratios[-1]:.2f}; "
            f"medians {middle[0]:.2f} and {middle[1]:.2f} ms; {learned[0]} updates so far, {learned[1]} refused"
        )
    server.end()
    found = statistics.median(ratios)
    return verdict("p99 while learning ÷ p99 idle", found, "≤ 3", found <= 3)


# --- kills ------------------------------------------------------------------------------------------------


class Witness:
    """What was acknowledged, and which predictions each version gave."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.predictions: dict[str, list[float]] = {}
        self.updates: dict[str, int] = {}
        self.wrong = self.asked = 0

    def saw(self, version: str, predictions: list[float]) -> None:
        with self.lock:
            self.asked += 1
            self.wrong += self.predictions.setdefault(version, predictions) != predictions


def kills(folder: Path, quick: bool) -> bool:
    """Eight clients, updates and kills: what was acknowledged is in the log, and versions answer as one."""
    requests, updates, times = (2000, 20, 3) if quick else (100_000, 200, 20)
    model = fitted(folder, True)
    witness, taught, ended = Witness(), [0], threading.Event()
    ports = [0]
    rows = json.dumps({"rows": [without_target(row) for row in homes(3, 5)]}).encode()

    def read() -> None:
        while witness.asked < requests and not ended.is_set():
            try:
                with Connection(ports[0]) as connection:
                    while witness.asked < requests and not ended.is_set():
                        status, body = connection.post("/predict", rows)
                        if status == 200:
                            reply = json.loads(body)
                            witness.saw(reply["version"], reply["predictions"])
            except OSError:
                time.sleep(0.05)

    def teach() -> None:
        while taught[0] < updates:
            key = f"update {taught[0]}".replace(" ", "-")
            body = json.dumps({"rows": homes(10, 500 + taught[0])}).encode()
            try:
                with Connection(ports[0]) as connection:
                    status, answer = connection.post(
                        "/learn?accept=1", body, more=f"Idempotency-Key: {key}\r\n"
                    )
            except OSError:
                time.sleep(0.05)
                continue
            if status == 200:
                witness.updates[key] = json.loads(answer)["update"]
                taught[0] += 1
            else:
                time.sleep(0.05)

    server = Server.atlas(model)
    server.wait()
    ports[0] = server.port
    threads = [threading.Thread(target=read, daemon=True) for _ in range(8)]
    teacher = threading.Thread(target=teach, daemon=True)
    for thread in (*threads, teacher):
        thread.start()
    gap, memories = updates / (times + 1), []
    for kill in range(times):
        while taught[0] < gap * (kill + 1):
            time.sleep(0.01)
        time.sleep(random.random() * 0.2)  # anywhere between two updates
        memories.append(server.memory())
        server.end(signal.SIGKILL)
        server = Server.atlas(model)
        server.wait()
        ports[0] = server.port
    teacher.join()
    while witness.asked < requests:
        time.sleep(0.1)
    ended.set()
    for thread in threads:
        thread.join()
    memories.append(server.memory())
    with Connection(server.port) as connection:
        log = [entry["id"] for entry in json.loads(connection.get("/log")[1])["entries"] if entry["id"]]
        newest = json.loads(connection.get("/model")[1])["updates"]
    server.end()
    numbers = sorted(witness.updates.values())
    lost = len({*numbers} - {*range(1, newest + 1)}) + (len({*numbers}) < updates)
    twice = newest - updates
    print(
        f"{witness.asked} predictions of {len(witness.predictions)} versions, {updates} updates, {times} kills; newest "
        f"update {newest}, {len(log)} in the log; memory {', '.join(f'{each:.0f}' for each in memories)} MB"
    )
    met = [
        verdict("lost acknowledged updates", lost, "0", lost == 0),
        verdict("updates learned twice", twice, "0", twice == 0),
        verdict("answers that differ from others of their version", witness.wrong, "0", witness.wrong == 0),
    ]
    return all(met)


def memory(folder: Path, quick: bool) -> bool:
    """Resident memory over many predictions and updates that are reverted, in one process."""
    model, bodies = fitted(folder, True), bodies_of(200)
    server = Server.atlas(model)
    server.wait()
    turns, found = (3, []) if quick else (12, [])
    for turn in range(turns):
        rate(server.port, bodies, 1 if quick else 5)
        with Connection(server.port) as connection:
            for k in range(2 if quick else 10):
                body = json.dumps({"rows": homes(50, 10_000 + 20 * turn + k)}).encode()
                status, answer = connection.post("/learn?accept=1", body)
                assert status == 200, answer
                assert connection.post(f"/revert/{json.loads(answer)['update']}", b"")[0] == 200
        found.append(server.memory())
    server.end()
    print(f"memory after each turn: {', '.join(f'{each:.0f}' for each in found)} MB")
    third = len(found) // 3
    grown = statistics.mean(found[-third:]) / statistics.mean(found[third : 2 * third])
    return verdict("memory of the last third ÷ that of the second", grown, "≤ 1.05", grown <= 1.05)


# --- hostile requests -------------------------------------------------------------------------------------

VALUES = (
    *(None, True, -1, 0, 1.5, 1e308, -1e308, 10**40, "", "x", "Cadiz", "\ud800", "\x00", "NaN", "1,5"),
    *("<script>alert(1)</script>", "😀" * 50, [], {}, [[1]], {"a": {"b": []}}, "9" * 400),
)
HEADERS = (
    *(
        "Idempotency-Key: \r\n",
        "Idempotency-Key: a b\r\n",
        "Authorization: Bearer \xff\r\n",
        "Accept: text/csv\r\n",
    ),
    *("Accept: application/vnd.apache.arrow.stream\r\n", "Accept: \r\n", "Content-Encoding: gzip\r\n"),
    *(
        "Origin: null\r\n",
        "X: " + "y" * 9000 + "\r\n",
        "Expect: 100-continue\r\n",
        "Transfer-Encoding: x\r\n",
    ),
)
PATHS = (
    *("/try", "/try", "/life", "/undo/1", "/undo/x", "/", "/page.css"),
    *(
        "/predict",
        "/predict?interval=0.9&support=1",
        "/predict?interval=nan",
        "/predict?keep=1",
        "/learn?dry_run=1",
    ),
    *(
        "/learn",
        "/outcomes",
        "/revert/1",
        "/revert/../..",
        "/forget",
        "/log?after=x",
        "/model",
        "/%00",
        "//",
        "/page.js",
    ),
    *(
        "/predict?interval=0.9&interval=1e-300",
        "/learn?ignore=size,age",
        "/learn?new_columns=1",
        "/metrics",
        "/\xff",
    ),
)


def hostile(r: random.Random, port: int) -> bytes:
    """A request that no honest client sends."""
    kind = r.choice(
        ("application/json", "application/json", "text/csv", "application/vnd.apache.arrow.stream", "x")
    )
    row = without_target(homes(1, r.randrange(1000))[0])
    for _ in range(r.randrange(3)):
        row[r.choice([*row, "price", "more", "\u202e"])] = r.choice(VALUES)
    rows = [row] * r.choice((0, 1, 1, 2, 5))
    body: bytes = json.dumps(
        r.choice(
            (
                {"rows": rows},
                {"rows": rows, "ids": r.choice(VALUES)},
                rows,
                {"row": row, "without": r.choice(VALUES)},
            )
        )
    ).encode()
    if kind == "text/csv":
        lines = [
            ",".join(map(str, row)),
            *(",".join(str(value)[:60] for value in row.values()) for _ in range(3)),
        ]
        body = "\n".join(lines).encode("utf8", "surrogatepass")
    if r.random() < 0.1:
        body = json.dumps({"outcomes": {r.choice("abc"): r.choice(VALUES)}}).encode()
    if r.random() < 0.3:
        wrong = bytearray(body or b"x")
        for _ in range(r.randrange(1, 8)):
            wrong[r.randrange(len(wrong))] = r.randrange(256)
        body = bytes(wrong)
    if r.random() < 0.02:
        body = r.choice((b"[" * 200_000, b'{"a":' * 50_000, b"," * 300_000, os.urandom(50_000)))
    length = len(body) if r.random() < 0.95 else r.choice((0, 1, len(body) * 2, 10**15))
    more = "".join(r.choice(HEADERS) for _ in range(r.randrange(3)))
    host = r.choice((f"127.0.0.1:{port}",) * 9 + ("evil.example",))
    method = r.choice(("POST",) * 8 + ("GET", "PUT", "DELETE", "HEAD", "PO ST"))
    head = f"{method} {r.choice(PATHS)} HTTP/1.1\r\nHost: {host}\r\nContent-Type: {kind}\r\n{more}"
    return head.encode("latin1") + f"Content-Length: {length}\r\nConnection: close\r\n\r\n".encode() + body


def fuzz(folder: Path, quick: bool) -> bool:
    """Requests that are meant to do harm, some from clients that are slow or leave."""
    count = 400 if quick else 20_000
    model = fitted(folder, True)
    server = Server.atlas(model, "--pending", "100")
    server.wait()
    before, statuses, lock = server.memory(), {}, threading.Lock()
    left = iter(range(count))

    def attack(seed: int) -> None:
        r = random.Random(seed)
        while next(left, None) is not None:
            status = asked_once(r, server.port)
            with lock:
                statuses[status] = statuses.get(status, 0) + 1

    threads = [threading.Thread(target=attack, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    most = before
    while any(thread.is_alive() for thread in threads):
        time.sleep(0.2)
        assert server.process.poll() is None, "the server has ended"
        most = max(most, server.memory())
    with Connection(server.port) as connection:
        alive = connection.post("/predict", bodies_of(1)[0])[0] == 200
        failures = [
            line
            for line in connection.get("/metrics")[1].decode().splitlines()
            if line.startswith("atlas_errors_total")
        ]
    server.end()
    print(f"statuses {dict(sorted(statuses.items()))}; {failures[0]}; answers afterwards: {alive}")
    print(
        f"memory {before:.0f} MB before, at most {most:.0f} MB, {server.errors.stat().st_size} bytes of messages"
    )
    failed = sum(found for status, found in statuses.items() if status >= 500 and status not in (503, 507))
    met = [
        verdict("answers of 500", failed, "0", failed == 0 and alive),
        verdict("most memory ÷ that before", most / before, "≤ 2", most <= 2 * before),
    ]
    return all(met)


def asked_once(r: random.Random, port: int) -> int:
    """Status of a hostile request; 0 if the connection was closed, or left by the client."""
    request = hostile(r, port)
    try:
        with socket.create_connection(("127.0.0.1", port), 60) as connection:
            way = r.random()
            if way < 0.05:
                connection.sendall(request[: r.randrange(len(request))])
                return 0
            if way < 0.06:  # a byte at a time, for a while
                for k in range(min(len(request), 40)):
                    connection.sendall(request[k : k + 1])
                    time.sleep(0.01)
                return 0
            connection.sendall(request)
            connection.settimeout(3 if b"1000000000000000" in request else 40)
            found = b""
            while b"\r\n" not in found:
                part = connection.recv(65536)
                if not part:
                    return 0
                found += part
            return int(found.split(None, 2)[1])
    except (OSError, TimeoutError):
        return 0


PARTS = {
    "row": row,
    "start": start,
    "throughput": throughput,
    "learning": learning,
    "kills": kills,
    "memory": memory,
    "fuzz": fuzz,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="which parts; by default all")
    parser.add_argument("--quick", action="store_true", help="smaller, to see that it runs")
    asked = parser.parse_args()
    met = []
    for name in asked.parts or PARTS:
        print(f"\n{name}: {PARTS[name].__doc__}")
        with tempfile.TemporaryDirectory() as folder:
            met.append(PARTS[name](Path(folder), asked.quick))
    sys.exit(0 if all(met) else 1)


if __name__ == "__main__":
    main()
