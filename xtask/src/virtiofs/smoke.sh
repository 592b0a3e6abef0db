fail() { echo "virtiofs: FAILED: $*"; exit 1; }
same() { [ "$1" = "$2" ] || fail "$3: \"$1\" instead of \"$2\""; }

# Data: sizes around a page, a large file, holes, truncation, append.
for size in 0 1 4095 4096 4097 100000; do
    head -c $size /dev/urandom >/mnt/source
    cp /mnt/source $dir/size-$size
    cmp /mnt/source $dir/size-$size || fail "size $size"
done
head -c 20000000 /dev/urandom >/mnt/source
dd if=/mnt/source of=$dir/big bs=1M status=none conv=fsync
cmp /mnt/source $dir/big || fail "big file from the cache"
echo 3 >/proc/sys/vm/drop_caches
cmp /mnt/source $dir/big || fail "big file"
dd if=/mnt/source of=$dir/direct bs=1M oflag=direct status=none iflag=fullblock count=19
dd if=$dir/direct bs=1M iflag=direct status=none | cmp -n 19922944 - /mnt/source || fail "direct I/O"
truncate -s 1G $dir/hole
printf end >>$dir/hole
same "$(stat -c %s $dir/hole)" 1073741827 "size of a file with a hole"
same "$(tail -c 3 $dir/hole)" end "end of a file with a hole"
truncate -s 5000 $dir/big
same "$(cmp -n 5000 $dir/big /mnt/source && stat -c %s $dir/big)" 5000 "truncated file"

# Names and attributes.
mkdir -p $dir/d/below
for i in $(seq 500); do echo $i >$dir/d/$i; done
mv $dir/d/1 $dir/d/below/one
mv $dir/d/2 $dir/d/3
ln $dir/d/4 $dir/d/four
ln -s ../d/5 $dir/d/five
same "$(cat $dir/d/below/one $dir/d/3 $dir/d/four $dir/d/five | tr '\n' ' ')" "1 2 4 5 " "renamed and linked files"
same "$(stat -c %h $dir/d/4)" 2 "link count"
same "$(readlink $dir/d/five)" ../d/5 "symbolic link"
same "$(ls $dir/d | wc -l)" 501 "number of names"
rm $dir/d/6
[ ! -e $dir/d/6 ] || fail "a removed file is there"
chmod 640 $dir/d/7
chown 1234:5678 $dir/d/7
touch -d @1000000000 $dir/d/7
same "$(stat -c '%a %u %g %Y' $dir/d/7)" "640 1234 5678 1000000000" "mode, owner, time"
setfattr -n user.name -v value $dir/d/7
same "$(getfattr --only-values -n user.name $dir/d/7)" value "extended attribute"
setfacl -m u:99:rw $dir/d/7
getfacl -n $dir/d/7 | grep -q '^user:99:rw-' || fail "ACL"
mknod $dir/null c 1 3
echo lost >$dir/null
mkfifo $dir/pipe
(echo through >$dir/pipe) &
same "$(cat $dir/pipe)" through "pipe"

# Programs, mappings, privileges that a write takes away.
cp /usr/bin/id $dir/id
same "$($dir/id -u)" 0 "a program"
python3 - $dir/map <<'END'
import mmap, os, sys
with open(sys.argv[1], "w+b") as f:
    f.truncate(8192)
    with mmap.mmap(f.fileno(), 8192) as m:
        m[4090:4100] = b"0123456789"
        m.flush()
    assert os.pread(f.fileno(), 12, 4089) == b"\0" + b"0123456789" + b"\0"
    os.unlink(sys.argv[1])
    os.fsync(f.fileno())
    assert os.fstat(f.fileno()).st_nlink == 0 and os.pread(f.fileno(), 2, 4090) == b"01"
END
chmod 4755 $dir/id
chown 0:0 $dir/id
chmod 4777 $dir/id
setpriv --reuid 1234 --clear-groups sh -c "printf x >>$dir/id"
[ ! -u $dir/id ] || fail "set-user-ID stays after a write"

# Sums before and after an unmount.
sync
df -T $dir | grep -q virtiofs || fail "df"
stat -f $dir >/dev/null
(cd $dir && find . -type f ! -name hole -print0 | sort -z | xargs -0 sha256sum) >/mnt/sums
umount $dir
mount -t virtiofs segno $dir
(cd $dir && sha256sum --quiet -c /mnt/sums) || fail "contents after a remount"
same "$(stat -c '%a %u %g %Y' $dir/d/7)" "660 1234 5678 1000000000" "mode (with the mask of the ACL), owner, time after a remount"
mount -o remount,ro $dir
! touch $dir/new 2>/dev/null || fail "written while read-only"
umount $dir
dmesg | grep -E 'BUG|Oops|WARNING: CPU' && fail "messages of the kernel"
echo "virtiofs: smoke test passed"
