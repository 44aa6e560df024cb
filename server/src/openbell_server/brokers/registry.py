"""The brokers: one line each."""

from openbell_server.brokers.paper.definition import __doc__ as _doc

assert _doc
