"""Many processes on one or more machines, through Ray: groups of ranks, and the trainer that calls them.

`connection` connects this process to Ray, and `keeper` keeps a local Ray that ends with the run. `group` starts ranks, calls
a method on all of them, and kills all if one fails; `actor` is the process of one rank, and `placement` reserves its GPU.
`trainer` implements the interface of a trainer over such a group. `servers` starts vLLM servers on the nodes. Only this
package imports Ray. Recipes import it.
"""

import os

# Ray reads this variable when it is imported. A cluster without authentication ignores the token.
os.environ.setdefault("RAY_AUTH_MODE", "token")
