# What the README shows of Python, and a mount.

folder=$(mktemp -d)
cd "$folder"
mkdir -p app/docs
echo hello > app/docs/README.md
/srv/venv/bin/python - <<END
import verimount

digest = verimount.build("app", "app.img").digest
image = verimount.Image("app.img", digest=digest)
assert image.read_text("docs/README.md") == "hello\n"
with verimount.mount("app.img", digest=digest) as mounted:
    assert (mounted / "docs" / "README.md").read_text() == "hello\n"
END
cd /
rm -r "$folder"
