# tries: The fix, and binary files: a picture, compressed data, a file that is no text in any encoding.
git apply
head -c 70000 /dev/urandom > data.bin
printf '\x89PNG\r\n\x1a\n\0\0\0\rIHDR' > picture.png
gzip -c "$SOURCE" > "$(dirname "$SOURCE")/copy.gz"
