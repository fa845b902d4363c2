"""Image registry on this machine: the part of the OCI distribution protocol that a pull needs, with faults."""

import gzip
import hashlib
import io
import json
import platform
import tarfile
import threading
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from turnsmith.sandboxes.images.registry import ARCHITECTURES, LISTS, MANIFESTS

TOKEN = "let-me-in"
CONFIG, LAYER = "application/vnd.oci.image.config.v1+json", "application/vnd.oci.image.layer.v1.tar+gzip"


@dataclass
class LocalRegistry:
    """Content, behaviour and requests of the registry."""

    blobs: dict[str, bytes] = field(default_factory=dict)
    manifests: dict[tuple[str, str], tuple[str, bytes]] = field(default_factory=dict)
    """(repository, tag or digest) → media type and text."""
    needs_token: bool = False
    wanted_login: str = ""
    """Required value of `Authorization` for a token."""
    refusals: list[tuple[int, dict]] = field(default_factory=list)
    """Status and headers of the next answers about manifests."""
    num_cuts: int = 0
    """Number of blobs to send only half."""
    asked: Counter = field(default_factory=Counter)
    """Method and path → number of requests."""
    host: str = ""

    def add_blob(self, content):
        """Add a blob. Return its digest."""
        digest = digest_of(content)
        self.blobs[digest] = content
        return digest

    def add_manifest(self, repository, tag, manifest, media_type=MANIFESTS[0]):
        """Add a manifest under a tag and its digest. Return the digest."""
        content = json.dumps(manifest).encode()
        for version in (tag, digest_of(content)):
            self.manifests[repository, version] = (media_type, content)
        return digest_of(content)

    def add_list(self, repository, tag, digests):
        """Add a list of manifests by architecture."""
        entries = [
            {"digest": digest, "platform": {"os": "linux", "architecture": name}} for name, digest in digests.items()
        ]
        return self.add_manifest(repository, tag, {"schemaVersion": 2, "manifests": entries}, LISTS[0])

    def count(self, method, part):
        """Count the requests with a path that contains this text."""
        return sum(number for (how, path), number in self.asked.items() if how == method and part in path)


def digest_of(content):
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def make_manifest(**layers):
    """Return a manifest with layers by name and size, without their blobs."""
    parts = [{"digest": digest_of(name.encode()), "size": size} for name, size in layers.items()]
    return {"schemaVersion": 2, "config": {"digest": digest_of(b"config"), "size": 2}, "layers": parts}


@contextmanager
def serving(registry):
    """Run the registry at `registry.host` until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            registry.asked[self.command, self.path] += 1
            status, headers, body = answer(registry, self.path, self.headers.get("Authorization", ""))
            self.send_response(status)
            for name, value in {"Content-Length": len(body), **headers}.items():
                self.send_header(name, str(value))
            self.end_headers()
            if self.command == "GET":
                self.send_body(body)

        do_HEAD = do_GET

        def send_body(self, body):
            is_cut = "/blobs/" in self.path and registry.num_cuts > 0
            registry.num_cuts -= is_cut
            self.wfile.write(body[: len(body) // 2] if is_cut else body)
            self.close_connection = self.close_connection or is_cut

        def log_message(self, *_): ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    registry.host = f"127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield registry
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def answer(registry, path, authorization):
    """Return status, headers and body for a path."""
    if path.startswith("/token"):
        refused = registry.wanted_login and authorization != registry.wanted_login
        return (401, {}, b"") if refused else (200, {}, json.dumps({"token": TOKEN}).encode())
    if registry.needs_token and authorization != f"Bearer {TOKEN}":
        realm = f'Bearer realm="http://{registry.host}/token",service="here"'
        return 401, {"WWW-Authenticate": realm}, b""
    if path == "/v2/":
        return 200, {}, b"{}"
    repository, kind, version = path.removeprefix("/v2/").rsplit("/", 2)
    if kind == "manifests" and registry.refusals:
        return (*registry.refusals.pop(0), b"")
    if kind == "blobs" and version in registry.blobs:
        return 200, {"Content-Type": "application/octet-stream"}, registry.blobs[version]
    if kind == "manifests" and (repository, version) in registry.manifests:
        media_type, content = registry.manifests[repository, version]
        return 200, {"Content-Type": media_type, "Docker-Content-Digest": digest_of(content)}, content
    return 404, {}, b'{"errors":[{"code":"MANIFEST_UNKNOWN","message":"manifest unknown"}]}'


def add_image(registry, repository, tag, *layers):
    """Add an image with one layer per text. Return the digest of its manifest."""
    packed = [pack_layer(text) for text in layers]
    config = {
        "architecture": ARCHITECTURES.get(platform.machine(), platform.machine()),
        "os": "linux",
        "rootfs": {"type": "layers", "diff_ids": [digest_of(tar) for tar in packed]},
        "config": {},
    }
    parts = [describe(registry, gzip.compress(tar, mtime=0), LAYER) for tar in packed]
    manifest = {"schemaVersion": 2, "mediaType": MANIFESTS[0], "layers": parts}
    manifest["config"] = describe(registry, json.dumps(config).encode(), CONFIG)
    return registry.add_manifest(repository, tag, manifest)


def pack_layer(text):
    """Return a tar file with one file, named by the hash of its text."""
    content = text.encode()
    member = tarfile.TarInfo(digest_of(content)[-12:])
    member.size = len(content)
    with tarfile.open(fileobj=(packed := io.BytesIO()), mode="w") as tar:
        tar.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def describe(registry, content, media_type):
    return {"mediaType": media_type, "digest": registry.add_blob(content), "size": len(content)}
