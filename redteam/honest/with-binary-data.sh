# tries: The fix, and binary files.
git apply
head -c 70000 /dev/urandom > data.bin
printf '\x89PNG\r\n\x1a\n\0\0\0\rIHDR' > picture.png
gzip -c "$SOURCE" > "$(dirname "$SOURCE")/copy.gz"
