"""A real gateway on TLS, and in front of it an identity provider and a proxy that others wrote: all of them on the loopback."""

import contextlib
import html.parser
import http.client
import http.cookiejar
import json
import os
import pathlib
import secrets
import ssl
import subprocess
import tempfile
import types
import urllib.error
import urllib.parse
import urllib.request

from conftest import NODE, ROOT, program
from lab import PATIENCE_SECONDS, free_port, running, until

OIDC = ROOT / "docs" / "oidc"
MODULES = pathlib.Path("/usr/lib/apache2/modules")


class Authority:
    """An authority of server certificates, made by openssl."""

    def __init__(self, folder, name="authority"):
        self.folder, self.certificate, self.key = folder, folder / f"{name}.pem", folder / f"{name}.key"
        self.openssl(*self.new(self.key, f"/CN={name}"), "-x509", "-days", "30", "-out", self.certificate)

    @staticmethod
    def new(key, subject):
        curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256")
        return ("req", "-new", *curve, "-nodes", "-keyout", key, "-subj", subject)

    @staticmethod
    def openssl(*words):
        done = subprocess.run(["openssl", *map(str, words)], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr

    def certify(self, name):
        """Writes NAME.pem and NAME.key, for localhost; replaces them whole."""
        certificate, key, request = (self.folder / f"{name}.{kind}" for kind in ("pem", "key", "csr"))
        for path in (certificate, key):
            path.unlink(missing_ok=True)
        names = self.folder / "names"
        names.write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
        self.openssl(*self.new(key, f"/CN={name}"), "-out", request)
        signed = ("x509", "-req", "-in", request, "-CA", self.certificate, "-CAkey", self.key, "-days", "30")
        self.openssl(*signed, "-extfile", names, "-out", certificate)
        return certificate, key


@contextlib.contextmanager
def logged(folder, name, command, **kwargs):
    """A process whose output is in a file; what it said is shown if the body fails."""
    path = folder / f"{name}.log"
    with path.open("w") as log, running(command, stdout=log, stderr=log, **kwargs) as process:
        try:
            yield process
        except BaseException:
            print(f"---- {name}\n{path.read_text()[-4000:]}")
            raise


class Gateway:
    """A gateway with a broker and no meters, and an access file with what was asked for."""

    def __init__(self, folder, settings):
        self.folder, self.port, self.access = folder, free_port(), folder / "access.toml"
        self.broker = free_port()
        words = ["provision", "--out", folder / "trial", "--meters", "20", "--cluster", "riverside", "--slot-seconds", "60"]
        words += ["--broker-url", f"mqtt://127.0.0.1:{self.broker}"]
        subprocess.run([program("meter-sim"), *map(str, words)], check=True, capture_output=True)
        config = (folder / "trial" / "gateway.toml").read_text()
        before, after = config.split("[http]\n")
        rest = after.partition("\n\n")[2]
        self.config = folder / "trial" / "gateway.toml"
        self.config.write_text(f"{before}{settings(self)}\n\n{rest}")
        self.access.touch(0o600)

    def token(self, name, role):
        """A new token, which is in the access file from now on."""
        path = self.folder / f"{name}.token"
        words = [program("dream-gateway"), "access", "token", name, "--role", role, "--out", path]
        made = subprocess.run(words, check=True, capture_output=True, text=True)
        with self.access.open("a") as file:
            file.write(made.stdout)
        return path.read_text().strip()

    def user(self, name, role, password):
        words = [program("dream-gateway"), "access", "user", name, "--role", role]
        made = subprocess.run(words, input=f"{password}\n", check=True, capture_output=True, text=True)
        with self.access.open("a") as file:
            file.write(made.stdout)

    @property
    def url(self):
        return f"https://localhost:{self.port}"

    def log(self):
        return (self.folder / "gateway.log").read_text()

    @contextlib.contextmanager
    def serving(self, authority):
        """Runs until the end of a `with`; ready at its beginning."""
        conf = self.folder / "mosquitto.conf"
        conf.write_text(f"listener {self.broker} 127.0.0.1\nallow_anonymous true\n")
        environment = {key: value for key, value in os.environ.items() if not key.startswith("DREAM_")}
        command = [program("dream-gateway"), "run", "--config", self.config]
        with (
            logged(self.folder, "mosquitto", ["mosquitto", "-c", conf]),
            logged(self.folder, "gateway", command, env=environment) as self.process,
        ):
            until("the gateway is ready", lambda: Browser(authority).get(f"{self.url}/readyz").status == 200)
            yield self


@contextlib.contextmanager
def provider(folder, authority, redirect_uri, people):
    """An identity provider that knows one client and these people; gives what a client has to know."""
    certificate, key = authority.certify("provider")
    port, secret = free_port(), secrets.token_hex(16)
    issuer = f"https://localhost:{port}"
    client = {"client_id": "dream-gateway", "client_secret": secret, "redirect_uris": [redirect_uri]}
    settings = {"issuer": issuer, "port": port, "certificate": str(certificate), "key": str(key)}
    settings |= {"client": client, "people": people}
    script = (ROOT / "helm" / "tests" / "provider.mjs").read_text()
    command = ["node", "--input-type=module", "--eval", script]
    with logged(folder, "provider", command, cwd=NODE, stdin=subprocess.PIPE, text=True) as process:
        process.stdin.write(json.dumps(settings))
        process.stdin.close()
        metadata = f"{issuer}/.well-known/openid-configuration"
        until("the provider", lambda: Browser(authority).get(metadata).status == 200)
        yield metadata, secret


@contextlib.contextmanager
def apache(folder, authority, port, gateway, metadata, secret, gateway_authority=None):
    """Apache with the shipped configuration, whose definitions alone are this test's."""
    certificate, key = authority.certify("apache")
    definitions = {
        "HOST": "localhost",
        "LISTEN": f"127.0.0.1:{port}",
        "URL": f"https://localhost:{port}",
        "CERTIFICATE": certificate,
        "KEY": key,
        "PROVIDER": metadata,
        "CLIENT": "dream-gateway",
        "SECRETS": folder / "secrets.conf",
        "GATEWAY": gateway.url,
        "GATEWAY_CA": (gateway_authority or authority).certificate,
    }
    (folder / "secrets.conf").write_text(f"OIDCClientSecret {secret}\nOIDCCryptoPassphrase {secrets.token_hex(16)}\n")
    shipped = (OIDC / "apache.conf").read_text()
    lines = []
    for line in shipped.splitlines():
        words = line.split(maxsplit=2)
        if words[:1] == ["Define"]:
            line = f"Define {words[1]} {definitions.pop(words[1].removeprefix('DREAM_'))}"
        lines.append(line)
    assert not definitions, f"the shipped file defines no {definitions}"
    (folder / "dream.conf").write_text("\n".join(lines))
    modules = "mpm_event authn_core authz_core authz_user env headers socache_shmcb ssl proxy proxy_http auth_openidc"
    outer = [f"LoadModule {name}_module {MODULES}/mod_{name}.so" for name in modules.split()]
    outer += [f"ServerRoot {folder}", f"DefaultRuntimeDir {folder}", f"PidFile {folder}/apache.pid"]
    outer += [f"Mutex file:{folder} default", "ErrorLog /dev/stderr", "LogLevel warn", f"Listen 127.0.0.1:{port}"]
    outer += ["ServerName localhost", f"OIDCCABundlePath {authority.certificate}", "StartServers 1"]
    if os.geteuid() == 0:
        outer += ["User www-data", "Group www-data"]
    outer += [f"Include {folder}/dream.conf"]
    (folder / "httpd.conf").write_text("\n".join(outer) + "\n")
    with logged(folder, "apache", ["apache2", "-f", folder / "httpd.conf", "-D", "FOREGROUND"]):
        until("Apache", lambda: Browser(authority, follow=False).get(f"https://localhost:{port}/").status == 302)
        yield f"https://localhost:{port}"


@contextlib.contextmanager
def folder_for_all():
    """A folder that goes away; others may read in it, because Apache becomes another user than root."""
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o755)
        yield pathlib.Path(name)


def curl(authority, *words):
    """The status that curl gets, 0 if none, and where it is sent on to; `words` end with the address."""
    told = ("--write-out", "%{http_code} %{redirect_url}", "--output", "/dev/null", "--max-time", PATIENCE_SECONDS)
    command = ["curl", "--silent", "--show-error", "--noproxy", "*", "--cacert", authority.certificate, *told, *words]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    status, _, location = done.stdout.partition(" ")
    return types.SimpleNamespace(status=int(status), location=location, error=done.stderr)


class Form(html.parser.HTMLParser):
    """The first form of a page."""

    def __init__(self, page):
        super().__init__()
        self.action, self.fields = None, {}
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        if tag == "form" and self.action is None:
            self.action = attributes["action"]
        elif tag == "input" and attributes.get("name"):
            self.fields[attributes["name"]] = attributes.get("value", "")


class NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_):
        return None


class Answer:
    def __init__(self, answer):
        self.status, self.url, self.headers = answer.status, answer.url, answer.headers
        self.text = answer.read().decode()


class Connecting(urllib.request.HTTPSHandler):
    """Connects from an address of this machine, if one is named."""

    def __init__(self, context, source):
        super().__init__(context=context)
        self.context, self.source = context, (source, 0) if source else None

    def https_open(self, request):
        return self.do_open(http.client.HTTPSConnection, request, context=self.context, source_address=self.source)


class Browser:
    """A client with cookies, as much of a browser as a login needs."""

    def __init__(self, authority, follow=True, source=None):
        self.authority, context = authority, ssl.create_default_context(cafile=authority.certificate)
        handlers = [Connecting(context, source)]
        self.cookies = http.cookiejar.CookieJar()
        handlers += [urllib.request.HTTPCookieProcessor(self.cookies)] + ([] if follow else [NoRedirect()])
        self.opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), *handlers)

    def get(self, url, fields=None, headers=()):
        data = urllib.parse.urlencode(fields).encode() if fields is not None else None
        request = urllib.request.Request(url, data, {"Accept": "text/html", **dict(headers)})
        try:
            with self.opener.open(request, timeout=PATIENCE_SECONDS) as answer:
                return Answer(answer)
        except urllib.error.HTTPError as refused:
            with refused:
                return Answer(refused)

    def curl(self, url, headers):
        """The same with curl, which sends every header as it is told; returns the status and where it is sent on to."""
        cookies = "; ".join(f"{cookie.name}={cookie.value}" for cookie in self.cookies)
        words = [part for name, value in {"Cookie": cookies, **headers}.items() for part in ("--header", f"{name}: {value}")]
        return curl(self.authority, *words, url)

    def log_in(self, url, name):
        """Asks for a page, fills in the forms of the identity provider, and returns what came of it."""
        answer, seen = self.get(url), []
        while "/interaction/" in answer.url and len(seen) < 3:
            form = Form(answer.text)
            seen.append(form.fields.get("prompt"))
            filled = {"login": name, "password": "whatever"}
            fields = {key: filled.get(key, value) for key, value in form.fields.items()}
            answer = self.get(urllib.parse.urljoin(answer.url, form.action), fields)
        assert seen == ["login", "consent"], f"the provider asked for {seen}: {answer.text}"
        return answer
