"""As much of Kubernetes' API as helm needs to look objects up: an API server's manners, and a dictionary behind them."""

import contextlib
import http.server
import json
import threading

# Group and version, kind and path of what helm deals with.
KINDS = {
    "v1": {"ConfigMap": "configmaps", "Secret": "secrets", "Service": "services", "ServiceAccount": "serviceaccounts"},
    "apps/v1": {"StatefulSet": "statefulsets"},
    "batch/v1": {"Job": "jobs"},
    "networking.k8s.io/v1": {"NetworkPolicy": "networkpolicies"},
    "policy/v1": {"PodDisruptionBudget": "poddisruptionbudgets"},
}


def place(version):
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


def discovery():
    """What there is to ask for, by its path."""
    return {
        "/version": {"major": "1", "minor": "35", "gitVersion": "v1.35.0"},
        "/api": {"kind": "APIVersions", "versions": ["v1"]},
        "/apis": groups(),
        **{place(version): resources(version) for version in KINDS},
    }


@contextlib.contextmanager
def serving(*objects):
    """The address of a server that has these objects, and the list of what it is asked."""
    answers, asked = discovery(), []
    for each in objects:
        meta = each["metadata"]
        folder = f"{place(each['apiVersion'])}/namespaces/{meta['namespace']}/{KINDS[each['apiVersion']][each['kind']]}"
        answers[f"{folder}/{meta['name']}"] = each

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            path = self.path.split("?")[0]
            asked.append(path)
            missing = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}
            body = json.dumps(answers.get(path, missing)).encode()
            self.send_response(200 if path in answers else 404)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", asked
        server.shutdown()
