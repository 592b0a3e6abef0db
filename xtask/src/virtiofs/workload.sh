# A few operations of each kind in $dir; then the server's counters.
mkdir $dir/w
for i in $(seq 100); do head -c 10000 /dev/zero >$dir/w/$i; done
for i in $(seq 20); do dd if=/dev/zero of=$dir/w/$i bs=4k count=1 conv=fsync,notrunc status=none; done
for i in $(seq 100); do cat $dir/w/$i >/dev/null; done
ls -l $dir/w >/dev/null
for i in $(seq 50); do mv $dir/w/$i $dir/w/new-$i; done
for i in $(seq 51 100); do rm $dir/w/$i; done
dd if=/dev/zero of=$dir/w/big bs=1M count=16 conv=fsync status=none
sync $dir/w
echo "counters $(getfattr --only-values -n system.segno.stats $dir)"
