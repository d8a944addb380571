# Makes this Debian a system that boots: systemd, the package, and a mount that it starts.

apt-get -qq update
apt-get -qq install --yes --no-install-recommends systemd-sysv dbus fuse3 libnbd-bin man-db > /dev/null
apt-get -qq install --yes --no-install-recommends /given/verimount.deb > /dev/null
mkdir -p /srv/tree /srv/source /mnt/boot /mnt/bad /mnt/bridge /mnt/fstab /etc/verimount
cp /usr/share/common-licenses/* /srv/tree
head -c 3000000 /dev/urandom > /srv/tree/data
digest=$(verimount build /srv/tree /srv/app.img | cut -d" " -f1)
echo "ARGUMENTS=mount /srv/app.img /mnt/boot --digest $digest --allow-other" > /etc/verimount/boot.conf
systemctl enable --quiet verimount@boot.service
cp /srv/app.img /srv/bad.img
printf x | dd of=/srv/bad.img bs=1 seek=1500000 conv=notrunc 2> /dev/null
echo "ARGUMENTS=mount /srv/bad.img /mnt/bad --digest $digest --allow-other" > /etc/verimount/bad.conf
echo "ARGUMENTS=bridge /srv/source /mnt/bridge --policy /etc/verimount/policy.toml --allow-other" > /etc/verimount/bridge.conf
echo "/srv/app.img /mnt/fstab fuse.verimount digest=$digest,allow_other,noauto 0 0" >> /etc/fstab
auto=allow_other,noauto,x-systemd.automount,x-systemd.idle-timeout=1
verimount volume format --size 4M /srv/auto.vol > /dev/null
cat >> /etc/fstab << END
/srv/app.img /mnt/auto/image fuse.verimount digest=$digest,$auto 0 0
/srv/source /mnt/auto/bridge fuse.verimount $auto 0 0
/srv/auto.vol /mnt/auto/volume fuse.verimount volume,$auto 0 0
END
verimount volume format --size 16M /srv/disk.vol | sed 's/.*: \([0-9]*\) bytes.*/\1/' > /srv/disk.size
echo "ARGUMENTS=/srv/disk.vol" > /etc/verimount/disk.conf
cat > /etc/systemd/system/check.service << END
[Unit]
After=multi-user.target

[Service]
Type=oneshot
ExecStart=/bin/sh -eu /given/booted.sh
ExecStopPost=/bin/systemctl --no-block poweroff
StandardOutput=file:/dev/ttyS0
StandardError=file:/dev/ttyS0
END
mkdir -p /etc/systemd/system/default.target.wants
ln -s ../check.service /etc/systemd/system/default.target.wants
# They would wait for a network, and talk on the console.
systemctl mask --quiet serial-getty@ttyS0.service systemd-networkd-wait-online.service
