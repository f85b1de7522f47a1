"""As much of Kubernetes' API as helm needs: an API server's manners, a dictionary behind them, and nothing that runs."""

import contextlib
import http.server
import json
import threading
import urllib.parse

import yaml
from release_records import MEDIA_TYPE, ReleaseRecords

# Group and version, kind and path of what helm deals with.
KINDS = {
    "v1": {
        "ConfigMap": "configmaps",
        "Pod": "pods",
        "Secret": "secrets",
        "Service": "services",
        "ServiceAccount": "serviceaccounts",
    },
    "apps/v1": {"Deployment": "deployments", "StatefulSet": "statefulsets"},
    "batch/v1": {"Job": "jobs"},
    "cert-manager.io/v1": {"Certificate": "certificates"},
    "external-secrets.io/v1": {"ExternalSecret": "externalsecrets"},
    "monitoring.coreos.com/v1": {"PrometheusRule": "prometheusrules", "ServiceMonitor": "servicemonitors"},
    "networking.k8s.io/v1": {"NetworkPolicy": "networkpolicies"},
    "policy/v1": {"PodDisruptionBudget": "poddisruptionbudgets"},
}

# Of the specification of a StatefulSet, what may change; and what Kubernetes says otherwise.
MUTABLE = {"replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit", "minReadySeconds"}
MUTABLE |= {"persistentVolumeClaimRetentionPolicy"}
FORBIDDEN = (
    'StatefulSet.apps "{}" is invalid: spec: Forbidden: updates to statefulset spec for fields other than \'replicas\', '
    "'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and "
    "'minReadySeconds' are forbidden"
)


def root(version):
    return f"/api/{version}" if version == "v1" else f"/apis/{version}"


def resources(version):
    verbs = ["create", "delete", "get", "list", "patch", "update", "watch"]
    found = [{"name": path, "kind": kind, "namespaced": True, "verbs": verbs} for kind, path in KINDS[version].items()]
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": found}


def groups():
    found = []
    for version in KINDS:
        if version != "v1":
            served = {"groupVersion": version, "version": "v1"}
            found.append({"name": version.split("/")[0], "versions": [served], "preferredVersion": served})
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": found}


def openapi(version):
    """Says that the server validates fields itself, so that helm need not."""
    group, _, name = version.rpartition("/")
    patches = {}
    for kind, path in KINDS[version].items():
        patch = {"parameters": [{"name": "fieldValidation", "in": "query"}]}
        patch["x-kubernetes-group-version-kind"] = {"group": group, "version": name, "kind": kind}
        patches[f"{root(version)}/namespaces/{{namespace}}/{path}/{{name}}"] = {"patch": patch}
    return {"openapi": "3.0.0", "info": {"title": "Kubernetes", "version": "1.35"}, "paths": patches}


def discovery():
    """What there is to ask for, by its path."""
    specifications = {f"/openapi/v3{root(version)}": openapi(version) for version in KINDS}
    places = {path.removeprefix("/openapi/v3/"): {"serverRelativeURL": path} for path in specifications}
    return {
        **specifications,
        "/openapi/v3": {"paths": places},
        "/version": {"major": "1", "minor": "35", "gitVersion": "v1.35.0"},
        "/api": {"kind": "APIVersions", "versions": ["v1"]},
        "/apis": groups(),
        **{root(version): resources(version) for version in KINDS},
    }


def merged(old, new):
    """A merge patch; lists are replaced, which is enough for what the chart renders."""
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return new
    both = {**old, **{key: merged(old.get(key), value) for key, value in new.items()}}
    return {key: value for key, value in both.items() if value is not None}


def selected(each, query):
    """Whether the selectors of a query choose an object. They may say `=` of labels and of the name."""
    labels = each["metadata"].get("labels", {})
    wanted = [term.split("=", 1) for term in query.get("labelSelector", [""])[0].split(",") if "=" in term]
    fields = [term.split("=", 1) for term in query.get("fieldSelector", [""])[0].split(",") if "=" in term]
    return all(labels.get(key) == value for key, value in wanted) and all(
        each["metadata"]["name"] == value for key, value in fields if key == "metadata.name"
    )


class Cluster:
    """Objects by their path. `job_condition` is what becomes of a job as soon as it is made: Complete or Failed."""

    def __init__(self, *objects, job_condition="Complete"):
        self.objects, self.logs, self.asked, self.job_condition = {}, {}, [], job_condition
        self.records, self.closed = ReleaseRecords(), threading.Event()
        for each in objects:
            self.add(self.folder(each), each)

    @staticmethod
    def folder(each):
        path = KINDS[each["apiVersion"]][each["kind"]]
        return f"{root(each['apiVersion'])}/namespaces/{each['metadata']['namespace']}/{path}"

    def add(self, folder, each):
        each["metadata"].setdefault("uid", f"uid-{len(self.asked)}")
        each["metadata"]["resourceVersion"] = str(len(self.asked) + 1)
        if each["kind"] == "Job":
            each["status"] = {"conditions": [{"type": self.job_condition, "status": "True", "reason": "BackoffLimitExceeded"}]}
            self.add_pod(each)
        self.objects[f"{folder}/{each['metadata']['name']}"] = each
        return each

    def add_pod(self, job):
        """The pod of a job, with a log."""
        pod = {"apiVersion": "v1", "kind": "Pod", "spec": job["spec"]["template"]["spec"]}
        labels = {"job-name": job["metadata"]["name"]}
        pod["metadata"] = {"name": job["metadata"]["name"], "namespace": job["metadata"]["namespace"], "labels": labels}
        self.add(self.folder(pod), pod)
        self.logs[f"{self.folder(pod)}/{pod['metadata']['name']}"] = "what the container said"

    def change(self, folder, name, changed):
        """What replaces an object, if Kubernetes allows it."""
        old = self.objects.get(f"{folder}/{name}")
        if old and changed["kind"] == "StatefulSet":
            kept = [{key: value for key, value in each["spec"].items() if key not in MUTABLE} for each in (old, changed)]
            if kept[0] != kept[1]:
                return 422, self.status("Invalid", 422) | {"message": FORBIDDEN.format(name)}
        return 200, self.add(folder, changed)

    def find(self, kind, name):
        """The object of a kind and a name, or None."""
        found = [each for each in self.objects.values() if (each["kind"], each["metadata"]["name"]) == (kind, name)]
        return found[0] if found else None

    def answer(self, method, path, query, body):
        """The status and the object of an answer."""
        self.asked.append(f"{method} {path}")
        folder, name = path.rsplit("/", 1)
        if path in (fixed := discovery()):
            return 200, fixed[path]
        if folder in self.logs and name == "log":
            return 200, self.logs[folder]
        if method == "POST" and f"{path}/{body['metadata']['name']}" not in self.objects:
            return 201, self.add(path, body)
        if method == "POST":
            return 409, self.status("AlreadyExists", 409)
        if method == "PATCH" and (path in self.objects or query.get("fieldManager")):
            return self.change(folder, name, merged(self.objects.get(path, {}), body))
        if method == "PUT":
            return self.change(folder, name, body)
        if path in self.objects:
            return 200, self.objects.pop(path) if method == "DELETE" else self.objects[path]
        for version, kinds in KINDS.items():
            for kind, plural in kinds.items():
                if method == "GET" and path.startswith(root(version) + "/") and name == plural:
                    found = [each for at, each in self.objects.items() if at.rsplit("/", 1)[0] == path]
                    found = [each for each in found if selected(each, query)]
                    meta = {"resourceVersion": str(len(self.asked))}
                    return 200, {"kind": f"{kind}List", "apiVersion": version, "metadata": meta, "items": found}
        return 404, self.status("NotFound", 404)

    @staticmethod
    def status(reason, code):
        return {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": code}


@contextlib.contextmanager
def serving(cluster):
    """The address of a server that has the objects of a cluster."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def answer(self):
            url = urllib.parse.urlparse(self.path)
            query = urllib.parse.parse_qs(url.query)
            sent = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if "sendInitialEvents" in query:
                # Lists come as lists; a client that would rather watch them asks again.
                self.send(422, json.dumps(cluster.status("Invalid", 422)).encode())
            elif "watch" in query:
                # Nothing changes by itself: a watcher has seen everything in the list before.
                self.send(200, b"", length=False)
                cluster.closed.wait()
            elif "/secrets" in url.path:
                self.record(url.path.partition("/secrets")[2].strip("/"), sent)
            else:
                code, found = cluster.answer(self.command, url.path, query, yaml.safe_load(sent) if sent else None)
                self.send(code, json.dumps(found).encode())

        def record(self, name, sent):
            found = cluster.records.put(sent) if sent else cluster.records.get(name) if name else cluster.records.list()
            if found:
                self.send(200, found, MEDIA_TYPE)
            else:
                self.send(404, json.dumps(cluster.status("NotFound", 404)).encode())

        def send(self, code, content, kind="application/json", length=True):
            self.send_response(code)
            self.send_header("Content-Type", kind)
            if length:
                self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer

        def log_message(self, *args):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            cluster.closed.set()
            server.shutdown()
