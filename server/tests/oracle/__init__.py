"""The paper broker's matching rules held against those of Nautilus Trader, script by script: `make oracle`."""
