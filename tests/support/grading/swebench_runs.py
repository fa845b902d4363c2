"""Script that runs swebench's evaluation with folders of this machine as containers.

Arguments: the folder of the package, and a folder with `rows.json`, `preds.jsonl`, and `tree`, the initial content of each
container. The script writes the reports into that folder. With the argument `rewrite` it makes them from existing logs. Only the
Docker client and unused imports are replaced by stand-ins.
"""

import io
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tarfile
from pathlib import Path
from types import ModuleType, SimpleNamespace
from unittest.mock import MagicMock

UNUSED = ("datasets", "dotenv", "modal", "modal.container_process", "modal.io_streams", "tenacity", "tqdm", "unidiff")
PLACES = ("/testbed", "/tmp", "/eval.sh")
COMMIT = "git init -q && git add -A -f && git -c user.name=a -c user.email=a@b commit -qm 1"
GIT = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null"}


class Containers:
    """Docker client whose containers are folders."""

    def __init__(self, folder, tree):
        self.folder, self.tree = folder, tree
        self.images = SimpleNamespace(get=lambda name: name, list=lambda all: [])
        self.containers = SimpleNamespace(get=self.find, create=self.create, list=lambda all: [])

    def find(self, name):
        raise NotFound(name)

    def create(self, name, **options):
        root = self.folder / name
        shutil.copytree(self.tree, root / "testbed")
        subprocess.run(COMMIT, shell=True, check=True, cwd=root / "testbed")
        return Container(self, name, root)


class Container:
    """Folder with the paths of a container."""

    def __init__(self, client, name, root):
        self.id, self.root, self.process = name, root, None
        api = SimpleNamespace(exec_create=self.create, exec_start=self.stream, exec_inspect=lambda name: {"Pid": 1})
        self.client = SimpleNamespace(api=api)

    def start(self):
        pass

    def exec_run(self, command, workdir="/testbed", user="root", detach=False):
        words = command if isinstance(command, list) else shlex.split(command)
        if words[:2] == ["kill", "-TERM"]:
            os.killpg(self.process.pid, signal.SIGKILL)
            return None
        run = subprocess.run(self.place(words), **self.surroundings(workdir), stdout=subprocess.PIPE)
        return SimpleNamespace(exit_code=run.returncode, output=run.stdout)

    def put_archive(self, folder, data):
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            archive.extractall(self.place([folder])[0], filter="data")

    def create(self, name, command):
        words = self.place(shlex.split(command))
        self.process = subprocess.Popen(
            words, **self.surroundings("/testbed"), stdout=subprocess.PIPE, start_new_session=True
        )
        return {"Id": "1"}

    def stream(self, name, stream):
        yield from self.process.stdout

    def place(self, words):
        """Translate the container paths in a command to paths on this machine."""
        return [f"{self.root}{word}" if word.startswith(PLACES) or word == "/" else word for word in words]

    def surroundings(self, workdir):
        return {"cwd": self.place([workdir])[0], "stderr": subprocess.STDOUT, "env": {**os.environ, **GIT}}


class NotFound(Exception):
    pass


def stand_in(package, folder):
    """Install stand-ins for missing packages, and always for Docker."""
    docker = ModuleType("docker")
    docker.errors = SimpleNamespace(ImageNotFound=NotFound, NotFound=NotFound, APIError=NotFound)
    docker.from_env = lambda **options: Containers(folder / "containers", folder / "tree")
    docker.DockerClient = object
    models = SimpleNamespace(Container=object)
    sys.modules |= {"docker": docker, "docker.errors": docker.errors, "docker.models": models}
    sys.modules |= {"docker.models.containers": models, **{name: MagicMock() for name in UNUSED}}
    sys.path.insert(0, str(package))


def main():
    package, folder = map(Path, sys.argv[1:3])
    stand_in(package, folder)
    os.chdir(folder)
    from swebench.harness import run_evaluation

    run_evaluation.cleanup_container = lambda *arguments: None  # it calls the program docker
    run_evaluation.main("rows.json", "test", [], "preds.jsonl", 2, 4096, "preds", LIMIT_S, REWRITE, False)


LIMIT_S = 20
REWRITE = sys.argv[3:] == ["rewrite"]
if __name__ == "__main__":
    main()
