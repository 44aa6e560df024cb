"""The console: signing in, and its sessions."""
