"""The executor: takes queued actions through the door to their broker and follows their orders."""
