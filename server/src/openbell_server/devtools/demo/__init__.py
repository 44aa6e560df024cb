"""The demonstration: crashes and time-outs, then both ledgers side by side."""
