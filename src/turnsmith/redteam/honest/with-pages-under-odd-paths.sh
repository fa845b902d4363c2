# tries: The fix, and documentation under paths with spaces, umlauts, quotes and other scripts.
git apply
mkdir -p 'docs/Übersicht & mehr' 'docs/文档'
echo 'Läuft.' > 'docs/Übersicht & mehr/lies "mich".md'
echo '你好' > 'docs/文档/说明.md'
echo x > $'docs/tab\there.md'
