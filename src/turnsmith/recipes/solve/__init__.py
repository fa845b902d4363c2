"""Work on an issue of a git checkout: copies the checkout, makes attempts, and chooses a patch.

`solve` makes the attempts, `attempt` runs one episode, `solution` chooses the best attempt. `given_tests` runs the
user's test command. Commands and views import these modules. The package never trains and leaves the checkout
unchanged.
"""
