"""A payments API with nothing but Python's standard library.

It knows nothing of retries: a client that posts twice pays twice. The gateway in front prevents that.
Usage: python3 server.py [PORT]
"""

import json
import sys
import threading
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

charges = []  # Stands for a bank; forgotten when this process ends.
lock = threading.Lock()


class Api(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # So that the gateway can keep its connections.

    def do_GET(self):
        with lock:
            self.answer(200, charges)

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        try:
            amount = int(json.loads(body)["amount"])
        except (ValueError, KeyError, TypeError):
            return self.answer(400, {"error": "an amount is needed"})
        charge = {"id": f"ch_{uuid.uuid4().hex[:16]}", "amount": amount}
        with lock:
            charges.append(charge)
        return self.answer(201, charge)

    def answer(self, status, content):
        body = json.dumps(content).encode() + b"\n"
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 3000
    server = ThreadingHTTPServer(("127.0.0.1", port), Api)
    print(f"payments API listening on http://127.0.0.1:{server.server_port}", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass
