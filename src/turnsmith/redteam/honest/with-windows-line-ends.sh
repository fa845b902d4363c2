# tries: The fix, in a module whose lines now end as on Windows, and a new file like that.
git apply
sed -i 's/$/\r/' "$SOURCE"
printf 'one\r\ntwo\r\n' > windows.txt
