"""One module per part of `HostFacts`: each asks the source and hands the texts to `host.parse`."""
