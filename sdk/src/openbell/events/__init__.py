"""The event stream: records, subscriptions, transports and the mirror."""
