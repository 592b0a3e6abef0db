mkfs.segno -q -f -l plain /dev/vda
mkfs.segno -q -f -l journal --journal 16M /dev/vdb
fsck_all
mount -a -t segno
grep -c 'fuse.segno' /proc/mounts
# Until the power fails: files are synced one by one and acknowledged; others are not synced.
i=0
while :; do
    i=$((i + 1))
    for dir in /mnt/plain /mnt/journal; do
        echo "$dir $i" >$dir/$i
        echo "unsynced $i" >$dir/unsynced-$i
        sync $dir/$i
        echo "synced $dir $i"
    done
    [ $i -ne 50 ] || echo "boot: cut"
done
