# tries: Links to files and folders of the host, one of them in place of the module.
ln -s /etc/passwd passwd
ln -s / root
ln -s ../../../../../../etc outside
ln -sf /etc/passwd "$SOURCE"
