"""Every path, asked of a real process."""

import json
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pytest
from command import ok
from service import ARROW, CSV, ROW, Service, csv_of, rows_of

from atlas_splines import load
from atlas_splines.tables import bodies

KNOWN = ("size", "age", "city", "garden")


def frame(rows):
    return bodies.of_rows([{name: row[name] for name in KNOWN} for row in rows], KNOWN)


def test_predictions_are_those_of_the_file_and_name_their_version(service, fitted):
    rows = rows_of(20)
    reply = service.post("/predict", {"rows": [{name: row[name] for name in KNOWN} for row in rows]})
    assert reply["predictions"] == load(fitted).for_frames().predict(frame(rows)).tolist()
    assert reply["version"] == service.facts["version"]
    assert "notes" not in reply
    assert f"Version: {reply['version']}" in ok("verify", fitted).output


def test_intervals_and_support_come_when_they_are_asked(service, fitted):
    reply = service.post("/predict?interval=0.5&interval=0.9&support=1", {"rows": [ROW]})
    model = load(fitted).for_frames()
    low, high = model.predict_interval(frame([ROW]), [0.5, 0.9])
    assert reply["intervals"] == {
        "0.5": [[low[0, 0], high[0, 0]]],
        "0.9": [[low[0, 1], high[0, 1]]],
    }
    assert reply["support"] == model.support(frame([ROW])).tolist()


def test_csv_and_arrow_come_back_with_new_columns(service):
    content = csv_of(5)
    status, headers, body = service.ask("POST", "/predict?interval=0.9&support=1", content, CSV, Accept=CSV)
    assert (status, headers["content-type"].partition(";")[0]) == (200, CSV)
    first, *lines = body.decode().splitlines()
    assert first == "size,age,city,garden,price,price_predicted,price_low_0.9,price_high_0.9,support"
    assert len(lines) == 5
    table = bodies.of_rows(rows_of(5))
    status, headers, body = service.ask("POST", "/predict", bodies.to_arrow(table), ARROW, Accept=ARROW)
    assert headers["atlas-version"] == service.facts["version"]
    predicted = bodies.of_arrow(body)
    assert predicted.column_names == [*table.column_names, "price_predicted"]
    assert [float(line.split(",")[5]) for line in lines] == predicted["price_predicted"].to_pylist()


def test_large_and_small_requests_have_the_same_answers(service):
    rows = [{name: row[name] for name in KNOWN} for row in rows_of(400)]
    assert service.predict(*rows) == [
        each for k in range(0, 400, 50) for each in service.predict(*rows[k : k + 50])
    ]


def test_what_is_odd_about_rows_is_noted_where_they_can_be_predicted(service):
    reply = service.post(
        "/predict", {"rows": [ROW | {"city": "Oslo", "colour": "red"}, {"size": 3.0, "city": None}]}
    )
    assert reply["notes"] == [
        "not used: 'colour'",
        "missing, and predicted as such: 'age', 'garden'",
        "column 'city': 'Oslo' was not there when the model learned, and is predicted as missing",
    ]
    assert len(reply["predictions"]) == 2


def test_the_target_and_known_other_columns_are_no_news(service):
    assert "notes" not in service.post("/predict", {"rows": [ROW | {"price": 3}]})


@pytest.mark.parametrize(
    ("content", "status", "what"),
    [
        ({"rows": []}, 422, '"rows" is empty; send some'),
        ({}, 422, '"rows" must be a list of objects, such as [{"size": 30, "city": "Cadiz"}]'),
        (
            {"rows": [[1, 2]]},
            422,
            '"rows" must be a list of objects, such as [{"size": 30, "city": "Cadiz"}]',
        ),
        (
            {"rows": [{"colour": "red"}]},
            422,
            "the body lacks 'size', 'age', 'city', 'garden'; the model needs 'size', 'age', 'city', 'garden'",
        ),
        (
            {"rows": [ROW | {"size": 1e200}]},
            422,
            "the body, row 1, column 'size': the number is beyond 1e+150",
        ),
        ({"rows": [ROW | {"size": "big"}]}, 422, "the body, row 1, column 'size': 'big' is not a number"),
        (
            {"rows": [ROW | {"size": [1]}]},
            422,
            "the body, column 'size': values of type list<item: int64> are",
        ),
        (b"[1, 2]", 400, "the body must be a JSON object"),
        (b'{"rows": [{"size": NaN}]}', 400, "the body is not JSON: NaN is no JSON"),
        (b"{", 400, "the body is not JSON"),
        (b"\xff", 400, "the body is not JSON"),
        (b"[" * 100_000, 400, "the body is nested too deeply"),
        (b'{"rows": [{"size": ' + b"1" * 5000 + b"}]}", 400, "the body is not JSON"),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_wrong_bodies_are_refused_by_what_is_wrong(service, content, status, what):
    found, sentence = service.refused("/predict", content)
    assert found == status
    assert sentence.startswith(what)


@pytest.mark.parametrize(
    ("path", "status", "what"),
    [
        ("/predict?interval=90", 422, "coverage must lie between 0 and 1"),
        ("/predict?interval=wide", 422, "interval must be a share of rows such as 0.9, not 'wide'"),
        ("/predict?support=yes", 422, "support must be 0 or 1, not 'yes'"),
        ("/predict?explain=yes", 422, "explain must be 0 or 1, not 'yes'"),
        ("/nowhere", 404, "there is no such path"),
        ("/learn/more", 404, "there is no such path"),
        ("/log", 405, "/log takes GET"),
        ("/revert/one", 422, "name the number of an update, such as /revert/3; /log lists them"),
        ("/revert/999", 422, "update 999 cannot be reverted; of this model's updates"),
    ],
)
def test_wrong_paths_and_queries_are_refused(service, path, status, what):
    found, sentence = service.refused(path, {"rows": [ROW]})
    assert found == status
    assert sentence.startswith(what)


def test_wrong_kinds_are_refused(service):
    body = json.dumps({"rows": [ROW]}).encode()
    assert service.refused("/predict", body, "text/plain") == (
        415,
        "send one of application/json, text/csv, application/vnd.apache.arrow.stream as Content-Type",
    )
    assert service.refused("/predict", body, Content_Encoding="gzip")[0] == 415
    assert service.refused("/predict", body, Accept="image/png")[0] == 406
    assert service.refused("/predict", body, ARROW)[0] == 400
    assert service.refused("/predict", b"", CSV)[0] == 422
    assert service.refused("/predict", b"size,age,city,garden\n", CSV) == (
        422,
        "the body has no rows; send some",
    )


def test_what_is_there_can_be_read(service):
    model = service.get("/model")
    assert model["columns"][2] == {
        "name": "city",
        "kind": "category",
        "categories": ["Aarhus", "Bergen", "Cadiz"],
    }
    assert (model["target"], model["task"], model["missing"]) == ("price", "regression", True)
    assert service.get("/health")["status"] == "ok"
    assert service.get("/ready")["status"] == "ready"
    status, _, body = service.ask("GET", "/metrics")
    assert status == 200
    assert b'atlas_requests_total{route="/model",status="200"} 1.0' in body
    assert service.ask("HEAD", "/health")[0] == 200


@pytest.mark.slow
def test_rows_are_learned_saved_reverted_and_forgotten(model):
    before = load(model).for_frames()
    rows = rows_of(40)
    with Service(model) as service:
        tried = service.post("/learn?dry_run=1", {"rows": rows})
        assert (tried["would_learn"], tried["kind"], tried["rows"]) == (True, "pool", 40)
        assert {*tried["footprint"]} >= {"size", "age"}
        assert service.get("/model")["updates"] == 0
        done = service.post("/learn?author=Ada&message=May", csv_of(40), CSV)
        assert (done["update"], done["rows"], done["learned"]) == (1, 40, True)
        assert done["error_before"] == tried["error_before"]
        assert 0 <= done["coverage"] <= 1
        assert f"Version: {done['version']}" in ok("verify", model).output  # it is in the file already
        (entry,) = service.get("/log")["entries"]
        assert (entry["author"], entry["message"], entry["id"]) == ("Ada", "May", 1)
        assert service.get("/log?after=1")["entries"] == []

        taught = load(model).for_frames()
        assert (
            service.predict(*[{n: row[n] for n in KNOWN} for row in rows])
            == taught.predict(frame(rows)).tolist()
        )

        again = service.post("/learn", csv_of(40), CSV)
        assert (again["learned"], again["version"]) == (False, done["version"])
        assert again["notes"] == [
            "these rows are update 1, so nothing was learned; send accept=1 to learn them twice"
        ]

        receipt = service.post("/forget", {"rows": rows[:1]})["receipt"]
        assert [each["rows"] for each in receipt["taken"]] == [1]
        assert receipt["before"] == done["version"]

        gone = service.post("/revert/1")
        assert gone["reverted"] == 1
        assert service.get("/ready")["version"] == gone["version"]
        predicted = service.predict(*[{n: row[n] for n in KNOWN} for row in rows])
        assert predicted == before.predict(frame(rows)).tolist()  # bit for bit
        metrics = service.ask("GET", "/metrics")[2].decode()
        assert "atlas_rows_learned_total 40.0" in metrics
        assert 'atlas_updates_total{kind="revert"} 1.0' in metrics
        assert service.end() in (0, 143)


@pytest.mark.slow
def test_faulty_rows_are_refused_with_409_and_learned_if_that_is_meant(model):
    faulty = [row | {"price": 10 * row["price"]} for row in rows_of(60)]
    with Service(model) as service:
        status, sentence = service.refused("/learn", {"rows": faulty})
        assert status == 409
        assert sentence.endswith("nothing was learned: correct the rows, or send accept=1")
        assert service.refused("/learn?dry_run=1", {"rows": faulty})[0] == 409
        assert service.get("/model")["updates"] == 0
        assert service.post("/learn?accept=1", {"rows": faulty})["learned"]


def test_rows_that_cannot_be_learned_are_refused_by_name(service):
    rows = rows_of(30)
    cases = [
        ([{name: row[name] for name in KNOWN} for row in rows], "the body has no column 'price', the target"),
        (
            [row | {"price": None} for row in rows],
            "the body, row 1, column 'price': the target is missing; send",
        ),
        (
            [row | {"colour": "red"} for row in rows],
            "the body has 'colour', which the model has not seen; learn it",
        ),
        ([{"price": 1.0}], "the body lacks 'size', 'age', 'city', 'garden'; the model needs"),
    ]
    before = service.get("/ready")["version"]
    for content, what in cases:
        status, sentence = service.refused("/learn", {"rows": content})
        assert (status, sentence[: len(what)]) == (422, what)
    assert service.refused("/forget", {"rows": rows})[0] == 422
    assert service.get("/ready")["version"] == before


@pytest.mark.slow
def test_columns_may_come_or_be_ignored(model):
    rows = [row | {"colour": ["red", "blue"][k % 2]} for k, row in enumerate(rows_of(40))]
    with Service(model) as service:
        assert service.post("/learn?ignore=colour", {"rows": rows})["learned"]
        more = service.post("/learn?new_columns=1&accept=1", {"rows": rows})
        assert more["update"] == 2
        assert [column["name"] for column in service.get("/model")["columns"]] == [*KNOWN, "colour"]
        assert "notes" not in service.post("/predict", {"rows": [ROW | {"colour": "red"}]})
        service.post("/revert/2")
        assert [column["name"] for column in service.get("/model")["columns"]] == [*KNOWN]


@pytest.mark.slow
def test_a_key_is_learned_once_whatever_comes_between(model):
    few = {"rows": rows_of(3)}  # of so few rows the log does not know whether they came before
    with Service(model) as service:
        done = service.post("/learn", few, Idempotency_Key="monday")
        assert service.post("/learn", few)["update"] == 2
        again = service.post("/learn", few, Idempotency_Key="monday")
        assert again == done | {"repeated": True}
        assert service.refused("/learn", {"rows": rows_of(4)}, Idempotency_Key="monday") == (
            422,
            "the idempotency key 'monday' came with another request; use a new one",
        )
        assert service.refused("/learn", few, Idempotency_Key="two words")[0] == 422
        service.end()
    with Service(model) as service:  # another process
        assert service.post("/learn", few, Idempotency_Key="monday") == again
        assert service.get("/model")["updates"] == 2


@pytest.mark.slow
def test_targets_come_later(model):
    rows = rows_of(6, seed=5)
    asked = [{name: row[name] for name in KNOWN} for row in rows]
    with Service(model, "--pending", "5") as service:
        reply = service.post("/predict", {"rows": asked[:4], "ids": ["a", "b", "c", "d"]})
        assert reply["ids"] == ["a", "b", "c", "d"]
        (own,) = service.post("/predict?keep=1", {"rows": asked[4:5]})["ids"]
        assert service.post("/predict", {"rows": asked[:1], "ids": ["a"]})["ids"] == ["a"]  # sent again
        assert service.refused("/predict", {"rows": asked[1:2], "ids": ["a"]}) == (
            422,
            "'a' waits for its target already, for another row; use another",
        )
        assert service.refused("/predict", {"rows": asked[:2], "ids": ["e", "e"]})[0] == 422
        assert service.refused("/outcomes", {"outcomes": {"a": 1.0, "z": 2.0}}) == (
            422,
            "no prediction waits under 'z'; nothing was learned",
        )
        service.end()
    with Service(model, "--pending", "5") as service:  # they are still there
        outcomes = {name: row["price"] for name, row in zip(["b", "c"], rows[1:3], strict=True)}
        done = service.post("/outcomes?message=May", {"outcomes": outcomes}, Idempotency_Key="k")
        errors = np.array(reply["predictions"][1:3]) - [row["price"] for row in rows[1:3]]
        assert done["answered_error"] == pytest.approx(np.sqrt(np.mean(errors**2)))
        inside = [
            low <= row["price"] <= high
            for (low, high), row in zip(reply["intervals"]["0.9"][1:3], rows[1:3], strict=True)
        ]
        assert done["coverage"] == np.mean(inside)
        assert (done["rows"], service.get("/log")["entries"][0]["message"]) == (2, "May")
        assert service.post("/outcomes?message=May", {"outcomes": outcomes}, Idempotency_Key="k")["repeated"]
        assert service.refused("/outcomes", {"outcomes": outcomes})[0] == 422  # they no longer wait
        assert service.post("/outcomes", {"outcomes": {own: rows[4]["price"]}})["rows"] == 1
        service.post("/predict", {"rows": asked[:5], "ids": list("vwxyz")})
        assert service.refused("/outcomes", {"outcomes": {"a": 1.0}})[0] == 422  # the oldest were dropped


@pytest.mark.slow
def test_without_pending_nothing_is_kept(model):
    with Service(model) as service:
        what = (422, "predictions are not kept; start the service with --pending N")
        assert service.refused("/predict", {"rows": [ROW], "ids": ["a"]}) == what
        assert service.refused("/outcomes", {"outcomes": {"a": 1}}) == what
        assert service.refused("/outcomes", {"outcomes": []})[0] == 422


@pytest.mark.slow
def test_readers_meet_whole_versions_while_rows_are_learned(model):
    known = {}
    rows = [{name: row[name] for name in KNOWN} for row in rows_of(3, seed=9)]
    with Service(model) as service, ThreadPoolExecutor(2) as pool:
        done = []

        def read():
            while len(done) < 6:
                reply = service.post("/predict", {"rows": rows})
                assert known.setdefault(reply["version"], reply["predictions"]) == reply["predictions"]

        readers = [pool.submit(read) for _ in range(2)]
        for seed in range(6):
            done.append(service.post("/learn", {"rows": rows_of(25, seed=50 + seed)})["version"])
        for reader in readers:
            reader.result()
        assert {*known} <= {service.facts["version"], *done}


@pytest.mark.slow
def test_classes_are_served_with_their_sets_and_probabilities(tmp_path):
    from command import write_csv

    random = np.random.default_rng(0)
    x = random.random(200)
    kind = np.where(x + 0.1 * random.normal(size=200) > 0.5, "high", "low")
    write_csv(tmp_path / "kinds.csv", ["x", "kind"], zip(x.round(3), kind, strict=True))
    ok("fit", tmp_path / "kinds.csv", "-t", "kind", "-o", tmp_path / "kinds.atlas")
    with Service(tmp_path / "kinds.atlas", "--pending", "5") as service:
        reply = service.post("/predict?probabilities=1&interval=0.9", {"rows": [{"x": 0.1}, {"x": 0.9}]})
        assert reply["predictions"] == ["low", "high"]
        assert reply["classes"] == ["high", "low"]
        assert np.sum(reply["probabilities"], axis=1) == pytest.approx([1, 1])
        assert reply["sets"]["0.9"][0] == ["low"]
        table = service.ask("POST", "/predict?interval=0.9", b"x\n0.1\n", CSV, Accept=CSV)[2].decode()
        assert table.splitlines() == ["x,kind_predicted,kind_set_0.9", "0.1,low,low"]
        new = [{"x": 2 + k / 50, "kind": ["high", "huge"][k > 10]} for k in range(50)]
        done = service.post("/learn", {"rows": new})
        assert done["learned"]
        assert service.get("/model")["classes"] == ["high", "huge", "low"]
        (held,) = service.post("/predict", {"rows": [{"x": 0.1}], "ids": ["a"]})["sets"]["0.9"]
        told = service.post("/outcomes", {"outcomes": {"a": "high"}})
        assert (told["answered_error"], told["coverage"]) == (1.0, float("high" in held))


@pytest.mark.slow
def test_a_model_of_python_is_served_and_stays_one(tmp_path):
    from atlas_splines import AtlasRegressor, save

    random = np.random.default_rng(0)
    X, y = random.random((80, 2)), random.random(80)
    table = pa.table({"a": X[:, 0], "b": X[:, 1]})
    for name, inputs, columns in (("array", X, ("column 0", "column 1")), ("frame", table, ("a", "b"))):
        path = tmp_path / f"{name}.atlas"
        save(AtlasRegressor(random_state=0).fit(inputs, y), path)
        rows = [dict(zip(columns, each, strict=True)) for each in X[:5].tolist()]
        with Service(path) as service:
            assert service.predict(*rows) == load(path).predict(inputs[:5]).tolist()
            taught = [row | {"target": 1.0 + k} for k, row in enumerate(rows)]
            assert service.post("/learn", {"rows": taught})["rows"] == 5
            assert service.refused("/predict", {"rows": [{columns[0]: None, columns[1]: 1.0}]}) == (
                422,
                f"the body, row 1, column '{columns[0]}': the value is missing; send it",
            )
            assert service.refused("/predict", {"rows": [{columns[0]: 0.5}]})[0] == 422
        assert isinstance(load(path), AtlasRegressor)
        assert len(load(path).update_log_) == 1


# --- explanations and contracts -----------------------------------------------------------------------


def test_explanations_are_those_of_the_library(service, fitted):
    rows = [{name: row[name] for name in KNOWN} for row in rows_of(3)]
    reply = service.post("/predict?explain=1", {"rows": rows})["explanation"]
    expected = load(fitted).for_frames().explain(frame(rows))
    assert reply["feature_names"] == list(KNOWN)
    np.testing.assert_allclose(reply["values"], expected.values, rtol=1e-9)
    np.testing.assert_allclose(reply["base_values"], expected.base_values, rtol=1e-9)
    assert (reply["output_names"], reply["unit"]) == ([], expected.unit)
    status, _, body = service.ask("POST", "/predict?explain=1", {"rows": rows}, Accept=CSV)
    first, *lines = body.decode().splitlines()
    assert status == 200
    assert first.endswith(
        "price_predicted,price_base,price_by_size,price_by_age,price_by_city,price_by_garden"
    )
    assert float(lines[0].split(",")[-1]) == pytest.approx(expected.values[0, -1], rel=1e-9)


def test_few_rows_are_explained_at_a_time(service):
    many = {"rows": [ROW] * 101}
    assert service.refused("/predict?explain=1", many) == (
        413,
        "explain=1 is for 100 rows at a time; send fewer",
    )
    assert service.refused("/why", {"row": 3}) == (422, '"row" must be an object, such as {"size": 30}')


def test_an_update_that_breaks_the_contract_is_refused_with_the_counterexample(model, tmp_path):
    rules = tmp_path / "rules.toml"
    rules.write_text('[[rule]]\nname = "steady"\nmax_change = "1%"\n[[rule]]\nmin = -1e6\nseconds = 0.1\n')
    before = model.read_bytes()
    with Service(model, "--contract", rules) as service:
        wild = {"rows": rows_of(25, price=9000.0)}
        status, sentence = service.refused("/learn?accept=1", wild)
        assert status == 409
        assert (
            "the contract would be broken; nothing was learned: broken: steady: a known row moves" in sentence
        )
        assert "city = " in sentence
        assert service.refused("/learn?accept=1&dry_run=1", wild) == (status, sentence)
        assert service.get("/model")["updates"] == 0
        assert model.read_bytes() == before
        rules.unlink()  # it was read once
        known = rows_of(1)[0]
        (price,) = service.predict({name: known[name] for name in KNOWN})
        mild = {"rows": [known | {"price": price}]}
        for path in ("/learn?dry_run=1", "/learn"):
            verdicts = {each["rule"]: each["status"] for each in service.post(path, mild)["contract"]}
            assert verdicts["steady"] == "holds"
            assert verdicts["min -1e+06"] in ("holds", "unproven")
        assert service.get("/model")["updates"] == 1
        assert service.post("/revert/1")["reverted"] == 1
