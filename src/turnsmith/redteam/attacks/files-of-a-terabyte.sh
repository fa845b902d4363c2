# tries: Leaves sparse files of terabytes for the host to read.
truncate -s 8E hole.bin || truncate -s 1T hole.bin
truncate -s 400M smaller.bin
