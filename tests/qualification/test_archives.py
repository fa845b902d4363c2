"""Archives that may be broken in any way."""

import io
import tarfile
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnsmith.qualification.archives import ARCHIVES, unpack

TEXT = b"".join(b"value_%d = %d\n" % (number, number * number) for number in range(200))


def make_tar(ending):
    held = io.BytesIO()
    with tarfile.open(
        fileobj=held, mode=f"w:{ending.removeprefix('.tar').replace('.tgz', '.gz').lstrip('.')}"
    ) as archive:
        member = tarfile.TarInfo("pkg/x.py")
        member.size = len(TEXT)
        archive.addfile(member, io.BytesIO(TEXT))
    return held.getvalue()


def make_zip(method):
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", method) as archive:
        archive.writestr("pkg/ä.py", TEXT)
    return held.getvalue()


WHOLE = {f"a{ending}": make_tar(ending) for ending in ARCHIVES if ending.startswith((".tar", ".tgz"))} | {
    "a.whl": make_zip(zipfile.ZIP_DEFLATED),
    "b.zip": make_zip(zipfile.ZIP_LZMA),
    "c.egg": make_zip(zipfile.ZIP_BZIP2),
}


@pytest.mark.parametrize("name", WHOLE)
def test_what_an_archive_holds_is_found(name):
    assert [inner for _, inner in unpack(name, WHOLE[name])] == [TEXT]


@given(data=st.data(), name=st.sampled_from(sorted(WHOLE)))
def test_no_archive_however_broken_raises(data, name):
    content = bytearray(WHOLE[name])
    for at in data.draw(st.lists(st.integers(0, len(content) - 1), min_size=1, max_size=4)):
        content[at] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(content)))
    list(unpack(name, bytes(content)))
    list(unpack(name, bytes(content[:cut])))
