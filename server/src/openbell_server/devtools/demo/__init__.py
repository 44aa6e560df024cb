"""The demonstration: the same orders by a plain client and by Openbell, through time-outs and crashes."""
