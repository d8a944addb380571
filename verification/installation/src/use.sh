# What the README shows: an image of a tree is made, mounted, damaged and checked.

folder=$(mktemp -d)
cd "$folder"
mkdir -p tree/doc mnt
cp /usr/share/common-licenses/* tree/doc
head -c 3000000 /dev/urandom > tree/data
digest=$(verimount build tree app.img | cut -d" " -f1)
verimount mount app.img mnt --digest "$digest"
diff -r tree mnt
verimount status mnt | grep -q 'mismatches *0'
verimount umount mnt
cp app.img bad.img
# One byte in the middle is changed.
old=$(dd if=bad.img bs=1 skip=1500000 count=1 2> /dev/null | od -An -tu1)
printf "$(printf '\\%03o' $(( (old + 1) % 256 )))" | dd of=bad.img bs=1 seek=1500000 conv=notrunc 2> /dev/null
if verimount verify bad.img --digest "$digest" > found; then
    echo 'the damage was not found'; exit 1
fi
grep -q 'in data' found
verimount mount bad.img mnt --digest "$digest"
if cat mnt/data > /dev/null 2> error; then
    echo 'wrong bytes were handed out'; exit 1
fi
grep -q 'Input/output error' error
verimount umount mnt
if [ "$(id -u)" = 0 ]; then
    # fstab
    mkdir /mnt/app
    echo "$folder/app.img /mnt/app fuse.verimount digest=$digest,allow_other 0 0" >> /etc/fstab
    mount /mnt/app
    diff -r tree /mnt/app
    umount /mnt/app
    rmdir /mnt/app
    sed -i '\,/mnt/app,d' /etc/fstab
fi
cd /
rm -r "$folder"
