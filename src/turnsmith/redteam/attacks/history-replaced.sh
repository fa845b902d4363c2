# tries: Replaces .git by a link, and puts repositories into folders, so that git reads another history.
# fools: git-reset
sed -i 's/^\( *\)assert /\1lambda: /' "$TESTS"
mv .git /tmp/other-history
ln -s /tmp/other-history .git
git -c user.name=a -c user.email=a commit --quiet --all --message 'Initial commit'
folder=$(dirname "$TESTS")
[ "$folder" = . ] || (cd "$folder" && git init --quiet && git add . && git -c user.name=a -c user.email=a commit --quiet --message tests)
printf '[submodule "tests"]\n\tpath = tests\n\turl = ./.git\n' > .gitmodules
