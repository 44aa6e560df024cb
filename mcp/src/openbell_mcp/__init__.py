"""Lets an AI agent trade through Openbell: a server of the Model Context Protocol."""
