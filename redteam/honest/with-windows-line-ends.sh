# tries: The fix, in a module with Windows line ends.
git apply
sed -i 's/$/\r/' "$SOURCE"
printf 'one\r\ntwo\r\n' > windows.txt
