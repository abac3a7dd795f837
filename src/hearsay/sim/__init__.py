"""The simulator: scenarios, links, faults and the engines that drive the very routers of `hearsay.core`."""
