"""Single sign-on: people log in with another project's identity provider, through Apache with the configuration in docs/oidc,
and the gateway shows them what their groups may see. Then everybody tries to see more."""

import contextlib
import types

import pytest
from entrance import OIDC, Authority, Browser, Gateway, apache, folder_for_all, provider
from lab import free_port

PEOPLE = {
    "olga": {"groups": ["canteen", "grid-ops"]},
    "vera": {"groups": ["grid-viewers", "canteen"]},
    "carl": {"groups": ["canteen"]},
    "nora": {},
}

PAGE, NAMING = "/api/v1/clusters", "/api/v1/offenders"


def settings(gateway):
    """The shipped ones, with names and addresses of this test."""
    shipped = (OIDC / "gateway.toml").read_text()
    replaced = {"0.0.0.0:9464": f"127.0.0.1:{gateway.port}", "10.1.2.3": "127.0.0.1"}
    replaced |= {f"/etc/dream/{name}": f"{gateway.folder}/{name}" for name in ("http.pem", "http.key", "access.toml")}
    for text, ours in replaced.items():
        assert shipped.count(text) == 1, text
        shipped = shipped.replace(text, ours)
    return shipped


@pytest.fixture(scope="module")
def site():
    with folder_for_all() as folder, contextlib.ExitStack() as parts:
        authority, port = Authority(folder), free_port()
        authority.certify("http")
        gateway = Gateway(folder, settings)
        operator = gateway.token("operator", "operator")
        parts.enter_context(gateway.serving(authority))
        redirect = f"https://localhost:{port}/oidc/callback"
        known = parts.enter_context(provider(folder, authority, redirect, PEOPLE))
        url = parts.enter_context(apache(folder, authority, port, gateway, *known))
        logins = {}

        def browser(name):
            """A browser in which somebody has logged in."""
            if name not in logins:
                logins[name] = Browser(authority)
                logins[name].log_in(url + PAGE, name)
            return logins[name]

        yield types.SimpleNamespace(
            folder=folder, authority=authority, gateway=gateway, url=url, known=known, browser=browser, operator=operator
        )


@pytest.mark.parametrize(
    ("name", "page", "naming"), [("olga", 200, 200), ("vera", 200, 403), ("carl", 403, 403), ("nora", 403, 403)]
)
def test_a_login_sees_what_its_groups_may(site, name, page, naming):
    first = Browser(site.authority).log_in(site.url + PAGE, name)
    assert (first.status, first.url) == (page, site.url + PAGE), first.text
    assert ("riverside" in first.text) == (page == 200)
    again = site.browser(name)
    assert again.get(site.url + "/").status == page
    answer = again.get(site.url + NAMING)
    assert answer.status == naming, answer.text
    if naming == 403:
        assert "this needs the role" in answer.text


def test_somebody_whom_the_provider_does_not_know_gets_nowhere(site):
    browser = Browser(site.authority)
    with pytest.raises(AssertionError, match=r"the provider asked for \['login'\]"):
        browser.log_in(site.url + PAGE, "mallory")
    answer = browser.get(site.url + PAGE)
    assert not answer.url.startswith(site.url) and "riverside" not in answer.text


FORGED = [
    {"X-Forwarded-User": "olga", "X-Forwarded-Groups": "grid-ops"},
    {"x-forwarded-user": "olga", "x-forwarded-groups": "grid-ops, grid-viewers"},
    {"X_Forwarded_User": "olga", "X_Forwarded_Groups": "grid-ops"},
    {"OIDC_CLAIM_groups": "grid-ops", "REMOTE_USER": "olga", "Remote-User": "olga"},
    # A proxy drops what this header names, also what it has set itself.
    {"Connection": "close, X-Forwarded-Groups"},
    {"Connection": "close, X-Forwarded-User", "X-Forwarded-User": "olga", "X-Forwarded-Groups": "grid-ops"},
    {"X-Forwarded-For": "127.0.0.1", "Forwarded": "for=127.0.0.1"},
]


@pytest.mark.parametrize("headers", FORGED, ids=lambda headers: " ".join(headers))
def test_what_a_browser_claims_about_itself_does_not_pass_the_proxy(site, headers):
    answer = Browser(site.authority).curl(site.url + PAGE, {"Accept": "text/html", **headers})
    assert answer.status == 302 and answer.location.startswith(site.known[0].partition(".well-known")[0]), answer
    assert site.browser("olga").curl(site.url + PAGE, {}).status == 200, "curl has the cookies"
    assert site.browser("vera").curl(site.url + NAMING, headers).status in (401, 403)
    for name in ("carl", "nora"):
        for path in (PAGE, NAMING):
            assert site.browser(name).curl(site.url + path, headers).status in (401, 403), (name, path)


def test_a_token_does_not_lift_a_login_through_the_proxy(site):
    token = {"Authorization": f"Bearer {site.operator}"}
    assert Browser(site.authority).get(site.gateway.url + NAMING, headers=token).status == 200, "past the proxy it counts"
    assert site.browser("vera").get(site.url + NAMING, headers=token).status == 403
    assert Browser(site.authority, follow=False).get(site.url + NAMING, headers=token).status == 302


def test_headers_count_from_the_proxys_address_alone(site):
    claimed = {"X-Forwarded-User": "olga", "X-Forwarded-Groups": "grid-ops"}
    proxy, stranger = Browser(site.authority), Browser(site.authority, source="127.0.0.2")
    assert proxy.get(site.gateway.url + NAMING, headers=claimed).status == 200, "who is at that address can be anybody"
    assert stranger.get(site.gateway.url + NAMING, headers=claimed).status == 401
    assert stranger.get(site.gateway.url + PAGE, headers=claimed).status == 401
    assert stranger.get(site.gateway.url + "/readyz", headers=claimed).status == 200
    said = [line for line in site.gateway.log().splitlines() if "address for headers of the proxy" in line]
    assert said and "127.0.0.2" in said[0], "an operator who forgot an address finds it in the log"


def test_a_proxy_does_not_speak_to_a_gateway_that_it_cannot_verify(site):
    with folder_for_all() as folder:
        redirect, other = f"https://localhost:{(port := free_port())}/oidc/callback", Authority(folder, "other")
        with (
            provider(folder, other, redirect, PEOPLE) as known,
            apache(folder, other, port, site.gateway, *known) as url,
        ):
            answer = Browser(other).log_in(url + PAGE, "olga")
            assert answer.status in (500, 502) and "riverside" not in answer.text, answer.text


def test_nothing_of_a_login_is_in_the_log_of_the_gateway(site):
    assert site.browser("olga").get(site.url + PAGE).status == 200
    site.browser("carl").get(site.url + PAGE)
    said = site.gateway.log()
    assert "starting" in said, said
    for name in (*PEOPLE, site.operator):
        assert name not in said, name
