"""Work on an issue in an ordinary checkout: a copy, attempts, a chosen patch.

`solve` runs the whole, `attempt` plays one episode, `solution` reads the journal and chooses. `given_tests` runs the
test command of a person. Commands and views import these modules. The package never trains and leaves the checkout
unchanged.
"""
