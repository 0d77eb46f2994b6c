"""TLS certificates with which the processes of a run's Ray recognize each other.

Ray 2.60 reads a request before it looks at the token: one StartSync without a token ends its gcs or a raylet. TLS with
certificates of both sides refuses a stranger before the first request.
"""

from __future__ import annotations

import ipaddress
import os
import ssl
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from aiperf.drive.ray.cluster.ray_environment import connected

BEFORE, AFTER = timedelta(days=1), timedelta(days=3660)
"""Validity of certificates before and after the start of a head."""
CA, CERTIFICATE, KEY = "RAY_TLS_CA_CERT", "RAY_TLS_SERVER_CERT", "RAY_TLS_SERVER_KEY"


class Authority(msgspec.Struct, frozen=True):
    """Certificate authority of one head. It travels with Ray's token: whoever has both can join."""

    certificate: str
    key: str


def new_authority() -> Authority:
    """Return a new certificate authority with a random key."""
    key = ec.generate_private_key(ec.SECP256R1())
    return Authority(_signed("AIPerf run", key, "AIPerf run", key, x509.BasicConstraints(True, 0)), _pem(key))


def tls_environment(authority: Authority, folder: Path, address: str) -> dict[str, str]:
    """Make a node's certificate, and return the environment variables by which Ray uses it and requires one of others.

    Without `address` in the certificate, Ray waits for its gcs without giving a reason.
    """
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
    """Return the reason why TLS with the server at `address` (HOST:PORT) fails, in the words of OpenSSL.

    None if it succeeds, or without an answer within `seconds`.
    """
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
