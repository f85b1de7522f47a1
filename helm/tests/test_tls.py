"""The gateway's own address, asked as a stranger would: by curl, on TLS, with and without a token or a password."""

import contextlib
import subprocess
import types

import pytest
from entrance import Authority, Gateway, curl, folder_for_all, logged
from lab import free_port, until

PAGE, NAMING, METRICS, HEALTH = "/api/v1/clusters", "/api/v1/offenders", "/metrics", "/readyz"
PASSWORD = "correct horse battery staple"


def settings(gateway):
    files = {"tls_certificate": "http.pem", "tls_key": "http.key", "access_file": "access.toml"}
    keys = "\n".join(f'{key} = "{gateway.folder}/{name}"' for key, name in files.items())
    return f'[http]\nlisten = "127.0.0.1:{gateway.port}"\n{keys}'


@pytest.fixture(scope="module")
def site():
    with folder_for_all() as folder, contextlib.ExitStack() as parts:
        authority = Authority(folder)
        authority.certify("http")
        gateway = Gateway(folder, settings)
        tokens = {role: gateway.token(role, role) for role in ("metrics", "viewer", "operator")}
        gateway.user("anna", "operator", PASSWORD)
        parts.enter_context(gateway.serving(authority))

        def status(path, *words, port=gateway.port, authority=authority):
            return curl(authority, *words, f"https://localhost:{port}{path}").status

        yield types.SimpleNamespace(folder=folder, authority=authority, gateway=gateway, tokens=tokens, status=status)


def bearer(token):
    return ("--header", f"Authorization: Bearer {token}")


def test_a_stranger_learns_that_it_is_well_and_nothing_else(site):
    assert site.status(HEALTH) == 200
    for path in ("/", PAGE, NAMING, METRICS, "/assets/page.css", "/no-such-page"):
        assert site.status(path) == 401, path


@pytest.mark.parametrize(
    ("role", "metrics", "page", "naming"),
    [("metrics", 200, 403, 403), ("viewer", 200, 200, 403), ("operator", 200, 200, 200)],
)
def test_a_token_is_for_what_its_role_is_for(site, role, metrics, page, naming):
    token = bearer(site.tokens[role])
    assert [site.status(path, *token) for path in (METRICS, PAGE, NAMING)] == [metrics, page, naming]


def test_what_is_nearly_a_token_is_none(site):
    token = site.tokens["operator"]
    wrong = [token[:-1], token + "0", token.upper(), token.removeprefix("dream_"), "", "*", f"{token},{token}"]
    for guess in wrong:
        assert site.status(PAGE, *bearer(guess)) == 401, guess
    assert site.status(PAGE, *bearer(token), *bearer(token)) == 401, "two of them"
    assert site.status(f"{PAGE}?access_token={token}") == 401, "nor does one count that ends up in logs of proxies"


def test_a_password_counts_and_a_wrong_one_does_not(site):
    assert site.status(NAMING, "--user", f"anna:{PASSWORD}") == 200
    for guess in ("anna:", "anna:guess", f"Anna:{PASSWORD}", f"nobody:{PASSWORD}", f"anna:{PASSWORD} "):
        assert site.status(NAMING, "--user", guess) == 401, guess


@pytest.mark.parametrize(
    "path",
    ["//api/v1/clusters", "/./api/v1/clusters", "/livez/../api/v1/clusters", "/livez/%2e%2e/api/v1/clusters", "/API/V1/clusters"]
    + ["/readyz/", "/readyz/api/v1/clusters", "/api/v1/clusters;/readyz", "/api/v1/clusters%00", "/metrics/", "/%6detrics"],
)
def test_no_spelling_of_a_path_is_a_way_around_the_login(site, path):
    assert site.status(path, "--path-as-is") == 401


@pytest.mark.parametrize("method", ["HEAD", "OPTIONS", "POST", "PUT", "DELETE", "PATCH", "TRACE", "PROPFIND"])
def test_no_method_is_a_way_around_the_login_nor_changes_anything(site, method):
    words = ("--head",) if method == "HEAD" else ("--request", method)
    assert site.status(PAGE, *words) == 401
    allowed = {"HEAD": 200}.get(method, 405)
    assert site.status(PAGE, *words, *bearer(site.tokens["operator"])) == allowed


def test_a_proxys_headers_count_for_nothing_where_there_is_no_proxy(site):
    claimed = ("--header", "X-Forwarded-User: anna", "--header", "X-Forwarded-Groups: grid-ops")
    assert site.status(PAGE, *claimed) == 401


def test_nothing_is_said_without_tls(site):
    answer = curl(site.authority, f"http://localhost:{site.gateway.port}{HEALTH}")
    assert answer.status == 0, answer


OLD = ("--ciphers", "DEFAULT@SECLEVEL=0")


@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_old_versions_of_tls_are_refused(site, version):
    answer = curl(site.authority, *OLD, "--tlsv1.0", "--tls-max", version, f"{site.gateway.url}{HEALTH}")
    assert answer.status == 0 and "alert" in answer.error, answer
    # The same curl reaches a server that still has them.
    port, (certificate, key) = free_port(), site.authority.certify("old")
    command = ["openssl", "s_server", "-accept", f"127.0.0.1:{port}", "-cert", certificate, "-key", key, "-www"]
    command += [f"-tls{version.replace('.', '_').removesuffix('_0')}", "-cipher", "DEFAULT@SECLEVEL=0"]
    with logged(site.folder, "s_server", command):
        asked = lambda: site.status("/", *OLD, "--tlsv1.0", "--tls-max", version, port=port) == 200  # noqa: E731
        until("a server of old", asked)


@pytest.mark.parametrize("version", ["1.2", "1.3"])
def test_new_versions_of_tls_are_spoken(site, version):
    assert site.status(HEALTH, f"--tlsv{version}", "--tls-max", version) == 200


def test_a_certificate_of_somebody_else_is_noticed_by_curl(site):
    other = Authority(site.folder, "other")
    answer = curl(other, f"{site.gateway.url}{HEALTH}")
    assert answer.status == 0 and "certificate" in answer.error, answer


def served(site):
    """The certificate that a stranger is shown."""
    command = ["openssl", "s_client", "-connect", f"127.0.0.1:{site.gateway.port}", "-servername", "localhost"]
    shown = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True).stdout
    begin, end = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
    return begin + shown.partition(begin)[2].partition(end)[0] + end


def test_a_renewed_certificate_is_served_without_a_restart_or_a_signal(site):
    """As cert-manager leaves it; the gateway looks once a minute."""
    before = served(site)
    certificate, _ = site.authority.certify("http")
    assert certificate.read_text().strip() != before
    until("the new certificate", lambda: served(site) == certificate.read_text().strip())
    assert site.status(PAGE, *bearer(site.tokens["viewer"])) == 200
    assert site.gateway.process.poll() is None and site.gateway.log().count("INFO starting") == 1


def test_no_token_or_password_is_in_the_log(site):
    site.status(PAGE, *bearer("dream_" + "0" * 64))
    said = site.gateway.log()
    assert "refused to log somebody in over HTTP" in said, said
    for secret in (*site.tokens.values(), PASSWORD, "correct horse", "0" * 64):
        assert secret not in said, secret
