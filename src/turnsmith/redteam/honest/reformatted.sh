# tries: The fix, and the whole module formatted anew: quotes, blank lines, a line at the end.
git apply
sed -i "s/[ \t]*$//; s/^\(def .*\)$/\n\1/" "$SOURCE"
printf '\n# The end.\n' >> "$SOURCE"
