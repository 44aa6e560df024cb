"""The gRPC event stream."""
