"""Runs relay and executor in one process: what sends orders to brokers. No caller reaches it."""

from openbell_server.processes import executor, relay
from openbell_server.processes.lifecycle import together

serve = together(relay.serve, executor.serve)
