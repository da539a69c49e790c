"""Sign in with an OpenID provider (OpenID Connect Core 1.0): authorization code with PKCE, state and nonce.

**Invariants**

- An ID token is accepted only if signed with a key that the provider publishes, by an asymmetric algorithm: neither
  `none` nor an HMAC with the provider's public key as its secret.
- The token is for this client, from this issuer, not expired, and has the nonce of this browser's flow.
- The provider is reached over HTTPS, except on the loopback address.
"""

import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from urllib.parse import quote_plus, urlencode, urlsplit

import httpx
from authlib.oauth2.rfc7636 import create_s256_code_challenge
from authlib.oidc.core import CodeIDToken
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from workbench.team.accounts.identities import GroupRules, SignInError, VouchedPerson
from workbench.team.accounts.sign_in_flow import SignInFlow

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "Ed25519")
"""Accepted ID token signatures, all asymmetric."""
LOOPBACK = ("localhost", "127.0.0.1", "::1")
_TIMEOUT, _KEPT, _OLD_KEYS, _LEEWAY = 10.0, 3600.0, 60.0, 60  # seconds
_LARGEST = 2**20  # bytes of a response


@dataclass(frozen=True, slots=True)
class OidcSettings:
    """Provider settings. `name` is part of URLs, `label` is on the button, `groups_claim` names the groups claim."""

    name: str
    issuer: str
    client_id: str
    client_secret: str = field(repr=False)
    label: str = "OpenID Connect"
    scopes: tuple[str, ...] = ("openid", "profile", "email")
    groups_claim: str = "groups"
    rules: GroupRules = field(default_factory=GroupRules)


class OidcProvider:
    """An OpenID provider. Its metadata and keys are cached for an hour."""

    def __init__(self, settings: OidcSettings, transport: httpx.AsyncBaseTransport | None = None) -> None:
        self.settings = settings
        self._transport = transport
        self._metadata: tuple[float, dict[str, Any]] | None = None
        self._keys: tuple[float, KeySet] | None = None

    async def authorization_url(self, flow: SignInFlow, redirect_uri: str) -> str:
        """Return the URL of the provider's sign-in page. Raises `SignInError` if the provider cannot be reached."""
        endpoint = (await self._discover())["authorization_endpoint"]
        query = {
            "response_type": "code",
            "client_id": self.settings.client_id,
            "redirect_uri": redirect_uri,
            "scope": " ".join(self.settings.scopes),
            "state": flow.state,
            "nonce": flow.nonce,
            "code_challenge": create_s256_code_challenge(flow.verifier),
            "code_challenge_method": "S256",
        }
        return f"{endpoint}{'&' if urlsplit(endpoint).query else '?'}{urlencode(query)}"

    async def vouched_person(self, flow: SignInFlow, code: str, redirect_uri: str) -> VouchedPerson:
        """Exchange a code for the person that the provider vouches for. Raises `SignInError` for any invalid response."""
        tokens = await self._redeem(flow, code, redirect_uri)
        claims = await self.verify_id_token(_text(tokens, "id_token"), flow.nonce, _text(tokens, "access_token"))
        return self._describe({**await self._ask_userinfo(claims["sub"], _text(tokens, "access_token")), **claims})

    async def verify_id_token(self, token: str, nonce: str, access_token: str = "") -> dict[str, Any]:
        """Verify an ID token and return its claims. Raises `SignInError`."""
        try:
            decoded = _decode(token, await self._key_set())
        except (JoseError, ValueError):  # the provider may have new keys
            try:
                decoded = _decode(token, await self._key_set(_OLD_KEYS))
            except (JoseError, ValueError) as error:
                raise self._refused(f"its signature is invalid ({type(error).__name__})") from None
        return self._checked(decoded, nonce, access_token)

    def _checked(self, decoded: jwt.Token, nonce: str, access_token: str) -> dict[str, Any]:
        options = {"iss": {"essential": True, "value": self.settings.issuer}, "aud": {"essential": True, "value": self.settings.client_id}}
        parameters = {"nonce": nonce, "client_id": self.settings.client_id, "access_token": access_token}
        try:
            claims = CodeIDToken(dict(decoded.claims), decoded.header, options, parameters)
            claims.validate(leeway=_LEEWAY)
        except (JoseError, ValueError, TypeError, AttributeError) as error:
            raise self._refused(f"a claim is invalid ({error})"[:200]) from None
        if not nonce or claims.get("nonce") != nonce or not isinstance(claims["sub"], str):
            raise self._refused("it belongs to another sign-in")
        return dict(claims)

    async def _redeem(self, flow: SignInFlow, code: str, redirect_uri: str) -> Mapping[str, Any]:
        metadata = await self._discover()
        form = {"grant_type": "authorization_code", "code": code, "redirect_uri": redirect_uri, "code_verifier": flow.verifier}
        methods = metadata.get("token_endpoint_auth_methods_supported") or ["client_secret_basic"]
        credentials = {"client_id": self.settings.client_id, "client_secret": self.settings.client_secret}
        if "client_secret_basic" in methods:
            basic = httpx.BasicAuth(*(quote_plus(value) for value in credentials.values()))  # RFC 6749, section 2.3.1
            return await self._ask("POST", metadata["token_endpoint"], data=form, auth=basic)
        return await self._ask("POST", metadata["token_endpoint"], data={**form, **credentials})

    async def _ask_userinfo(self, subject: str, access_token: str) -> Mapping[str, Any]:
        """Return the provider's userinfo claims, empty without an endpoint or if the subject differs."""
        endpoint = (await self._discover()).get("userinfo_endpoint")
        if not endpoint or not access_token:
            return {}
        claims = await self._ask("GET", endpoint, headers={"Authorization": f"Bearer {access_token}"})
        return claims if claims.get("sub") == subject else {}

    def _describe(self, claims: Mapping[str, Any]) -> VouchedPerson:
        groups = claims.get(self.settings.groups_claim, ())
        group_names = [groups] if isinstance(groups, str) else groups if isinstance(groups, (list, tuple)) else []
        email = _text(claims, "email") if claims.get("email_verified") is True else None
        name = _text(claims, "preferred_username") or _text(claims, "nickname") or (email or "").partition("@")[0]
        display = _text(claims, "name") or name
        return VouchedPerson(
            self.settings.issuer, claims["sub"], name, display, email, tuple(group for group in group_names if isinstance(group, str))
        )

    async def _discover(self) -> dict[str, Any]:
        """Fetch the provider metadata (OpenID Connect Discovery 1.0)."""
        if self._metadata is None or self._metadata[0] < time.monotonic() - _KEPT:
            metadata = dict(await self._ask("GET", self.settings.issuer.rstrip("/") + "/.well-known/openid-configuration"))
            if metadata.get("issuer") != self.settings.issuer:
                raise self._failed(f"its issuer is {str(metadata.get('issuer'))[:100]!r}, and not {self.settings.issuer!r}")
            for endpoint in ("authorization_endpoint", "token_endpoint", "jwks_uri"):
                _verify_address(metadata.get(endpoint), self._failed)
            self._metadata = (time.monotonic(), metadata)
        return self._metadata[1]

    async def _key_set(self, kept: float = _KEPT) -> KeySet:
        if self._keys is None or self._keys[0] < time.monotonic() - kept:
            keys = await self._ask("GET", (await self._discover())["jwks_uri"])
            try:
                self._keys = (time.monotonic(), KeySet.import_key_set(keys))  # type: ignore[arg-type]
            except (JoseError, ValueError, KeyError, TypeError):
                raise self._failed("its published keys cannot be read") from None
        return self._keys[1]

    async def _ask(self, method: str, address: str, **options: Any) -> Mapping[str, Any]:
        _verify_address(address, self._failed)
        try:
            async with httpx.AsyncClient(transport=self._transport, verify=_tls_context(), timeout=_TIMEOUT) as client:
                headers = {"Accept": "application/json", **options.pop("headers", {})}
                response = await client.request(method, address, headers=headers, **options)
            content = response.json() if response.is_success and len(response.content) <= _LARGEST else None
        except (httpx.HTTPError, ValueError) as error:
            raise self._failed(f"{urlsplit(address).path} does not answer ({type(error).__name__})") from None
        if not isinstance(content, dict):
            raise self._failed(f"{urlsplit(address).path} answers {response.status_code}")
        return content

    def _failed(self, reason: str) -> SignInError:
        return SignInError(f"{self.settings.label} could not be reached: {reason}.", ["try again", "tell an administrator"])

    def _refused(self, reason: str) -> SignInError:
        return SignInError(f"The response of {self.settings.label} was rejected: {reason}.", ["sign in again", "tell an administrator"])


@cache
def _tls_context() -> ssl.SSLContext:
    """Load the trusted certificates once, because that takes tens of milliseconds."""
    return httpx.create_ssl_context()


def _decode(token: str, keys: KeySet) -> jwt.Token:
    return jwt.decode(token, keys, algorithms=list(ALGORITHMS))


def _verify_address(address: object, error: Any) -> None:
    parts = urlsplit(address if isinstance(address, str) else "")
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in LOOPBACK):
        raise error(f"{str(address)[:100]!r} is not an address over HTTPS")


def _text(claims: Mapping[str, Any], name: str) -> str:
    value = claims.get(name)
    return value if isinstance(value, str) else ""
