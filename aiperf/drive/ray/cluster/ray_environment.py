"""Environment variables, folders and TLS certificates for Ray on this host. All its files are in one folder.

Ray requires a token. But Ray 2.60 reads a request before it looks at the token: one StartSync without a token ends its gcs or a
raylet. TLS with certificates of both sides refuses a stranger before the first request.
"""

from __future__ import annotations

import ipaddress
import os
import secrets
import socket
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from aiperf.errors import BadConfiguration, RuntimeNotStarted, explained
from aiperf.scratch import PREFIX, Scratch, compiler_caches

MODE, TOKEN, TOKEN_PATH = "RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"
PARENT_BYTES = 107 - len(f"/{PREFIX}12345678/r/session_2026-11-22_00-00-00_000000_4194304/sockets/plasma_store")
"""Maximum length of a temporary folder's path. Ray's socket names below it must fit the limit of unix(7)."""
BEFORE, AFTER = timedelta(days=1), timedelta(days=3660)
"""Validity of certificates before and after the start of a head."""
CA, CERTIFICATE, KEY = "RAY_TLS_CA_CERT", "RAY_TLS_SERVER_CERT", "RAY_TLS_SERVER_KEY"


def guarded_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables by which Ray and its processes require a token."""
    mode = environment.get(MODE)
    if mode is not None and mode.lower() != "token":
        raise BadConfiguration(
            f"a run's Ray must require a token, since a process that reaches its ports could run code as you, but {MODE} "
            f"is {mode!r}. Unset it, and each run makes its own token"
        )
    defaults = {
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
        "GRPC_VERBOSITY": "NONE",  # each stranger that TLS refuses would be a line in the driver's output
    }
    chosen = {MODE: "token"} | {name: environment.get(name, value) for name, value in defaults.items()}
    if not any(environment.get(name, "").strip() for name in (TOKEN, TOKEN_PATH)):
        chosen[TOKEN] = secrets.token_hex(32)
    return chosen


def ray_parent(environment: Mapping[str, str]) -> Path:
    """Return the folder in which Ray's folder is made: RAY_TMPDIR in `environment`, or /tmp."""
    parent = environment.get("RAY_TMPDIR") or "/tmp"
    if len(os.fsencode(parent)) > PARENT_BYTES:
        raise BadConfiguration(
            f"RAY_TMPDIR contains Ray's sockets, so its path must have at most {PARENT_BYTES} bytes, but it is {parent!r}. "
            "Choose a shorter path, or unset it to use /tmp"
        )
    return Path(parent)


@contextmanager
def ray_folder(environment: Mapping[str, str]) -> Iterator[tuple[Path, dict[str, str]]]:
    """Create a folder for Ray's files for a `with` block. After the block the folder is removed."""
    guarded, parent = guarded_environment(environment), ray_parent(environment)
    _require_loopback()
    try:
        scratch = Scratch(parent)
    except OSError as error:
        if not Path(os.fsdecode(error.filename or "")).is_relative_to(parent):
            raise
        raise BadConfiguration(
            "Ray's folder is made in RAY_TMPDIR (default: /tmp), which must be an existing, writable directory with free "
            f"space. '{parent}': {error.strerror}. Choose another directory, or unset RAY_TMPDIR"
        ) from error
    # without a token, and Ray would open it on any port of a node's agent (Ray 2.60)
    closed = {"RAY_enable_metrics_collection": "0"}
    try:
        yield scratch.path, guarded | closed | scratch.environment | compiler_caches(environment, scratch.path)
    finally:
        scratch.close()


def _require_loopback() -> None:
    fix = "Ray's processes on a host meet there. Bring the loopback interface up: ip link set lo up"
    with (
        explained("127.0.0.1", "cannot be reached", fix, RuntimeNotStarted),
        socket.create_server(("127.0.0.1", 0)) as server,
    ):
        socket.create_connection(server.getsockname(), timeout=2.0).close()


def connected(address: str, seconds: float) -> socket.socket:
    """Connect to the TCP port at HOST:PORT within `seconds`. Raise OSError if nothing answers."""
    host, _, port = address.rpartition(":")
    return socket.create_connection((host.strip("[]"), int(port)), timeout=seconds)


@contextmanager
def environment_of_process(added: Mapping[str, str]) -> Iterator[None]:
    """Set the variables in `added` in this process's environment for a `with` block. Restore the former values after it."""
    before = {name: os.environ.get(name) for name in added}
    os.environ.update(added)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


class Authority(msgspec.Struct, frozen=True):
    """Certificate authority of one head. It travels with Ray's token: whoever has both can join."""

    certificate: str
    key: str


def new_authority() -> Authority:
    key = ec.generate_private_key(ec.SECP256R1())
    return Authority(_signed("AIPerf run", key, "AIPerf run", key, x509.BasicConstraints(True, 0)), _pem(key))


def tls_environment(authority: Authority, folder: Path, address: str) -> dict[str, str]:
    """Make a node's certificate. Without `address` in it, Ray waits for its gcs without giving a reason."""
    key = ec.generate_private_key(ec.SECP256R1())
    signer = serialization.load_pem_private_key(authority.key.encode(), None)
    assert isinstance(signer, ec.EllipticCurvePrivateKey)
    names = x509.SubjectAlternativeName([_name(each) for each in dict.fromkeys((address, "127.0.0.1", "::1"))])
    contents = {
        CA: authority.certificate,
        CERTIFICATE: _signed("AIPerf node", key, "AIPerf run", signer, names),
        KEY: _pem(key),
    }
    for variable, content in contents.items():
        with os.fdopen(os.open(folder / variable, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(content)
    return {"RAY_USE_TLS": "1"} | {variable: str(folder / variable) for variable in contents}


def refusal(address: str, environment: Mapping[str, str], seconds: float) -> str | None:
    """Reason in OpenSSL's words why TLS with the server fails. None if it succeeds, or without an answer within `seconds`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.maximum_version = ssl.TLSVersion.TLSv1_2  # a server refuses a client's certificate within the handshake
    context.set_alpn_protocols(["h2"])
    context.load_verify_locations(environment[CA])
    context.load_cert_chain(environment[CERTIFICATE], environment[KEY])
    try:
        with connected(address, seconds) as connection:
            host = address.rpartition(":")[0].strip("[]")
            context.wrap_socket(connection, server_hostname=host).close()
    except ssl.SSLCertVerificationError as error:
        return error.verify_message
    except ssl.SSLError as error:
        return error.reason or str(error)
    except OSError:
        return None
    return None


def _name(address: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(address))
    except ValueError:
        return x509.DNSName(address)


def _signed(
    subject: str,
    key: ec.EllipticCurvePrivateKey,
    issuer: str,
    signer: ec.EllipticCurvePrivateKey,
    use: x509.ExtensionType,
) -> str:
    names = [x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)]) for name in (subject, issuer)]
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(names[1], names[0], key.public_key(), x509.random_serial_number())
    signed = builder.not_valid_before(now - BEFORE).not_valid_after(now + AFTER).add_extension(use, critical=True)
    return signed.sign(signer, hashes.SHA256()).public_bytes(serialization.Encoding.PEM).decode()


def _pem(key: ec.EllipticCurvePrivateKey) -> str:
    plain = serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain).decode()
