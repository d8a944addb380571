# Runs in a machine whose first process is systemd, which has started verimount@boot.

step() { echo "== $*"; }
# Waits for what happens soon.
soon() {
    for _ in $(seq 100); do
        if "$@" 2> /dev/null; then return 0; fi
        sleep 0.2
    done
    echo "never: $*"; return 1
}
# Runs a program as a service with a user and a mount namespace of its own.
elsewhere() {
    systemd-run --quiet --wait --pipe --property=DynamicUser=yes --property=ProtectSystem=strict \
        --property=PrivateTmp=yes --property=PrivateDevices=yes "$@"
}
serves() { cmp -s /srv/tree/data "$1/data"; }
is_mounted() { grep -q " $1 fuse" /proc/mounts; }
is_gone() { ! is_mounted "$1"; }

step 'started with the machine, and read by another service'
systemctl is-active verimount@boot
elsewhere cmp /srv/tree/data /mnt/boot/data
elsewhere diff -r /srv/tree /mnt/boot
verimount status --all
step 'a mismatch is an error in the journal'
systemctl start verimount@bad
if elsewhere cat /mnt/bad/data > /dev/null; then
    echo 'wrong bytes were handed out'; exit 1
fi
is_told() { journalctl --quiet --unit verimount@bad --priority err --output cat | grep 'block does not match'; }
soon is_told
systemctl stop verimount@bad
step 'reload: a bridge obeys its new policy'
echo secret > /srv/source/key
: > /etc/verimount/policy.toml
systemctl start verimount@bridge
elsewhere cat /mnt/bridge/key
echo 'default = "deny"' > /etc/verimount/policy.toml
systemctl reload verimount@bridge
is_denied() { ! cat /mnt/bridge/key > /dev/null; }
soon is_denied
systemctl stop verimount@bridge
step 'killed: it is there again'
before=$(systemctl show --value --property MainPID verimount@boot)
systemctl kill --signal KILL verimount@boot
is_another() { test "$(systemctl show --value --property MainPID verimount@boot)" -gt 0 -a \
    "$(systemctl show --value --property MainPID verimount@boot)" != "$before"; }
soon is_another
soon serves /mnt/boot
elsewhere cmp /srv/tree/data /mnt/boot/data
test "$(grep -c ' /mnt/boot fuse' /proc/mounts)" = 1
step 'restart and stop'
systemctl restart verimount@boot
serves /mnt/boot
systemctl stop verimount@boot
if is_mounted /mnt/boot; then echo 'still mounted'; exit 1; fi
systemctl start verimount@boot
step 'an upgrade leaves it as it is'
before=$(systemctl show --value --property MainPID verimount@boot)
dpkg --install /given/verimount.deb > /dev/null
test "$(systemctl show --value --property MainPID verimount@boot)" = "$before"
serves /mnt/boot
verimount status /mnt/boot | grep mismatches
step 'a mount unit by fstab'
systemctl start mnt-fstab.mount
elsewhere cmp /srv/tree/data /mnt/fstab/data
systemctl stop mnt-fstab.mount
if is_mounted /mnt/fstab; then echo 'still mounted'; exit 1; fi
for kind in image bridge volume; do
    step "$kind: mounted when somebody looks, unmounted when nobody does"
    systemctl start mnt-auto-$kind.automount
    for _ in 1 2 3 4 5; do
        test -n "$(ls /mnt/auto/$kind)"
        is_mounted /mnt/auto/$kind
        soon is_gone /mnt/auto/$kind
    done
    systemctl stop mnt-auto-$kind.automount
done
step 'an NBD export, started by its first client'
systemctl start verimount-nbd@disk.socket
if systemctl is-active verimount-nbd@disk.service; then exit 1; fi
test "$(nbdinfo --size 'nbd+unix:///?socket=/run/verimount/disk.nbd')" = "$(cat /srv/disk.size)"
systemctl is-active verimount-nbd@disk.service
systemctl stop verimount-nbd@disk.socket verimount-nbd@disk.service
step 'the units'
systemd-analyze verify verimount@boot.service verimount-nbd@disk.socket
test -z "$(systemctl --failed --quiet --no-legend 'verimount*')"
# It is still running when the machine is turned off.
systemctl is-active verimount@boot
echo 'ALL CHECKED'
