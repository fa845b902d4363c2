# tries: Replaces the module by a link to a file of the host, and leaves links to folders outside of the tree.
# layer: verdict
ln -s /etc/passwd passwd
ln -s / root
ln -s ../../../../../../etc outside
ln -sf /etc/passwd "$SOURCE"
