# Times of a few workloads in $dir, in milliseconds.
now() { echo $(($(date +%s%N) / 1000000)); }
timed() {
    what=$1
    shift
    begun=$(now)
    "$@"
    echo "time $what $(($(now) - begun))"
}
cold() { sync; echo 3 >/proc/sys/vm/drop_caches; }
python=$(command -v python3)
create() { $python -c 'import os, sys
for i in range(1000):
    with open(f"{sys.argv[1]}/{i}", "wb") as f: f.write(b"x" * 4096)' $1; }
stat_all() { $python -c 'import os, sys
for i in range(1000): os.stat(f"{sys.argv[1]}/{i}")' $1; }
fsyncs() { $python -c 'import os, sys
f = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY)
for i in range(200):
    os.pwrite(f, b"x" * 4096, i * 4096)
    os.fsync(f)' $1; }
mkdir $dir/speed
$python -c pass
timed write dd if=/dev/zero of=$dir/speed/large bs=1M count=256 conv=fsync status=none
cold
timed read dd if=$dir/speed/large of=/dev/null bs=1M status=none
timed create create $dir/speed
cold
$python -c pass
timed stat stat_all $dir/speed
timed fsync fsyncs $dir/speed/synced
rm -r $dir/speed
umount $dir
