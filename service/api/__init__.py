"""The HTTP API: what comes in, what goes out, who may."""
