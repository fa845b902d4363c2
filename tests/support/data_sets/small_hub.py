"""Hub on this machine that serves the files of one repository, a data set or a model."""

import hashlib
import json
import re
from http.server import BaseHTTPRequestHandler
from typing import ClassVar


class SmallHub(BaseHTTPRequestHandler):
    """The few answers of a hub that a download asks for: the files of one repository."""

    files: ClassVar[dict[str, bytes]] = {}
    error = ""
    """Code of the error with which the hub answers all requests; empty for none."""
    commit = "0123456789abcdef0123456789abcdef01234567"

    def do_GET(self):
        self.answer(with_body=True)

    def do_HEAD(self):
        self.answer(with_body=False)

    def answer(self, *, with_body):
        if "/tree/" in self.path:
            listed = [
                {"type": "file", "path": name, "size": len(held), "oid": "0"} for name, held in self.files.items()
            ]
            body = json.dumps(listed).encode()
        elif re.match("/api/(datasets|models)/shop/", self.path):
            siblings = [{"rfilename": name} for name in self.files]
            body = json.dumps({"_id": "1", "id": "shop/held", "sha": self.commit, "siblings": siblings}).encode()
        else:
            body = self.files.get(self.path.partition(f"/resolve/{self.commit}/")[2])
        if self.error:
            body = None
        missing = 403 if self.error == "GatedRepo" else 404
        self.send_response(200 if body is not None else missing)
        self.send_header("X-Error-Code", self.error)
        self.send_header("Content-Length", str(len(body or b"")))
        self.send_header("ETag", f'"{hashlib.sha256(body or b"").hexdigest()}"')
        self.send_header("X-Repo-Commit", self.commit)
        self.end_headers()
        if with_body:
            self.wfile.write(body or b"")

    def log_message(self, *arguments):
        pass
