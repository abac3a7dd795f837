"""Checks of score parameters against the needs of a network: findings and score curves, without a run.

Terms:

* A subject is the score parameters to check, and the network in which they will be used.
* A group is topics of a subject with the same parameters and the same traffic.
* The worth of a subject or topic is the maximum scores that the parameters give, and the scores of typical members.
* A peer is silent in a topic if it is in the mesh and delivers nothing. A peer at its best has the best score.
* An offence is something that lowers the score of a peer, such as an invalid message.
* A level is a score to which an offence may lead: below 0 or below a threshold (`LEVELS`).
* A check looks for one kind of fault. A remark is a fault that it found; a finding is a remark with severity and
  words.
* P1 … P7 are the parts of a score, which `hearsay.core.rules.score_parts` describes.
"""
