"""Registry client against a local registry; needs no podman."""

import base64
import json
import platform
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.machine.image_registry import LocalRegistry, digest_of, make_manifest, serving
from turnsmith.errors import UsageError
from turnsmith.io import http
from turnsmith.io.http import Unanswered, retry_busy, send
from turnsmith.sandboxes.images.preflight import KnownManifests, State, estimate, find_facts
from turnsmith.sandboxes.images.references import Reference, parse_reference
from turnsmith.sandboxes.images.registry import ARCHITECTURES, Missing, Registry, read_logins


@pytest.fixture
def server():
    with serving(LocalRegistry()) as registry:
        yield registry


@pytest.fixture(autouse=True)
def waits(monkeypatch):
    """Record waits instead of sleeping."""
    waits = []
    monkeypatch.setattr(time, "sleep", waits.append)
    return waits


@pytest.fixture
def registry():
    return Registry({}, {})


def name(server, repository="a/b", version="latest"):
    return Reference(server.host, repository, version)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("debian", "docker.io/library/debian:latest"),
        ("swebench/sweb.eval.x86_64.a_1776_b-1", "docker.io/swebench/sweb.eval.x86_64.a_1776_b-1:latest"),
        ("docker.io/swerebenchv2/a-b:12-abcdef0", "docker.io/swerebenchv2/a-b:12-abcdef0"),
        ("index.docker.io/debian:12", "docker.io/library/debian:12"),
        ("quay.io/a/b/c:d", "quay.io/a/b/c:d"),
        ("127.0.0.1:5000/a/b", "127.0.0.1:5000/a/b:latest"),
        ("localhost/a", "localhost/a:latest"),
        (f"a/b@sha256:{'0' * 64}", f"docker.io/a/b@sha256:{'0' * 64}"),
        (f"a/b:tag@sha256:{'0' * 64}", f"docker.io/a/b@sha256:{'0' * 64}"),
    ],
)
def test_a_name_is_spelled_out_as_engines_read_it(written, meant):
    assert str(parse_reference(written)) == meant


@given(st.text())
def test_any_name_is_read_and_a_name_spelled_out_stays_as_it_is(text):
    once = parse_reference(text)
    if once.repository and once.registry and once.version and not set(text) & set("@"):
        assert parse_reference(str(once)) == once


def test_the_hub_answers_elsewhere_and_only_this_machine_without_encryption():
    assert parse_reference("a/b").manifest_url == "https://registry-1.docker.io/v2/a/b/manifests/latest"
    assert parse_reference("127.0.0.1:5/a").manifest_url == "http://127.0.0.1:5/v2/a/manifests/latest"
    assert parse_reference("127.0.0.1.evil.org/a").manifest_url.startswith("https://")


def test_layers_are_weighed_without_a_pull(server, registry):
    digest = server.add_manifest("a/b", "latest", make_manifest(base=100, top=7))
    manifest = registry.find(name(server))
    assert manifest.digest == digest and sorted(manifest.layers.values()) == [7, 100]
    assert server.count("GET", "/blobs/") == 0


def test_a_manifest_that_is_known_is_not_fetched_again(server, tmp_path):
    server.add_manifest("a/b", "latest", make_manifest(base=100))
    known = KnownManifests(tmp_path / "manifests.jsonl")
    known.add(Registry({}, known.manifests).find(name(server)))
    with known.file.open("a") as file:
        file.write('{"digest": "torn')
    later = KnownManifests(known.file)
    later.read()
    assert (
        Registry({}, later.manifests).find(name(server)).layers == known.manifests[next(iter(known.manifests))].layers
    )
    assert server.count("GET", "/manifests/") == 1 and server.count("HEAD", "/manifests/") == 2


def test_of_several_architectures_this_machines_is_weighed(server, registry):
    here = ARCHITECTURES.get(platform.machine(), platform.machine())
    digests = {"s390x": server.add_manifest("a/b", "other", make_manifest(big=10**9))}
    server.add_list("a/b", "elsewhere", digests)
    digests[here] = server.add_manifest("a/b", "ours", make_manifest(small=5))
    server.add_list("a/b", "both", digests)
    assert list(registry.find(name(server, version="both")).layers.values()) == [5]
    with pytest.raises(Missing, match=rf"{here}.* s390x"):
        registry.find(name(server, version="elsewhere"))


def test_a_token_is_fetched_once_for_each_repository(server, registry):
    server.needs_token = True
    for repository in ("a/b", "a/c"):
        server.add_manifest(repository, "latest", make_manifest(base=1))
        server.add_manifest(repository, "old", make_manifest(base=2))
        registry.find(name(server, repository))
        registry.find(name(server, repository, "old"))
    assert server.count("GET", "/token") == 2
    assert server.count("GET", "scope=repository%3Aa%2Fb%3Apull") == 1


def test_a_token_is_given_to_whom_podman_knows(server, tmp_path, monkeypatch):
    login = base64.b64encode(b"me:secret").decode()
    server.needs_token, server.wanted_login = True, f"Basic {login}"
    server.add_manifest("a/b", "latest", make_manifest(base=1))
    with pytest.raises(Missing, match=r"login: .*`podman login"):
        Registry({}, {}).find(name(server))
    (file := tmp_path / "auth.json").write_text(json.dumps({"auths": {server.host: {"auth": login}}}))
    monkeypatch.setenv("REGISTRY_AUTH_FILE", str(file))
    assert Registry(read_logins(), {}).find(name(server)).layers


def test_the_hubs_login_is_found_under_its_old_address(tmp_path, monkeypatch):
    (file := tmp_path / "auth.json").write_text('{"auths": {"https://index.docker.io/v1/": {"auth": "eDp5"}}}')
    monkeypatch.setenv("REGISTRY_AUTH_FILE", str(file))
    assert read_logins()["docker.io"] == "eDp5"
    file.write_text("[]")
    with pytest.raises(UsageError, match="podman login"):
        read_logins()


def test_a_token_is_fetched_from_no_plain_address_of_elsewhere(server, registry, monkeypatch):
    challenge = {"WWW-Authenticate": 'Bearer realm="ftp://elsewhere/token"'}
    server.refusals = [(401, challenge)]
    with pytest.raises(Unanswered, match="not https"):
        registry.find(name(server))


def test_what_is_not_there_is_missing(server, registry):
    with pytest.raises(Missing, match=server.host):
        registry.find(name(server))
    server.refusals = [(403, {})]
    with pytest.raises(Missing, match="`podman login`"):
        registry.find(name(server))


def test_a_busy_registry_is_asked_again_when_it_says(server, registry, waits):
    server.add_manifest("a/b", "latest", make_manifest(base=1))
    server.refusals = [(429, {"Retry-After": "7"}), (503, {}), (502, {})]
    assert registry.find(name(server)).layers
    assert waits == [7.0, 2.0, 4.0]


def test_a_registry_that_wants_us_to_wait_long_is_left_alone(server, registry, waits):
    server.refusals = [(429, {"Retry-After": "3600"})]
    with pytest.raises(Unanswered, match=r"429 Too Many Requests .*3600 s"):
        registry.find(name(server))
    asked = server.asked.total()
    with pytest.raises(Unanswered, match="wait"):
        registry.find(name(server, "a/c"))
    assert server.asked.total() == asked and waits == []


def test_a_registry_that_never_answers_is_unknown(registry, waits):
    facts = find_facts("127.0.0.1:1/a/b", {}, registry)
    assert facts.state is State.UNKNOWN and "refused" in facts.reason and "5 tries" in facts.reason
    assert waits == [1.0, 2.0, 4.0, 8.0]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff",
        b"[]",
        b"3",
        b"{}",
        b'{"layers": 3}',
        b'{"layers": [{"size": 1}]}',
        b'{"layers": [{"digest": "x", "size": "much"}]}',
        b'{"manifests": 3}',
        b'{"manifests": [3]}',
        b'{"manifests": [{"platform": {"os": "linux"}, "digest": "x"}]}',
    ],
)
def test_what_is_no_manifest_is_unknown(server, registry, body):
    for version in ("latest", digest_of(body)):
        server.manifests["a/b", version] = ("application/json", body)
    facts = find_facts(str(name(server)), {}, registry)
    assert facts.state is State.UNKNOWN and facts.reason


def test_an_endless_answer_is_not_read(server, monkeypatch, waits):
    monkeypatch.setattr(http, "MAX_BYTES", 10)
    server.add_manifest("a/b", "latest", make_manifest(base=1))
    with pytest.raises(Unanswered, match="larger than"):
        retry_busy("registry", lambda: send(name(server).manifest_url))


def test_shared_layers_are_counted_once(server, registry):
    server.add_manifest("a/b", "latest", make_manifest(base=1_000_000, one=250_000))
    server.add_manifest("a/c", "latest", make_manifest(base=1_000_000, two=250_000))
    images = [find_facts(str(name(server, repository)), {}, registry) for repository in ("a/b", "a/c")]
    needs = estimate(images, megabits_per_second=2.0)
    assert needs.download_bytes == 1_500_000 and needs.seconds == pytest.approx(6.0)


def test_an_image_of_this_machine_is_asked_of_nobody(registry, tmp_path):
    present = {"docker.io/a/b:latest": "1", "localhost/c:latest": "2"}
    assert find_facts("a/b", present, registry).state is State.HERE
    assert find_facts("c", present, registry).state is State.HERE
    assert find_facts(str(tmp_path), present, registry).state is State.HERE
    assert find_facts(f"{tmp_path}/none", present, registry).reason == "there is no such file or folder"
    assert "built" in find_facts("localhost/d", present, registry).reason


@pytest.mark.parametrize("written", ["a b", "a/ü", "docker://a/b", "-rf", "a\nb", "a/b?x=1"])
def test_what_no_image_is_called_is_asked_of_nobody(written):
    facts = find_facts(written, {}, Registry({}, {}, _closed={"docker.io": Unanswered("was asked")}))
    assert (facts.state, facts.reason) == (State.MISSING, "not a valid image name")
