"""Why a node got a message when it did: the path of the first copy, what each step cost, and who never got it."""
