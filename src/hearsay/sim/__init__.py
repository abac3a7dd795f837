"""The simulator: scenarios, links, faults, and engines that run the routers of `hearsay.core`."""
