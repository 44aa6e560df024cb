"""The console's own server: signs users in, serves the pages, and forwards their calls to the api."""
