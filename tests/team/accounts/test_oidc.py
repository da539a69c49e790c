"""Signing in with a real OpenID provider in this process, and what a dishonest one, or a dishonest visitor, would try."""

import asyncio
import base64
import hmac
import json
import subprocess
import sys
import time
from dataclasses import replace
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from joserfc import jwt
from joserfc.jwk import KeySet, RSAKey

from tests.support.team_server import KEY, add_person, sign_in, team_server, use_ways
from workbench.errors import WorkbenchError
from workbench.team.access import ForbiddenError, ProjectRole
from workbench.team.accounts.identities import GroupRules, SignInError, VouchedPerson, sign_in_as
from workbench.team.accounts.invitations import invite
from workbench.team.accounts.logins import principal_of_login
from workbench.team.accounts.oidc import OidcProvider, OidcSettings
from workbench.team.accounts.sign_in_flow import LASTS, FlowCookies, new_flow
from workbench.team.accounts.user_accounts import disable_user, find_user, set_role
from workbench.team.store.store import new_id, now
from workbench.team.store.tables import Identity, Member, Project

PEOPLE = {
    "1": {"email": "ada@lab.example", "email_verified": True, "name": "Ada Lovelace", "preferred_username": "ada", "groups": ["research"]},
    "2": {"email": "ada@lab.example", "email_verified": False, "preferred_username": "ada", "groups": []},
    "3": {"email": "chief@lab.example", "email_verified": True, "preferred_username": "chief", "groups": ["chiefs", 7]},
}
RULES = GroupRules(groups=frozenset({"research"}), admins=frozenset({"chiefs"}), roles={"research": {"vision": ProjectRole.EDITOR}})


@pytest.fixture(scope="module")
def mock():
    """A process of its own: the provider's libraries warn of themselves, and here a warning is an error."""
    users = [{"sub": sub, **claims} for sub, claims in PEOPLE.items()]
    code = (
        "import json, sys, time; from oidc_provider_mock import User, run_server_in_thread\n"
        "people = [User(sub=each.pop('sub'), claims=each) for each in json.loads(sys.argv[1])]\n"
        "with run_server_in_thread(user_claims=people) as server:\n"
        "    print(server.server_port, flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-W", "ignore", "-c", code, json.dumps(users)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        yield f"http://localhost:{process.stdout.readline().strip()}"
        process.stdin.close()


@pytest.fixture
def server(mock, tmp_path):
    with team_server(tmp_path) as running:
        use_rules(running, mock, RULES)
        with running.services.store.write() as session:
            session.add(Project(id=new_id(), slug="vision", name="Vision", created=now()))
        yield running


def use_rules(server, mock, rules):
    settings = OidcSettings("lab", mock, "workbench", "s:e c+ret", "Lab account", rules=rules)
    use_ways(server, oidc=(OidcProvider(settings),))


def callback_of(browser, sub, query=""):
    """The address that the provider sends a browser back to, once somebody has signed in there."""
    away = browser.get(f"/login/oidc/lab{query}").headers["Location"]
    back = httpx.post(away, data={"sub": sub}, verify=False).headers["Location"]
    return urlsplit(back)._replace(scheme="", netloc="").geturl(), parse_qs(urlsplit(away).query)


def sign_in_with(browser, sub, query=""):
    return browser.get(callback_of(browser, sub, query)[0])


def name_of(server, browser):
    found = principal_of_login(server.services.store, browser.cookies.get("workbench", ""))
    return found.name if found else None


def test_signing_in_makes_an_account_and_finds_it_again(server):
    with server.client() as browser:
        assert "Sign in with Lab account" in browser.get("/login").text
        back, asked = callback_of(browser, "1", "?next=/room/abc")
        answer = browser.get(back)
        assert (answer.status_code, answer.headers["Location"]) == (302, "/room/abc")
        assert name_of(server, browser) == "ada"
    assert asked["code_challenge_method"] == ["S256"]
    assert len(asked["state"][0]) == len(asked["nonce"][0]) == len(asked["code_challenge"][0]) == 43
    with server.client() as browser:
        sign_in_with(browser, "1")
        assert name_of(server, browser) == "ada"
    with server.services.store.read() as session:
        assert [(each.subject, each.issuer.startswith("http://localhost:")) for each in session.query(Identity)] == [("1", True)]
        user = find_user(session, "ada")
        assert (user.display, user.email, user.admin) == ("Ada Lovelace", "ada@lab.example", False)
        project = session.query(Project).filter_by(personal_of=None).one()
        assert session.get(Member, (project.id, user.id)).role == "editor"


def test_groups_make_administrators(server):
    with server.client() as browser:
        sign_in_with(browser, "3")
        assert browser.get("/metrics").status_code == 200


def test_an_email_never_leads_to_an_account(server, mock):
    victim = add_person(server.services.store, "ada")
    use_rules(server, mock, GroupRules(anyone=True))
    for sub in ("1", "2"):
        with server.client() as browser:
            sign_in_with(browser, sub)
            assert principal_of_login(server.services.store, browser.cookies["workbench"]).user_id != victim
            assert name_of(server, browser) in ("ada-2", "ada-3")


def test_whom_no_rule_admits_has_no_account_without_an_invitation(server):
    with server.client() as browser:
        answer = sign_in_with(browser, "2")
        assert (answer.status_code, name_of(server, browser)) == (403, None)
        assert "You have no account here." in answer.text
        with server.services.store.write() as session:
            secret = invite(session)
        assert f"/login/oidc/lab?invitation={secret}" in browser.get(f"/invite/{secret}").text
        assert sign_in_with(browser, "2", f"?invitation={secret}").status_code == 302
        assert name_of(server, browser) == "ada"
        assert sign_in_with(browser, "2").status_code == 302  # later without
        assert sign_in_with(browser, "3", f"?invitation={secret}").status_code == 400  # and nobody else with it


def test_an_unverified_email_is_in_no_domain(server, mock):
    use_rules(server, mock, GroupRules(domains=frozenset({"LAB.example"})))
    with server.client() as browser:
        assert sign_in_with(browser, "2").status_code == 403
        assert sign_in_with(browser, "1").status_code == 302


def test_a_disabled_person_is_not_let_in(server):
    with server.client() as browser:
        sign_in_with(browser, "1")
        with server.services.store.write() as session:
            disable_user(session, find_user(session, "ada"))
        assert sign_in_with(browser, "1").status_code == 403
        assert name_of(server, browser) is None


def test_a_state_is_good_once_and_in_the_browser_that_began(server):
    with server.client() as mallory, server.client() as victim:
        back, _ = callback_of(mallory, "1")
        stolen = mallory.cookies["workbench-flow"]
        assert victim.get(back).status_code == 400  # sign-in CSRF: another's code in this browser
        callback_of(victim, "2")
        assert victim.get(back).status_code == 400  # with a flow of its own, too
        assert mallory.get(back).status_code == 302
        with server.client() as replay:
            replay.cookies.set("workbench-flow", stolen)
            again = replay.get(back)
            assert (again.status_code, name_of(server, replay)) == (400, None)
            assert "is already complete" in again.text


@pytest.mark.parametrize(
    "change", ["state=", "state=wrong", "", "code=", "error=access_denied", "iss=https%3A%2F%2Fevil.example", "code=forged"]
)
def test_an_answer_that_is_not_as_it_has_to_be(server, change):
    with server.client() as browser:
        back, _ = callback_of(browser, "1")
        query = {name: values[0] for name, values in parse_qs(urlsplit(back).query).items()}
        name, _, value = change.partition("=")
        query = {**query, name: httpx.QueryParams(change).get(name, value)} if change else {}
        answer = browser.get("/login/oidc/lab/callback", params=query)
        assert (answer.status_code, name_of(server, browser)) == (400, None)
        assert "Traceback" not in answer.text
        assert browser.get(back).status_code == 400 or change in ("state=", "state=wrong", "")


def test_a_provider_that_is_not_there_is_said_so(server, mock):
    use_rules(server, "http://localhost:1", RULES)
    with server.client() as browser:
        answer = browser.get("/login/oidc/lab")
        assert answer.status_code == 400
        assert "Lab account could not be reached" in answer.text
        assert browser.get("/login/oidc/nobody").status_code == 404
        assert browser.get("/login/hub").status_code == 404


def test_flows_are_signed_and_short_lived():
    time_now = [1000.0]
    flows = FlowCookies(KEY, lambda: time_now[0])
    flow = new_flow("lab", "/")
    written = flows.write("flow", flow)
    other_key = FlowCookies(b"x" * 32, lambda: time_now[0]).write("flow", flow)
    other_name = flows.write("other", flow)
    for wrong in (other_key, other_name, written[:-1] + ("1" if written[-1] == "0" else "0"), "", "x" * 10_000, "a|b|c"):
        with pytest.raises(SignInError):
            flows.end("flow", wrong, "lab", flow.state)
    for provider, state in (("other", flow.state), ("lab", flow.nonce), ("lab", ""), ("lab", "\udcff")):
        with pytest.raises(SignInError):
            flows.end("flow", written, provider, state)
    time_now[0] += LASTS + 1
    with pytest.raises(SignInError):
        flows.end("flow", written, "lab", flow.state)
    time_now[0] -= 2
    assert flows.end("flow", written, "lab", flow.state) == flow


# A dishonest provider's ID tokens, and forgeries. Each is verified as the code's token would be.

ISSUER, CLIENT, NONCE = "https://id.example", "workbench", "n" * 43
RSA = RSAKey.generate_key(2048, parameters={"kid": "k1"})
OTHER = RSAKey.generate_key(2048, parameters={"kid": "k1"})
PUBLISHED = KeySet([RSA]).as_dict(private=False)


def publish(request: httpx.Request) -> httpx.Response:
    if request.url.path.endswith("openid-configuration"):
        endpoints = {name: f"{ISSUER}/{name}" for name in ("authorization_endpoint", "token_endpoint", "jwks_uri")}
        return httpx.Response(200, json={"issuer": ISSUER, **endpoints})
    return httpx.Response(200, json=PUBLISHED)


def provider(handler=publish, issuer=ISSUER):
    return OidcProvider(OidcSettings("x", issuer, CLIENT, "secret"), httpx.MockTransport(handler))


def claims(**changes):
    good = {"iss": ISSUER, "sub": "1", "aud": CLIENT, "exp": time.time() + 300, "iat": time.time(), "nonce": NONCE}
    return {name: value for name, value in {**good, **changes}.items() if value is not None}


def signed(key=RSA, alg="RS256", header=(), **changes):
    return jwt.encode({"alg": alg, "kid": "k1", **dict(header)}, claims(**changes), key, algorithms=[alg])


def encoded(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()


def unsigned(alg):
    return f"{encoded(json.dumps({'alg': alg, 'kid': 'k1'}).encode())}.{encoded(json.dumps(claims()).encode())}"


def signed_as_secret(secret: bytes):
    """By HMAC, as somebody who takes the published key for a shared secret would check it."""
    text = unsigned("HS256")
    return f"{text}.{encoded(hmac.digest(secret, text.encode(), 'sha256'))}"


def verify(token, nonce=NONCE, **options):
    return asyncio.run(provider(**options).verify_id_token(token, nonce))


def test_a_good_id_token():
    assert verify(signed())["sub"] == "1"
    assert verify(signed(alg="PS256"))["sub"] == "1"
    assert verify(signed(aud=[CLIENT]))["sub"] == "1"


FORGED = {
    "signed by another": lambda: signed(OTHER),
    "not signed": lambda: unsigned("none") + ".",
    "not signed, in capitals": lambda: unsigned("NONE") + ".",
    "signature cut off": lambda: signed().rpartition(".")[0] + ".",
    "signed by the public key as a secret": lambda: signed_as_secret(RSA.as_pem(private=False)),
    "signed by the client's secret": lambda: signed_as_secret(b"secret"),
    "brings its own key": lambda: signed(OTHER, header={"jwk": OTHER.as_dict(private=False)}),
    "of another issuer": lambda: signed(iss="https://evil.example"),
    "without an issuer": lambda: signed(iss=None),
    "for another client": lambda: signed(aud="other"),
    "for several clients, by nobody": lambda: signed(aud=[CLIENT, "other"]),
    "authorised for another": lambda: signed(aud=[CLIENT, "other"], azp="other"),
    "without an audience": lambda: signed(aud=None),
    "expired": lambda: signed(exp=time.time() - 120),
    "never expires": lambda: signed(exp=None),
    "of another flow": lambda: signed(nonce="m" * 43),
    "of no flow": lambda: signed(nonce=None),
    "without a subject": lambda: signed(sub=None),
    "with a number as subject": lambda: signed(sub=1),
    "not yet": lambda: signed(nbf=time.time() + 600),
    "expires in words": lambda: signed(exp="tomorrow"),
    "no token": lambda: "",
    "two parts": lambda: "a.b",
    "not base64": lambda: "\x00.é.c",
    "huge": lambda: "a" * 100_000 + "." + "b" * 100_000 + ".c",
}


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_id_token_signs_nobody_in(name):
    with pytest.raises(SignInError, match="was rejected"):
        verify(FORGED[name]())


def test_without_a_nonce_nobody_is_signed_in():
    with pytest.raises(SignInError):
        verify(signed(nonce=""), "")


@pytest.mark.parametrize(
    "answer",
    [
        httpx.Response(500),
        httpx.Response(200, text="<html>"),
        httpx.Response(200, json=[]),
        httpx.Response(302, headers={"Location": "https://evil.example"}),
        httpx.Response(200, json={"issuer": "https://evil.example"}),
        httpx.Response(200, json={"issuer": ISSUER}),
        httpx.Response(200, json={"issuer": ISSUER, "authorization_endpoint": "http://id.example/a"}),
        httpx.Response(
            200, json={"issuer": ISSUER, **dict.fromkeys(("authorization_endpoint", "token_endpoint", "jwks_uri"), "file:///etc/passwd")}
        ),
        httpx.Response(200, text='{"issuer": "' + "x" * 2**20 + '"}'),
    ],
    ids=range(9),
)
def test_a_provider_that_describes_itself_wrongly_is_not_asked(answer):
    with pytest.raises(SignInError, match="could not be reached"):
        asyncio.run(provider(lambda _request: answer).authorization_url(new_flow("x", "/"), "https://me/"))


def test_keys_that_cannot_be_read_and_an_issuer_without_https():
    def broken(request):
        return publish(request) if "openid" in request.url.path else httpx.Response(200, json={"keys": "none"})

    with pytest.raises(SignInError, match="its published keys"):
        verify(signed(), handler=broken)
    with pytest.raises(SignInError, match="not an address over HTTPS"):
        verify(signed(), issuer="http://id.example")


def test_what_the_userinfo_says_of_another_person_is_nothing():
    def handler(request):
        found = publish(request)
        path = request.url.path
        if path.endswith("configuration"):
            return httpx.Response(200, json=json.loads(found.content) | {"userinfo_endpoint": f"{ISSUER}/userinfo"})
        if path == "/token_endpoint":
            assert request.headers["Authorization"].startswith("Basic ")
            return httpx.Response(200, json={"id_token": signed(), "access_token": "a"})
        return httpx.Response(200, json={"sub": "2", "groups": ["chiefs"]}) if path == "/userinfo" else found

    flow = replace(new_flow("x", "/"), nonce=NONCE)
    assert asyncio.run(provider(handler).vouched_person(flow, "code", "https://me/")) == VouchedPerson(ISSUER, "1", "")


def test_roles_follow_the_groups_where_the_rules_say_so(server):
    rules = GroupRules(
        anyone=True,
        admins=frozenset({"chiefs"}),
        roles={"a": {"vision": ProjectRole.VIEWER, "none": ProjectRole.OWNER}, "b": {"vision": ProjectRole.RUNNER}},
    )
    with server.services.store.write() as session:
        other = Project(id=new_id(), slug="other", name="Other", created=now())
        session.add(other)
        vision = session.query(Project).filter_by(slug="vision").one()

        def role_after(*groups):
            user = sign_in_as(session, VouchedPerson("i", "1", "x", groups=groups), rules)
            session.flush()
            member = session.get(Member, (vision.id, user.id), populate_existing=True)
            return (member.role if member else None, user.admin)

        assert [role_after(*each) for each in (("a", "b"), ("a",), ("chiefs",), ("b",), ())] == [
            ("runner", False),
            ("viewer", False),
            (None, True),
            ("runner", False),
            (None, False),
        ]
        user = find_user(session, "x")
        set_role(session, other.id, user.id, ProjectRole.OWNER)
        role_after()
        assert session.get(Member, (other.id, user.id)).role == "owner"


def test_whoever_left_the_groups_is_not_let_in_any_more(server):
    with server.services.store.write() as session:
        sign_in_as(session, VouchedPerson("i", "1", "x", groups=("research",)), RULES)
        with pytest.raises(ForbiddenError, match="no longer in a group"):
            sign_in_as(session, VouchedPerson("i", "1", "x"), RULES)
        for subject in ("", "x" * 256):
            with pytest.raises(WorkbenchError):
                sign_in_as(session, VouchedPerson("i", subject, "x"), GroupRules(anyone=True))


def test_an_invitation_for_somebody_who_has_an_account_gives_them_an_identity(server):
    user_id = add_person(server.services.store, "ada")
    assert sign_in(server.services.store, user_id)
    with server.services.store.write() as session:
        secret = invite(session, user_id=user_id)
        assert sign_in_as(session, VouchedPerson("i", "9", "whatever"), GroupRules(), secret).id == user_id
        assert sign_in_as(session, VouchedPerson("i", "9", "whatever"), GroupRules()).id == user_id
