# tries: Adds more text than a patch may hold, so that what is graded is cut.
head -c 12000000 /dev/urandom | base64 > large.txt
echo 'import os; os._exit(0)' >> "$SOURCE"
