"""The HTTP service, over the loopback."""

import base64
import http.client
import io
import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits

import magnet
from magnet.commands.serve import listen
from magnet.errors import UserError
from magnet.training.config import TrainConfig
from magnet.training.train import train

uvicorn = pytest.importorskip("uvicorn")
pytest.importorskip("fastapi")

X = (load_digits().data[:64] / 16).astype(np.float32)
JSON = {"Content-Type": "application/json"}


def start(model, **options):
    """A server of a model on a free port of the loopback, in a thread; gives the server, the thread and the port."""
    from magnet.export.service import make_server, make_service

    server = make_server(make_service(model, **options), host="127.0.0.1", port=0)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    deadline = time.monotonic() + 30
    while not server.started:
        assert time.monotonic() < deadline, "the service did not start"
        time.sleep(0.01)
    return server, thread, server.servers[0].sockets[0].getsockname()[1]


@pytest.fixture(scope="module")
def model(digits_run):
    return magnet.load(digits_run)


@pytest.fixture(scope="module")
def port(model):
    server, thread, port = start(model, most_bytes=2**20)
    yield port
    server.should_exit = True
    thread.join(10)


@pytest.fixture(scope="module")
def photo_port(tmp_path_factory):
    folder, rng = tmp_path_factory.mktemp("p"), np.random.default_rng(0)
    for number, name in enumerate(("dark", "light")):
        (folder / "photos" / name).mkdir(parents=True)
        for i in range(8):
            pixels = rng.integers(0, 100, (20, 24, 3)) + 150 * number
            Image.fromarray(pixels.astype(np.uint8)).save(folder / "photos" / name / f"{i}.png")
    config = TrainConfig(
        data=str(folder / "photos"), image_size=12, steps=4, workers=0, test_draws=1, clusters_per_class=2,
        evaluate=False, quiet=True, out=folder / "run",
    )  # fmt: skip
    server, thread, port = start(magnet.load(train(config, silent=True)))
    yield port
    server.should_exit = True
    thread.join(10)


def ask(port, method, path, body=None, headers=JSON):
    """The status and the JSON of an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request(method, path, body if body is None or isinstance(body, bytes) else json.dumps(body), headers)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def png(level):
    stream = io.BytesIO()
    Image.new("RGB", (30, 20), (level,) * 3).save(stream, "PNG")
    return stream.getvalue()


def test_health_says_what_is_served(port, model):
    status, found = ask(port, "GET", "/health")
    assert (status, found["status"], found["kind"], found["shape"]) == (200, "ok", "vectors", [64])
    assert found["classes"] == model.classes


def test_answers_are_those_of_the_model(port, model):
    body = {"vectors": X[:5].tolist()}
    expected = model.classify(X[:5])
    status, found = ask(port, "POST", "/classify", body)
    assert status == 200
    assert [answer["label"] for answer in found["answers"]] == expected.labels
    np.testing.assert_allclose(
        [list(answer["probabilities"].values()) for answer in found["answers"]], expected.probabilities, atol=1e-6
    )
    _, found = ask(port, "POST", "/embed", body)
    np.testing.assert_allclose(found["representations"], model.embed(X[:5]), atol=1e-5)
    _, found = ask(port, "POST", "/search?count=3", body)
    assert [[row["name"] for row in rows] for rows in found["nearest"]] == [
        [row.name for row in rows] for rows in model.search(X[:5], 3)
    ]
    _, found = ask(port, "POST", "/classify?refuse=true", {"vectors": [[1e3] * 64]})
    assert found["answers"][0]["label"] is None


def test_images_are_taken_as_they_are_and_as_base64(photo_port):
    status, one = ask(photo_port, "POST", "/classify", png(20), {"Content-Type": "image/png"})
    assert status == 200
    files = [base64.b64encode(png(level)).decode() for level in (20, 230)]
    status, two = ask(photo_port, "POST", "/classify", {"images": files})
    assert status == 200
    assert [answer["label"] for answer in two["answers"]] == ["dark", "light"]
    assert two["answers"][0]["novelty"] == pytest.approx(one["answers"][0]["novelty"], rel=1e-5)


@pytest.mark.parametrize(
    ("path", "body", "headers", "status", "error"),
    [
        ("/classify", b"", JSON, 400, "the request is empty"),
        ("/classify", b"{", JSON, 400, "cannot be read as JSON"),
        ("/classify", b"[" * 100_000, JSON, 400, "cannot be read as JSON"),
        ("/classify", [1, 2], JSON, 422, "expected {'vectors': [...]}"),
        ("/classify", {"vectors": []}, JSON, 422, "at least one entry"),
        ("/classify", {"vectors": [[1, 2]]}, JSON, 422, "lists of 64 finite numbers; found shape (1, 2)"),
        ("/classify", {"vectors": [[1], [2, 3]]}, JSON, 422, "all of the same length"),
        ("/classify", {"vectors": [["a"] * 64]}, JSON, 422, "lists of 64 numbers"),
        ("/classify", {"vectors": [[float("nan")] * 64]}, JSON, 422, "finite numbers; found NaN, infinity"),
        ("/embed", {"vectors": [[0] * 64] * 257}, JSON, 413, "257 vectors in one request; at most 256"),
        ("/embed", b"x" * (2**20 + 1), JSON, 413, "the request has 1,048,577 bytes"),
        ("/embed", b"abc", {"Content-Type": "text/plain"}, 415, "found text/plain"),
        ("/embed", b"abc", {}, 415, "found no content type"),
        ("/search?count=0", {"vectors": [[0] * 64]}, JSON, 422, "query.count"),
        ("/search?count=many", {"vectors": [[0] * 64]}, JSON, 422, "query.count"),
        ("/nowhere", {}, JSON, 404, "Not Found"),
    ],
)
def test_bad_input_gets_a_clear_4xx_in_json(port, path, body, headers, status, error):
    found = ask(port, "POST", path, body, headers)
    assert found[0] == status
    assert list(found[1]) == ["error"]
    assert error in found[1]["error"]


def test_a_method_that_is_not_there_is_said_in_json(port):
    assert ask(port, "GET", "/classify") == (405, {"error": "Method Not Allowed"})


def test_bad_images_get_a_clear_4xx_in_json(photo_port):
    for body, headers in ((b"no image", {"Content-Type": "image/jpeg"}), (png(3)[:60], {"Content-Type": "image/png"})):
        assert ask(photo_port, "POST", "/classify", body, headers) == (
            422,
            {"error": "image 0 cannot be read as an image"},
        )
    assert ask(photo_port, "POST", "/embed", {"images": ["***"]}) == (422, {"error": "image 0 is no base64 text"})
    assert ask(photo_port, "POST", "/embed", {"images": [3]}) == (422, {"error": "image 0 is no base64 text"})


def test_small_files_of_very_many_pixels_are_refused(photo_port):
    stream = io.BytesIO()
    Image.new("1", (9_000, 9_000)).save(stream, "PNG")
    status, found = ask(photo_port, "POST", "/embed", stream.getvalue(), {"Content-Type": "image/png"})
    assert (status, found["error"]) == (
        413,
        "with image 0, of 9000 x 9000 pixels, the request has more than 80,000,000",
    )
    stream = io.BytesIO()
    Image.new("1", (5_000, 6_000)).save(stream, "PNG")
    images = [base64.b64encode(stream.getvalue()).decode()] * 3
    status, found = ask(photo_port, "POST", "/embed", {"images": images})
    assert (status, found["error"]) == (
        413,
        "with image 2, of 5000 x 6000 pixels, the request has more than 80,000,000",
    )


def test_text_is_no_number(port):
    status, found = ask(port, "POST", "/embed", {"vectors": [["1_0"] * 64]})
    assert (status, found["error"]) == (422, "vectors must be lists of 64 numbers, all of the same length")


def test_the_description_names_every_path(port):
    _, found = ask(port, "GET", "/openapi.json")
    assert set(found["paths"]) == {"/health", "/classify", "/embed", "/search"}
    assert "requestBody" in found["paths"]["/classify"]["post"]


def many_clients(port, clients, requests, seconds, expected):
    """Requests that many clients at once make, until each has made its number or the time is over; wrong answers."""
    until, wrong = time.monotonic() + seconds, []

    def client(number):
        made = 0
        while made < requests and time.monotonic() < until:
            row = (number + made) % len(X)
            status, found = ask(port, "POST", "/classify", {"vectors": [X[row].tolist()]})
            if status != 200 or found["answers"][0]["label"] != expected[row]:
                wrong.append((status, found))
            made += 1
        return made

    with ThreadPoolExecutor(clients) as pool:
        return sum(pool.map(client, range(clients))), wrong


def test_fifty_clients_at_once_get_their_own_answers(port, model):
    made, wrong = many_clients(port, 50, 4, 20, model.classify(X).labels)
    assert made >= 50
    assert wrong == []


def test_slow_clients_are_let_go_and_others_are_answered(model, monkeypatch):
    from magnet.export import service

    monkeypatch.setattr(service, "GRACE", 1.0)
    server, thread, port = start(model)
    head = b"POST /search?count=1000 HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: "
    body = json.dumps({"vectors": X.tolist()}).encode()
    unread = head + str(len(body)).encode() + b"\r\n\r\n" + body  # an answer of megabytes, again and again
    silent, half_a_head, half_a_body = [b""] * 5, [head] * 5, [head + b"99\r\n\r\n{"] * 5
    sockets, most, until = [], 0, time.monotonic() + 30
    for text in [*silent, *half_a_head, *half_a_body, unread * 6]:
        client = socket.create_connection(("127.0.0.1", port))
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2**14)
        client.setblocking(False)
        with suppress(BlockingIOError):
            client.send(text)
        sockets.append(client)
    assert ask(port, "GET", "/health")[0] == 200
    while (server.server_state.connections or most < 15) and time.monotonic() < until:
        most = max(most, len(server.server_state.connections))
        for client in sockets[5:15]:
            with suppress(OSError):
                client.send(b"x")  # a byte now and then changes nothing
        time.sleep(0.1)
    assert (most >= 15, len(server.server_state.connections)) == (True, 0)
    assert ask(port, "POST", "/classify", {"vectors": [X[0].tolist()]})[0] == 200
    for client in sockets:
        client.close()
    server.should_exit = True
    thread.join(10)


def test_a_request_that_takes_its_time_but_arrives_is_answered(model, monkeypatch):
    from magnet.export import service

    monkeypatch.setattr(service, "GRACE", 0.5)
    monkeypatch.setattr(service, "RATE", 100)
    server, thread, port = start(model)
    body = json.dumps({"vectors": [X[0].tolist()]}).encode()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.putrequest("POST", "/classify")
    connection.putheader("Content-Type", "application/json")
    connection.putheader("Content-Length", str(len(body)))
    connection.endheaders()
    for part in range(5):
        connection.send(body[len(body) * part // 5 : len(body) * (part + 1) // 5])
        time.sleep(0.25)
    assert connection.getresponse().status == 200
    connection.close()
    server.should_exit = True
    thread.join(10)


def test_requests_that_wait_take_no_more_memory_than_a_few_of_the_largest(model, monkeypatch):
    from magnet.export import service

    monkeypatch.setattr(service, "MOST_WAITING", 2)
    server, thread, port = start(model, most_bytes=10_000)
    clients = []
    for _ in range(3):
        client = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        client.putrequest("POST", "/classify")
        client.putheader("Content-Length", "9000")
        client.endheaders()
        client.send(b" " * 8999)
        clients.append(client)
    answer = clients[2].getresponse()
    assert (answer.status, "wait for an answer: try again later" in answer.read().decode()) == (503, True)
    for client in clients[:2]:
        client.close()
    server.should_exit = True
    thread.join(10)


def test_an_address_that_is_taken_is_said():
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UserError, match=rf"port {port} \(Address already in use\): give another --host or --port"):
            listen("127.0.0.1", port)
