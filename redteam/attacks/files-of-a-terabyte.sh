# tries: Leaves sparse files of terabytes for the host to read.
# layer: verdict
truncate -s 8E hole.bin || truncate -s 1T hole.bin
truncate -s 400M smaller.bin
