"""The simulator: scenarios, models of links and faults, and two engines that run the routers of `hearsay.core`.

Words of this package:

* A *scenario* describes a run. Its *plan* has all decisions that precede the run. An *engine* carries out the plan.
* The *reference engine* runs the routers themselves. The *array engine* runs their rules, compiled to *kernels* over
  arrays of all nodes.
* A *figure* is a number about a run, such as its deliveries.
* The *script* is a sender outside the network, which has the number after that of the last node. It *injects* a
  message: it sends the message to some nodes, which publish it.
"""
