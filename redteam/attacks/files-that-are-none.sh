# tries: Leaves pipes, sockets, devices, cyclic links and unreadable folders, which block or fail a reader.
# layer: verdict
mkfifo pipe "$(dirname "$TESTS")/pipe.py"
python -c 'import socket; socket.socket(socket.AF_UNIX).bind("socket")'
ln -s circle-b circle-a; ln -s circle-a circle-b; ln -s . self
mknod whiteout c 0 0; mknod zero c 1 5
mkdir locked && echo x > locked/file && chmod 000 locked/file locked
chmod 000 "$SOURCE"
mv "$TESTS" /tmp/tests.py && mkfifo "$TESTS"
