"""Use cases of webhooks: manage, test and deliver them."""
