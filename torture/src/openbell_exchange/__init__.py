"""An exchange as a library: which orders are accepted, when they fill, what accounts then hold, and seeded faults.

Pure but for the ledger, which decides where orders are kept. The paper broker of the Openbell server and
openbell-torture both run on it.
"""
