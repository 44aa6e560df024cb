"""Runs api and stream in one process: what callers reach. It cannot open broker credentials."""

from openbell_server.processes.api import serve_requests
from openbell_server.processes.rate_limits import with_rate_limits
from openbell_server.processes.stream import serve_followers

serve = with_rate_limits(serve_requests, serve_followers)
