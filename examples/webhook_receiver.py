"""Receives events as webhooks: verifies each signature, processes each event once, and confirms it afterwards.

    python examples/webhook_receiver.py --port 9000

It creates the webhook and deletes it at the end. A real receiver has an https address, gets the secret when the webhook
is created, and stores the ids of processed events in a database.
"""

import argparse
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from openbell import Client
from openbell.webhooks import InvalidSignature, verify

BODY_BYTES_MAX = 1 << 20


class Receiver(ThreadingHTTPServer):
    """An HTTP server that remembers which events it has processed."""

    def __init__(self, port: int) -> None:
        super().__init__(("127.0.0.1", port), Delivery)
        self.secret = ""
        self.seen: set[str] = set()
        # A repeated delivery waits until the first one is processed.
        self.taking = threading.Lock()

    def take(self, event: dict[str, Any]) -> None:
        """Replace this with what your program does with an event."""
        print(event["type"], event.get("account_seq", ""), json.dumps(event), flush=True)


class Delivery(BaseHTTPRequestHandler):
    """One request from the platform."""

    server: Receiver

    def do_POST(self) -> None:
        """Answer 204 if the event is processed, now or before, and 400 if the signature is wrong."""
        length = int(self.headers.get("content-length", "0"))
        body = self.rfile.read(length) if length <= BODY_BYTES_MAX else b""
        try:
            verify(self.server.secret, dict(self.headers), body)
        except InvalidSignature as wrong:
            self.send_error(400, str(wrong))
            return
        message_id = self.headers["webhook-id"]
        with self.server.taking:
            if message_id not in self.server.seen:
                self.server.take(json.loads(body))
                self.server.seen.add(message_id)
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Do not log each request."""


def run(client: Client, port: int) -> None:
    """Create a webhook, and receive events until Ctrl-C."""
    with Receiver(port) as receiver:
        url = f"http://127.0.0.1:{receiver.server_port}/"
        webhook = client.webhooks.create(url, ["BROKER_ORDER", "BROKER_TRADE"], description="example receiver")
        assert webhook.secret is not None, "a new webhook has its secret"
        receiver.secret = webhook.secret
        print("listening at", url, "and waiting for events; Ctrl-C ends it", flush=True)
        try:
            receiver.serve_forever()
        except KeyboardInterrupt:
            print("removing the webhook", flush=True)
        finally:
            client.webhooks.delete(webhook.id)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=9000)
    with Client() as connected:
        run(connected, parser.parse_args().port)
